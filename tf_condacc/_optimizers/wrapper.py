"""The base class of optimizers that wrap another optimizer."""

from __future__ import annotations

import abc
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1


class OptimizerWrapper(v1.train.Optimizer):
    """An optimizer that shows the slots of the optimizer it wraps, and is saved in its place.

    A ``tf.train.Checkpoint`` cannot hold a slot variable that two of its objects own. The wrapped
    optimizer is therefore not an object of the checkpoint. Its children and slots are saved as
    those of the wrapper, and are restored through the wrapper, even if they are created after the
    call of ``restore``.
    """

    @property
    @abc.abstractmethod
    def _wrapped(self) -> v1.train.Optimizer:
        """The wrapped optimizer."""

    def get_slot(self, *args: Any, **kwargs: Any) -> tf.Variable | None:
        """Returns a slot variable of the wrapped optimizer, or None if it has no such slot.

        Args:
            *args: Passed to the wrapped optimizer: the variable and the name of the slot.
            **kwargs: Passed to the wrapped optimizer.
        """
        return self._wrapped.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """Returns the names of the wrapped optimizer's slots."""
        return self._wrapped.get_slot_names(*args, **kwargs)

    def _own_children(self) -> dict[str, Any]:
        """Returns what checkpoints contain of this object alone, by its names."""
        return {}

    def _restore_own(self, name: str, child: Any) -> None:
        """Restores a new child from a checkpoint that was restored before it was made.

        Args:
            name: Name of the child in `_own_children`.
            child: The child.
        """
        self._handle_deferred_dependencies(name, child)

    @property
    def _deferred_dependencies(self) -> Any:
        self._wrapped._maybe_initialize_trackable()
        return self._wrapped._deferred_dependencies

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Returns the checkpointed objects of both optimizers, without the slots."""
        wrapped = self._wrapped._trackable_children(*args, **kwargs)
        return {
            **wrapped,
            **super()._trackable_children(*args, **kwargs),
            **self._own_children(),
        }

    def _lookup_dependency(self, name: str, *args: Any, **kwargs: Any) -> Any:
        own = self._own_children().get(name)
        if own is None:
            own = super()._lookup_dependency(name, *args, **kwargs)
        return self._wrapped._lookup_dependency(name, *args, **kwargs) if own is None else own

    def _create_or_restore_slot_variable(self, *args: Any, **kwargs: Any) -> None:
        self._wrapped._create_or_restore_slot_variable(*args, **kwargs)
