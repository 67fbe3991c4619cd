"""The import of TensorFlow without its log."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

_LOG_LINE = re.compile(rb"[IWE]\d{4} [\d:.]+ |WARNING: All log messages before absl::InitializeLog")


@contextlib.contextmanager
def without_log() -> Iterator[None]:
    """Hides TensorFlow's C++ log. TensorFlow must be imported in this context for the first time.

    The environment variable TF_CPP_MIN_LOG_LEVEL hides the log, except for some lines that are
    logged before it is read. These are removed from what is written to the standard error in this
    context. Nothing is hidden if the variable is set to show something. The filter of the package's
    own programs cannot be used here: to import it is to import TensorFlow.
    """
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") != "3":
        yield
        return
    error = sys.stderr.fileno()
    terminal = os.dup(error)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), error)
        try:
            yield
        finally:
            os.dup2(terminal, error)
            os.close(terminal)
            written.seek(0)
            for line in written:
                if not _LOG_LINE.match(line):
                    os.write(error, line)
