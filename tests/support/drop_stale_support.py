"""Graphs whose gradients become stale exactly when a test wants them to."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc

v1 = tf.compat.v1

START = [4.0, 8.0, 16.0]


class Switches(NamedTuple):
    """The process-wide switches that programs of TensorFlow 1 set."""

    resource: bool  # The default kind of variables.
    control_flow: int  # The version of control flow.


SWITCHES = {
    "ref": Switches(resource=False, control_flow=1),
    "resource": Switches(resource=True, control_flow=1),
    "resource_v2": Switches(resource=True, control_flow=2),
}


@contextlib.contextmanager
def switched(resource: bool, control_flow: int) -> Iterator[Switches]:
    """Sets the switches of the process, and restores them afterwards."""
    were = v1.resource_variables_enabled(), v1.control_flow_v2_enabled()
    _set_switches(resource, control_flow == 2)
    try:
        yield Switches(resource, control_flow)
    finally:
        _set_switches(*were)


def _set_switches(resource: bool, control_flow_v2: bool) -> None:
    (v1.enable_resource_variables if resource else v1.disable_resource_variables)()
    (v1.enable_control_flow_v2 if control_flow_v2 else v1.disable_control_flow_v2)()


class Interlude:
    """An action that runs in the middle of forward passes.

    The value that is passed through it is computed before the action, the result after it.
    """

    def __init__(self) -> None:
        self.action: Callable[[], Any] = lambda: None

    def __call__(self, value: tf.Tensor) -> tf.Tensor:
        happened = v1.py_func(self._act, [value], [], stateful=True)
        with tf.control_dependencies([happened]):
            return tf.identity(value)

    def _act(self, _: np.ndarray) -> None:
        self.action()


def half_square(value: tf.Tensor) -> tf.Tensor:
    """Returns a loss whose gradient is `value` itself."""
    return tf.reduce_sum(tf.square(value)) / 2.0


def drop_stale(staleness: Any = 0, inner: Any = None, **kwargs: Any) -> Any:
    """Returns the optimizer under test around one that halves weights of a `half_square` loss."""
    if inner is None:
        inner = v1.train.GradientDescentOptimizer(0.5)
    return tf_condacc.DropStaleGradientOptimizer(inner, staleness, **kwargs)


def new_session() -> v1.Session:
    """Returns a session that can run steps from within a step."""
    config = v1.ConfigProto(inter_op_parallelism_threads=4, use_per_session_threads=True)
    return v1.Session(config=config)


def one_vector(interlude: Interlude) -> tuple[tf.Tensor, list[Any]]:
    """Returns a model's loss, computed with an interlude in the middle, and its variables."""
    weights = v1.get_variable("w", initializer=tf.constant(START))
    return half_square(interlude(tf.convert_to_tensor(weights))), [weights]


def minimize(optimizer: Any, loss: tf.Tensor, step: Any, variables: list[Any]) -> tf.Tensor:
    """Trains as most programs do."""
    return optimizer.minimize(loss, step, variables)


def compute_clip_and_apply(
    optimizer: Any, loss: tf.Tensor, step: Any, variables: list[Any]
) -> tf.Tensor:
    """Trains as programs that clip gradients do; the limits are too wide to change any."""
    pairs = optimizer.compute_gradients(loss, variables)
    clipped = [(tf.clip_by_value(gradient, -1e6, 1e6), variable) for gradient, variable in pairs]
    return optimizer.apply_gradients(clipped, global_step=step)


class LateTraining:
    """A model in the default graph, trained in a session by updates that are as late as requested.

    Attributes:
        step: The step variable.
        variables: The variables of the model; `weights` is the first of them.
        train: The result of the training operation.
        interlude: The interlude in the middle of the computation of the loss.
    """

    def __init__(
        self,
        optimizer: Any = None,
        model: Callable[[Interlude], tuple[tf.Tensor, list[Any]]] = one_vector,
        step_dtype: tf.DType = tf.int64,
        make_step: Callable[[tf.DType], Any] | None = None,
        apply: Callable[[Any, tf.Tensor, Any, list[Any]], tf.Tensor] | None = None,
    ) -> None:
        self.optimizer = drop_stale(0) if optimizer is None else optimizer
        self.step = (make_step or global_step)(step_dtype)
        self.interlude = Interlude()
        self.loss, self.variables = model(self.interlude)
        self.weights = self.variables[0]
        self.train = (apply or minimize)(self.optimizer, self.loss, self.step, self.variables)
        self._advance_by = v1.placeholder(step_dtype, [])
        self._advance = v1.assign_add(self.step, self._advance_by)

    @functools.cached_property
    def session(self) -> v1.Session:
        """The session, which is made with initialized variables when it is first used."""
        session = new_session()
        session.run(v1.global_variables_initializer())
        return session

    def advance(self, steps: int) -> None:
        """Increments the step, as other workers do."""
        self.session.run(self._advance, {self._advance_by: steps})

    def run(self, late_by: int = 0, feed: Any = None) -> Any:
        """Trains once while the step is incremented; returns how many updates have been dropped."""
        self.interlude.action = lambda: self.advance(late_by)
        return self.session.run(self.train, feed)

    def value(self, fetched: Any) -> Any:
        return self.session.run(fetched)

    def counts(self) -> tuple[int, int]:
        """Returns the numbers of accepted and of dropped updates."""
        counts = [self.optimizer.num_accepted(), self.optimizer.num_dropped()]
        accepted, dropped = self.value(counts)
        return int(accepted), int(dropped)

    def expect(self, step: int, weights: Any, accepted: int, dropped: int) -> None:
        """Asserts the values of the step, the weights and the counts."""
        assert self.value(self.step) == step
        np.testing.assert_array_equal(self.value(self.weights), weights)
        assert self.counts() == (accepted, dropped)
        assert self.value(stale_counter()) == dropped

    def expect_late_updates_to_be_dropped(self, late_by: int) -> None:
        """Trains in time, late, and in time again; each update in time halves the weights."""
        halved, quartered = np.divide(START, 2.0), np.divide(START, 4.0)
        assert self.run() == 0.0
        self.expect(step=1, weights=halved, accepted=1, dropped=0)
        assert self.run(late_by=late_by) == 1.0
        self.expect(step=1 + late_by, weights=halved, accepted=1, dropped=1)
        assert self.run() == 1.0
        self.expect(step=2 + late_by, weights=quartered, accepted=2, dropped=1)

    def close(self) -> None:
        self.session.close()


class EagerTraining:
    """A model whose loss is a function that may increment the step while it is computed."""

    def __init__(self, staleness: Any = 0, inner: Any = None, step_dtype: Any = tf.int64) -> None:
        self.step = tf.Variable(0, dtype=step_dtype, trainable=False, name="step")
        self.weights = tf.Variable(START, name="w")
        self.optimizer = drop_stale(staleness, inner)
        self.late_by = tf.Variable(0, dtype=step_dtype, trainable=False)

    def loss(self) -> tf.Tensor:
        value = self.weights.read_value()
        self.step.assign_add(self.late_by)
        return half_square(value)

    def minimize(self) -> tf.Tensor:
        return self.optimizer.minimize(self.loss, self.step, [self.weights])

    def run(self, late_by: int = 0, minimize: Any = None) -> float:
        self.late_by.assign(late_by)
        return float((minimize or self.minimize)())

    def expect(self, step: int, weights: Any, accepted: int, dropped: int) -> None:
        assert self.step.numpy() == step
        np.testing.assert_array_equal(self.weights.numpy(), weights)
        assert self.optimizer.num_accepted().numpy() == accepted
        assert self.optimizer.num_dropped().numpy() == dropped


def global_step(dtype: tf.DType = tf.int64) -> Any:
    """Returns the default graph's global step, which is made by hand if its dtype is unusual."""
    if dtype == tf.int64:
        return v1.train.get_or_create_global_step()
    return v1.get_variable(
        "global_step",
        shape=(),
        dtype=dtype,
        initializer=v1.zeros_initializer(),
        trainable=False,
        collections=[v1.GraphKeys.GLOBAL_VARIABLES, v1.GraphKeys.GLOBAL_STEP],
    )


def own_step(dtype: tf.DType = tf.int64) -> Any:
    """Returns a step variable that only the program knows to be one."""
    return v1.get_variable(
        "my_step", shape=(), dtype=dtype, initializer=v1.zeros_initializer(), trainable=False
    )


def stale_counter(name: str = "stale_counter:0") -> Any:
    """Returns the variable in which the original counts, found by its name."""
    (found,) = [v for v in v1.global_variables() if v.name == name]
    return found


def needed_for(op: tf.Operation) -> dict[str, tf.Operation]:
    """Returns `op` and the operations of its graph that run before it, by their names."""
    found, waiting = {op.name: op}, [op]
    while waiting:
        current = waiting.pop()
        for needed in [tensor.op for tensor in current.inputs] + list(current.control_inputs):
            if needed.name not in found:
                found[needed.name] = needed
                waiting.append(needed)
    return found


def assert_read_after_local_step(loss: tf.Tensor, variable: Any) -> None:
    """Asserts that every read of the variable for the loss depends on the local step."""
    holder = variable.handle if hasattr(variable, "handle") else variable._ref()
    reads = [op for op in needed_for(loss.op).values() if any(t is holder for t in op.inputs)]
    assert reads
    for read in reads:
        assert "local_step" in needed_for(read), f"{read.name} may run before"


def assert_second_update_is_dropped(
    train: tf.Tensor, step: Any, interlude: Interlude, weights: Any
) -> None:
    """Trains twice, asserting that the update is dropped if the step moves on in the interlude."""
    advance = v1.assign_add(step, 1)
    with new_session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(train) == 0.0
        interlude.action = lambda: session.run(advance)
        assert session.run(train) == 1.0
        np.testing.assert_array_equal(session.run(weights), np.divide(START, 2.0))


class Inner(NamedTuple):
    """An optimizer to wrap.

    Attributes:
        make: Function that makes the optimizer.
        slots: The names of its slots, with the suffixes of the variables that hold them.
        others: The names of its variables that belong to no weights, by version of control flow.
    """

    make: Callable[[], Any]
    slots: dict[str, str]
    others: dict[int, list[str]] = {1: [], 2: []}


_BETAS = ["beta1_power", "beta2_power"]
# The names are those of variables in programs that used the original.
INNER = {
    "gradient_descent": Inner(lambda: v1.train.GradientDescentOptimizer(0.5), {}),
    "momentum": Inner(lambda: v1.train.MomentumOptimizer(0.5, 0.75), {"momentum": "Momentum"}),
    "adagrad": Inner(lambda: v1.train.AdagradOptimizer(0.5), {"accumulator": "Adagrad"}),
    "adam": Inner(
        lambda: v1.train.AdamOptimizer(0.5),
        {"m": "Adam", "v": "Adam_1"},
        {1: [f"cond/{name}" for name in _BETAS], 2: _BETAS},
    ),
    "ftrl": Inner(lambda: v1.train.FtrlOptimizer(0.5), {"accum": "Ftrl", "linear": "Ftrl_1"}),
    "rms_prop": Inner(
        lambda: v1.train.RMSPropOptimizer(0.5, momentum=0.5, centered=True),
        {"rms": "RMSProp", "mg": "RMSProp_1", "momentum": "RMSProp_2"},
    ),
    "adadelta": Inner(
        lambda: v1.train.AdadeltaOptimizer(0.5),
        {"accum": "Adadelta", "accum_update": "Adadelta_1"},
    ),
    "proximal_adagrad": Inner(
        lambda: v1.train.ProximalAdagradOptimizer(0.5, l1_regularization_strength=0.125),
        {"accumulator": "ProximalAdagrad"},
    ),
}
# For tests of what the optimizer does in another way for each setting.
every_switches = pytest.mark.parametrize("switches", SWITCHES, indirect=True)
# `make test` runs each optimizer and each setting of `switches`. Adam has variables that belong to
# no weights.
every_inner_and_switches = pytest.mark.parametrize(
    ("switches", "inner"),
    [
        pytest.param(
            setting,
            inner,
            marks=() if setting == "resource" or inner == "adam" else pytest.mark.wide,
        )
        for setting in SWITCHES
        for inner in INNER
    ],
    indirect=["switches"],
)
