"""What the launcher makes of the output of its tasks: lines and progress bars."""

from __future__ import annotations

import os
import re
import threading

import pytest

from condacc._times import Times
from condacc.launch._lines import MAX_LINE_BYTES, LineSplitter
from condacc.launch._output import Output
from tests.support.waiting import PATIENCE_SECS


def split(*chunks, step=1.0):
    """The lines of chunks that come one step after the other, and those at the end."""
    splitter = LineSplitter()
    lines = [splitter.feed(chunk, number * step) for number, chunk in enumerate(chunks)]
    return [*lines, splitter.close()]


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"one\ntwo\n\nthr", b"ee\nrest"], [[b"one", b"two", b""], [b"three"], [b"rest"]]),
        ([b"one\r", b"\ntwo\r\n"], [[], [b"one", b"two"], []]),
        ([b"\r 1/3", b"\r 2/3", b"\r 3/3", b"\n"], [[], [b" 1/3"], [b" 2/3"], [b" 3/3"], []]),
        ([b"1/3\r", b"2/3\r", b"\n", b"\n"], [[], [b"1/3"], [b"2/3"], [b""], []]),
        ([b"\r 1/3\r 2/3", b"\r    \rdone\n"], [[b" 1/3"], [b"done"], []]),
        ([b"\r 1/3", b"\r 2", b"/3 \rthen\n"], [[], [b" 1/3"], [b"then"], []]),
    ],
    ids=repr,
)
def test_lines_and_states_of_progress_bars(chunks, lines):
    assert split(*chunks) == lines


def test_states_of_a_progress_bar_are_shown_now_and_then():
    splitter = LineSplitter()
    shown = [splitter.feed(b"\r%d" % number, number / 1000) for number in range(1000)]
    states = [state for each in shown for state in each]
    assert 3 <= len(states) <= 1 / Times().progress_secs + 1


def test_a_state_without_a_line_end_is_shown_after_a_while_and_once():
    splitter = LineSplitter()
    assert splitter.feed(b"\r1/2", 5.0) == []
    due = splitter.due
    assert due is not None and 5.0 < due <= 5.0 + Times().progress_secs
    assert splitter.states(due - 0.001) == []
    assert splitter.states(due) == [b"1/2"]
    assert splitter.due is None
    assert splitter.feed(b"\r2/2\r", due) == []
    assert splitter.due is not None
    assert splitter.states(splitter.due) == [b"2/2"]
    assert splitter.feed(b"\n", due + 1.0) == []
    assert splitter.close() == []


def test_a_state_that_was_not_shown_is_shown_at_the_end():
    splitter = LineSplitter()
    assert splitter.feed(b"1/3\r2/3\r", 0.0) == [b"1/3"]
    assert splitter.feed(b"3/3\r", 0.0) == []
    assert splitter.close() == [b"3/3"]


def test_a_held_state_is_shown_before_the_line_end_that_follows_it():
    splitter = LineSplitter()
    assert splitter.feed(b"1/2\r2/2\r", 0.0) == [b"1/2"]
    assert splitter.feed(b"3/2\r\n", 0.1) == [b"3/2"]
    assert splitter.feed(b"4/2\r", 0.1) == []
    assert splitter.feed(b"\r\n", 0.1) == [b"4/2"]


def test_a_long_line_comes_in_pieces():
    line = bytes(range(32, 127)) * (3 * MAX_LINE_BYTES // 95)
    *read, last = split(line[:100_000], line[100_000:] + b"\nnext\n", step=0.0)
    pieces = [piece for lines in read for piece in lines]
    assert pieces.pop() == b"next"
    assert b"".join(pieces) == line
    assert max(map(len, pieces)) == MAX_LINE_BYTES
    assert last == []


def test_any_cut_of_a_stream_gives_the_same_lines():
    stream = b"one\r\ntwo\n\n\rbar 1\rbar 2\nthree"
    whole = [line for lines in split(stream) for line in lines]
    for end in range(len(stream)):
        parts = split(stream[:end], stream[end:], step=0.0)
        lines = [line for each in parts for line in each if not re.match(rb"b|ba|bar|bar .", line)]
        assert lines == [line for line in whole if not line.startswith(b"bar")], end


def test_an_output_may_end_before_it_is_woken(tmp_path, monkeypatch):
    output = Output(str(tmp_path), ["worker 0"])
    output.start()
    write = os.write

    def late_write(descriptor: int, data: bytes) -> int:
        # The thread is woken by another message, and has ended when this write comes.
        if threading.current_thread() is threading.main_thread():
            write(descriptor, data)
            assert output.join(PATIENCE_SECS)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", late_write)
    output.finish()
