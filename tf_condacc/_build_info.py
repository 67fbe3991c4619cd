"""The versions that the native library of this package was built with."""

import json
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("_build_info.json")


def build_info() -> dict[str, Any]:
    """Returns the versions that the native library was built with.

    Returns:
        A dictionary with the keys `tensorflow` (its version), `compiler` (name and version), `cuda`
        (version of the toolkit; None for a build without CUDA), `cuda_archs` (a list of GPU
        architectures) and `version` (that of tf_condacc).

    Raises:
        ImportError: The native library has not been built.
    """
    try:
        return json.loads(_FILE.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ImportError(
            f"tf_condacc has no {_FILE.name} in {_FILE.parent}: the native library is not built. "
            "Build it with `make build` in the source tree, or with `pip install .`."
        ) from error
