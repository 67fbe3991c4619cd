"""Many accumulators of a few elements each, which show the cost of a single op."""

from __future__ import annotations

import statistics

import tensorflow as tf

from condacc_bench import implementations
from condacc_bench.rounds import net, seconds_for

v1 = tf.compat.v1

PRODUCERS = ("shared", "mul")
_APPLIES_PER_TAKE = 4
_REPETITIONS = 10


class ManyVariables:
    """One step applies to ``count`` accumulators of ``size`` elements, and another one takes.

    The producer is ``shared`` or ``mul``, as in `DenseCycle`, but the time to compute the gradients
    is not included.
    """

    def __init__(
        self,
        implementation: implementations.Implementation,
        count: int,
        size: int,
        producer: str,
    ):
        self._count = count
        with tf.Graph().as_default() as graph:
            gradients = [_gradient(i, size, producer) for i in range(count)]
            accumulators = [
                implementation.dense(tf.float32, shape=[size], name=f"accumulator_{i}")
                for i in range(count)
            ]
            applies = [
                accumulator.apply_grad(gradient, local_step=implementations.NEVER_STALE)
                for accumulator, gradient in zip(accumulators, gradients, strict=True)
            ]
            taken = [accumulator.take_grad(1) for accumulator in accumulators]
            self._session = implementations.new_session(graph)
            self._session.run(v1.global_variables_initializer())
            call = self._session.make_callable
            self._run_apply = call(tf.group(*applies))
            self._run_take = call(tf.group(*[mean.op for mean in taken]))
            self._run_produce = call(tf.group(*[gradient.op for gradient in gradients]))
            self._run_nothing = call(tf.no_op())
            self._run_check = call(taken)
        self._check_result(size, 1.0 if producer == "shared" else 2.0)

    def _check_result(self, size: int, expected: float) -> None:
        self._run_apply()
        implementations.check_all(self._run_check(), (self._count, size), expected)

    def measure(self) -> dict[str, float]:
        apply, produce, take, nothing = [], [], [], []
        for _ in range(_REPETITIONS):
            for _ in range(_APPLIES_PER_TAKE):
                apply.append(seconds_for(self._run_apply))
                produce.append(seconds_for(self._run_produce))
            take.append(seconds_for(self._run_take))
            nothing.append(seconds_for(self._run_nothing))
        median = statistics.median
        return {
            "apply": net(median(apply), median(produce)) / self._count,
            "take": net(median(take), median(nothing)) / self._count,
        }

    def close(self) -> None:
        self._session.close()


def _gradient(i: int, size: int, producer: str) -> tf.Tensor:
    variable = v1.get_variable(f"variable_{i}", initializer=tf.ones([size]), use_resource=True)
    value = variable.read_value()
    return tf.identity(value) if producer == "shared" else value * 2.0
