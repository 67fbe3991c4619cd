"""Lets the tests of the emulated GPU run on a real one: a plugin of pytest.

TensorFlow places other ops than tf_condacc's itself. Nothing here counts what is put on the stream
or how often it is waited for, nor stops it. So the checks that something was put on the stream
always pass; but the ops are placed on the GPU, and most tests forbid TensorFlow to place them
elsewhere. The tests in test_waits.py cannot be run.
"""

from __future__ import annotations

import itertools

from ops_on_gpu import put_ops_on_the_gpu

from tf_condacc._ops import native

_calls = itertools.count()


def num_pushed() -> int:
    """Returns a greater number at each call."""
    return next(_calls)


put_ops_on_the_gpu(native.ops)
