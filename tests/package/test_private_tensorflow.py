"""Private modules of TensorFlow are used in one module, and by `compat`, which replaces names."""

from __future__ import annotations

import re
from pathlib import Path

import tf_condacc

ROOT = Path(tf_condacc.__file__).parent
PRIVATE = re.compile(
    r"^\s*(from|import) (tensorflow\.python|keras\.src)|\b__internal__\b", re.MULTILINE
)


def test_private_modules_of_tensorflow_are_used_in_one_module():
    found = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if PRIVATE.search(path.read_text(encoding="utf-8"))
    }
    assert {path for path in found if not path.startswith("compat/")} == {"_tensorflow.py"}
