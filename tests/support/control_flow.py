"""The two versions of control flow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf

tf1 = tf.compat.v1


@contextlib.contextmanager
def control_flow(version: int) -> Iterator[None]:
    """Builds graphs with control flow of version 1 or 2 in the body."""
    was_enabled = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if version == 2 else tf1.disable_control_flow_v2)()
    try:
        yield
    finally:
        (tf1.enable_control_flow_v2 if was_enabled else tf1.disable_control_flow_v2)()
