"""The gate that takes workers from round to round, and the reports about rounds that take long."""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.compat import v1

from condacc import tf_config
from tf_condacc._ops.host import host_of
from tf_condacc._ops.native import ops
from tf_condacc._optimizers.sync_replicas.worker_name import listed_workers

_LOG = logging.getLogger("tf_condacc")
_NO_ROUND = -1
_AT_ONCE = 1e-3  # In seconds. 0 would be without a limit.


class GateOptions(NamedTuple):
    """The options of a gate.

    Attributes:
        num_slots: Number of gradients that a round averages.
        num_workers: Number of workers.
        takeover_secs: Seconds without an event after which the slots of workers that do not wait
            go to others. 0 means never.
        report_secs: Seconds after which a report says who is missing in a round. 0 means never. A
            worker that comes after the end of training waits as long for another training.
        wait_for_lost: Whether a round waits for a lost worker even if no other one is left.
        start_secs: How long the first round waits for listed workers. 0 means not at all.
    """

    num_slots: int
    num_workers: int
    takeover_secs: float
    report_secs: float
    wait_for_lost: bool
    start_secs: float


class SyncGate:
    """The operations of one gate. All of them are on the gate's device.

    Args:
        shared_name: Name of the gate, the same in the graphs of all workers.
        device: Device of the gate.
        worker: Name of this worker.
        options: The options of the gate. Those of the chief that opens it count.

    Attributes:
        handle: Handle of the gate: `[] resource`.
        graph_id: A random identifier of this optimizer of this graph. The gate takes it as the name
            of the chief, and as the run of the worker.
        volunteers: Whether a queue runner volunteers as the chief: `[] bool`, to be fed. The gate
            then becomes that of this process only if no chief has opened it.
    """

    def __init__(self, shared_name: str, device: str, worker: str, options: GateOptions) -> None:
        self._device = host_of(device)
        self._worker = worker
        self._options = options
        # Differs between two processes even if one replaces the other under the same name.
        self.graph_id = uuid.uuid4().hex
        with self.on_device():
            self.handle = ops.condacc_sync_gate(shared_name=shared_name, name="gate")
            self._session = ops.condacc_sync_gate_session(name="session")
            self.volunteers = v1.placeholder_with_default(False, [], name="volunteers")

    def on_device(self) -> v1.device:
        """Returns a context that places operations on the gate's device."""
        return v1.device(self._device)

    def enter(self, local_step: tf.Tensor) -> tf.Tensor:
        """Begins a step, and returns its handle: `[] resource`.

        Args:
            local_step: The local step of the worker: `[] int64`.
        """
        return self._of_worker(ops.condacc_sync_gate_enter, local_step, name="enter")

    def claim(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the round and the slot of a step's gradients: `[2] int64`."""
        with self.on_device():
            return ops.condacc_sync_gate_claim(step, name="claim")

    def finish(self, step: tf.Tensor, added: list[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Ends a step, and waits for the next one.

        Args:
            step: The handle of the step: `[] resource`.
            added: Whether any gradient was added, on each device of a variable: `[] bool` each.

        Returns:
            The round of the next step, `[] int64`, and whether all gradients of this one were
            dropped, `[] bool`.
        """
        with self.on_device():
            return ops.condacc_sync_gate_finish(step, added, name="finish")

    def leave(self) -> tf.Operation:
        """Returns an operation that tells the gate that this worker ends."""
        return self._of_worker(ops.condacc_sync_gate_leave, is_lost=False, name="leave")

    def fail(self) -> tf.Operation:
        """Returns an operation that tells the gate that this worker has failed."""
        return self._of_worker(ops.condacc_sync_gate_leave, is_lost=True, name="fail")

    def lose(self, worker: tf.Tensor) -> tf.Operation:
        """Returns an operation that tells the gate that the process of a worker is gone.

        Args:
            worker: The name of the worker: `[] string`.
        """
        with self.on_device():
            return ops.condacc_sync_gate_lose(self.handle, worker, name="lose")

    def await_open(self) -> tf.Tensor:
        """Waits until a chief has opened the gate; returns the round: `[] int64`.

        A worker that comes for the first time after the end of training may belong to the next one
        on the same servers, so it waits for a while. Those of `condacc launch` serve one training.
        """
        late_secs = _AT_ONCE if tf_config.LAUNCHED in os.environ else self._options.report_secs
        await_open = ops.condacc_sync_gate_await_open
        return self._of_worker(await_open, late_secs=late_secs, name="await_open")

    def await_full(self) -> tf.Tensor:
        """Waits for all gradients of a round; returns the round: `[] int64`."""
        return self._of_chief(ops.condacc_sync_gate_await_full, name="await_full")

    def advance(self, round_: tf.Tensor) -> tf.Operation:
        """Returns an operation that begins the round after `round_`: `[] int64`."""
        return self._of_chief(ops.condacc_sync_gate_advance, round_, name="advance").op

    def prepare(self, at_least: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Shuts the gate, unless this session has already prepared it.

        Args:
            at_least: The highest round that has been used: `[] int64`.

        Returns:
            The round to open the gate with, `[] int64`, and whether this is the chief: `[] bool`.
        """
        return self._of_chief(
            ops.condacc_sync_gate_prepare,
            at_least,
            self.volunteers,
            worker=self._worker,
            name="prepare",
        )

    def open(self, round_: tf.Tensor) -> tf.Operation:
        """Returns an operation that opens the gate with a round: `[] int64`."""
        return self._of_chief(
            ops.condacc_sync_gate_open,
            round_,
            self.volunteers,
            listed=listed_workers(),
            name="open",
            **self._options._asdict(),
        )

    def add_credits(self, count: int) -> tf.Operation:
        """Returns an operation that lets `count` steps end without waiting.

        If `count` is negative, all steps wait, but only for workers that are listed or have come.
        """
        return self._of_chief(ops.condacc_sync_gate_add_credits, count, name="add_credits")

    def close(self) -> tf.Operation:
        """Returns an operation that tells the gate that training has ended."""
        return self._of_chief(ops.condacc_sync_gate_close, name="close")

    def dismiss(self) -> tf.Operation:
        """Returns an operation that ends the waits of this session's chief and of its reports.

        If this is the chief, it also ends those of this worker.
        """
        return self._of_chief(ops.condacc_sync_gate_dismiss, name="dismiss")

    def _of_worker(self, op: Callable[..., Any], *inputs: Any, **attributes: Any) -> Any:
        """Makes an operation of this worker at the gate."""
        with self.on_device():
            return op(self.handle, *inputs, worker=self._worker, run=self.graph_id, **attributes)

    def _of_chief(self, op: Callable[..., Any], *inputs: Any, **attributes: Any) -> Any:
        """Makes an operation of a chief in the current session at the gate."""
        with self.on_device():
            return op(self.handle, self._session, *inputs, chief=self.graph_id, **attributes)

    def report(self, seen: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Waits until a round lasts for too long.

        Args:
            seen: A round that is not to be reported again: `[] int64`.

        Returns:
            The round, `[] int64`, and who is missing, `[] string`.
        """
        with self.on_device():
            return ops.condacc_sync_gate_report(
                self.handle,
                self._session,
                seen,
                run=self.graph_id,
                report_secs=self._options.report_secs,
                name="report",
            )

    def state(self) -> Any:
        """Returns the state of the gate, with the names of the op's outputs."""
        with self.on_device():
            return ops.condacc_sync_gate_state(self.handle, name="state")

    def num_dropped(self) -> tf.Tensor:
        """Returns in how many steps of all workers the gradients were dropped: `[] int64`."""
        return self.state().num_dropped


class Reports:
    """Logs who is missing when a round takes too long.

    Args:
        gate: The gate of the rounds.
        optimizer: Name of the optimizer, which the messages give.
    """

    def __init__(self, gate: SyncGate, optimizer: str) -> None:
        self._optimizer = optimizer
        with gate.on_device():
            self._seen = v1.placeholder_with_default(
                tf.constant(_NO_ROUND, tf.int64), [], name="seen"
            )
        self._report = gate.report(self._seen)

    def thread(self, session: v1.Session) -> threading.Thread:
        """Returns a thread that logs until the gate has dismissed the session, or it is closed.

        It has not been started.
        """
        return threading.Thread(
            target=self._log, args=(session,), name=f"Reports-{self._optimizer}", daemon=True
        )

    def _log(self, session: v1.Session) -> None:
        seen = _NO_ROUND
        try:
            while True:
                seen, report = session.run(self._report, {self._seen: seen})
                _LOG.warning(
                    "SyncReplicasOptimizer '%s' waits: %s", self._optimizer, report.decode()
                )
        except (tf.errors.OpError, RuntimeError):
            pass  # The session ends, or was lost; that is reported elsewhere.
