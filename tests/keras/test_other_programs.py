"""Programs of many kinds learn what one big batch teaches, or get an error that says why not."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from condacc import versions
from tests.keras.trainings import (
    Case,
    DecoratedStep,
    OwnStep,
    Subclassed,
    X,
    Y,
    accumulating,
    assert_same,
    fit,
    largest_difference,
    num_updates,
    plain,
    sequential,
)
from tests.support.initial_values import seed_initial_values
from tf_condacc.keras import accumulate_gradients

NUM_SAMPLES = 52


def scaled(pairs: Any) -> list[Any]:
    """Halves the gradients of hidden layers: the last layer has one unit."""
    return [
        (gradient if variable.shape[-1] == 1 else gradient / 2, variable)
        for gradient, variable in pairs
    ]


class Scaling(keras.optimizers.SGD):
    """Halves the gradients of hidden layers in `apply_gradients`."""

    def apply_gradients(self, grads_and_vars: Any, factor: float = 1.0) -> Any:
        return super().apply_gradients([(factor * g, v) for g, v in scaled(grads_and_vars)])


class ScalingInApply(keras.optimizers.SGD):
    """Halves the gradients of hidden layers in `apply`."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        pairs = scaled(zip(grads, trainable_variables, strict=True))
        return super().apply([gradient for gradient, _ in pairs], trainable_variables)


def patched(rate: float) -> keras.Optimizer:
    """Returns an optimizer whose instance halves the gradients of hidden layers."""
    optimizer = keras.optimizers.SGD(rate)
    original = optimizer.apply_gradients
    optimizer.apply_gradients = lambda pairs: original(scaled(pairs))
    return optimizer


def with_options(rate: float) -> keras.Optimizer:
    """Returns an optimizer whose instance takes any arguments."""
    optimizer = Scaling(rate)
    original = optimizer.apply_gradients
    optimizer.apply_gradients = lambda *a, **k: original(*a, **k)
    return optimizer


def assert_equals_large_batches(
    make: Callable[[], keras.Model],
    accumulate: Callable[[keras.Model], Any] = lambda model: accumulate_gradients(model, 4),
    train: Callable[[keras.Model, int], Any] = lambda model, size: fit(model, batch_size=size),
) -> keras.Model:
    """Compares a training with four micro-batches with plain Keras, and returns its model.

    Args:
        make: Makes the compiled model.
        accumulate: Lets it accumulate gradients.
        train: Trains it with batches of a size.
    """
    seed_initial_values()
    ours = make()
    accumulate(ours)
    train(ours, 8)
    seed_initial_values()
    truth = make()
    truth.run_eagerly = True  # Four batches take less time than a function takes to be traced.
    train(truth, 32)
    assert largest_difference(ours.get_weights(), truth.get_weights()) < 1e-6
    return ours


def loss_and_pairs(model: keras.Model, data: Any) -> tuple[Any, list[Any]]:
    """Returns the mean squared error of a batch, and its gradients with their variables."""
    x, y = data
    with tf.GradientTape() as tape:
        loss = keras.ops.mean((model(x, training=True) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_weights)
    return loss, list(zip(gradients, model.trainable_weights, strict=True))


class Layers(keras.Sequential):
    """A model of two layers, with variables before its first batch."""

    def __init__(self) -> None:
        hidden = keras.layers.Dense(7, activation="tanh")
        super().__init__([keras.Input([6]), hidden, keras.layers.Dense(1)])


class CallsApplyGradients(Layers):
    """A model whose `train_step` gives an argument of its own to `apply_gradients`."""

    def train_step(self, data: Any) -> Any:
        loss, pairs = loss_and_pairs(self, data)
        self.optimizer.apply_gradients(pairs, factor=2.0)
        return {"loss": loss}


@pytest.mark.parametrize(
    ("model", "optimizer"),
    [
        (sequential, Scaling),
        (sequential, ScalingInApply),
        (sequential, patched),
        (CallsApplyGradients, Scaling),
        (CallsApplyGradients, with_options),
        (OwnStep, Scaling),
        (OwnStep, ScalingInApply),
    ],
)
def test_what_stands_in_the_methods_of_the_optimizer_is_done_once_per_update(model, optimizer):
    case = Case(
        model,
        lambda: optimizer(0.05),
        compile={"metrics": None},
        fit={"epochs": 1},
        compares_loss=False,
    )
    assert_same(case, accumulating(case), plain(case))


def test_a_method_that_is_patched_after_the_call_is_done_once_per_update():
    def make() -> keras.Model:
        model = sequential()
        model.compile(keras.optimizers.SGD(0.05), "mse")
        return model

    def train(model: keras.Model, batch_size: int) -> None:
        fit(model, batch_size=batch_size)
        original = model.optimizer.apply_gradients
        model.optimizer.apply_gradients = lambda pairs: original([(g / 2, v) for g, v in pairs])
        model.make_train_function(force=True)
        fit(model, batch_size=batch_size)

    assert_equals_large_batches(make, train=train)


class TwoOptimizers(Layers):
    """A model that trains with optimizers of its own."""

    def train_step(self, data: Any) -> Any:
        loss, pairs = loss_and_pairs(self, data)
        self.own_optimizer.apply_gradients(pairs)
        return {"loss": loss}


def test_the_optimizers_of_a_train_step_of_its_own_accumulate():
    def make() -> keras.Model:
        model = TwoOptimizers()
        model.compile()
        model.own_optimizer = keras.optimizers.SGD(0.1)
        return model

    ours = assert_equals_large_batches(
        make, lambda model: accumulate_gradients(model, 4, optimizers=[model.own_optimizer])
    )
    assert int(ours.own_optimizer.iterations) == 4


def test_what_is_no_list_of_optimizers_is_refused():
    with pytest.raises(TypeError, match="a list of optimizers of Keras 3, got str in it"):
        accumulate_gradients(sequential(), 2, optimizers=["sgd"])


class AppliesTwice(Layers):
    """A model whose `train_step` makes two updates of the same variables."""

    def train_step(self, data: Any) -> Any:
        super().train_step(data)
        return super().train_step(data)


class AppliesInLoop(Layers):
    """A model whose `train_step` makes its updates in a loop of the graph."""

    def train_step(self, data: Any) -> Any:
        def body(number: Any) -> Any:
            self.optimizer.apply_gradients(loss_and_pairs(self, data)[1])
            return number + 1

        return {"loss": tf.while_loop(lambda number: number < 2, body, [0])}


class CallsFunction(Layers):
    """A model whose `train_step` makes its update in a function, and calls another one twice."""

    @tf.function
    def update(self, *data: Any) -> Any:
        loss, pairs = loss_and_pairs(self, data)
        self.optimizer.apply_gradients(pairs)
        return loss

    @tf.function
    def update_metric(self, value: Any) -> Any:
        return value / 2

    def train_step(self, data: Any) -> Any:
        return {"loss": self.update_metric(self.update_metric(self.update(*data)))}


class CallsFunctionTwice(CallsFunction):
    """A model whose `train_step` makes each update in a call of a function."""

    def train_step(self, data: Any) -> Any:
        self.update(*data)
        return super().train_step(data)


def test_functions_are_told_apart_by_their_whole_names():
    case = Case(CallsFunction, compile={"metrics": None}, compares_loss=False)
    assert_same(case, accumulating(case), plain(case))


def test_a_function_that_calls_an_optimizer_is_refused_in_eager_execution():
    model = CallsFunction()
    model.compile("sgd", "mse", run_eagerly=True)
    accumulate_gradients(model, 4)
    with pytest.raises(ValueError, match="runs eagerly, but calls an optimizer in a tf.function"):
        fit(model)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (AppliesTwice, "gives an optimizer two gradients of one variable"),
        (AppliesInLoop, "calls an optimizer in a loop of the graph"),
        (CallsFunctionTwice, "calls the function '.*', which calls an optimizer, twice"),
    ],
)
def test_two_updates_of_a_variable_in_one_step_are_refused(kind, text):
    model = kind()
    model.compile("sgd", "mse")
    accumulate_gradients(model, 4)
    with pytest.raises(ValueError, match=f"train_step {text}, but one call of train_step is one"):
        fit(model)


def test_an_epoch_without_anything_accumulated_is_reported_once(caplog):
    model = TwoOptimizers()
    model.compile()
    model.own_optimizer = keras.optimizers.SGD(0.1)
    accumulate_gradients(model, 4)
    with caplog.at_level(logging.WARNING, logger="tf_condacc"):
        fit(model, epochs=2)
    (record,) = caplog.records
    assert "has accumulated nothing" in record.getMessage()
    assert "optimizers=" in record.getMessage()


def test_a_train_step_that_is_set_after_the_call_accumulates():
    model = sequential()
    model.compile("sgd", "mse")
    accumulate_gradients(model, 4)
    fit(model)
    before = num_updates(model)
    steps = []

    def train_step(data: Any) -> Any:
        steps.append(data)
        return keras.Model.train_step(model, data)

    model.train_step = train_step
    fit(model)
    assert steps and num_updates(model) == 2 * before


class InCallback(keras.callbacks.Callback):
    """Doubles the number of micro-batches in the second epoch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == 1:
            accumulate_gradients(self.model, 4)


def test_a_callback_may_change_the_number_of_micro_batches_between_epochs():
    model = sequential()
    model.compile("sgd", "mse")
    accumulate_gradients(model, 2)
    model.fit(X[:56], Y[:56], batch_size=8, epochs=2, callbacks=[InCallback()], verbose=0)
    assert num_updates(model) == 4 + 2  # 7 batches in each epoch.


def test_a_callback_of_a_fit_that_does_not_accumulate_is_refused():
    model = sequential()
    model.compile("sgd", "mse")
    with pytest.raises(RuntimeError, match="while fit of model .* runs.* Call it before fit"):
        fit(model, epochs=2, callbacks=[InCallback()])


class DropsLayers(Subclassed):
    """A model that leaves a layer out of every second step, which is decided in Python."""

    num_steps = 0

    def call(self, inputs: Any, training: bool = False) -> Any:
        self.num_steps += int(training)
        hidden = self.hidden(inputs)
        return self.last(tf.stop_gradient(hidden) if self.num_steps % 2 else hidden)


def by_hand(model: keras.Model, losses: list[Callable[[], tf.Tensor]], number: int) -> None:
    """Trains with means over micro-batches in which a gradient that is None counts as zeros."""
    variables = model.trainable_variables
    for start in range(0, len(losses), number):
        sums: list[Any] = [None] * len(variables)
        for loss in losses[start : start + number]:
            with tf.GradientTape() as tape:
                value = loss()
            for position, gradient in enumerate(tape.gradient(value, variables)):
                if gradient is not None:
                    before = sums[position]
                    sums[position] = gradient if before is None else before + gradient
        means = [None if each is None else each / number for each in sums]
        model.optimizer.apply_gradients(zip(means, variables, strict=True))


def test_gradients_that_are_missing_in_some_micro_batches_count_as_zeros():
    def make() -> DropsLayers:
        seed_initial_values()
        model = DropsLayers()
        model.hidden.kernel_regularizer = None
        model(X[:1])
        model.compile(keras.optimizers.SGD(0.1, momentum=0.5), "mse", run_eagerly=True)
        return model

    ours, expected = make(), make()
    accumulate_gradients(ours, 2)
    for start in range(0, 48, 8):
        ours.train_on_batch(X[start : start + 8], Y[start : start + 8])
    batches = [slice(start, start + 8) for start in range(0, 48, 8)]
    by_hand(
        expected,
        [lambda b=b: tf.reduce_mean((expected(X[b], training=True) - Y[b]) ** 2) for b in batches],
        2,
    )
    assert num_updates(ours) == 3
    assert largest_difference(ours.get_weights(), expected.get_weights()) < 1e-6


class Tasks(keras.Model):
    """Two tasks that share a layer; a batch is of one of them."""

    def __init__(self, gives_all: bool = True) -> None:
        super().__init__()
        self.shared = keras.layers.Dense(3)
        self.heads = {name: keras.layers.Dense(1) for name in "ab"}
        self.gives_all = gives_all

    def call(self, inputs: Any) -> Any:
        return [head(self.shared(inputs)) for head in self.heads.values()]

    def loss_of(self, task: str, x: Any, y: Any) -> Any:
        return tf.reduce_mean((self.heads[task](self.shared(x)) - y) ** 2)

    def train_step(self, data: Any) -> Any:
        ((task, (x, y)),) = data[0].items()
        with tf.GradientTape() as tape:
            loss = self.loss_of(task, x, y)
        variables = self.trainable_variables
        if not self.gives_all:
            variables = self.shared.trainable_variables + self.heads[task].trainable_variables
        gradients = tape.gradient(loss, variables)
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return {"loss": loss}


@pytest.mark.parametrize("gives_all", [True, False], ids=["all variables", "those of the task"])
@pytest.mark.parametrize("run_eagerly", [True, False], ids=["eager", "function"])
def test_tasks_that_take_turns_share_the_micro_batches_of_an_update(gives_all, run_eagerly):
    def make() -> Tasks:
        seed_initial_values()
        model = Tasks(gives_all)
        model(X[:1])
        optimizer = keras.optimizers.SGD(0.1, momentum=0.5, weight_decay=0.1)
        optimizer.build(model.trainable_variables)
        model.compile(optimizer, run_eagerly=run_eagerly)
        return model

    ours, expected = make(), make()
    accumulate_gradients(ours, 2)
    tasks = "aaabbbab"  # Updates from a, a; a, b; b, b; a, b.
    updates = []
    for number, task in enumerate(tasks):
        part = slice(8 * (number % 6), 8 * (number % 6) + 8)
        ours.train_on_batch({task: (X[part], Y[part])})
        updates.append(num_updates(ours))
    assert updates == [0, 1, 1, 2, 2, 3, 3, 4]
    parts = [slice(8 * (number % 6), 8 * (number % 6) + 8) for number in range(len(tasks))]
    losses = [
        functools.partial(expected.loss_of, task, X[part], Y[part])
        for task, part in zip(tasks, parts, strict=True)
    ]
    by_hand(expected, losses, 2)
    assert largest_difference(ours.get_weights(), expected.get_weights()) < 1e-6


@pytest.mark.parametrize("run_eagerly", [True, False], ids=["eager", "function"])
def test_the_function_of_weights_may_have_conditions_on_tensors(run_eagerly):
    def weight(x: Any, y: Any, sample_weight: Any) -> Any:
        if tf.reduce_max(x) > 5.0:
            return 3.0
        return 1.0

    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.SGD(1.0), "mae", run_eagerly=run_eagerly)
    model.set_weights([np.zeros([1, 1])])
    with accumulate_gradients(model, 2, weight=weight):
        for value in (8.0, 1.0):
            model.train_on_batch(np.full([4, 1], value), np.ones([4, 1]))
    # The gradient of the mean error is -8 with the weight 3, and -1 with the weight 1.
    assert model.get_weights()[0].tolist() == [[6.25]]


@pytest.mark.skipif(not hasattr(keras.optimizers, "MultiOptimizer"), reason="needs MultiOptimizer")
@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_optimizers_of_optimizers_may_have_layers_without_gradients():
    def make() -> keras.Model:
        seed_initial_values()
        model = DropsLayers()
        model.hidden.kernel_regularizer = None
        model.num_steps = 1  # All steps leave the layer out that is traced in the first one.
        model(X[:1])
        parts = keras.optimizers.OptimizerMap(
            keras.optimizers.SGD(0.1), {".*last.*": keras.optimizers.Adam(0.1)}
        )
        model.compile(keras.optimizers.MultiOptimizer(parts), "mse")
        return model

    ours, expected = make(), make()
    with accumulate_gradients(ours, 2):
        for start in range(0, 48, 8):
            ours.train_on_batch(X[start : start + 8], Y[start : start + 8])
    for start in range(0, 48, 16):
        expected.train_on_batch(X[start : start + 16], Y[start : start + 16])
    assert largest_difference(ours.get_weights(), expected.get_weights()) < 1e-6


@pytest.mark.parametrize("run_eagerly", [True, False], ids=["eager", "function"])
def test_the_number_of_micro_batches_may_grow_with_the_updates(run_eagerly):
    def make(run_eagerly: bool) -> keras.Model:
        seed_initial_values()
        model = sequential()
        model.compile(keras.optimizers.SGD(0.1, momentum=0.5), "mse", run_eagerly=run_eagerly)
        return model

    ours, expected = make(run_eagerly), make(True)
    accumulate_gradients(ours, lambda iterations: iterations + 1)
    # Each epoch has 6 batches: updates of 1, 2 and 3; then 4, and a remainder of 2.
    ours.fit(X[:48], Y[:48], batch_size=8, epochs=2, shuffle=False, verbose=0)
    assert num_updates(ours) == 5
    for first, last in [(0, 1), (1, 3), (3, 6), (0, 4), (4, 6)]:
        expected.train_on_batch(X[8 * first : 8 * last], Y[8 * first : 8 * last])
    assert largest_difference(ours.get_weights(), expected.get_weights()) < 1e-6


def test_a_decorated_train_step_learns_of_another_number_and_of_the_end():
    model = DecoratedStep()
    model.compile(keras.optimizers.SGD(0.1))
    for number, updates in [(2, 2), (4, 3), (1, 7)]:
        with accumulate_gradients(model, number):
            for _ in range(4):
                model.train_on_batch(X[:8], Y[:8])
        assert num_updates(model) == updates
    model.train_on_batch(X[:8], Y[:8])
    assert num_updates(model) == 8


def test_a_train_step_that_was_decorated_for_xla_has_a_warning(caplog):
    model = sequential()
    model.train_step = tf.function(model.train_step, jit_compile=True)
    model.compile("sgd", "mse")
    accumulate_gradients(model, 4)
    fit(model)
    assert caplog.text.count("tf.function(jit_compile=True) of train_step is left out") == 1
    assert num_updates(model) == 4


class CallsTwice(Layers):
    """A model that gives its layers to the optimizer in two calls."""

    def train_step(self, data: Any) -> Any:
        loss, pairs = loss_and_pairs(self, data[:2])
        self.optimizer.apply_gradients(pairs[:2])
        self.optimizer.apply_gradients(pairs[2:])
        return {"loss": loss}


@pytest.mark.parametrize("run_eagerly", [True, False], ids=["eager", "function"])
def test_all_calls_of_an_optimizer_have_the_same_number_of_micro_batches(run_eagerly):
    def number(update: Any) -> Any:
        if update < 1:
            return 1
        return 2

    model, optimizer = CallsTwice(), keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    model.compile(optimizer, run_eagerly=run_eagerly)
    accumulate_gradients(model, number)
    updates = []
    for _ in range(5):
        model.train_on_batch(X[:8], Y[:8])
        updates.append(num_updates(model))
    assert updates == [2, 2, 4, 4, 6]


def test_a_layer_that_is_frozen_within_an_update_does_not_change():
    model = Subclassed()
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
    accumulate_gradients(model, 2)
    model.train_on_batch(X[:8], Y[:8])
    frozen = model.layers[0]
    frozen.trainable = False
    before = frozen.get_weights()
    others = [each.numpy() for each in model.trainable_variables]
    model.train_on_batch(X[8:16], Y[8:16])
    assert num_updates(model) == 1
    assert largest_difference(frozen.get_weights(), before) == 0
    assert largest_difference([each.numpy() for each in model.trainable_variables], others) > 0


def test_variables_may_be_frozen_between_updates():
    model = Subclassed()
    model.compile("sgd", "mse", run_eagerly=True)
    accumulate_gradients(model, 2)
    fit(model, steps_per_epoch=4)
    frozen = model.hidden.kernel.numpy()
    model.hidden.trainable = False
    fit(model, steps_per_epoch=4)
    np.testing.assert_array_equal(model.hidden.kernel.numpy(), frozen)


def test_several_calls_are_refused_if_a_micro_batch_may_be_skipped():
    model = CallsTwice()
    model.compile("sgd", "mse")
    accumulate_gradients(model, 4, skip_non_finite=True)
    with pytest.raises(ValueError, match="in several calls.* leave out skip_non_finite"):
        fit(model)


def mean_of_positives(y: Any, prediction: Any) -> Any:
    positive = tf.cast(y > 0, tf.float32)
    total = tf.reduce_sum(positive * (y - prediction) ** 2)
    return tf.math.divide_no_nan(total, tf.reduce_sum(positive))


def num_positives(x: Any, y: Any, sample_weight: Any) -> Any:
    return tf.reduce_sum(tf.cast(y > 0, tf.float32))


@pytest.mark.parametrize("run_eagerly", [True, False])
def test_a_loss_that_is_divided_by_something_else_has_a_weight(run_eagerly):
    def make() -> keras.Model:
        model = sequential()
        model.compile(keras.optimizers.SGD(0.1), mean_of_positives, run_eagerly=run_eagerly)
        return model

    assert_equals_large_batches(
        make, lambda model: accumulate_gradients(model, 4, weight=num_positives)
    )


def test_a_loss_of_one_number_has_a_warning(caplog):
    model = sequential()
    model.compile("sgd", mean_of_positives)
    accumulate_gradients(model, 4)
    with caplog.at_level(logging.WARNING, logger="tf_condacc"):
        fit(model, epochs=2)
    (record,) = caplog.records
    assert "returns one number for all samples" in record.getMessage()


class AddsSum(keras.layers.Layer):
    """Adds the sum of its squared inputs to the loss."""

    def call(self, inputs: Any) -> Any:
        self.add_loss(keras.ops.sum(inputs**2))
        return inputs


class OwnSum(Layers):
    """A model whose loss is a sum over its samples."""

    def compute_loss(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return keras.ops.sum((y_pred - y) ** 2)


class TwiceOwnSum(OwnSum):
    """A model that calls the method of a base class which is not Keras'."""

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        return 2.0 * super().compute_loss(*args, **kwargs)


class OfLoss(Layers):
    """A model that calls Keras' own loss, in a function that is traced once."""

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        return 2.0 * super().compute_loss(*args, **kwargs)

    @tf.function
    def gradients(self, x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        return tape.gradient(loss, self.trainable_weights)

    def train_step(self, data: Any) -> Any:
        gradients = self.gradients(*data[:2])
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        return {"loss": 0.0}


def with_sum() -> keras.Model:
    return keras.Sequential([keras.Input([6]), AddsSum(), keras.layers.Dense(1)])


def regularized() -> keras.Model:
    kinds = {"kernel_regularizer": "l2"}
    if not versions.sums_activity_losses():
        kinds["activity_regularizer"] = "l1"
    return keras.Sequential([keras.Input([6]), keras.layers.Dense(1, **kinds)])


@pytest.mark.parametrize(
    ("makes", "number"),
    [((with_sum, OwnSum, TwiceOwnSum), 1), ((OfLoss, regularized, DecoratedStep), 0)],
    ids=["sums", "others"],
)
def test_losses_that_may_be_sums_have_a_warning(makes, number, caplog):
    for make in makes:
        model = make()
        model.compile(keras.optimizers.SGD(0.001), "mse", run_eagerly=True)
        model.train_on_batch(X[:8], Y[:8])  # Functions of the model are traced before.
        with accumulate_gradients(model, 2):
            for _ in range(2):
                model.train_on_batch(X[:8], Y[:8])
        assert caplog.text.count("must be means over the samples of a batch, not sums") == number
        assert [each.name for each in caplog.records].count("tf_condacc") == number
        caplog.clear()


class OfParts(keras.Sequential):
    """A model whose batches are dictionaries, and whose gradient is the mean of a part."""

    def train_step(self, data: Any) -> Any:
        parts = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            loss = keras.ops.mean(self(parts["b"], training=True))
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        return {"loss": loss}


@pytest.mark.parametrize(
    ("sizes", "has_targets", "mean", "number"),
    [((3, 1), True, 2.75, 0), ((3, 1), False, 6.25, 1), ((1, 3), False, 2.75, 0)],
)
def test_a_batch_of_parts_is_weighted_by_its_targets_or_its_first_part(
    sizes, has_targets, mean, number, caplog
):
    def batches() -> Any:
        for size, value, num_samples in zip(sizes, (8.0, 1.0), (1, 3), strict=True):
            samples = np.full([num_samples, 1], value)
            yield {"b": samples, "a": np.zeros([size, 1])}, samples

    spec = tf.TensorSpec([None, 1])
    data = tf.data.Dataset.from_generator(batches, output_signature=({"b": spec, "a": spec}, spec))
    model = OfParts([keras.Input([1]), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.zeros([1, 1])])
    model.compile(keras.optimizers.SGD(1.0))
    accumulate_gradients(model, 2)
    model.fit(data if has_targets else data.map(lambda parts, y: parts), verbose=0)
    assert model.get_weights()[0].tolist() == [[-mean]]
    assert caplog.text.count("has parts with different first dimensions") == number
    assert [each.name for each in caplog.records].count("tf_condacc") == number


class WithTarget(Subclassed):
    """A model with a copy of its last layer that follows it in each step."""

    def __init__(self) -> None:
        super().__init__()
        self.target = keras.layers.Dense(1)
        self.target.build([None, 7])

    def train_step(self, data: Any) -> Any:
        result = super().train_step(data)
        tf.cond(self.optimizer.iterations >= 0, self.follow, lambda: 0)
        return result

    def follow(self) -> int:
        for variable, target in zip(self.last.variables, self.target.variables, strict=True):
            target.assign(0.5 * target + 0.5 * variable)
        return 0


class Limited(Subclassed):
    """A model that limits its weights in each step, and normalizes batches."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = keras.layers.Dense(7, kernel_constraint="non_neg")
        self.last = keras.Sequential([keras.layers.BatchNormalization(), keras.layers.Dense(1)])

    def train_step(self, data: Any) -> Any:
        result = super().train_step(data)
        for variable in self.trainable_variables:
            variable.assign(tf.clip_by_value(variable, -1.0, 1.0))
        return result


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
@pytest.mark.parametrize(
    ("make", "run_eagerly", "number"),
    [(WithTarget, True, 1), (WithTarget, False, 1), (Limited, True, 0)],
    ids=["eager", "function", "constraints"],
)
def test_a_target_network_that_is_assigned_in_each_step_has_a_warning(
    make, run_eagerly, number, caplog
):
    model = make()
    model.compile("sgd", "mse", run_eagerly=run_eagerly)
    accumulate_gradients(model, 2)
    for _ in range(2):
        model.train_on_batch(X[:8], Y[:8])
    assert caplog.text.count("assigns trainable variables that have no gradients") == number
    assert [each.name for each in caplog.records].count("tf_condacc") == number
    assert not any("assign" in vars(each) for each in model.trainable_variables)


def sequences(*lengths: int) -> list[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(0)
    return [
        (random.normal(size=[4, n, 3]).astype("float32"), random.normal(size=[4, n, 1]))
        for n in lengths
    ]


class InXla(keras.Model):
    """A model whose gradients are computed in a function that XLA compiles."""

    def train_step(self, data: Any) -> Any:
        gradients = tf.function(self.gradients, jit_compile=True)(*data[:2])
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        return {}

    def gradients(self, x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        return tape.gradient(loss, self.trainable_weights)


def num_values(x: Any, y: Any, sample_weight: Any) -> Any:
    return tf.size(y)


@pytest.mark.parametrize(
    ("kind", "weight", "lengths"),
    [(keras.Model, None, (3, 9, 5, 20)), (InXla, num_values, (3, 9))],  # XLA compiles for each one.
)
def test_sequences_of_unequal_lengths_are_weighted_by_their_values(kind, weight, lengths):
    seed_initial_values()
    inputs = keras.Input([None, 3])
    model = kind(inputs, keras.layers.Dense(1)(inputs))
    model.compile(keras.optimizers.SGD(0.5), "mse")
    batches = sequences(*lengths)
    kernel, bias = model.get_weights()
    gradients = [x.reshape(-1, 3).T @ (x @ kernel + bias - y).reshape(-1, 1) for x, y in batches]
    total = sum(y.size for _, y in batches)
    number = len(batches)
    with accumulate_gradients(model, number, weight=weight) as accumulation:
        for x, y in batches:
            model.train_on_batch(x, y)
        assert int(model.optimizer.iterations) == 1 and accumulation.num_micro_batches == number
    expected = kernel - 0.5 * 2 * sum(gradients) / total
    np.testing.assert_allclose(model.get_weights()[0], expected, rtol=1e-4, atol=1e-5)


def own_mean(self: keras.Model, data: Any) -> Any:
    """Divides a loss whose reduction is "none"."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(self.loss(data[1], self(data[0], training=True)))
    gradients = tape.gradient(loss, self.trainable_weights)
    self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
    return {"size": tf.size(data[0])}


def in_cond(self: keras.Model, data: Any) -> Any:
    """Calls the optimizer in a branch."""
    with tf.GradientTape() as tape:
        loss = self.compute_loss(data[0], data[1], self(data[0], training=True))
    pairs = list(
        zip(tape.gradient(loss, self.trainable_weights), self.trainable_weights, strict=True)
    )

    def update() -> tf.Tensor:
        self.optimizer.apply_gradients(pairs)
        return tf.constant(0)

    tf.cond(tf.size(data[0]) > 0, update, lambda: tf.constant(0))
    return {"size": tf.size(data[0])}


def positives(y: Any, prediction: Any) -> Any:
    """Returns as many values as there are positives."""
    return tf.boolean_mask((y - prediction) ** 2, y > 0)


CLASSES = np.where(Y > 0.3, 2, np.where(Y > 0, 1, 0)).astype("int32")
_IGNORING = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=2)
_NONE = keras.losses.MeanSquaredError(reduction="none")


@pytest.mark.parametrize(
    ("loss", "y", "train_step", "weight"),
    [
        (_IGNORING, CLASSES, None, None),
        (positives, Y, None, None),
        (_NONE, Y, own_mean, None),
        (mean_of_positives, Y, in_cond, num_positives),
    ],
    ids=["ignored class", "filtered", "own mean", "in tf.cond"],
)
def test_each_micro_batch_is_weighted_by_what_its_loss_is_divided_by(loss, y, train_step, weight):
    methods = {} if train_step is None else {"train_step": train_step}
    kind = type("OwnModel", (keras.Model,), methods)

    def make() -> keras.Model:
        inputs = keras.Input([6])
        outputs = keras.layers.Dense(3 if y is CLASSES else 1)(inputs)
        model = kind(inputs, [outputs] if loss is positives else outputs)
        model.compile(keras.optimizers.SGD(0.1), loss)
        return model

    assert_equals_large_batches(
        make,
        lambda model: accumulate_gradients(model, 4, weight=weight),
        lambda model, size: model.fit(X, y, batch_size=size, shuffle=False, verbose=0),
    )


def test_a_weight_that_is_no_function_is_refused():
    with pytest.raises(TypeError, match=r"a function weight\(x, y, sample_weight\), got 3"):
        accumulate_gradients(sequential(), 2, weight=3)


class Points(tf.experimental.BatchableExtensionType):
    """Inputs and targets in one object."""

    x: tf.Tensor
    y: tf.Tensor


class OfPoints(Layers):
    """A model whose batch is one object, or comes with a constant."""

    def train_step(self, data: Any) -> Any:
        factor = 1.0
        if isinstance(data, tuple) and len(data) == 2:
            (factor, x), y = data
            factor = factor[0]
        else:
            points = data[0] if isinstance(data, tuple) else data
            x, y = points.x, points.y
        with tf.GradientTape() as tape:
            loss = factor * keras.ops.mean((self(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        return {"loss": loss}


def points(batch_size: int) -> tf.data.Dataset:
    objects = Points(X[:NUM_SAMPLES], Y[:NUM_SAMPLES])
    return tf.data.Dataset.from_tensor_slices(objects).batch(batch_size)


def with_constant(batch_size: int) -> tf.data.Dataset:
    pairs = tf.data.Dataset.from_tensor_slices((X[:NUM_SAMPLES], Y[:NUM_SAMPLES]))
    return pairs.batch(batch_size).map(lambda x, y: ((tf.ones([1]), x), y))


@pytest.mark.parametrize("dataset", [points, with_constant])
def test_the_samples_of_a_batch_are_counted_in_its_targets(dataset: Callable[[int], Any]):
    def make() -> keras.Model:
        model = OfPoints()
        model.compile(keras.optimizers.SGD(0.1))
        return model

    # The second update is from 8, 8 and 4 samples.
    assert_equals_large_batches(make, train=lambda model, size: model.fit(dataset(size), verbose=0))


def test_the_context_of_an_accumulation_ends_it_and_frees_what_it_held():
    model = sequential()
    model.compile("sgd", "mse", run_eagerly=True)
    with accumulate_gradients(model, 4) as accumulation:
        model.train_on_batch(X[:8], Y[:8])
        (accumulator,) = accumulation._accumulators.values()
        assert int(accumulator.gradients.num_accumulated()) == 1
    assert int(accumulator.gradients.num_accumulated()) == 0
    model.train_on_batch(X[:8], Y[:8])
    assert num_updates(model) == 1


@pytest.mark.skipif(not hasattr(keras.optimizers, "MultiOptimizer"), reason="needs MultiOptimizer")
def test_the_optimizers_in_an_optimizer_are_checked():
    parts = {".*last.*": keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)}
    optimizers = keras.optimizers.OptimizerMap(keras.optimizers.SGD(0.1), parts)
    model = sequential()
    model.compile(keras.optimizers.MultiOptimizer(optimizers), "mse")
    with pytest.raises(ValueError, match="SGD with gradient_accumulation_steps=2"):
        accumulate_gradients(model, 2)


def test_weights_can_be_used_while_all_numerics_are_checked():
    tf.debugging.enable_check_numerics()
    try:
        model = sequential()
        model.compile("sgd", "mse")
        accumulate_gradients(model, 4)
        fit(model)
    finally:
        tf.debugging.disable_check_numerics()
    assert num_updates(model) == 4
