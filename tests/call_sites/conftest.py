"""Fixtures of the tests of legacy programs."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(params=["tensorflow", "tf_condacc"])
def library(request: pytest.FixtureRequest) -> Any:
    """Returns the module that has the accumulators' classes: TensorFlow's own, or ours."""
    import tensorflow as tf

    import tf_condacc

    return tf.compat.v1 if request.param == "tensorflow" else tf_condacc
