"""Trainings whose processes and network fail, and which end with the bits of an undisturbed one.

A cluster of two parameter servers and three workers makes a number of updates while each kind of
fault happens to it. One process then makes the same updates alone. Weights and the slots of the
optimizer must be equal to the last bit.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import tf_condacc
from tests.processes.clusters import ForkedCluster
from tests.processes.isolated import isolated
from tests.support.sync_replicas_log import PushLog
from tests.support.sync_replicas_program import WorkerProgram
from tests.support.waiting import work
from tests.sync_replicas.clusters import faults, processes
from tests.sync_replicas.clusters.faults import Faults, two_hosts
from tests.sync_replicas.clusters.processes import NUM_PS, NUM_WORKERS

pytestmark = isolated(alone=True)
v1 = tf.compat.v1
REPLICAS = NUM_WORKERS
BATCH, WIDTH, ROWS = 8, 16, 40
STEP_SECS = 0.02
MORE_UPDATES = 20
LONG_SEEDS = 200
TEXTS = {
    "kills": "was killed and started again",
    "stops": "was frozen for a moment",
    "new workers": "was frozen, and another worker took its place",
    "partitions": "could not reach each other",
}


class Regression(WorkerProgram):
    """A regression with an embedding. Its gradients depend on the weights, round and slot alone.

    Args:
        log: Log of what happens.
        is_chief: Whether the worker is the chief.
        begin: Called with the round at the begin of each step. It may raise StopIteration, which
            ends the training of the worker.
        device: Device function, or None.
        examples: Which examples each slot gets.
    """

    def __init__(
        self,
        log: PushLog,
        is_chief: bool,
        begin: Callable[[int], None],
        device: Any = None,
        examples: Sequence[int] = range(REPLICAS),
    ) -> None:
        self.log, self.is_chief = log, is_chief
        self.graph = tf.Graph()
        with self.graph.as_default(), v1.device(device):
            step = v1.train.create_global_step()
            self._step = step
            width = [WIDTH]
            weights = v1.get_variable("weights", width, initializer=v1.ones_initializer())
            first = tf.random.stateless_normal([ROWS, WIDTH], [0, 0])
            rows = v1.get_variable("rows", initializer=first, use_resource=True)
            bias = v1.get_variable("bias", [], initializer=v1.ones_initializer())
            self.optimizer = tf_condacc.SyncReplicasOptimizer(
                v1.train.MomentumOptimizer(0.02, 0.9), REPLICAS
            )
            self.optimizer.configure(takeover_secs=faults.TAKEOVER_SECS, deterministic=True)
            round_, slot = self.optimizer.round_and_slot()
            with tf.control_dependencies([v1.py_func(begin, [round_], [])]):
                seed = tf.stack([round_, tf.gather(tf.constant(list(examples), tf.int64), slot)])
            inputs = tf.random.stateless_normal([BATCH, WIDTH + 1], seed)
            ids = tf.random.stateless_uniform([BATCH], seed, maxval=ROWS, dtype=tf.int32)
            features, targets = inputs[:, :WIDTH], inputs[:, WIDTH]
            both = tf.nn.embedding_lookup(rows, ids) + weights
            errors = tf.reduce_sum(both * features, axis=1) + bias - targets
            train = self.optimizer.minimize(tf.reduce_mean(errors * errors), step)
            with tf.control_dependencies([train]):
                self.fetches = [train, tf.identity(step.read_value())]

    def restored(self, session: Any) -> dict[str, Any]:
        return {"step": int(session.run(self._step))}


class Cluster(processes.Cluster):
    """A cluster whose workers end when they have made the last update."""

    checkpoint_steps = 5

    def model(self, task: int, log: PushLog, first: int = 0, **arguments: Any) -> Regression:
        def begin(round_: int) -> None:
            work(STEP_SECS)
            if self._last_update.exists() and round_ >= int(self._last_update.read_text()):
                raise StopIteration

        return Regression(log, task == self.chief, begin, self.device(task))

    def end_soon(self) -> int:
        """Ends the training after some further updates; returns the number of the last one."""
        workers = [("worker", place) for place in self.workers()]
        for who in workers:
            self.freeze(who)  # Or updates might pass the last one before all workers know it.
        for who in workers:
            self.await_frozen(who)
        last = max(event["step"] for event in self.events("step")) + MORE_UPDATES
        self._last_update.write_text(str(last))
        for who in workers:
            self.unfreeze(who)
        ended = self.await_end(*workers)
        assert set(ended.values()) == {0}, self.logs()
        return last

    @property
    def _last_update(self) -> Path:
        return self.folder / "last_update"


def train_with_faults(
    folder: Path, seed: int, make_faults: Callable[[Faults], None]
) -> tuple[int, list[str]]:
    """Returns the number of updates of a training with faults, and what happened to it."""
    with (
        two_hosts() as hosts,
        Cluster(folder, REPLICAS, faults.TAKEOVER_SECS, hosts=hosts) as cluster,
    ):
        cluster.start_all()
        cluster.await_steps(5, *cluster.workers())
        make_faults(Faults(cluster, hosts, random.Random(seed)))
        cluster.await_steps(5, *cluster.workers())
        last = cluster.end_soon()
        return last, list(story(cluster.all_events()))


def story(events: Iterable[dict[str, Any]]) -> Iterable[str]:
    """Describes each fault, and to which update the training went back after it."""
    step, line = 0, ""
    for event in events:
        if event["kind"] == "step":
            step = event["step"]
        elif event["kind"] == "restored":
            line += f"; back to update {event['step']}" if line else ""
        elif event["kind"] in TEXTS:
            if line:
                yield line
            line = f"update {step:3}: {event['who']} {TEXTS[event['kind']]}"
    yield line


def train_alone(folder: Path, updates: int, orders: Sequence[Sequence[int]]) -> list[str]:
    """Returns the digests after trainings of one worker, which makes the gradients of all slots.

    Each training gives the examples to the slots in another order.
    """

    def train(_: str, task: int, __: int) -> None:
        def begin(round_: int) -> None:
            if round_ >= updates:
                raise StopIteration

        model = Regression(PushLog(), True, begin, examples=orders[task])
        saving = {"checkpoint_dir": str(folder / str(task)), "save_checkpoint_steps": 10**9}
        with model.graph.as_default(), model.session("", **saving) as session:
            while not session.should_stop():
                model.run(session)

    with ForkedCluster(folder, 0, len(orders), train) as alone:
        alone.start()
        ended = alone.await_end()
        assert set(ended.values()) == {0}, alone.logs()
    return [digest(folder / str(task), updates) for task in range(len(orders))]


def digest(folder: Path, updates: int) -> str:
    """Returns the digest of all variables in the last checkpoint, which must be after `updates`."""
    reader = tf.train.load_checkpoint(str(folder))
    found = hashlib.sha256()
    shapes = reader.get_variable_to_shape_map()
    assert {"weights/Momentum", "rows/Momentum", "bias/Momentum"} < set(shapes)
    assert reader.get_tensor("global_step") == updates
    for name in sorted(shapes):
        found.update(name.encode() + reader.get_tensor(name).tobytes())
    return found.hexdigest()


@pytest.mark.parametrize(
    "make_faults",
    [
        pytest.param(Faults.one, id="one"),
        pytest.param(Faults.each_once, marks=pytest.mark.clusters, id="each"),
        *(
            pytest.param(Faults.each_once, marks=pytest.mark.long, id=f"each-{number}")
            for number in range(1, LONG_SEEDS)
        ),
    ],
)
def test_a_training_with_faults_ends_with_the_bits_of_an_undisturbed_one(
    tmp_path, seed, make_faults
):
    for name in ("faults", "alone"):
        (tmp_path / name).mkdir()
    updates, happened = train_with_faults(tmp_path / "faults", seed, make_faults)
    orders = [range(REPLICAS), [1, 2, 0]]
    undisturbed, another_order = train_alone(tmp_path / "alone", updates, orders)
    assert undisturbed != another_order, "with these examples, the order must matter"
    disturbed = digest(tmp_path / "faults", updates)
    print(f"{NUM_PS} parameter servers, {NUM_WORKERS} workers, {updates} updates")
    print(*happened, sep="\n")
    print(f"weights and slots, with these faults: {disturbed[:32]}")
    print(f"weights and slots, undisturbed:       {undisturbed[:32]}")
    assert disturbed == undisturbed
