"""Tests of notebooks: the cells are rewritten, and all else keeps its value and its indent."""

from __future__ import annotations

import json

import pytest

from condacc.migrate._notebooks import migrate_notebook


def notebook(*cells, indent=1, **metadata):
    """Returns the text of a notebook with code cells, or cells that are given as dictionaries."""
    made = [
        cell
        if isinstance(cell, dict)
        else {"cell_type": "code", "metadata": {}, "outputs": [], "source": lines(cell)}
        for cell in cells
    ]
    whole = {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=indent, ensure_ascii=False) + "\n"


def lines(text):
    return text.splitlines(keepends=True)


def sources(raw):
    return ["".join(cell["source"]) for cell in json.loads(raw)["cells"]]


def test_names_are_rewritten_across_cells_and_magics_stay():
    raw = notebook(
        "%matplotlib inline\n!pip install tensorflow\nimport tensorflow as tf",
        {"cell_type": "markdown", "metadata": {}, "source": "tf.ConditionalAccumulator"},
        "%%time\nacc = tf.ConditionalAccumulator(tf.float32)\nfiles = !ls \\\n  -l\nacc?",
        "%%bash\ntf.ConditionalAccumulator",
        "acc",
    )
    once = migrate_notebook(raw)
    assert sources(once.text) == [
        "%matplotlib inline\n!pip install tensorflow\nimport tensorflow as tf\nimport tf_condacc",
        "tf.ConditionalAccumulator",
        "%%time\nacc = tf_condacc.ConditionalAccumulator(tf.float32)\nfiles = !ls \\\n  -l\nacc?",
        "%%bash\ntf.ConditionalAccumulator",
        "acc",
    ]
    (rewriting,) = once.rewritings
    assert (rewriting.place.cell, rewriting.place.line, rewriting.place.column) == (3, 2, 7)
    assert migrate_notebook(once.text).text == once.text


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("indent", [None, 1, 2, "\t"])
def test_all_but_the_changed_lines_is_kept(indent, newline):
    text = "import tensorflow as tf\nx = 'é'\ntf.ConditionalAccumulator, tf\n"
    other = {"cell_type": "code", "outputs": [{"x": 0.5, "y": []}], "source": "'é'"}
    raw = notebook(text, other, indent=indent).replace("\n", newline)
    once = migrate_notebook(raw).text
    assert once.replace("tf_condacc.Cond", "tf.Cond").replace(added(raw), "") == raw


def added(raw):
    """Returns the text of an added line in the layout of the source of a notebook's first cell."""
    first = '"import tensorflow as tf\\n"'
    rest = raw[raw.index(first) + len(first) :]
    return rest[: rest.index('"')] + '"import tf_condacc\\n"'


def test_sources_that_are_strings_stay_strings_and_escapes_stay():
    cell = {"cell_type": "code", "source": "import tensorflow as tf\ntf.ConditionalAccumulator, tf"}
    raw = json.dumps({"nbformat": 4, "cells": [cell, {"cell_type": "code", "source": "'é'"}]})
    expected = raw.replace("tf\\n", "tf\\nimport tf_condacc\\n").replace("tf.C", "tf_condacc.C")
    assert migrate_notebook(raw).text == expected


def test_half_of_a_surrogate_pair_in_an_output_stays_an_escape():
    cell = {"cell_type": "code", "outputs": ["HALF"], "source": "import tensorflow as tf\n'é', tf."}
    cell["source"] += "ConditionalAccumulator"
    raw = notebook(cell).replace("HALF", "\\ud800")
    once = migrate_notebook(raw).text
    assert "tf_condacc.ConditionalAccumulator" in once
    assert json.loads(once.encode())["cells"][0]["outputs"] == ["\ud800"]


def test_an_import_at_the_end_of_a_cell_is_removed_with_its_line():
    raw = notebook(
        "import tensorflow as tf\nfrom tensorflow.contrib import opt",
        "from tensorflow.contrib import estimator",
        "opt.DropStaleGradientOptimizer(tf), estimator.TowerOptimizer, tf.ConditionalAccumulator",
    )
    assert sources(migrate_notebook(raw).text) == [
        "import tensorflow as tf\nimport tf_condacc",
        "",
        "tf_condacc.DropStaleGradientOptimizer(tf), tf_condacc.TowerOptimizer, "
        "tf_condacc.ConditionalAccumulator",
    ]


def test_a_cell_that_is_no_python_is_reported_and_the_others_are_rewritten():
    raw = notebook(
        "print 'old'\n", "import tensorflow as tf\ntf.contrib.x\ntf.ConditionalAccumulator"
    )
    outcome = migrate_notebook(raw)
    assert sources(outcome.text)[0] == "print 'old'\n"
    assert "tf_condacc.ConditionalAccumulator" in sources(outcome.text)[1]
    found = [(one.code.code, one.place.cell, one.place.line) for one in outcome.findings]
    assert found == [("TC502", 1, 1), ("TC101", 2, 2)]


def test_notebooks_of_other_languages_and_old_formats_stay_as_they_are():
    cell = "import tensorflow as tf\ntf.ConditionalAccumulator"
    other = notebook(cell, kernelspec={"language": "R"})
    assert migrate_notebook(other).text == other
    old = notebook(cell).replace('"nbformat": 4', '"nbformat": 3')
    outcome = migrate_notebook(old)
    assert outcome.text == old
    assert [one.code.code for one in outcome.findings] == ["TC501"]


@pytest.mark.parametrize(
    "raw", ['{"tensorflow": 1', "[]", '"tensorflow"', '{"nbformat": 4, "x": "tensorflow"}']
)
def test_what_is_no_notebook_is_an_error(raw):
    if "tensorflow" in raw:
        with pytest.raises(ValueError):
            migrate_notebook(raw)
    else:
        assert migrate_notebook(raw).text == raw
