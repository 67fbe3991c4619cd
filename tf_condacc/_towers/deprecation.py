"""The deprecation warning of ``tf.contrib.estimator``."""

from __future__ import annotations

import functools
import logging

_LOG = logging.getLogger("tf_condacc")


@functools.cache
def warn_once(name: str) -> None:
    """Logs once per process that new programs should use a distribution strategy."""
    _LOG.warning(
        "%s is here for programs that were written for tf.contrib.estimator, where it has been "
        "deprecated since 2018-05-31. New programs should use tf.distribute.MirroredStrategy.",
        name,
    )
