"""What a model has accumulated, in checkpoints."""

from __future__ import annotations

import logging
from typing import Any

from tf_condacc._micro_batches.accumulator import GradientAccumulator
from tf_condacc._tensorflow import Trackable

_LOG = logging.getLogger("tf_condacc")


class AccumulatedState(Trackable):
    """Saves and restores what a model has accumulated, as a part of checkpoints.

    Its children are the ``GradientAccumulator`` objects, which the first steps make. A checkpoint
    that was restored before is restored into each when it is made.

    Args:
        title: What messages call it.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._maybe_initialize_trackable()
        self._accumulators: dict[str, GradientAccumulator] = {}

    def add(self, name: str, accumulator: GradientAccumulator) -> None:
        """Adds an object, and restores it if a checkpoint waits for it."""
        self._accumulators[name] = accumulator
        self._handle_deferred_dependencies(name, accumulator)

    def clear(self) -> None:
        """Removes all objects."""
        self._accumulators.clear()

    def forget_restored(self) -> None:
        """Forgets what was restored for objects that have not been made."""
        self._deferred_dependencies.clear()

    def check_restored(self) -> None:
        """Warns if something was restored for objects that have not been made, and forgets it.

        The checkpoint that is about to be saved will not have it, and the one that has it may be
        deleted afterwards.
        """
        if self._deferred_dependencies:
            _LOG.warning(
                "%s: an optimizer has not been used since its accumulated gradients were restored. "
                "They are lost.",
                self._title,
            )
            self.forget_restored()

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        del args, kwargs
        return dict(self._accumulators)

    def _lookup_dependency(self, name: str, *args: Any, **kwargs: Any) -> Any:
        del args, kwargs
        return self._accumulators.get(name)
