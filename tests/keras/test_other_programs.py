"""Programs of many kinds learn what one big batch teaches, or get an error that says why not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from condacc import versions
from tests.keras.trainings import (
    DecoratedStep,
    OwnStep,
    Subclassed,
    X,
    Y,
    fit,
    largest_difference,
    num_updates,
    sequential,
)
from tests.support.initial_values import seed_initial_values
from tf_condacc.keras import accumulate_gradients

NUM_SAMPLES = 52
needs_multi_optimizer = pytest.mark.skipif(
    not hasattr(keras.optimizers, "MultiOptimizer"), reason="needs MultiOptimizer"
)
in_both_modes = pytest.mark.parametrize("run_eagerly", [True, False], ids=["eager", "function"])


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


def compiled(
    kind: Callable[[], keras.Model],
    optimizer: Callable[[float], keras.Optimizer] = keras.optimizers.SGD,
    loss: Any = "mse",
    **arguments: Any,
) -> Callable[[], keras.Model]:
    """Returns a function that makes a compiled model."""

    def make() -> keras.Model:
        model = kind()
        model.compile(optimizer(0.05), loss, **arguments)
        return model

    return make


def assert_equals_large_batches(
    make: Callable[[], keras.Model],
    train: Callable[[keras.Model, int], Any] = lambda model, size: fit(model, batch_size=size),
    optimizers: Callable[[keras.Model], Any] = lambda model: None,
    **arguments: Any,
) -> keras.Model:
    """Compares a training with four micro-batches with plain Keras, and returns its model.

    Args:
        make: Makes the compiled model.
        train: Trains it with batches of a size.
        optimizers: Returns the optimizers that accumulate.
        **arguments: Further arguments of `accumulate_gradients`.
    """
    seed_initial_values()
    ours = make()
    accumulate_gradients(ours, 4, optimizers=optimizers(ours), **arguments)
    train(ours, 8)
    seed_initial_values()
    truth = make()
    truth.run_eagerly = True  # Four batches take less time than a function takes to be traced.
    train(truth, 32)
    assert largest_difference(ours.get_weights(), truth.get_weights()) < 1e-6
    return ours


def loss_and_pairs(
    model: keras.Model, data: Any, loss_of: Callable[[Any, Any], Any] | None = None
) -> tuple[Any, list[Any]]:
    """Returns a loss, by default the mean squared error, and its gradients with their variables."""
    x, y = data
    with tf.GradientTape() as tape:
        outputs = model(x, training=True)
        loss = keras.ops.mean((outputs - y) ** 2) if loss_of is None else loss_of(y, outputs)
    gradients = tape.gradient(loss, model.trainable_weights)
    return loss, list(zip(gradients, model.trainable_weights, strict=True))


def train_on(model: keras.Model, num_samples: int, size: int = 8) -> None:
    """Trains on the first samples, in batches of a size."""
    for start in range(0, num_samples, size):
        model.train_on_batch(X[start : start + size], Y[start : start + size])


class Layers(keras.Sequential):
    """A model of two layers, with variables before its first batch."""

    def __init__(self) -> None:
        hidden = keras.layers.Dense(7, activation="tanh")
        super().__init__([keras.Input([6]), hidden, keras.layers.Dense(1)])


def stepping(train_step: Callable[[Any, Any], Any]) -> type[keras.Model]:
    """Returns a class of models that have a `train_step`, which returns the loss."""

    def step(self: Any, data: Any) -> Any:
        return {"loss": train_step(self, data)}

    return type(train_step.__name__, (Layers,), {"train_step": step})


def applied(model: keras.Model, pairs: list[Any]) -> int:
    model.optimizer.apply_gradients(pairs)
    return 0


@stepping
def CallsWithArgument(self: Any, data: Any) -> Any:
    loss, pairs = loss_and_pairs(self, data)
    self.optimizer.apply_gradients(pairs, factor=2.0)
    return loss


@stepping
def HasOwnOptimizer(self: Any, data: Any) -> Any:
    loss, pairs = loss_and_pairs(self, data)
    self.own_optimizer.apply_gradients(pairs)
    return loss


@stepping
def CallsInBranch(self: Any, data: Any) -> Any:
    loss, pairs = loss_and_pairs(self, data, lambda y, outputs: self.compute_loss(None, y, outputs))
    tf.cond(loss >= 0, lambda: applied(self, pairs), lambda: 0)
    return loss


@stepping
def DividesLoss(self: Any, data: Any) -> Any:
    loss, pairs = loss_and_pairs(self, data, lambda *each: tf.reduce_mean(self.loss(*each)))
    self.optimizer.apply_gradients(pairs)
    return loss


@stepping
def AppliesTwice(self: Any, data: Any) -> Any:
    keras.Model.train_step(self, data)
    return keras.Model.train_step(self, data)["loss"]


@stepping
def CallsTwice(self: Any, data: Any) -> Any:
    loss, pairs = loss_and_pairs(self, data)
    self.optimizer.apply_gradients(pairs[:2])
    self.optimizer.apply_gradients(pairs[2:])
    return loss


@stepping
def CallsInBothBranches(self: Any, data: Any) -> Any:
    loss, pairs = loss_and_pairs(self, data)
    tf.cond(loss > 0, lambda: applied(self, pairs), lambda: applied(self, pairs))
    return loss


@stepping
def RepeatsVariable(self: Any, data: Any) -> Any:
    loss, pairs = loss_and_pairs(self, data)
    self.optimizer.apply_gradients([*pairs, pairs[0]])
    return loss


@stepping
def CallsInLoop(self: Any, data: Any) -> Any:
    def body(number: Any) -> Any:
        self.optimizer.apply_gradients(loss_and_pairs(self, data)[1])
        return number + 1

    return tf.while_loop(lambda number: number < 2, body, [0])


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


def in_list() -> keras.Model:
    """Returns a model whose only output is in a list."""
    inputs = keras.Input([6])
    return keras.Model(inputs, [keras.layers.Dense(1)(inputs)])


def classifier() -> keras.Model:
    return keras.Sequential([keras.Input([6]), keras.layers.Dense(3)])


def mean_of_positives(y: Any, prediction: Any) -> Any:
    positive = tf.cast(y > 0, tf.float32)
    total = tf.reduce_sum(positive * (y - prediction) ** 2)
    return tf.math.divide_no_nan(total, tf.reduce_sum(positive))


def num_positives(x: Any, y: Any, sample_weight: Any) -> Any:
    if tf.reduce_any(y > 0):
        return tf.reduce_sum(tf.cast(y > 0, tf.float32))
    return 0.0


def positives(y: Any, prediction: Any) -> Any:
    """Returns as many values as there are positives."""
    return tf.boolean_mask((y - prediction) ** 2, y > 0)


CLASSES = np.where(Y > 0.3, 2, np.where(Y > 0, 1, 0)).astype("int32")
CLASSIFYING = keras.losses.SparseCategoricalCrossentropy
PROGRAMS: dict[str, dict[str, Any]] = {
    # What stands in the methods of the optimizer is done once per update.
    "apply_gradients": {"make": compiled(sequential, Scaling)},
    "apply": {"make": compiled(sequential, ScalingInApply)},
    "patched": {"make": compiled(sequential, patched)},
    "argument": {"make": compiled(CallsWithArgument, Scaling)},
    "any arguments": {"make": compiled(CallsWithArgument, with_options)},
    "apply_gradients, called by apply": {"make": compiled(OwnStep, Scaling)},
    "apply, called by train_step": {"make": compiled(OwnStep, ScalingInApply)},
    # Functions are told apart by their whole names.
    "functions": {"make": compiled(CallsFunction)},
    # Each micro-batch is weighted by what its loss is divided by.
    "own divisor": {"make": compiled(sequential, loss=mean_of_positives), "weight": num_positives},
    "own divisor, eager": {
        "make": compiled(sequential, loss=mean_of_positives, run_eagerly=True),
        "weight": num_positives,
    },
    "own divisor, in tf.cond": {
        "make": compiled(CallsInBranch, loss=mean_of_positives),
        "weight": num_positives,
    },
    "ignored class": {
        "make": compiled(classifier, loss=CLASSIFYING(from_logits=True, ignore_class=2)),
        "train": lambda model, size: model.fit(
            X, CLASSES, batch_size=size, shuffle=False, verbose=0
        ),
    },
    "filtered": {"make": compiled(in_list, loss=positives)},
    "own mean": {
        "make": compiled(DividesLoss, loss=keras.losses.MeanSquaredError(reduction="none"))
    },
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_learns_what_large_batches_teach(name):
    assert_equals_large_batches(**PROGRAMS[name])


def test_a_method_that_is_patched_after_the_call_is_done_once_per_update():
    def train(model: keras.Model, batch_size: int) -> None:
        fit(model, batch_size=batch_size)
        original = model.optimizer.apply_gradients
        model.optimizer.apply_gradients = lambda pairs: original([(g / 2, v) for g, v in pairs])
        model.make_train_function(force=True)
        fit(model, batch_size=batch_size)

    assert_equals_large_batches(compiled(sequential), train)


def with_own_optimizer() -> keras.Model:
    model = HasOwnOptimizer()
    model.compile()
    model.own_optimizer = keras.optimizers.SGD(0.1)
    return model


def test_the_optimizers_of_a_train_step_of_its_own_accumulate():
    ours = assert_equals_large_batches(
        with_own_optimizer, optimizers=lambda model: [model.own_optimizer]
    )
    assert int(ours.own_optimizer.iterations) == 4


class Points(tf.experimental.BatchableExtensionType):
    """Inputs and targets in one object."""

    x: tf.Tensor
    y: tf.Tensor


@stepping
def TakesPoints(self: Any, data: Any) -> Any:
    """Takes a batch that is one object, or comes with a constant."""
    factor = 1.0
    if isinstance(data, tuple) and len(data) == 2:
        (factor, x), y = data
        factor = factor[0]
    else:
        points = data[0] if isinstance(data, tuple) else data
        x, y = points.x, points.y
    loss, pairs = loss_and_pairs(self, (x, y))
    self.optimizer.apply_gradients([(factor * gradient, each) for gradient, each in pairs])
    return loss


def points(batch_size: int) -> tf.data.Dataset:
    objects = Points(X[:NUM_SAMPLES], Y[:NUM_SAMPLES])
    return tf.data.Dataset.from_tensor_slices(objects).batch(batch_size)


def with_constant(batch_size: int) -> tf.data.Dataset:
    pairs = tf.data.Dataset.from_tensor_slices((X[:NUM_SAMPLES], Y[:NUM_SAMPLES]))
    return pairs.batch(batch_size).map(lambda x, y: ((tf.ones([1]), x), y))


@pytest.mark.parametrize("dataset", [points, with_constant])
def test_the_samples_of_a_batch_are_counted_in_its_targets(dataset: Callable[[int], Any]):
    # The second update is from 8, 8 and 4 samples.
    assert_equals_large_batches(
        compiled(TakesPoints, loss=None), lambda model, size: model.fit(dataset(size), verbose=0)
    )


class CallsFunctionTwice(CallsFunction):
    """A model whose `train_step` makes each update in a call of a function."""

    def train_step(self, data: Any) -> Any:
        self.update(*data)
        return super().train_step(data)


class CallsTwoTraces(CallsFunction):
    """A model that calls a function with batches of two shapes, for which it is traced anew."""

    def train_step(self, data: Any) -> Any:
        self.update(*data)
        return {"loss": self.update(*(each[:4] for each in data))}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (AppliesTwice, "calls an optimizer twice"),
        (CallsTwice, "calls an optimizer twice"),
        (CallsInBothBranches, "calls an optimizer twice"),
        (RepeatsVariable, "gives an optimizer two gradients of one variable"),
        (CallsInLoop, "calls an optimizer in a loop of the graph"),
        (CallsFunctionTwice, "calls the function '.*', which calls an optimizer, twice"),
        (CallsTwoTraces, "calls the function '.*', which calls an optimizer, twice"),
    ],
)
def test_two_calls_of_an_optimizer_in_one_step_are_refused(kind, text):
    model = compiled(kind)()
    before = model.get_weights()
    accumulate_gradients(model, 4)
    with pytest.raises(ValueError, match=f"train_step {text}, .*tf_condacc.GradientAccumulator"):
        fit(model)
    assert largest_difference(model.get_weights(), before) == 0


@pytest.mark.parametrize("kind", [CallsFunction, CallsTwice])
def test_calls_are_refused_in_eager_execution(kind):
    text = "runs eagerly, but calls an optimizer in a tf.function"
    model = compiled(kind, run_eagerly=True)()
    accumulate_gradients(model, 4)
    with pytest.raises(ValueError, match="optimizer twice" if kind is CallsTwice else text):
        fit(model)


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
@in_both_modes
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


class FreezesLayer(Subclassed):
    """A model whose first layer has no gradients."""

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.last(tf.stop_gradient(self.hidden(inputs)))


@needs_multi_optimizer
@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_optimizers_of_optimizers_may_have_layers_without_gradients():
    def make() -> keras.Model:
        model = FreezesLayer()
        model.hidden.kernel_regularizer = None
        optimizers = {".*last.*": keras.optimizers.Adam(0.1, epsilon=1e-3)}
        parts = keras.optimizers.OptimizerMap(keras.optimizers.SGD(0.1), optimizers)
        model(X[:1])
        model.compile(keras.optimizers.MultiOptimizer(parts), "mse")
        return model

    assert_equals_large_batches(make)


@in_both_modes
def test_the_number_of_micro_batches_may_grow_with_the_updates(run_eagerly):
    def make(run_eagerly: bool) -> keras.Model:
        seed_initial_values()
        model = sequential()
        model.compile(keras.optimizers.SGD(0.1, momentum=0.5), "mse", run_eagerly=run_eagerly)
        return model

    def number(updates: Any) -> Any:
        if updates < 1:
            return 1
        return tf.cast(updates + 1, tf.int32)

    ours, expected = make(run_eagerly), make(True)
    accumulate_gradients(ours, number)
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
            train_on(model, 32)
        assert num_updates(model) == updates
    model.train_on_batch(X[:8], Y[:8])
    assert num_updates(model) == 8


@pytest.mark.parametrize("num_before", [1, 2], ids=["within an update", "between updates"])
def test_a_layer_that_is_frozen_does_not_change(num_before):
    model = Subclassed()
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
    accumulate_gradients(model, 2)
    train_on(model, 8 * num_before)
    frozen = model.layers[0]
    frozen.trainable = False
    before = frozen.get_weights()
    others = [each.numpy() for each in model.trainable_variables]
    train_on(model, 8 * num_before)
    assert num_updates(model) == num_before
    assert largest_difference(frozen.get_weights(), before) == 0
    assert largest_difference([each.numpy() for each in model.trainable_variables], others) > 0


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


def decorated_for_xla() -> keras.Model:
    model = sequential()
    model.train_step = tf.function(model.train_step, jit_compile=True)
    return model


IN_XLA = "tf.function(jit_compile=True) of train_step is left out"
ONE_NUMBER = "returns one number for all samples"
SUMS = "must be means over the samples of a batch, not sums"
TARGETS = "assigns trainable variables that have no gradients"
NO_WARNING = "no warning"


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
@pytest.mark.parametrize(
    ("make", "text"),
    [
        (with_own_optimizer, "has accumulated nothing"),
        (compiled(decorated_for_xla), IN_XLA),
        (compiled(sequential, loss=mean_of_positives), ONE_NUMBER),
        (compiled(with_sum, run_eagerly=True), SUMS),
        (compiled(OwnSum, run_eagerly=True), SUMS),
        (compiled(TwiceOwnSum, run_eagerly=True), SUMS),
        (compiled(OfLoss, run_eagerly=True), NO_WARNING),
        (compiled(regularized, run_eagerly=True), NO_WARNING),
        (compiled(DecoratedStep, run_eagerly=True), NO_WARNING),
        (compiled(WithTarget, run_eagerly=True), TARGETS),
        (compiled(WithTarget), TARGETS),
        (compiled(Limited, run_eagerly=True), NO_WARNING),
    ],
)
def test_what_may_be_wrong_has_a_warning_and_only_one(make, text, caplog):
    model = make()
    if model.run_eagerly:
        model.train_on_batch(X[:8], Y[:8])  # Functions of the model are traced before.
    accumulate_gradients(model, 2)
    model.fit(X[:32], Y[:32], batch_size=8, epochs=2, verbose=0)
    messages = [each.getMessage() for each in caplog.records if each.name == "tf_condacc"]
    # An optimizer of the program's own is not the model's, which gets no gradients.
    assert num_updates(model) == (0 if make is with_own_optimizer else 4 + model.run_eagerly)
    assert len(messages) == (text is not NO_WARNING)
    assert all(text in each for each in messages)
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


def test_the_context_of_an_accumulation_ends_it_and_frees_what_it_held():
    model = sequential()
    model.compile("sgd", "mse", run_eagerly=True)
    with accumulate_gradients(model, 4) as accumulation:
        model.train_on_batch(X[:8], Y[:8])
        (accumulator,) = accumulation._accumulators._trackable_children().values()
        assert int(accumulator.num_accumulated()) == 1
    assert int(accumulator.num_accumulated()) == 0
    model.train_on_batch(X[:8], Y[:8])
    assert num_updates(model) == 1


@needs_multi_optimizer
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
