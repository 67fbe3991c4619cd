"""Gates of eager step variables, for tests of the ops of the gate."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tf_condacc._ops.native import ops


class Gate:
    """A gate of an eager step variable, whose methods call its ops with valid arguments."""

    def __init__(self) -> None:
        self.step = tf.Variable(5, dtype=tf.int64)
        self.handle = ops.condacc_staleness_gate(anonymous=True)

    def decide(self, **changes: Any) -> Any:
        arguments = dict(gate=self.handle, step=self.step.handle, counter="c")
        arguments |= dict(local_step=tf.constant(5, tf.int64), limit=tf.constant(0, tf.int64))
        arguments |= dict(T=tf.int64)
        return ops.condacc_staleness_gate_decide(**(arguments | changes))

    def counts(self) -> list[int]:
        return [
            int(op(self.handle, counter="c"))
            for op in (
                ops.condacc_staleness_gate_num_accepted,
                ops.condacc_staleness_gate_num_dropped,
            )
        ]

    def expect_unharmed(self) -> None:
        """Asserts that nothing is reserved or counted, and that an update is accepted."""
        assert self.counts() == [0, 0]
        assert not ops.condacc_staleness_gate_recent_staleness(self.handle, counter="c").shape[0]
        decision = self.decide()
        assert (bool(decision.accepted), int(decision.staleness)) == (True, 0)
        ops.condacc_staleness_gate_end(decision.reservation, True)
        assert self.counts() == [1, 0]
