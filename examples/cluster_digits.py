"""Trains a digit classifier on a cluster of parameter servers and workers.

Run it with ``condacc launch --ps 1 --workers 4 --restarts 1 -- python -m
tf_condacc.examples.cluster_digits``; ``--help`` lists the options. Without a launcher it trains in
one process.

Synchronous workers average their gradients in each step; each has its part of the batch, so the
training equals that of one process with the whole batch. Asynchronous workers apply their gradients
themselves, each of a whole batch, unless they are too stale; they may make a few steps more than
asked for. The chief saves checkpoints and TensorBoard summaries, measures the accuracy, and draws a
picture at the end. With ``--fault-at`` the last worker kills itself at a step, once; the launcher
starts it again.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

import tf_condacc
from tf_condacc import cluster
from tf_condacc.examples.common import command_line, data
from tf_condacc.examples.common.command_line import option
from tf_condacc.examples.common.network import Classifier
from tf_condacc.examples.common.records import ClusterHistory

_MEASURE_STEPS = 10  # Number of synchronous steps between measurements.
_MEASURE_SECS = 0.3  # Time between measurements of asynchronous training.
# Asynchronous workers add up updates that they computed at the same time.
_LEARNING_RATES = {"sync": 0.1, "async": 0.02}


@dataclass(frozen=True, kw_only=True)
class Settings(command_line.Settings):
    """The options of the program."""

    mode: str = option("sync", "how the workers train", choices=("sync", "async"))
    steps: int = option(300, "training steps")
    batch_size: int = option(128, "examples in a batch; synchronous workers share it")
    learning_rate: float | None = option(
        None,
        "learning rate of the momentum optimizer (default: 0.1, or 0.02 for asynchronous workers)",
        kind=float,
    )
    staleness: int = option(4, "how stale gradients of asynchronous workers may be", minimum=0)
    takeover_secs: int = option(
        0, "after so long others compute for a worker that is lost; 0 for never", minimum=0
    )
    bfloat16: int = option(
        0, "1 to let gradients of synchronous workers travel as bfloat16", minimum=0
    )
    fault_at: int = option(0, "step at which the last worker kills itself; 0 for none", minimum=0)
    folder: Path = option(Path("cluster_digits"), "folder of checkpoints and summaries")
    output: Path = option(Path("cluster_digits.png"), "where to write the picture")


class Faults(v1.train.SessionRunHook):
    """Kills the process once, when training has come to a step, and records when it is back."""

    def __init__(self, settings: Settings, step: tf.Variable) -> None:
        self._settings, self._step = settings, step
        self._record = settings.folder / "faults.txt"
        self._was_killed = self._record.exists()

    def _write(self, what: str) -> None:
        self._record.parent.mkdir(parents=True, exist_ok=True)
        with self._record.open("a") as file:
            file.write(f"{what} {time.time()}\n")

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Records that the process is back, once."""
        if self._was_killed:
            self._was_killed = False
            self._write("back")

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        """Asks for the global step."""
        return v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Kills the process at the step of the fault."""
        if not self._record.exists() and run_values.results >= self._settings.fault_at > 0:
            self._write("killed")
            os.kill(os.getpid(), signal.SIGKILL)


class Chief(v1.train.SessionRunHook):
    """The chief's measurements of a training.

    Synchronous training is measured after some steps. The steps of asynchronous workers are not the
    chief's turns, so that training is measured by time, in a thread.
    """

    def __init__(self, settings: Settings, model: Classifier, dropped: Any, step: tf.Variable):
        self.history = ClusterHistory(start=time.time())
        self._settings = settings
        self._fetches = step, model.loss, model.accuracy, dropped
        self._feeds = [model.feed(each) for each in data.load(settings.seed)]
        self._one_at_a_time = threading.Lock()

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Starts the thread, which ends with the session."""

        def measure_until_stop() -> None:
            with coord.stop_on_exception():
                while not coord.wait_for_stop(_MEASURE_SECS):
                    self._measure(session.run)

        if self._settings.mode == "async":
            thread = threading.Thread(target=measure_until_stop, daemon=True)
            coord.register_thread(thread)
            thread.start()

    def measure(self, session: v1.train.MonitoredSession) -> None:
        """Measures the loss on all training examples and the accuracy on test examples."""
        session.run_step_fn(lambda step_context: self._measure(step_context.session.run))

    def _measure(self, run: Callable[..., Any]) -> None:
        with self._one_at_a_time:
            on_train, on_test = (run(self._fetches, feed) for feed in self._feeds)
            self.history.add(int(on_train[0]), on_train[1], on_test[2], int(on_train[3]))
            print(self.history.line(self._settings.steps), flush=True)


def train(settings: Settings) -> ClusterHistory | None:
    """Trains in this task of a cluster. Returns the record if this is the chief."""
    with cluster.start() as task:
        examples, _ = data.load(settings.seed)
        seed = settings.seed if settings.mode == "sync" else settings.seed + task.worker_index
        batches = data.batches(examples, settings.batch_size, seed)
        with tf.Graph().as_default(), v1.device(task.replica_device_setter()):
            step = v1.train.get_or_create_global_step()
            model, whole = Classifier(settings.seed), Classifier(settings.seed)
            v1.summary.scalar("loss", model.loss)
            learning_rate = settings.learning_rate or _LEARNING_RATES[settings.mode]
            momentum = v1.train.MomentumOptimizer(learning_rate, 0.9)
            hooks: list[Any] = [v1.train.StopAtStepHook(last_step=settings.steps)]
            if settings.mode == "sync":
                optimizer: Any = tf_condacc.SyncReplicasOptimizer(
                    momentum, task.num_worker_replicas
                )
                optimizer.configure(
                    takeover_secs=settings.takeover_secs or None,
                    transport_dtype=tf.bfloat16 if settings.bfloat16 else None,
                )
                hooks.append(optimizer.make_session_run_hook(task.is_chief))
            else:
                optimizer = tf_condacc.DropStaleGradientOptimizer(momentum, settings.staleness)
            train_op = optimizer.minimize(model.loss, step)
            if task.worker_index == task.num_worker_replicas - 1 and not task.is_chief:
                hooks.append(Faults(settings, step))
            chief = Chief(settings, whole, optimizer.num_dropped(), step)
            if task.is_chief:
                check_not_finished(settings)
                hooks.append(chief)
            with task.session(
                checkpoint_dir=str(settings.folder),
                save_checkpoint_steps=100,
                save_summaries_steps=20,
                hooks=hooks,
            ) as session:
                if task.is_chief:
                    chief.measure(session)
                for turn, batch in enumerate(batches, start=1):
                    if settings.mode == "sync":
                        batch = batch[task.worker_index :: task.num_worker_replicas]
                    session.run(train_op, model.feed(batch))
                    is_due = settings.mode == "sync" and turn % _MEASURE_STEPS == 0
                    if task.is_chief and (is_due or session.should_stop()):
                        chief.measure(session)
                    if session.should_stop():
                        break
    return chief.history if task.is_chief else None


def check_not_finished(settings: Settings) -> None:
    """Raises SystemExit if the folder holds a training that has come to its last step."""
    latest = tf.train.latest_checkpoint(str(settings.folder))
    if latest is not None and int(latest.rpartition("-")[2]) >= settings.steps:
        sys.exit(
            f"{settings.folder} holds a training of {settings.steps} steps or more: remove it, or "
            "name another one with --folder."
        )


def run(settings: Settings) -> None:
    """Trains, and shows the results in the chief."""
    # Imported here, so that a missing package can be reported.
    from tf_condacc.examples.common import pictures, report

    history = train(settings)
    if history is not None:
        history.read_faults(settings.folder / "faults.txt")
        print(report.cluster_digits(history))
        report.save(history, settings)
        pictures.cluster_digits(history, settings.mode, settings.output)
        print(f"  picture: {settings.output}")


def main(arguments: list[str] | None = None) -> int:
    """Runs the program and returns its exit status."""
    command = "python -m tf_condacc.examples.cluster_digits"
    return command_line.run(run, Settings, command, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
