"""Marks of tests that need what not every supported TensorFlow brings."""

from __future__ import annotations

import numpy as np
import pytest

from condacc import versions

needs_keras3 = pytest.mark.skipif(
    versions.brings_keras2(), reason="needs Keras 3; TensorFlow 2.15 brings Keras 2"
)
needs_means_of_activity = pytest.mark.skipif(
    versions.sums_activity_losses(),
    reason="activity regularizers are refused before Keras 3.14, which needs Python 3.11",
)
needs_numpy2 = pytest.mark.skipif(
    np.__version__.startswith("1."), reason="arrays of NumPy 1 have at most 32 dimensions"
)
