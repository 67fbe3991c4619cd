"""Tests of the tables that `make reliability` writes."""

from __future__ import annotations

import sys

import pytest

from tests.processes.forked_python import forked_python
from tests.reliability import faults, report
from tests.support.waiting import PATIENCE_SECS

PAGE = "A\n<!-- t: begin -->\n\n| Tool | x |\n|---|---|\n| one | 1 |\n\n<!-- t: end -->\nB\n"


def test_a_table_is_replaced_between_its_markers():
    assert report.rows_of(PAGE, "t") == {"one": "| one | 1 |"}
    written = report.written(PAGE, "t", ["| two |"])
    assert written == "A\n<!-- t: begin -->\n\n| two |\n\n<!-- t: end -->\nB\n"
    with pytest.raises(ValueError, match="no place for u"):
        report.written(PAGE, "u", [])


@pytest.mark.parametrize("code, row", [("print('7 calls')", "made 7"), ("print('no')", "FAILED")])
def test_a_row_says_what_a_tool_did_or_that_it_failed(code, row, capsys):
    tool = report.Tool("a tool", lambda _: [sys.executable, "-c", code], r"(\d+) calls", "made {0}")
    line, is_well = report.row(tool, 1)
    assert line.startswith(f"| a tool | {row} |")
    assert is_well == (row != "FAILED")


def test_the_page_has_a_row_for_each_case_and_each_promise_of_ours_is_kept():
    rows = report.rows_of(report.PAGE.read_text(), "faults")
    assert list(rows) == list(faults.CASES)
    for row in rows.values():
        ours = row.split("|")[3].strip()
        assert ours in ("right", "InvalidArgumentError", "KeyboardInterrupt")


def test_a_case_that_ends_its_process_or_waits_is_told(monkeypatch):
    monkeypatch.setattr(faults, "LIMIT_SECS", PATIENCE_SECS)
    case = "a vector for `local_step`"
    assert faults.run_apart(case, "tensorflow", forked_python()) == "the process ends with SIGABRT"
    assert faults.run_apart(case, "tf_condacc", forked_python()) == "InvalidArgumentError"
    monkeypatch.setattr(faults, "LIMIT_SECS", 0.1)
    waits = [sys.executable, "-S", "-c", "import signal; signal.pause()"]
    assert faults.run_apart(case, "tf_condacc", waits) == "waits, and nothing ends it"
