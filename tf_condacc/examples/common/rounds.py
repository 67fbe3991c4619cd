"""The turns that workers and a chief take, and the threads that run them.

In each step of the training:

* A worker waits for a token, reads the global step (its *local step*), reads the variables,
  computes its gradients and applies them to the accumulators with its local step.
* The chief takes the means as soon as each accumulator has enough gradients. It updates the
  variables, increments the global step and puts a new token into the queue of each worker.

A take increments the accumulator's own step. If a worker is late, the local step of its gradients
is lower than that step, and the accumulators drop them. They were computed from old values of the
variables.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

import tf_condacc
from tf_condacc.examples.common import command_line
from tf_condacc.examples.common.cluster import Cluster
from tf_condacc.examples.common.command_line import option
from tf_condacc.examples.common.records import History

Feed = dict[tf.Tensor, Any]
AfterStep = Callable[[v1.Session, dict[str, Any], History], None]
AccumulatorClass = Callable[..., v1.ConditionalAccumulatorBase]


@dataclass(frozen=True, kw_only=True)
class Settings(command_line.Settings):
    """The options of programs with a chief."""

    backend: str = option(
        "condacc", "library whose accumulators are used", choices=("condacc", "tf")
    )
    workers: int = option(4, "number of workers")
    required: int = option(
        None, "gradients that the chief waits for in a step (default: all but one)", kind=int
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.required is None:
            object.__setattr__(self, "required", max(1, self.workers - 1))
        if self.required > self.workers:
            raise ValueError(f"--required {self.required}, but there are {self.workers} workers")


def title(backend: str) -> str:
    """Returns the name and the version of the library that ``--backend`` chooses."""
    is_tf = backend == "tf"
    return f"TensorFlow {tf.__version__}" if is_tf else f"tf_condacc {tf_condacc.__version__}"


@dataclass(frozen=True)
class Chief:
    """The operations and tensors of the chief.

    Attributes:
        start: Operation to run at the beginning.
        update: Values of one step, to be run for each step. ``step`` is the number of steps made,
            ``loss`` the mean loss of the gradients in this step, ``accepted`` the number of these
            gradients, and ``dropped`` the number of gradients dropped so far. ``dropped`` is
            missing if the accumulator does not count it.
        finish: Operation to run at the end, which ends the workers.
        rest: Values to run when all workers have ended. ``pending`` is the number of gradients that
            were not taken, and ``dropped`` the number of gradients dropped in total.
    """

    start: tf.Operation
    update: dict[str, tf.Tensor]
    finish: tf.Operation
    rest: dict[str, tf.Tensor]


class Rounds:
    """The global step, a token queue for each worker, and an accumulator of the losses.

    Args:
        dense_class: Class of dense accumulators, for the losses.
        num_workers: Number of workers.
    """

    def __init__(self, dense_class: AccumulatorClass, num_workers: int):
        self.global_step = v1.train.get_or_create_global_step()
        self._tokens = [
            v1.FIFOQueue(1000, tf.int64, [], shared_name=f"tokens_{i}") for i in range(num_workers)
        ]
        # Each worker applies the vector [loss, 1] here. A take gives the sum of the losses, and the
        # number of gradients that were taken.
        self._losses = dense_class(
            tf.float32, shape=[2], shared_name="losses", reduction_type="SUM"
        )

    def begin(self, worker: int) -> tf.Tensor:
        """Begins a worker's turn. Waits for a token, and then reads the global step: `[] int64`.

        The variables must be read after the step. The chief updates the variables before it
        increments the step, so they are then at least as new as the step.
        """
        tokens = self._tokens[worker]
        # A worker that was late finds several tokens. It takes all of them for one turn.
        token = tokens.dequeue_many(tf.maximum(tokens.size(), 1))
        with tf.control_dependencies([token]):
            return self.global_step.read_value()

    def end(
        self, loss: tf.Tensor, local_step: tf.Tensor, pushes: Sequence[tf.Operation]
    ) -> tf.Operation:
        """Ends a worker's turn with the operations that push its gradients, and pushes its loss."""
        push_loss = self._losses.apply_grad(tf.stack([loss, 1.0]), local_step=local_step)
        return tf.group(*pushes, push_loss)

    def chief(
        self,
        accumulators: Sequence[v1.ConditionalAccumulatorBase],
        train: tf.Operation,
        num_required: int,
        **figures: tf.Tensor,
    ) -> Chief:
        """Builds the operations of the chief.

        Args:
            accumulators: The accumulators of the gradients.
            train: Operation that takes and applies their means, and increments the global step.
            num_required: Number of gradients to wait for.
            **figures: Further values of a step for `Chief.update`.
        """
        # After a restart from a checkpoint, the accumulators must have the step of the checkpoint.
        step = self.global_step.read_value()
        with tf.control_dependencies(
            [a.set_global_step(step) for a in (*accumulators, self._losses)]
        ):
            start = self._hand_out_tokens(step)

        # All takes complete before any token is handed out, so that gradients of the next step are
        # not mixed with those of this step.
        taken = self._losses.take_grad(num_required)
        with tf.control_dependencies([train, taken]):
            step = self.global_step.read_value()
            accepted = tf.cast(taken[1], tf.int64)
            update = {"step": step, "loss": taken[0] / taken[1], "accepted": accepted}
            update |= self._num_dropped() | figures
            release = self._hand_out_tokens(step)
        with tf.control_dependencies([release]):
            update = {name: tf.identity(value) for name, value in update.items()}

        finish = tf.group(*[queue.close() for queue in self._tokens])
        rest = {"pending": self._losses.num_accumulated()} | self._num_dropped()
        return Chief(start, update, finish, rest)

    def _hand_out_tokens(self, step: tf.Tensor) -> tf.Operation:
        return tf.group(*[queue.enqueue(step) for queue in self._tokens])

    def _num_dropped(self) -> dict[str, tf.Tensor]:
        counts = hasattr(self._losses, "num_dropped")  # TensorFlow's class does not count.
        return {"dropped": self._losses.num_dropped()} if counts else {}


def run(
    chief: Chief,
    turns: Sequence[tuple[tf.Operation, Iterator[Feed]]],
    steps: int,
    on_progress: Callable[[History], None] = lambda history: None,
    after_step: AfterStep = lambda session, update, history: None,
    at_end: Callable[[v1.Session], None] = lambda session: None,
) -> History:
    """Runs a training in the default graph, with a thread for the chief and for each worker.

    Args:
        chief: The operations of the chief.
        turns: For each worker, the operation of a turn and the feed dictionaries of its batches.
        steps: Number of steps of the chief.
        on_progress: Called about ten times per second, in the thread of the caller.
        after_step: Called after each step, with the chief's session and the values of the step.
        at_end: Called with the chief's session, when all workers have ended.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed. All threads have ended.
    """
    history = History()
    pushed: list[int] = []
    with Cluster() as cluster:
        session = cluster.new_session()
        session.run(v1.global_variables_initializer())
        session.run(chief.start)
        start = time.monotonic()
        for push, feeds in turns:
            cluster.start(_work, cluster.new_session(), push, feeds, pushed)
        cluster.start(_lead, session, chief, steps, history, after_step)
        cluster.wait(lambda: on_progress(history))
        history.seconds = time.monotonic() - start
        rest = session.run(chief.rest)
        history.pushed, history.pending = len(pushed), int(rest["pending"])
        if "dropped" in rest:
            history.dropped_in_all = int(rest["dropped"])
        at_end(session)
    on_progress(history)
    return history


def _work(
    session: v1.Session, push: tf.Operation, feeds: Iterator[Feed], pushed: list[int]
) -> None:
    """Takes a worker's turns until its token queue is closed, and appends 1 for each."""
    with contextlib.suppress(tf.errors.OutOfRangeError):
        for feed in feeds:
            session.run(push, feed)
            pushed.append(1)


def _lead(
    session: v1.Session, chief: Chief, steps: int, history: History, after_step: AfterStep
) -> None:
    """Makes all steps of the chief, and then closes the token queues."""
    for _ in range(steps):
        update = session.run(chief.update)
        history.accepted.append(int(update["accepted"]))
        if "dropped" in update:
            history.dropped.append(int(update["dropped"]))
        after_step(session, update, history)
        history.losses.append(float(update["loss"]))
    session.run(chief.finish)
