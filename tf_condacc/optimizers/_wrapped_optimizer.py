"""Object-based checkpoints of an optimizer that wraps another one."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class SavedLikeWrapped(tf.compat.v1.train.Optimizer):
    """Stands in checkpoints of ``tf.train.Checkpoint`` for the optimizer that it wraps.

    A checkpoint cannot hold a slot that two of its objects call theirs. So the wrapped optimizer,
    which must be in `_opt`, is no object of its own: what would be saved of it is saved of this
    one, and restored into it, also slots and variables that are not there yet.
    """

    _opt: tf.compat.v1.train.Optimizer

    @property
    def _deferred_dependencies(self) -> Any:
        self._opt._maybe_initialize_trackable()
        return self._opt._deferred_dependencies

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        wrapped = self._opt._trackable_children(*args, **kwargs)
        return {**wrapped, **super()._trackable_children(*args, **kwargs)}

    def _lookup_dependency(self, name: str, *args: Any, **kwargs: Any) -> Any:
        own = super()._lookup_dependency(name, *args, **kwargs)
        return self._opt._lookup_dependency(name, *args, **kwargs) if own is None else own

    def _create_or_restore_slot_variable(self, *args: Any, **kwargs: Any) -> None:
        self._opt._create_or_restore_slot_variable(*args, **kwargs)
