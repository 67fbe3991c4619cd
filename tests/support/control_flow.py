"""A context for each version of control flow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf

v1 = tf.compat.v1


@contextlib.contextmanager
def control_flow(version: int) -> Iterator[None]:
    """Makes graphs that are built in the body use control flow of version 1 or 2."""
    was_enabled = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if version == 2 else v1.disable_control_flow_v2)()
    try:
        yield
    finally:
        (v1.enable_control_flow_v2 if was_enabled else v1.disable_control_flow_v2)()
