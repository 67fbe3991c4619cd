"""What the originals said of themselves."""

from __future__ import annotations

import functools
import logging

_LOG = logging.getLogger("tf_condacc")


@functools.cache
def warn_once(name: str) -> None:
    """Logs, once a process, what new programs should use."""
    _LOG.warning(
        "%s is here for programs that were written for tf.contrib.estimator, where it has been "
        "deprecated since 2018-05-31. New programs should use tf.distribute.MirroredStrategy.",
        name,
    )
