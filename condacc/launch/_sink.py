"""A file descriptor that lines are written to."""

from __future__ import annotations

import os
import select


class Sink:
    """Writes to a file descriptor until an error, and ignores what comes after it.

    Attributes:
        name: The name of the file, for messages.
    """

    def __init__(self, name: str, descriptor: int | None, *, owned: bool = False) -> None:
        """Makes a sink.

        Args:
            name: The name of the file.
            descriptor: The file descriptor; None if there is nothing to write to.
            owned: Whether `close` closes the descriptor.
        """
        self.name = name
        self._descriptor = descriptor
        self._owned = owned

    @classmethod
    def create(cls, path: str) -> Sink:
        """Makes a sink for a new file, or for a file that is emptied. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        return cls(path, os.open(path, flags, 0o666), owned=True)

    def write(self, data: bytes) -> OSError | None:
        """Writes all of the data. Returns the error if it is the first one of this sink."""
        view = memoryview(data)
        while view and self._descriptor is not None:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:  # Someone else has made a shared terminal non-blocking.
                select.select([], [self._descriptor], [])
            except OSError as error:
                self.close()
                return error
        return None

    def close(self) -> None:
        """Closes the sink."""
        if self._owned and self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None
