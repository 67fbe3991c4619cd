"""The sum of a variable's gradients from all towers, which are all computed when it begins."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from condacc_bench import implementations
from condacc_bench.cases.staging import Stage
from condacc_bench.rounds import net, seconds_for

v1 = tf.compat.v1

PRODUCERS = ("staged", "shared")
_ELEMENTS_PER_STEP = 1 << 20
_MAX_SUMS = 16
_REPETITIONS = 5


class TowerSum:
    """The sum of ``count`` gradients of ``size`` elements; a step contains many sums of small ones.

    The producer is ``staged`` or ``shared``, as in `DenseCycle`. No gradient is a constant, and no
    two sums have the same tensors, so TensorFlow cannot compute any of them beforehand or only
    once.
    """

    def __init__(
        self,
        implementation: implementations.Implementation,
        count: int,
        size: int,
        producer: str,
    ):
        self._num_sums = max(1, min(_MAX_SUMS, _ELEMENTS_PER_STEP // (size * count)))
        with tf.Graph().as_default() as graph:
            variable = v1.get_variable(
                implementations.unique_name("variable"),
                initializer=tf.ones([size]),
                use_resource=True,
            )
            stages, gradients, sums = [], [], []
            for _ in range(self._num_sums):
                parts = []
                for i in range(count):
                    if producer == "staged":
                        stages.append(Stage([tf.fill([size], 1.0 + i)]))
                        [part] = stages[-1].next()
                    else:
                        part = tf.identity(variable.read_value())
                    parts.append(part)
                gradients += parts
                sums.append(implementation.sum_gradients(parts, variable))
            self._session = implementations.new_session(graph)
            self._session.run(v1.global_variables_initializer())
            call = self._session.make_callable
            self._run_fill = call(tf.group(*[stage.fill for stage in stages]))
            self._run_sum = call(tf.group(*[total.op for total in sums]))
            self._run_produce = call(tf.group(*[gradient.op for gradient in gradients]))
            self._run_check = call(sums)
        self._check_result(size, count if producer == "shared" else count * (count + 1) / 2)

    def _check_result(self, size: int, expected: float) -> None:
        self._run_fill()
        implementations.check_all(self._run_check(), (self._num_sums, size), expected)

    def measure(self) -> dict[str, float]:
        times = []
        for _ in range(_REPETITIONS):
            self._run_fill()
            total = seconds_for(self._run_sum)
            self._run_fill()
            times.append((total, seconds_for(self._run_produce)))
        total, produce = np.median(times, axis=0)
        return {"sum": float(net(total, produce)) / self._num_sums}

    def close(self) -> None:
        self._session.close()
