"""Tests that docs/guides/migrate.md and the examples of migration.md show what is done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from condacc.migrate import _command as command
from condacc.migrate._findings import Code
from condacc.migrate._names import PROVIDED, PROVIDED_FOR_ESTIMATOR
from condacc.migrate._program import migrate_text

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "guides" / "migrate.md").read_text(encoding="utf-8")


def test_the_page_lists_all_options_and_findings(capsys):
    with pytest.raises(SystemExit):
        command.main(["--help"])
    printed = capsys.readouterr().out
    assert "replica_device_setter" in printed
    assert "Findings never change the exit status" in printed
    options = set(re.findall(r"--\w+", printed)) - {"--help"}
    assert set(re.findall(r"^\| `(--\w+)", PAGE, re.MULTILINE)) == options
    codes = re.findall(r"^\| (TC\d+) \|", PAGE, re.MULTILINE)
    assert codes == [code.code for code in Code]


def test_the_page_lists_all_names():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "tf_condacc" in line]
    names = {name.split(".")[-1] for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    exported = {name for name in PROVIDED_FOR_ESTIMATOR if ".export." in name}
    for name in {*PROVIDED, *PROVIDED_FOR_ESTIMATOR} - exported:
        assert set(name.split(".")[-2:]) & names, name
        assert name.split(".")[-1] in names, name


@pytest.mark.parametrize("example", ["accumulators", "drop_stale"])
def test_an_example_of_the_migration_is_rewritten_as_its_page_shows(example):
    folder = DOCS / "guides" / "migration" / example
    outcome = migrate_text((folder / "before.py").read_text(encoding="utf-8"))
    after = (folder / "after.py").read_text(encoding="utf-8")
    after = after.replace("import tensorflow.compat.v1 as tf", "import tensorflow as tf")
    after = after.replace("\ntf.disable_v2_behavior()\n", "")
    assert _code(outcome.text) == _code(after)
    assert outcome.findings == ()


def _code(text: str) -> list[str]:
    """Returns the lines of a program without its docstring and without empty lines."""
    return [line for line in text.split('"""')[-1].splitlines() if line]
