"""How ``tf.function`` takes an accumulator as an argument."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import tensorflow as tf

# TensorFlow compares specs by values such as numbers, so a spec has the number of a class or of an
# object in place of these.
_kinds: list[type] = []
_objects: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_numbers = itertools.count()


class AccumulatorSpec(tf.TypeSpec):
    """Describes what accumulators have in common if a function has the same trace for them.

    In the trace, another object stands for the accumulator, whose handle is an input of the
    function. So each call uses the accumulator that it is given. An accumulator that has a number
    has a trace of its own, in which the other object has its attributes.

    Args:
        kind: The class of the accumulator, or its number in `_kinds`.
        dtype: Data type of the gradients.
        shape: Shape of the gradients.
        reduction_type: How they are reduced; None if that is unknown.
        num_contributors: Number of contributors in whose order they are added; 0 if there is none.
        number: The number of the accumulator, from `number_of`; None if it shares traces.
    """

    def __init__(
        self,
        kind: Any,
        dtype: tf.DType,
        shape: tf.TensorShape,
        reduction_type: str | None,
        num_contributors: int,
        number: int | None,
    ) -> None:
        super().__init__()
        if not isinstance(kind, int):
            if kind not in _kinds:
                _kinds.append(kind)
            kind = _kinds.index(kind)
        self._kind = kind
        self._dtype, self._shape, self._reduction_type = dtype, shape, reduction_type
        self._num_contributors = num_contributors
        self._number = number

    @property
    def value_type(self) -> Any:
        """The class of the accumulator."""
        return _kinds[self._kind]

    def _serialize(self) -> tuple[Any, ...]:
        arguments = self._reduction_type, self._num_contributors, self._number
        return self._kind, self._dtype, self._shape, *arguments

    @property
    def _component_specs(self) -> tf.TensorSpec:
        return tf.TensorSpec([], tf.resource)

    def _to_components(self, value: Any) -> tf.Tensor:
        return value.accumulator_ref

    def _from_components(self, components: tf.Tensor) -> Any:
        like = None if self._number is None else _objects[self._number]
        return self.value_type._around(
            components, self._dtype, self._shape, self._reduction_type, self._num_contributors, like
        )

    def cast(self, value: Any, casting_context: Any) -> Any:
        """Returns the accumulator itself, which need not be converted."""
        return value


def number_of(accumulator: Any) -> int:
    """Returns a number that no other accumulator has had."""
    number = next(_numbers)
    _objects[number] = accumulator
    return number
