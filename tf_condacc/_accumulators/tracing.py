"""How ``tf.function`` takes an accumulator as an argument."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tf_condacc import _tensorflow

_kinds: list[type] = []  # TensorFlow compares specs by values such as numbers.


class AccumulatorSpec(tf.TypeSpec):
    """Describes what accumulators have in common if a function has the same trace for them.

    In the trace, another object stands for the accumulator, whose handle is an input of the
    function. So each call uses the accumulator that it is given.

    Args:
        kind: The class of the accumulator, or its number in `_kinds`.
        dtype: Data type of the gradients.
        shape: Shape of the gradients.
        reduction_type: How they are reduced; None if that is unknown.
    """

    def __init__(
        self, kind: Any, dtype: tf.DType, shape: tf.TensorShape, reduction_type: str | None
    ) -> None:
        super().__init__()
        if not isinstance(kind, int):
            if kind not in _kinds:
                _kinds.append(kind)
            kind = _kinds.index(kind)
        self._kind = kind
        self._dtype, self._shape, self._reduction_type = dtype, shape, reduction_type

    @property
    def value_type(self) -> Any:
        """The class of the accumulator."""
        return _kinds[self._kind]

    def _serialize(self) -> tuple[Any, ...]:
        return self._kind, self._dtype, self._shape, self._reduction_type

    @property
    def _component_specs(self) -> tf.TensorSpec:
        return tf.TensorSpec([], tf.resource)

    def _to_components(self, value: Any) -> tf.Tensor:
        return value.accumulator_ref

    def _from_components(self, components: tf.Tensor) -> Any:
        return self.value_type._around(components, self._dtype, self._shape, self._reduction_type)

    def cast(self, value: Any, casting_context: Any) -> Any:
        """Returns the accumulator itself, which need not be converted."""
        return value


def is_argument_of_functions(kind: type) -> type:
    """Lets ``tf.function`` take the objects of a class as arguments, by their `_type_spec`."""
    _tensorflow.CompositeTensor.register(kind)
    return kind
