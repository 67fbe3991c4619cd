"""Finds the installed TensorFlow without importing it, under whatever name it was installed.

As a program, it prints the name, the version, the folder and the metadata's folder of the
distribution, a line each, or nothing. configure.sh and setup.py run it with the Python to build
for, which need not have tf_condacc.
"""

from __future__ import annotations

import importlib.util
from importlib import metadata


def installed_tensorflow() -> tuple[str, str] | None:
    """Returns the name and the version of the distribution that has TensorFlow, if there is one."""
    for name in metadata.packages_distributions().get("tensorflow", ()):
        return name, metadata.version(name)
    return None


def _main() -> None:
    found = installed_tensorflow()
    spec = importlib.util.find_spec("tensorflow")
    if found is None or spec is None or not spec.submodule_search_locations:
        return
    name, version = found
    record = f"{name.replace('-', '_')}-{version}.dist-info"
    place = metadata.distribution(name).locate_file(record)
    print(name, version, spec.submodule_search_locations[0], place, sep="\n")


if __name__ == "__main__":
    _main()
