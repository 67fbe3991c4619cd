"""Puts tf_condacc's ops on the first GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def _on_gpu(function: Callable) -> Callable:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with tf.device("/device:GPU:0"):
            return function(*args, **kwargs)

    return call


def put_ops_on_the_gpu(ops: Any) -> None:
    """Leaves out the gate's ops, because its step is a TensorFlow variable on the CPU."""
    for name in dir(ops):
        left_out = "gate" in name or "eager_fallback" in name
        if name.startswith("condacc_") and not left_out and callable(getattr(ops, name)):
            setattr(ops, name, _on_gpu(getattr(ops, name)))
