"""What to do about names of ``tf.contrib`` and ``tf.estimator``."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from condacc.advice import advice
from condacc.migrate._findings import RUNNER, Code, Finding
from condacc.migrate._installed import contrib_renames
from condacc.migrate._names import estimator_lacks
from condacc.originals import CONTRIB, CONTRIB_RENAMED, CONTRIB_SAME, CONTRIB_SOURCES

_UNEDITED = f"run the program unedited with `{RUNNER}`"
# Without it, tf-slim itself fails on TensorFlow 2.16 and newer.
_INSTALL = (
    "keep it, and call `from tf_condacc import compat; compat.install()` before the import of "
    "tensorflow.contrib"
)
_OTHER_ESTIMATOR = f"install the package tensorflow-estimator and run the program with `{RUNNER}`"
_SHOWN_NAMES = 3


def with_remedy(finding: Finding, lacking: Collection[str]) -> Finding:
    """Returns a finding with the remedy for its name, if that depends on the name.

    Args:
        finding: The finding.
        lacking: The names of tf.estimator in the file, and the arguments, that
            tf_condacc.estimator does not have.
    """
    if finding.code in (Code.CONTRIB_NAME, Code.CONTRIB_IMPORT):
        own = _for_contrib(finding.name.removeprefix("contrib").lstrip("."))
    elif finding.code is Code.ESTIMATOR and lacking:
        own = _for_estimator(finding.name, lacking)
    else:
        return finding
    if finding.code is Code.CONTRIB_IMPORT and own:
        own = f"tf_upgrade_v2 does not mention it. {own}"
    return dataclasses.replace(finding, own_remedy=own)


def _for_estimator(name: str, lacking: Collection[str]) -> str:
    if estimator_lacks(name):
        return f"tf_condacc.estimator does not have it: {_OTHER_ESTIMATOR}."
    names = sorted(one.removeprefix("estimator.") for one in lacking)
    shown = ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
    return (
        "--estimator leaves all names of tf.estimator in this file as they are, because "
        f"tf_condacc.estimator does not have {shown}: {_OTHER_ESTIMATOR}."
    )


def _for_contrib(path: str) -> str:
    """Returns the remedy for a name below ``tf.contrib``; empty for ``tf.contrib`` itself."""
    if not path:
        return ""
    parts = path.split(".")
    for end in range(len(parts) - 1, -1, -1):
        module, name = ".".join(parts[:end]), parts[end]
        module = CONTRIB_SAME.get(module, module)
        place = CONTRIB.get(module, {}).get(name)
        if place is not None and ":estimator." in place:
            return f"tf.{place.partition(':')[2]} is the same: {_OTHER_ESTIMATOR}."
        if place is not None:
            return f"Use {_written(place)}, or {_UNEDITED}."
        new_name = contrib_renames().get(f"{module}.{name}")
        if new_name is not None and module in CONTRIB_RENAMED:
            return f"Use {new_name}, or {_UNEDITED}."
    general = advice(parts[0])
    if advice(path) != general:  # There is advice for exactly this name.
        return advice(path)
    for end in range(len(parts), 0, -1):
        sources = CONTRIB_SOURCES.get(".".join(parts[:end]))
        if sources is not None:
            package = f"{' and '.join(sources)} of the package tf-slim"
            is_module = 1 < end == len(parts)
            if is_module or not general.startswith("Instead"):
                return f"It is in {package}: {_INSTALL}, or {_UNEDITED}."
            other = general.replace("Instead", "Otherwise", 1)
            return f"If it is in {package}, {_INSTALL}, or {_UNEDITED}. {other}"
    if path in CONTRIB or (parts[0] in CONTRIB_RENAMED and not contrib_renames()):
        return f"{general} `{RUNNER}` provides some names of this module."
    return f"`{RUNNER}` does not provide it. {general}"


def _written(place: str) -> str:
    """Returns a place of the table as programs write it."""
    module, _, name = place.partition(":")
    module = module.replace("tensorflow.compat.v1", "tf.compat.v1")
    return f"{module}.{name}" if name else module
