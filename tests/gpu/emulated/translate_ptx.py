"""Translates a PTX file to C++; see `ptx`.

usage: python translate_ptx.py PTX_FILE CC_FILE
"""

from __future__ import annotations

import sys
from pathlib import Path

from ptx.cpp import module_as_cpp
from ptx.module import parse_module
from ptx.types import Unsupported


def main() -> None:
    source, target = map(Path, sys.argv[1:])
    try:
        code = module_as_cpp(parse_module(source.read_text(encoding="utf-8")))
    except Unsupported as error:
        sys.exit(f"{source.name}: PTX that cannot be translated: {error}")
    target.write_text(code, encoding="utf-8")


if __name__ == "__main__":
    main()
