"""The canned models of tensorflow_estimator, most of which need Keras 2."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tensorflow.compat import v1


def check_keras(estimator: ModuleType) -> None:
    """Lets the models that need Keras 2 say so when they are made, and not when they are trained.

    Args:
        estimator: The API of tensorflow_estimator.
    """
    for name in dir(estimator):
        if name.startswith(("DNN", "Linear")):
            model = getattr(estimator, name)
            model.__init__ = _checking(name, model.__init__)


def _checking(name: str, init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if not hasattr(v1.keras.layers, "DenseFeatures"):
            raise RuntimeError(
                f"tf.estimator.{name} needs Keras 2, and tf.keras is Keras 3. Run the program with "
                "condacc run --keras2, or install tf-keras and set "
                "TF_USE_LEGACY_KERAS=1 in the environment before TensorFlow is imported."
            )
        init(self, *args, **kwargs)

    return __init__
