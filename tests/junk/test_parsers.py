"""Tests of parsers with any text, bytes and structures: they accept them or say what is wrong."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from condacc import run
from condacc.launch import _command as launch
from condacc.migrate import _command as migrate
from condacc.migrate._files import migrate_file
from condacc.tf_config import TaskConfig, read
from tests.support.programs import programs_settings

JOBS = ["ps", "worker", "chief", "master", "evaluator", ""]
ADDRESSES = ["a:1", "b:2", "A:1", "c:65535", "c:65536", "c:0", ":1", "d", "e:1:2", "[::1]:5", "f:x"]
WORDS = ["", "0", "1", "-1", "2222", "2222,2230-2233", "ps,worker", "nan", "inf", "--", "-m", "x,x"]

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
clusters = st.dictionaries(
    st.sampled_from(JOBS), st.lists(st.sampled_from(ADDRESSES), max_size=3) | values, max_size=4
)
tasks = st.fixed_dictionaries(
    {}, optional={"type": st.sampled_from(JOBS) | values, "index": st.integers(-1, 3) | values}
)
configs = st.fixed_dictionaries({}, optional={"cluster": clusters | values, "task": tasks | values})


@pytest.fixture(params=[40, pytest.param(5000, marks=pytest.mark.long)])
def inputs(request: pytest.FixtureRequest) -> settings:
    """Returns the settings of a test that is given inputs instead of programs."""
    return programs_settings(request.param, is_long=request.param > 1000)


def _check_config(config: Any) -> None:
    try:
        found = read(config)
    except ValueError as error:
        assert "TF_CONFIG" in str(error)
        return
    assert isinstance(found, TaskConfig)
    if found.cluster and found.task_type in found.cluster:
        assert 0 <= found.task_id < len(found.cluster[found.task_type])


def test_tf_config_of_any_structure(inputs):
    @inputs
    @given(configs | values)
    def check(config):
        _check_config(json.dumps(config))
        if isinstance(config, dict):
            _check_config(config)

    check()


def test_tf_config_of_any_text(inputs):
    @inputs
    @given(st.text())
    @example("[" * 10_000)
    @example('{"task": {"index": "' + "1" * 5000 + '"}}')
    def check(text):
        if text:
            _check_config(text)

    check()


def _check_options(parse: Any, arguments: list[str]) -> None:
    """Parses options, which may only end in a result, in help, or in a message and the status 2."""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        try:
            parse(arguments)
        except SystemExit as ended:
            assert ended.code in (0, 2)
            assert ended.code == 0 or "error: " in errors.getvalue()


@pytest.mark.parametrize(
    "parse, parser",
    [
        (launch._parser().parse_args, launch._parser()),
        (run.parse, run._parser()),
        (migrate._parser().parse_args, migrate._parser()),
    ],
    ids=["launch", "run", "migrate"],
)
def test_any_options(inputs, parse, parser):
    options = [option for action in parser._actions for option in action.option_strings]
    words = st.sampled_from(options) | st.sampled_from(WORDS) | st.text(max_size=5)

    @inputs
    @given(st.lists(words, max_size=6))
    @example(["--ports", "1-" + "9" * 5000])
    def check(arguments):
        _check_options(parse, arguments)

    check()


def test_any_bytes_as_idx_files(inputs):
    from tf_condacc.compat.examples.tutorials.mnist.input_data import extract_images, extract_labels

    headers = st.builds(
        lambda magic, dims: struct.pack(f">I{len(dims)}I", magic, *dims),
        st.sampled_from([2049, 2051, 0]),
        st.lists(st.integers(0, 3) | st.integers(0, 2**32 - 1), max_size=4),
    )
    contents = st.builds(lambda header, data: header + data, headers, st.binary(max_size=30))

    @inputs
    @given(contents | st.binary(), st.booleans(), st.integers(0, 5))
    @example(struct.pack(">4I", 2051, 2**31, 2**31, 4), False, 0)
    def check(content, is_compressed, cut):
        content = gzip.compress(content) if is_compressed else content
        content = content[: len(content) - cut]
        for extract, rank in ((extract_images, 4), (extract_labels, 1)):
            with contextlib.suppress(ValueError):
                found = extract(io.BytesIO(content))
                assert found.ndim == rank and found.dtype == np.uint8

    check()


lines = st.sampled_from(
    [
        "import tensorflow as tf\n",
        "tf.ConditionalAccumulator\n",
        "from tensorflow.contrib import opt\n",
        "%%bash\n",
        "%matplotlib inline\n",
        "if x:\n",
        "    x = '''",
        "\f\r\x00\N{SNOWMAN}",
    ]
)
sources = st.lists(lines | st.text(max_size=5), max_size=5)
cells = st.fixed_dictionaries(
    {},
    optional={
        "cell_type": st.sampled_from(["code", "markdown"]) | values,
        "source": sources | sources.map("".join) | values,
    },
)
notebooks = st.fixed_dictionaries(
    {},
    optional={
        "nbformat": st.integers(3, 5) | values,
        "cells": st.lists(cells | values, max_size=4) | values,
        "metadata": st.fixed_dictionaries({}, optional={"language_info": values}) | values,
        "tensorflow": st.none(),  # Files that do not mention it are not looked at.
    },
)


@pytest.mark.parametrize("ending", [".ipynb", ".py"])
def test_any_notebooks_and_programs(inputs, tmp_path, ending):
    path = tmp_path / f"file{ending}"
    texts = sources.map("".join)
    if ending == ".ipynb":
        texts = notebooks.map(lambda made: json.dumps({**made, "tensorflow": 0})) | texts

    @inputs
    @given(texts.map(lambda text: text.encode(errors="replace")) | st.binary())
    def check(content):
        path.write_bytes(content)
        result = migrate_file(str(path), with_estimator=False)
        assert not (result.error or "").startswith("it was not understood"), result.error
        if result.outcome and result.outcome.text:
            path.write_text(result.outcome.text, result.encoding, newline="")
            again = migrate_file(str(path), with_estimator=False)
            assert not again.error and not again.outcome.text, "a second run changes it again"

    check()
