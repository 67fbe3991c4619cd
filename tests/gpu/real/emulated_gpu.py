"""Lets the tests of the emulated GPU run on a real one: a plugin of pytest.

tf_condacc's ops are put on the GPU, and TensorFlow places all others. A real stream can be neither
counted nor stopped: `num_pushed` grows with each call, so the checks that something was put on the
stream always pass, and test_waits.py must be left out.
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
