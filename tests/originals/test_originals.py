"""The table of the names of TensorFlow 1, and the tables of the documentation beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tf_condacc
from condacc import extras, originals
from condacc.migrate._names import PROVIDED

ROOT = Path(__file__).resolve().parents[2]
_OURS = sorted({name for name, place in originals.places() if place.startswith("tf_condacc")})
# Pages of the documentation with a table of names, and the headings of the names.
_COMPAT, _MIGRATE = ("compat.md", "Name"), ("migrate.md", "Names.*")
_MIGRATION = ("migration.md", "Original")


def _names_in_table(page: str, heading: str) -> set[str]:
    """Returns the last parts of the names in the first column of a table of the documentation."""
    text = (ROOT / "docs" / "guides" / page).read_text(encoding="utf-8")
    (table,) = re.findall(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    columns = [row.split(" | ")[0] for row in table.splitlines()]
    return {name.split(".")[-1] for each in columns for name in re.findall(r"`([\w.]+)`", each)}


@pytest.mark.parametrize(("page", "heading"), [_MIGRATION, _MIGRATE, _COMPAT])
def test_the_tables_of_the_documentation_list_what_this_package_stands_for(page, heading):
    listed = _names_in_table(page, heading)
    ours = {name.split(".")[-1] for name in PROVIDED}
    assert ours - listed == set()


@pytest.mark.parametrize(("page", "heading"), [_MIGRATION, _MIGRATE])
def test_the_tables_of_the_documentation_list_no_other_names(page, heading):
    parts = {part for name, _ in originals.places() for part in name.split(".")}
    others = {"device", "tensorflow_estimator", "step"}  # Of other rows, and an argument.
    others |= {"scalar", "histogram", "image", "audio", "text"}
    assert _names_in_table(page, heading) - parts - others == set()


def test_a_name_of_tensorflow_has_one_place_in_tensorflow():
    for module, names in originals.NAMES.items():
        for name, place in names.items():
            if place.startswith("tf_condacc:") and module.startswith("python."):
                assert hasattr(originals.resolve(f"tensorflow.{module}"), name), (module, name)


@pytest.mark.parametrize("name", _OURS)
def test_what_stands_for_a_name_is_public(name):
    (place,) = {place for each, place in originals.places() if each == name}
    found = originals.resolve(place)
    assert callable(found) or isinstance(found, dict)
    assert not re.search(r"[.:]_", place)


def test_the_estimator_of_this_package_is_in_the_table():
    listed = set(originals.NAMES["estimator"])
    assert set(tf_condacc.estimator.__all__) - {"export", "inputs"} <= listed
    for part in ("export", "inputs"):
        module = getattr(tf_condacc.estimator, part)
        public = {
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        }
        assert public == set(originals.NAMES[f"estimator.{part}"])


def test_modules_with_renamed_names_are_those_of_tensorflows_table():
    from tensorflow.tools.compatibility import all_renames_v2

    renamed = {name.removeprefix("tf.contrib.") for name in all_renames_v2.symbol_renames}
    modules = {name.split(".")[0] for name in renamed if "." in name}
    assert originals.CONTRIB_RENAMED - {"estimator"} <= modules


def test_the_extras_install_the_packages_of_the_table():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for package in set(originals.PACKAGES.values()) - {"tensorboard"}:  # TensorFlow brings it.
        assert re.search(rf'^(compat|estimator) = .*"{package}[=>]=', project, re.MULTILINE)


@pytest.mark.parametrize(
    ("extra", "command"),
    [("estimator", extras.INSTALL_ESTIMATOR), ("migrate", extras.INSTALL_LIBCST)],
)
def test_the_command_for_a_missing_package_installs_what_the_extra_does(extra, command):
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (requirement,) = re.findall("^pip install '(.*)'$", command)
    assert f'\n{extra} = ["{requirement}"' in project


def test_one_extra_installs_all_that_legacy_programs_need():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (found,) = re.findall(r'^legacy = \["tf_condacc\[(.*)\]", "numpy<2; ', project, re.MULTILINE)
    assert set(found.split(",")) == {"compat", "estimator", "migrate"}
    page = (ROOT / "docs" / "guides" / "compat.md").read_text(encoding="utf-8")
    assert 'pip install ".[legacy]"' in page[: page.index("## ")]


def test_every_place_in_another_package_is_in_a_package_that_is_known():
    tops = {place.split(".")[0].split(":")[0] for _, place in originals.places()}
    tops |= {source.split(".")[0] for each in originals.CONTRIB_SOURCES.values() for source in each}
    assert tops <= {"tensorflow", "tf_condacc", *originals.PACKAGES}
