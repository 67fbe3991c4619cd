"""The accumulation of the gradients of an existing Keras model, in ``fit`` and `train_on_batch`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import keras
import tensorflow as tf

from condacc import versions
from tf_condacc._micro_batches.accumulator import GradientAccumulator
from tf_condacc._micro_batches.checks import Checks, NumMicroBatches, parts_of
from tf_condacc._tensorflow import RestoreWatch
from tf_condacc.keras import _weights
from tf_condacc.keras._calls import Call, repeated_function, with_outer
from tf_condacc.keras._fit import EndOfEpoch, call_with
from tf_condacc.keras._replacements import Replacements
from tf_condacc.keras._state import AccumulatedState

_LOG = logging.getLogger("tf_condacc")

Remainder = Literal["apply", "carry", "drop"]
Weight = Callable[[Any, Any, Any], Any]
Key = tuple[int, int]  # The identity of an optimizer, and the number of its call in train_step.
_ATTRIBUTE = "_condacc_accumulation"  # The attribute of a model that accumulates.


def accumulate_gradients(
    model: keras.Model,
    num_micro_batches: int | NumMicroBatches,
    *,
    remainder: Remainder = "apply",
    skip_non_finite: bool = False,
    weight: Weight | None = None,
    optimizers: Sequence[keras.Optimizer] | None = None,
) -> Accumulation:
    """Makes a Keras model update its weights once for several batches, its micro-batches.

    This is gradient accumulation. The model may be sequential, functional or subclassed, built or
    not, and compiled before or afterwards, in the scope of a ``tf.distribute.Strategy`` or not. It
    is changed in place and trains with its own `train_step`: only the gradients that `train_step`
    gives to ``model.optimizer`` are accumulated. The weights become those of a training with
    batches that are `num_micro_batches` times as large; each micro-batch is weighted by the number
    that Keras divided its loss by, which is the number of its samples by default. The optimizer's
    ``iterations``, its learning-rate schedule and its moving average count updates.

    `train_on_batch` counts its batch as a micro-batch. It cannot know which batch is the last, so
    call `Accumulation.apply_remainder` or `Accumulation.discard_remainder` yourself.
    `load_weights`, `set_weights`, and restoring a ``tf.train.Checkpoint`` of the model or its
    optimizer, discard what is accumulated.

    What is saved is a plain Keras model. `TrainingCheckpoint` saves what is accumulated as well. A
    loaded, copied or cloned model accumulates only after another call of this function. A second
    call for the same model replaces the first.

    Keras optimizers have ``gradient_accumulation_steps`` for the same purpose. It weighs
    micro-batches equally, needs a dense variable of the size of each embedding, and fails on
    several replicas. It carries the remainder into the next epoch and into the next call of
    ``fit``, and loses what is left at the end.

    Example:
        >>> import keras
        >>> import tf_condacc.keras
        >>> model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
        >>> model.compile("sgd", loss="mse")
        >>> accumulation = tf_condacc.keras.accumulate_gradients(model, num_micro_batches=4)
        >>> history = model.fit(tf.ones([64, 1]), tf.ones([64, 1]), batch_size=8, verbose=0)
        >>> int(model.optimizer.iterations)
        2

    Args:
        model: A Keras 3 model on TensorFlow.
        num_micro_batches: Number of batches that make an update. Or a function that gets the number
            of updates so far, which counts on from the optimizer's ``iterations`` at the first
            step, and returns this number. In a graph both are tensors, `[]`.
        remainder: What happens to the micro-batches that are left over at the end of an epoch.
            "apply" makes an update from them, before the validation. "carry" keeps them for the
            next epoch of the same call of ``fit``, and makes an update at its end. "drop" discards
            them. If ``fit`` raises an error, they are always discarded.
        skip_non_finite: Whether to drop a micro-batch if any of its gradients has a NaN or an
            infinity. With loss scaling, the optimizer does that for whole updates.
        weight: For a loss that is divided by something else than the number of samples, such as the
            number of positive labels: a function of ``x``, ``y`` and ``sample_weight`` of a
            micro-batch that returns this number, a scalar of at least 0.
        optimizers: The optimizers that accumulate, for a `train_step` that uses several, such as
            that of a GAN. By default, ``model.optimizer`` alone.

    Returns:
        The accumulation, which applies or discards a remainder, and ends. It is a context manager
        that ends at the end of the context.

    Raises:
        TypeError: `model` is not a Keras 3 model, `num_micro_batches` is neither an integer nor a
            function, `weight` is not a function, or `optimizers` has something else than optimizers
            in it. ``fit`` raises it if the model overrides ``fit`` without `callbacks` and without
            ``**kwargs``.
        ValueError: `num_micro_batches` is lower than 1, or `remainder` is none of the above. The
            optimizer has ``gradient_accumulation_steps`` as well, or scales the loss although
            `skip_non_finite` is set. Some losses are sums over the samples and others means. The
            model was compiled with ``jit_compile=True``: XLA has no accumulators. In all these
            cases the model is unchanged. ``compile`` and ``fit`` raise it for what is compiled
            afterwards. ``fit`` raises it for activity regularizers before Keras 3.14, with a mask,
            or with sums of sample weights; and for a `train_step` that gives an optimizer two
            gradients of one variable, or runs eagerly and calls an optimizer in a ``tf.function``.
        RuntimeError: Keras does not run on TensorFlow, is Keras 2, or is so new that its models do
            not say by what they divide a loss; or it is called in a callback of a ``fit`` that does
            not accumulate. ``keras.Model.fit(model)``, called through the class, raises it.
    """
    if versions.brings_keras2():
        raise RuntimeError(
            "accumulate_gradients() needs Keras 3, which TensorFlow has since 2.16, but the "
            "package keras is Keras 2. In a training loop of your own, "
            "tf_condacc.GradientAccumulator accumulates for the optimizers of Keras 2."
        )
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "accumulate_gradients() expects Keras on TensorFlow, but its backend is "
            f"'{keras.backend.backend()}'. Set KERAS_BACKEND=tensorflow."
        )
    if not isinstance(model, keras.Model):
        raise TypeError(
            "accumulate_gradients() expects a model of Keras 3, got "
            f"{type(model).__module__}.{type(model).__name__}. Train a model of Keras 2 in a loop "
            "of your own, with tf_condacc.GradientAccumulator."
        )
    if not hasattr(model, "_compile_loss"):
        raise RuntimeError(
            f"accumulate_gradients() does not know Keras {keras.__version__}: its models have no "
            "attribute '_compile_loss', whose calls tell by what a loss is divided, so the "
            "micro-batches cannot be weighted. Use an older Keras."
        )
    accumulation = Accumulation(
        model, num_micro_batches, remainder, skip_non_finite, weight, optimizers
    )
    previous = vars(model).get(_ATTRIBUTE)
    if previous is None and _is_in_fit(model):
        raise RuntimeError(
            f"accumulate_gradients() is called while fit of model '{model.name}' runs, which "
            "cannot see any more where its epochs end. Call it before fit. A callback may then "
            "call it again, with another number of micro-batches."
        )
    if previous is not None:
        previous.end()
        accumulation._is_fitting = previous._is_fitting
    accumulation._begin()
    return accumulation


def accumulation_of(model: keras.Model) -> Accumulation | None:
    """Returns the accumulation of a model; None if it accumulates nothing."""
    return vars(model).get(_ATTRIBUTE)


def _is_in_fit(model: keras.Model) -> bool:
    """Returns whether a caller of this function is the method ``fit`` of a model."""
    frame: types.FrameType | None = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "fit" and frame.f_locals.get("self") is model:
            return True
        frame = frame.f_back
    return False


class Accumulation:
    """The accumulation of the gradients of a model, which `accumulate_gradients` returns.

    Use `accumulate_gradients` to make one.
    """

    def __init__(
        self,
        model: keras.Model,
        num_micro_batches: int | NumMicroBatches,
        remainder: Remainder,
        skip_non_finite: bool,
        weight: Weight | None,
        optimizers: Sequence[keras.Optimizer] | None,
    ) -> None:
        self._title = f"The accumulation of model '{model.name}'"  # Error messages begin with it.
        self._model = model
        self._checks = Checks(self._title)
        self._num_micro_batches = self._checks.number(num_micro_batches)
        if remainder not in ("apply", "carry", "drop"):
            raise ValueError(
                f"{self._title} expects remainder 'apply', 'carry' or 'drop', got {remainder!r}."
            )
        self._remainder = remainder
        self._skips_non_finite = skip_non_finite
        if weight is not None and not callable(weight):
            raise TypeError(
                f"{self._title} expects a function weight(x, y, sample_weight), got {weight!r}."
            )
        self._weight = weight
        self._given_optimizers = None if optimizers is None else list(optimizers)
        if skip_non_finite and len(self._given_optimizers or ()) > 1:
            raise ValueError(
                f"{self._title} with several optimizers could drop a part of a micro-batch. Leave "
                "out skip_non_finite."
            )
        for optimizer in self._given_optimizers or ():
            if not isinstance(optimizer, keras.Optimizer):
                raise TypeError(
                    f"{self._title} expects a list of optimizers of Keras 3, got "
                    f"{type(optimizer).__name__} in it."
                )
            self._check_optimizer(optimizer)
        self._warnings: set[str] = set()
        self._values_per_sample = 1
        self._accumulators: dict[Key, _Accumulator] = {}
        self._iterations: dict[int, int] = {}  # Of each optimizer, before its first update here.
        self._replacements = Replacements()
        self._restores = RestoreWatch()
        self.state = AccumulatedState(self._title)
        self._is_restored = False
        self._is_fitting = False  # Whether fit of the model itself runs.
        self._jit_compile: bool | None = None  # What `end` restores, if anything.
        self._thread = threading.local()  # Each replica has a thread.
        if model.compiled:
            self._check_optimizer(model.optimizer)
            self._check_jit_compile(model.jit_compile and not _has_accelerator())
            _weights.reduction_type_of(model, self._title)

    @property
    def num_micro_batches(self) -> int | NumMicroBatches:
        """The number of batches that make an update, or the function that returns it."""
        return self._num_micro_batches

    def num_skipped(self) -> int:
        """Returns how many micro-batches `skip_non_finite` has dropped since the last compile."""
        return sum(int(each.gradients.num_skipped()) for each in self._accumulators.values())

    def apply_remainder(self) -> None:
        """Makes an update from the micro-batches that are left over, if there are any.

        For `train_on_batch`; ``fit`` does it as `remainder` says.
        """
        run = self._model.distribute_strategy.run
        for accumulator in self._accumulators.values():
            updater = accumulator.updater
            if updater.has_tensors and int(accumulator.gradients.num_accumulated()) > 0:
                raise RuntimeError(
                    f"{self._title}: train_step passes a tensor to a method of the optimizer "
                    "besides gradients, which is not known any more for the remainder. Use "
                    "remainder='drop', or pass a number."
                )
            run(functools.partial(accumulator.gradients.apply_remainder, updater))

    def discard_remainder(self) -> None:
        """Discards the gradients that were accumulated since the last update."""
        for accumulator in self._accumulators.values():
            accumulator.gradients.reset()
        self.state.forget_restored()

    def keep_in_next_fit(self) -> None:
        """Lets the next call of ``fit`` continue from what was restored."""
        self._is_restored = True

    def end(self) -> None:
        """Makes the model a plain Keras model again. What was accumulated is discarded.

        ``jit_compile`` becomes what it was before, unless the model was compiled again since.
        """
        self._forget()
        self._replacements.restore()
        if self._jit_compile is not None:
            self._model.jit_compile = self._jit_compile
            self._jit_compile = None
        self._make_train_function_again()

    def __enter__(self) -> Accumulation:
        """Returns this object."""
        return self

    def __exit__(self, *error: object) -> None:
        """Calls `end`."""
        self.end()

    def _forget(self) -> None:
        """Frees what is accumulated, also that which functions hold that were traced before."""
        self.discard_remainder()
        self._accumulators.clear()
        self.state.clear()
        self._iterations.clear()

    def _make_train_function_again(self) -> None:
        """Lets the next step be traced anew, also in a ``fit`` that is running."""
        if self._model.train_function is not None:
            self._model.train_function = None
            self._model.make_train_function()

    def _begin(self) -> None:
        model = self._model
        replace, replace_method = self._replacements.replace, self._replacements.replace_method
        replace_method(model, "fit", self._fit)
        replace_method(model, "reset_metrics", self._reset_metrics)
        replace_method(model, "compile", self._compile)
        replace_method(model, "train_step", self._train_step)
        replace_method(model, "load_weights", self._set_weights)
        replace_method(model, "set_weights", self._set_weights)
        self._watch_restores(model)
        replace(model, "supports_jit", False)
        replace(model, _ATTRIBUTE, self)
        if model.compiled:
            self._jit_compile, model.jit_compile = model.jit_compile, False
            if self._jit_compile:
                _LOG.warning(
                    "%s switches jit_compile off until it ends: XLA has no accumulators.",
                    self._title,
                )
        self._make_train_function_again()

    def _watch_restores(self, owner: Any) -> None:
        method = functools.partial(self._trackable_children, owner)
        if self._replacements.replace_method(owner, "_trackable_children", method):
            self._restores = RestoreWatch()

    def _fit(self, fit: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not self._is_restored:
            self.discard_remainder()
        self._is_restored = False
        self._note_counts()
        if self._replacements.replace_method(self._model, "train_step", self._train_step):
            self._make_train_function_again()  # The program has set another train_step.

        def end_epoch(is_last: bool) -> None:  # A callback may have made another accumulation.
            if current := vars(self._model).get(_ATTRIBUTE):
                current._end_epoch(is_last)

        was_fitting = self._is_fitting  # A callback may call fit.
        try:
            self._is_fitting = True
            callback = EndOfEpoch(self._model, end_epoch)
            return call_with(fit, callback, self._check_callbacks, args, kwargs)
        finally:
            if current := vars(self._model).get(_ATTRIBUTE):
                current.discard_remainder()
                current._is_fitting = was_fitting

    def _note_counts(self) -> None:
        """Notes what has counted before an epoch."""
        if self._skips_non_finite:
            for accumulator in self._accumulators.values():
                accumulator.counts = accumulator.gradients._counts()

    def _check_callbacks(self, callbacks: Sequence[Any]) -> None:
        """Warns if BackupAndRestore will save weights while there are accumulated gradients."""
        for each in callbacks:
            if isinstance(each, keras.callbacks.BackupAndRestore) and (
                self._remainder == "carry" or each.save_freq != "epoch"
            ):
                self._warn_once(
                    "%s: BackupAndRestore saves no accumulated gradients, so those of the micro-"
                    "batches since the last update are lost if the training is stopped. Use "
                    "tf_condacc.keras.TrainingCheckpoint, which saves them."
                )

    def _reset_metrics(self, reset_metrics: Callable[[], Any]) -> Any:
        """Refuses a ``fit`` that does not come by way of `_fit`. Every epoch begins with this."""
        if not self._is_fitting and _is_in_fit(self._model):
            raise RuntimeError(
                f"{self._title}: fit was called through a class, as in keras.Model.fit(model), "
                "which does not tell the accumulation where epochs end, and would lose what is "
                "left over there. Call model.fit()."
            )
        return reset_metrics()

    def _end_epoch(self, is_last: bool) -> None:
        if not self._accumulators:
            self._warn_once(
                "%s has accumulated nothing in this epoch: train_step gives no gradients to the "
                "optimizers that accumulate. The model's own does by default, and others if they "
                "are in optimizers=."
            )
        if any(accumulator.has_only_skipped() for accumulator in self._accumulators.values()):
            self._warn_once(
                "%s has skipped all micro-batches of an epoch, because their gradients are not "
                "finite. The model may have diverged."
            )
        if self._remainder == "drop":
            self.discard_remainder()
        elif self._remainder == "apply" or is_last:
            self.apply_remainder()
        self._note_counts()

    def _compile(self, compile: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(compile).bind(*args, **kwargs).arguments | kwargs
        self._check_optimizer(given.get("optimizer"))
        self._check_jit_compile(given.get("jit_compile") is True)
        compile(*args, **kwargs)
        self._jit_compile = None
        # The next trace uses another optimizer, and may have other variables.
        self._replacements.restore(keep=self._model)
        self._forget()

    def _set_weights(self, set_weights: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Replaces the weights by `set_weights` or `load_weights` of the model."""
        result = set_weights(*args, **kwargs)
        self._discard_accumulated("the weights of the model were replaced")
        return result

    def _discard_accumulated(self, reason: str) -> None:
        for accumulator in self._accumulators.values():
            accumulator.gradients._discard_because(reason)
        self.state.forget_restored()

    def _trackable_children(self, owner: Any, children: Any, *args: Any, **kwargs: Any) -> Any:
        """Discards what is accumulated when TensorFlow restores the model or the optimizer."""
        if self._restores.is_restored(owner):
            self._discard_accumulated("a checkpoint is restored")
        return children(*args, **kwargs)

    def _train_step(self, train_step: Callable[..., Any], data: Any) -> Any:
        for optimizer in self.optimizers:
            self._check_optimizer(optimizer)
            replace_method = functools.partial(self._replacements.replace_method, optimizer)
            replace_method("apply", functools.partial(self._apply, optimizer))
            replace_method("apply_gradients", functools.partial(self._apply_gradients, optimizer))
            self._watch_restores(optimizer)
        if (loss := self._model._compile_loss) is not None:
            self._replacements.replace_method(loss, "call", self._call_loss)
        if getattr(train_step, "_jit_compile", None):
            self._warn_once(
                "%s: the decorator tf.function(jit_compile=True) of train_step is left out: XLA "
                "has no accumulators."
            )
        train_step = _undecorated(train_step)
        if self._is_intercepting:  # A train_step that calls another one is one micro-batch.
            return train_step(data)
        with self._intercepting(), self._watching_assignments():
            self._thread.sizes = _weights.first_dimensions_of(data)
            if self._weight is not None:
                # Keras keeps AutoGraph from converting what it calls, but a tf.function converts.
                of_batch = self._weight if tf.executing_eagerly() else tf.function(self._weight)
                weight = of_batch(*keras.utils.unpack_x_y_sample_weight(data))
                self._thread.counted = tf.convert_to_tensor(weight)
            result = train_step(data)
            if self._weight is None and _weights.has_own_losses(
                self._model, self._thread.has_compiled_loss
            ):
                self._warn_once(
                    "%s: the model has losses of add_loss, or a compute_loss that does not call "
                    "Keras' own. They must be means over the samples of a batch, not sums: micro-"
                    "batches are averaged by their numbers of samples, and weight= does not make "
                    "a sum of them."
                )
            if name := repeated_function(self._thread.graph, self._thread.calls):
                raise self._repeats(f"calls the function '{name}', which calls an optimizer, twice")
            return result

    def _call_loss(
        self, call: Callable[..., Any], y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        """Records by what Keras divides the losses that the model was compiled with.

        A `compute_loss` that does not use them is weighted by the number of samples.
        """
        if not self._is_intercepting:
            return call(y_true, y_pred, sample_weight)
        model, step = self._model, self._thread
        _weights.check_added_losses(model, self._title)
        counted = _weights.num_counted_of(model, y_pred, sample_weight)
        _weights.check_activity_regularizers(model, self._title, counted is not None)
        step.has_compiled_loss = True
        if self._weight is not None:
            return call(y_true, y_pred, sample_weight)
        step.counted = counted
        if not model._compile_loss.built and len(keras.tree.flatten(y_pred)) == 1:
            call(y_true, y_pred, sample_weight)  # This makes the loss.
        loss = _weights.only_loss_of(model)
        if not _weights.shows_losses(model):
            self._warn_once(
                "%s: this version of Keras does not show its losses, so their values cannot be "
                "counted. Micro-batches are weighted by their numbers of samples. If the loss is "
                "divided by something else, pass weight=."
            )
        if loss is not None:
            self._replacements.replace_method(loss, "call", self._call_only_loss)
            step.counts_values = True
        result = call(y_true, y_pred, sample_weight)
        if step.counts_values:
            self._warn_once(
                "%s: the loss has a method __call__ of its own, so it is not known by what it is "
                "divided. Micro-batches are weighted by their numbers of samples. If the loss is "
                "divided by something else, pass weight=."
            )
        return result

    def _call_only_loss(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Records how many values the only loss of the model has before they are reduced."""
        values = call(*args, **kwargs)
        if not self._is_intercepting or self._weight is not None:
            return values
        step = self._thread
        step.counts_values = False
        mask = getattr(values, "_keras_mask", None)
        if mask is not None:  # As with ignore_class: Keras divides by the values that it keeps.
            _weights.check_activity_regularizers(self._model, self._title, True)
            if step.counted is not None:
                raise ValueError(
                    f"{self._title}: the loss leaves out values, as with ignore_class, and there "
                    "is a mask, or the reduction 'mean_with_sample_weight'. Pass weight=, the "
                    "number by which the loss is divided."
                )
            step.counted = tf.reduce_sum(tf.cast(mask, tf.float32))
        elif step.counted is None:
            shape = tf.TensorShape(values.shape)
            if shape.rank == 0:
                self._warn_once(
                    "%s: the loss function returns one number for all samples, so it is not known "
                    "by what it is divided. Micro-batches are weighted by their numbers of "
                    "samples. If the loss is divided by something else, pass weight=."
                )
            else:
                step.counted = tf.cast(tf.size(values), tf.float32)
                self._values_per_sample = shape[1:].num_elements() or 1
        return values

    def _warn_once(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.add(text)
            _LOG.warning(text, self._title)

    @property
    def optimizers(self) -> list[keras.Optimizer]:
        """The optimizers that accumulate."""
        return self._given_optimizers or [self._model.optimizer]

    def _apply_gradients(
        self,
        optimizer: keras.Optimizer,
        apply_gradients: Callable[..., Any],
        grads_and_vars: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Accumulates the gradients that `train_step` passes to `apply_gradients`.

        Whatever this method of the optimizer does besides the update, it does once per update.
        """
        if not self._is_intercepting:
            return apply_gradients(grads_and_vars, *args, **kwargs)
        pairs = list(grads_and_vars)
        if all(gradient is None for gradient, _ in pairs):
            return apply_gradients(pairs, *args, **kwargs)
        gradients, variables = zip(*pairs, strict=True)
        update = functools.partial(_update_by_pairs, optimizer, args, kwargs)
        updater = _Updater(optimizer, variables, update, (args, kwargs))
        self._accumulate(updater, gradients, variables)
        return optimizer.iterations

    def _apply(
        self,
        optimizer: keras.Optimizer,
        apply: Callable[..., Any],
        grads: Sequence[Any],
        trainable_variables: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Accumulates the gradients that `train_step` passes to an optimizer.

        Calls from the update itself go to the original method.

        Args:
            optimizer: The optimizer.
            apply: The optimizer's method.
            grads: The gradients.
            trainable_variables: Their variables.
            *args: Further arguments of a method of the program's own.
            **kwargs: As `args`.
        """
        if not self._is_intercepting or not any(grad is not None for grad in grads):
            return apply(grads, trainable_variables, *args, **kwargs)
        if trainable_variables is None:
            raise ValueError(
                f"{self._title}: train_step calls optimizer.apply(gradients), expected "
                "optimizer.apply(gradients, trainable_variables)."
            )
        variables = list(trainable_variables)
        update = functools.partial(_update_by_lists, optimizer, args, kwargs)
        updater = _Updater(optimizer, variables, update, (args, kwargs))
        self._accumulate(updater, grads, variables)
        return None

    def _accumulate(
        self, updater: _Updater, grads: Sequence[Any], variables: Sequence[Any]
    ) -> None:
        """Accumulates gradients.

        Args:
            updater: What makes the update.
            grads: The gradients.
            variables: Their variables.
        """
        optimizer = updater.optimizer
        if any(getattr(variable, "overwrite_with_gradient", False) for variable in variables):
            raise ValueError(
                f"{self._title}: the model trains in float8. The scales of its layers are computed "
                "as gradients, but have no mean. Use another dtype policy."
            )
        if not optimizer.built:
            with tf.init_scope():
                optimizer.build(variables)
        pairs = [(g, v) for g, v in zip(grads, variables, strict=True) if g is not None]
        present = {id(variable): _cast(gradient, variable) for gradient, variable in pairs}
        call = Call(
            id(optimizer),
            tf.compat.v1.get_default_graph(),
            frozenset(map(id, variables)),
            frozenset(present),
        )
        if len(present) < len(pairs) or call.repeats_any_of(self._thread.calls):
            raise self._repeats("gives an optimizer two gradients of one variable")
        if call.is_in_loop(self._thread.graph):
            raise self._repeats("calls an optimizer in a loop of the graph")
        if self._thread.graph is None and not tf.executing_eagerly():
            raise ValueError(
                f"{self._title}: train_step runs eagerly, but calls an optimizer in a tf.function, "
                "which would keep the weight of the micro-batch with which it was traced, and may "
                "be called several times unseen. Call tf.config.run_functions_eagerly(True), or "
                "leave out run_eagerly=True."
            )
        key = (id(optimizer), call.number_after(self._thread.calls))
        self._thread.calls.append((call, key[1]))
        self._check_variables(key, [variable for _, variable in pairs])
        accumulator = self._accumulator_of(key, variables, updater)
        accumulator.add(updater, [variable for _, variable in pairs])
        weight = self._weight_of_micro_batch() if accumulator.reduction_type == "MEAN" else None
        ordered = [present.pop(id(variable), None) for variable in accumulator.gradients.variables]
        if present:
            raise ValueError(
                f"{self._title}: train_step gives the {type(optimizer).__name__} gradients of "
                "variables that it did not give it in the first micro-batch. Give it all "
                "variables in each, with None for those without gradients."
            )
        with self._not_intercepting():
            accumulator.gradients.apply_gradients(updater, ordered, weight=weight)

    def _repeats(self, what: str) -> ValueError:
        return ValueError(
            f"{self._title}: train_step {what}, but one call of train_step is one micro-batch. Add "
            "the gradients up, or accumulate in train_step itself, with "
            "tf_condacc.GradientAccumulator."
        )

    def _reduction_type(self) -> str:
        """Returns how the gradients of micro-batches become those of one batch."""
        reduction_type = _weights.reduction_type_of(self._model, self._title)
        if self._weight is not None or not self._thread.has_compiled_loss:
            return "MEAN"  # The program divides the loss itself.
        if reduction_type == "SUM" and "compute_loss" in vars(type(self._model)):
            self._warn_once(
                "%s: the loss has the reduction 'sum' or 'none', so gradients of micro-batches are "
                "added. If compute_loss of the model divides the loss, pass weight=, the number by "
                "which it does."
            )
        return reduction_type

    def _accumulator_of(
        self, key: Key, variables: Sequence[Any], updater: _Updater
    ) -> _Accumulator:
        """Returns what a call of an optimizer accumulates, which is made outside of the replicas.

        It has all variables of the optimizer: the gradients of other micro-batches of the same
        update may be of others.
        """

        if key in self._accumulators:
            return self._accumulators[key]
        reduction_type = self._reduction_type()
        number = self._num_micro_batches
        if callable(number):
            number = self._counting_on(number, updater.optimizer)

        def make(strategy: tf.distribute.Strategy) -> None:
            known = [each for part in parts_of(updater.optimizer) for each in _variables_of(part)]
            gradients = GradientAccumulator(
                list({id(each): each for each in [*variables, *known]}.values()),
                number,
                reduction_type,
                name=self._model.name,
                skip_non_finite=self._skips_non_finite,
            )
            self._accumulators[key] = _Accumulator(gradients, reduction_type, updater)
            numbers = [id(each) for each in self.optimizers]
            name = f"optimizer_{numbers.index(key[0])}_call_{key[1]}"
            self.state.add(name, gradients)
            with tf.init_scope():
                self._accumulators[key].counts = gradients._counts()  # Those of a restored state.

        tf.distribute.get_replica_context().merge_call(make)
        return self._accumulators[key]

    def _counting_on(self, number: NumMicroBatches, optimizer: Any) -> NumMicroBatches:
        """Returns a function of updates that counts from the optimizer's iterations on.

        All calls of an optimizer in `train_step` count from the same number on.
        """
        with tf.init_scope():
            # On replicas, the variable is one of each replica, which int() does not convert.
            iterations = int(tf.convert_to_tensor(optimizer.iterations))
            before = self._iterations.setdefault(id(optimizer), iterations)

        def number_of(update: Any) -> Any:
            # Keras keeps AutoGraph from converting what it calls, but a tf.function converts.
            function = number if tf.executing_eagerly() else tf.function(number)
            return function(update + before)

        return number_of

    def _check_variables(self, key: Key, variables: list[Any]) -> None:
        """Checks that another call of the optimizer in train_step does not accumulate the same.

        Raises:
            ValueError: It does; or a micro-batch has several calls, of which one could be dropped.
        """
        for other, accumulator in self._accumulators.items():
            if other[0] != key[0] or other == key:
                continue
            if self._skips_non_finite:
                raise ValueError(
                    f"{self._title}: train_step gives its gradients to the optimizer in several "
                    "calls. With skip_non_finite, a part of a micro-batch could be dropped. Give "
                    "them in one call, or leave out skip_non_finite."
                )
            if names := [each.path for each in variables if id(each) in accumulator.seen]:
                raise ValueError(
                    f"{self._title}: train_step gives the gradients of the variables {names} to "
                    f"its call {key[1] + 1} of the optimizer in some micro-batches, and to its "
                    f"call {other[1] + 1} in others. Give them to the same call in all."
                )

    @property
    def _is_intercepting(self) -> bool:
        """True in `train_step`, in the thread of a replica, but not in the update itself."""
        return getattr(self._thread, "is_intercepting", False)

    def _weight_of_micro_batch(self) -> tf.Tensor | None:
        """Returns by what the loss is divided: what was counted, or the values of all samples."""
        counted, sizes = self._thread.counted, self._thread.sizes
        if counted is not None:
            if _can_be_used_here(counted):
                return counted
            # The loss was computed in a function that was called, such as one for XLA.
            self._warn_once(
                "%s: the loss is computed in a function of its own, such as one for XLA, where its "
                "values cannot be counted. Micro-batches are weighted by their numbers of samples. "
                "If they have other lengths or masks, pass weight=."
            )
        if not sizes:
            return None
        self._warn_if_unequal(sizes)
        return tf.cast(sizes[0], tf.float32) * self._values_per_sample

    def _warn_if_unequal(self, sizes: Sequence[tf.Tensor]) -> None:
        text = (
            "%s: a batch without targets has parts with different first dimensions, so it is not "
            "known how many samples it has. That of the first part is taken, in the order of the "
            "keys of a dictionary. If the loss is divided by something else, pass weight=."
        )
        if len(sizes) > 1:
            warn = functools.partial(self._warn_once, text)
            are_equal = tf.reduce_all(tf.equal(sizes, sizes[0]))
            tf.cond(are_equal, tf.no_op, lambda: tf.numpy_function(warn, [], []))

    @contextlib.contextmanager
    def _intercepting(self) -> Iterator[None]:
        """Intercepts what this thread passes to the optimizers, as a micro-batch."""
        step = self._thread
        step.is_intercepting, step.calls = True, []
        # The graph of train_step, or None if it runs eagerly.
        step.graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        step.sizes, step.counted = [], None
        step.has_compiled_loss = step.counts_values = False
        try:
            yield
        finally:
            step.is_intercepting, step.calls = False, []
            step.graph = None
            step.sizes, step.counted = [], None

    @contextlib.contextmanager
    def _watching_assignments(self) -> Iterator[None]:
        """Warns if train_step assigns trainable variables that nothing trains.

        Others may be assigned: a limit of weights may be applied to each micro-batch.
        """
        # A program may have replaced the method of some itself.
        variables = [each for each in self._model.trainable_variables if "assign" not in vars(each)]
        assigned: list[Any] = []

        def assign(variable: Any, *args: Any, **kwargs: Any) -> Any:
            if self._is_intercepting:
                assigned.append(variable)
            return type(variable).assign(variable, *args, **kwargs)

        for variable in variables:
            variable.assign = functools.partial(assign, variable)
        try:
            yield
        finally:
            for variable in variables:
                vars(variable).pop("assign", None)
        trained = {each for accumulator in self._accumulators.values() for each in accumulator.seen}
        for optimizer in _values_of(self._model):
            if isinstance(optimizer, keras.Optimizer) and optimizer not in self.optimizers:
                trained.update(map(id, _variables_of(optimizer)))
        if not trained.issuperset(map(id, assigned)):
            self._warn_once(
                "%s: train_step assigns trainable variables that have no gradients, such as those "
                "of a target network, in each micro-batch and not once per update. Assign them in "
                "a method apply of the optimizer. If once per micro-batch is intended, set their "
                "trainable to False."
            )

    @contextlib.contextmanager
    def _not_intercepting(self) -> Iterator[None]:
        """Lets the calls of an update reach the optimizer, within `_intercepting`."""
        self._thread.is_intercepting = False
        try:
            yield
        finally:
            self._thread.is_intercepting = True

    def _check_optimizer(self, optimizer: Any) -> None:
        if isinstance(optimizer, keras.Optimizer):
            self._checks.optimizer(optimizer, self._skips_non_finite)

    def _check_jit_compile(self, is_asked_for: bool) -> None:
        if is_asked_for:
            raise ValueError(
                f"{self._title}: the model is compiled with jit_compile=True, but XLA has no "
                "accumulators. Leave out jit_compile=True."
            )


class _Updater:
    """An optimizer, and the call that makes its updates as `train_step` makes them.

    Attributes:
        optimizer: The optimizer.
        has_tensors: Whether the further arguments of the call are tensors of a step.
    """

    def __init__(
        self,
        optimizer: keras.Optimizer,
        variables: Iterable[Any],
        update: Callable[[list[Any]], Any],
        arguments: Any,
    ) -> None:
        self.optimizer = optimizer
        self.has_tensors = any(map(tf.is_symbolic_tensor, tf.nest.flatten(arguments)))
        self._given = set(map(id, variables))
        self._update = update
        self.frozen: Callable[[Any], bool] = lambda variable: False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.optimizer, name)

    def apply_gradients(self, grads_and_vars: Iterable[Any]) -> Any:
        """Makes an update of the variables that `train_step` gives, or has given gradients of."""
        pairs = [
            (gradient, variable)
            for gradient, variable in grads_and_vars
            if (gradient is not None or id(variable) in self._given) and not self.frozen(variable)
        ]
        if any(gradient is not None for gradient, _ in pairs):
            return self._update(pairs)
        return None


@dataclass
class _Accumulator:
    """What one call of an optimizer accumulates in each micro-batch, until the next update.

    Attributes:
        gradients: The accumulated gradients.
        reduction_type: How they are reduced.
        updater: Makes the update as the last call would.
        seen: The identities of the variables that have had gradients.
        trained: The identities of those that were trainable then.
        counts: What has counted before the epoch, if micro-batches may be skipped.
    """

    gradients: GradientAccumulator
    reduction_type: str
    updater: _Updater
    seen: set[int] = field(default_factory=set)
    trained: set[int] = field(default_factory=set)
    counts: tuple[int, int, int] = (0, 0, 0)

    def add(self, updater: _Updater, variables: Iterable[Any]) -> None:
        """Notes a call that gives gradients of some variables."""
        self.updater = updater
        updater.frozen = self._is_frozen
        for variable in variables:
            self.seen.add(id(variable))
            if _is_trainable(variable):
                self.trained.add(id(variable))

    def has_only_skipped(self) -> bool:
        """Returns whether micro-batches of this epoch were skipped, and none has counted."""
        if not self.gradients._skips_non_finite:
            return False
        *counted, num_skipped = self.gradients._counts()
        return counted == [*self.counts[:2]] and num_skipped > self.counts[2]

    def _is_frozen(self, variable: Any) -> bool:
        """Returns whether a variable is not trainable any more."""
        return id(variable) in self.trained and not _is_trainable(variable)


def _undecorated(train_step: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function that a ``tf.function`` is made of; in a graph, converted by AutoGraph.

    Its existing traces use the accumulators of an earlier accumulation, or none. And replicas
    cannot make an update together in a function of their own.
    """
    function = getattr(train_step, "python_function", None)
    if function is None:
        return train_step
    if tf.executing_eagerly():
        return function
    try:
        converted = tf.autograph.to_graph(function)
    except Exception:  # The source is unknown: AutoGraph has errors of many types.
        return function
    if inspect.ismethod(function):  # The converted function is not bound to the object any more.
        return functools.partial(converted, function.__self__)
    return converted


def _is_trainable(variable: Any) -> bool:
    return getattr(variable, "trainable", True)


def _values_of(model: keras.Model) -> Iterator[Any]:
    """Yields the attributes of a model, and what lists and dictionaries among them contain."""
    for value in vars(model).values():
        if isinstance(value, list | tuple):
            yield from value
        elif isinstance(value, dict):
            yield from value.values()
        else:
            yield value


def _variables_of(optimizer: Any) -> list[Any]:
    """Returns the variables that an optimizer was built for, if it tells."""
    return list(getattr(optimizer, "_trainable_variables", ()))


def _update_by_pairs(optimizer: Any, args: Any, kwargs: Any, pairs: list[Any]) -> Any:
    return optimizer.apply_gradients(pairs, *args, **kwargs)


def _update_by_lists(optimizer: Any, args: Any, kwargs: Any, pairs: list[Any]) -> Any:
    gradients, variables = zip(*pairs, strict=True)
    return optimizer.apply(list(gradients), list(variables), *args, **kwargs)


def _cast(gradient: Any, variable: Any) -> Any:
    """Returns a gradient in the data type of its variable, as Keras casts it."""
    return tf.cast(gradient, variable.dtype)


def _can_be_used_here(tensor: tf.Tensor) -> bool:
    """Returns whether code that runs now can use a tensor of a graph, or its value."""
    if not tf.is_symbolic_tensor(tensor):
        return True
    if tf.executing_eagerly():
        return False
    return tensor.graph in with_outer(tf.compat.v1.get_default_graph())


def _has_accelerator() -> bool:
    """Returns whether Keras may compile with XLA although the program has not asked for it."""
    return any(device.device_type != "CPU" for device in tf.config.list_physical_devices())
