"""Tests of the rewriting of programs: names, imports, and what stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from condacc.migrate._findings import Code
from condacc.migrate._names import PROVIDED, PROVIDED_FOR_ESTIMATOR
from condacc.migrate._program import migrate_text
from tests.migrate import import_samples, use_samples
from tests.migrate.random_programs import random_program, recorded, rewritten

SAMPLES = import_samples.SAMPLES + use_samples.SAMPLES
NOT_REWRITTEN = (Code.AMBIGUOUS_NAME, Code.TAKEN_NAME, Code.LATE_IMPORT)
# Ends of lines, indentation, and the end of the file.
LAYOUTS = {
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "CR": lambda text: text.replace("\n", "\r"),
    "tabs": lambda text: text.replace("    ", "\t"),
    "no newline at the end": lambda text: text.removesuffix("\n"),
    "form feeds": lambda text: text.replace("\n\n", "\n\f\n"),
}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_program_is_rewritten_and_a_second_run_changes_nothing(sample):
    once = migrate_text(sample.before, sample.estimator)
    assert once.text == sample.expected
    assert bool(once.rewritings) == (sample.after is not None)
    twice = migrate_text(once.text, sample.estimator)
    assert twice.text == once.text
    assert not twice.rewritings


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_of_a_program_is_kept(layout):
    lay_out = LAYOUTS[layout]
    for sample in SAMPLES[:4]:
        result = migrate_text(lay_out(sample.before), sample.estimator).text
        assert result == lay_out(sample.expected)


def test_every_line_without_a_name_is_kept_exactly():
    odd = ["x  =  [ 1,2 ,\t3 ]   # odd ", "y = {'a' :1}  ;  z=(  )", "s = '''\t \n tf.contrib '''"]
    text = (
        "import tensorflow as tf\n" + "\n".join(odd) + "\nq=tf . ConditionalAccumulator ( )\ntf\n"
    )
    lines = migrate_text(text).text.split("\n")
    assert lines[:2] == ["import tensorflow as tf", "import tf_condacc"]
    assert "\n".join(lines[2:6]) == "\n".join(odd)
    assert lines[6] == "q=tf_condacc.ConditionalAccumulator ( )"


def test_programs_use_what_they_used(programs):
    changed = []

    @programs
    @given(st.randoms(use_true_random=False))
    def check(made):
        text = random_program(made)
        once = migrate_text(text)
        changed.append(once.text != text)
        before = recorded(text, has_contrib=True)
        after = recorded(once.text, has_contrib=bool(once.findings))
        kept = any(one.code in NOT_REWRITTEN for one in once.findings)
        assert len(before) == len(after), text
        for old, new in zip(before, after, strict=True):
            assert new in (rewritten(old), old if kept else None), f"{text}\n---\n{once.text}"
        assert migrate_text(once.text).text == once.text

    check()
    assert sum(changed) > len(changed) // 2


def test_every_name_that_is_written_exists():
    import tf_condacc

    for target in [*PROVIDED.values(), *PROVIDED_FOR_ESTIMATOR.values()]:
        found = tf_condacc
        for part in target.split(".")[1:]:
            found = getattr(found, part)
        assert callable(found), target


def test_a_long_sum_is_no_problem():
    text = "import tensorflow as tf\nx = " + " + ".join(["tf.ConditionalAccumulator"] * 500) + "\n"
    rewritten = migrate_text(text).text
    assert rewritten.count("tf_condacc.ConditionalAccumulator") == 500
