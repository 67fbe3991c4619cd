"""The command line of the demo: ``python -m tf_condacc.demo``."""

from __future__ import annotations

import sys

from tf_condacc.examples import digits


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo and returns its exit status.

    Args:
        arguments: Command-line arguments; those of the process if None.
    """
    return digits.main(arguments, command="python -m tf_condacc.demo")


if __name__ == "__main__":
    sys.exit(main())
