"""The accumulation of the gradients of an existing Keras model, in ``fit`` and `train_on_batch`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras

from tf_condacc._micro_batches.checks import NumMicroBatches
from tf_condacc._tensorflow import RestoreWatch
from tf_condacc.keras import _weights
from tf_condacc.keras._accumulators import Accumulators, variables_of
from tf_condacc.keras._calls import Call
from tf_condacc.keras._fit import EndOfEpoch, with_callback
from tf_condacc.keras._options import Options, Remainder, Weight
from tf_condacc.keras._replacements import Replacements
from tf_condacc.keras._step import Step, undecorated

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
    is changed in place, and trains with its own `train_step`: the gradients that `train_step` gives
    to ``model.optimizer``, in one call, are accumulated. The weights become those of a training
    with batches that are `num_micro_batches` times as large. The guide "Micro-batches with fit"
    says how micro-batches are weighted, what does not work, and when to use
    ``gradient_accumulation_steps`` of Keras optimizers instead.

    `train_on_batch` counts its batch as a micro-batch. It cannot know which batch is the last, so
    call `Accumulation.apply_remainder` or `Accumulation.discard_remainder` yourself.
    `load_weights`, `set_weights`, and restoring a ``tf.train.Checkpoint`` of the model or its
    optimizer, discard what is accumulated.

    What is saved is a plain Keras model; `TrainingCheckpoint` saves what is accumulated as well. A
    loaded, copied or cloned model accumulates only after another call of this function. A second
    call for the same model replaces the first.

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
        TypeError: An argument is of another type. ``fit`` raises it if the model overrides ``fit``
            without `callbacks` and without ``**kwargs``.
        ValueError: `num_micro_batches` or `remainder` is none of the above, or the optimizer, the
            losses or XLA do not go with accumulation. The model is unchanged. ``compile`` and
            ``fit`` raise it for what is compiled afterwards, and ``fit`` for a `train_step` that
            calls an optimizer twice.
        RuntimeError: Keras does not run on TensorFlow, is Keras 2, or is so new that its models do
            not say by what they divide a loss; or it is called in a callback of a ``fit`` that does
            not accumulate. ``keras.Model.fit(model)``, called through the class, raises it.
    """
    options = Options(model, num_micro_batches, remainder, skip_non_finite, weight, optimizers)
    if _is_in_plain_fit(model):
        raise RuntimeError(
            f"accumulate_gradients() is called while fit of model '{model.name}' runs, which "
            "cannot see any more where its epochs end. Call it before fit. A callback may then "
            "call it again, with another number of micro-batches."
        )
    if previous := accumulation_of(model):
        previous.end()
    return Accumulation(options)


def accumulation_of(model: keras.Model) -> Accumulation | None:
    """Returns the accumulation of a model; None if it accumulates nothing."""
    return vars(model).get(_ATTRIBUTE)


def _is_in_plain_fit(model: keras.Model) -> bool:
    """Returns whether ``fit`` of a model calls this function, and not by way of an accumulation."""
    is_in_fit = False
    frame: types.FrameType | None = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "fit":
            is_in_fit |= frame.f_locals.get("self") is model
        elif frame.f_code is Accumulation._fit.__code__ and frame.f_locals["self"]._model is model:
            return False
        frame = frame.f_back
    return is_in_fit


class Accumulation:
    """The accumulation of the gradients of a model, which `accumulate_gradients` returns.

    It replaces methods of the model, of its optimizers and of its loss until it ends. Each thread
    has the step that it runs, because each replica has a thread: a replaced method of a loss or an
    optimizer has no other way to know the micro-batch that it is called for. Without a step, it
    only calls the method that it replaces.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._model = options.model
        self._accumulators = Accumulators(options)
        self._replacements = Replacements()
        self._restores = RestoreWatch()
        self._is_restored = False  # Whether the next fit continues from what was restored.
        self._jit_compile: bool | None = None  # What `end` restores, if anything.
        self._thread = threading.local()
        self._attach(options.model)

    def _attach(self, model: keras.Model) -> None:
        methods: dict[str, Callable[..., Any]] = {
            "fit": self._fit,
            "reset_metrics": self._reset_metrics,
            "compile": self._compile,
            "train_step": self._train_step,
            "load_weights": self._set_weights,
            "set_weights": self._set_weights,
        }
        for name, method in methods.items():
            self._replacements.replace_method(model, name, method)
        self._watch_restores(model)
        self._replacements.replace(model, "supports_jit", False)
        self._replacements.replace(model, _ATTRIBUTE, self)
        if model.compiled:
            self._jit_compile, model.jit_compile = model.jit_compile, False
            if self._jit_compile:
                self._options.warn_once(
                    "%s switches jit_compile off until it ends: XLA has no accumulators."
                )
        self._make_train_function_again()

    @property
    def num_micro_batches(self) -> int | NumMicroBatches:
        """The number of batches that make an update, or the function that returns it."""
        return self._options.num_micro_batches

    def num_skipped(self) -> int:
        """Returns how many micro-batches `skip_non_finite` has dropped since the last compile."""
        return self._accumulators.num_skipped()

    def apply_remainder(self) -> None:
        """Makes an update from the micro-batches that are left over, if there are any.

        For `train_on_batch`; ``fit`` does it as `remainder` says.
        """
        self._accumulators.apply_remainder()

    def discard_remainder(self) -> None:
        """Discards the gradients that were accumulated since the last update."""
        self._accumulators.discard()

    def end(self) -> None:
        """Makes the model a plain Keras model again. What was accumulated is discarded.

        ``jit_compile`` becomes what it was before, unless the model was compiled again since.
        """
        self._accumulators.clear()
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

    def _make_train_function_again(self) -> None:
        """Lets the next step be traced anew, also in a ``fit`` that is running."""
        if self._model.train_function is not None:
            self._model.train_function = None
            self._model.make_train_function()

    def _watch_restores(self, owner: Any) -> None:
        """Discards what is accumulated when TensorFlow restores the model or an optimizer."""

        def trackable_children(children: Any, *args: Any, **kwargs: Any) -> Any:
            if self._restores.is_restored(owner):
                self._accumulators.discard("a checkpoint is restored")
            return children(*args, **kwargs)

        if self._replacements.replace_method(owner, "_trackable_children", trackable_children):
            self._restores = RestoreWatch()

    def _set_weights(self, set_weights: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Replaces the weights by `set_weights` or `load_weights` of the model."""
        result = set_weights(*args, **kwargs)
        self._accumulators.discard("the weights of the model were replaced")
        return result

    def _compile(self, compile: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(compile).bind(*args, **kwargs).arguments | kwargs
        self._options.check_optimizer(given.get("optimizer"))
        self._options.check_jit_compile(given.get("jit_compile") is True)
        compile(*args, **kwargs)
        self._jit_compile = None
        # The next trace uses another optimizer, and may have other variables.
        self._replacements.restore(keep=self._model)
        self._accumulators.clear()

    def _fit(self, fit: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not self._is_restored:
            self.discard_remainder()
        self._is_restored = False
        self._accumulators.note_counts()
        if self._replacements.replace_method(self._model, "train_step", self._train_step):
            self._make_train_function_again()  # The program has set another train_step.

        def end_epoch(is_last: bool) -> None:  # A callback may have made another accumulation.
            if current := accumulation_of(self._model):
                current._end_epoch(is_last)

        try:
            bound, callbacks = with_callback(fit, EndOfEpoch(self._model, end_epoch), args, kwargs)
            self._check_backups(callbacks)
            return fit(*bound.args, **bound.kwargs)
        finally:
            if current := accumulation_of(self._model):
                current.discard_remainder()

    def _check_backups(self, callbacks: Sequence[Any]) -> None:
        """Warns if BackupAndRestore will save weights while there are accumulated gradients."""
        for each in callbacks:
            if isinstance(each, keras.callbacks.BackupAndRestore) and (
                self._options.remainder == "carry" or each.save_freq != "epoch"
            ):
                self._options.warn_once(
                    "%s: BackupAndRestore saves no accumulated gradients, so those of the micro-"
                    "batches since the last update are lost if the training is stopped. Use "
                    "tf_condacc.keras.TrainingCheckpoint, which saves them."
                )

    def _reset_metrics(self, reset_metrics: Callable[[], Any]) -> Any:
        """Refuses a ``fit`` that does not come by way of `_fit`. Every epoch begins with this."""
        if _is_in_plain_fit(self._model):
            raise RuntimeError(
                f"{self._options.title}: fit was called through a class, as in "
                "keras.Model.fit(model), which does not tell the accumulation where epochs end, "
                "and would lose what is left over there. Call model.fit()."
            )
        return reset_metrics()

    def _end_epoch(self, is_last: bool) -> None:
        if self._accumulators.is_empty():
            self._options.warn_once(
                "%s has accumulated nothing in this epoch: train_step gives no gradients to the "
                "optimizers that accumulate. The model's own does by default, and others if they "
                "are in optimizers=."
            )
        if self._accumulators.skipped_all():
            self._options.warn_once(
                "%s has skipped all micro-batches of an epoch, because their gradients are not "
                "finite. The model may have diverged."
            )
        if self._options.remainder == "drop":
            self.discard_remainder()
        elif self._options.remainder == "apply" or is_last:
            self.apply_remainder()
        self._accumulators.note_counts()

    def _train_step(self, train_step: Callable[..., Any], data: Any) -> Any:
        replace_method = self._replacements.replace_method
        for each in self._options.optimizers:
            self._options.check_optimizer(each)
            replace_method(each, "apply", functools.partial(self._apply, each))
            replace_method(each, "apply_gradients", functools.partial(self._apply_gradients, each))
            self._watch_restores(each)
        if (loss := self._model._compile_loss) is not None:
            replace_method(loss, "call", self._call_loss)
        if getattr(train_step, "_jit_compile", None):
            self._options.warn_once(
                "%s: the decorator tf.function(jit_compile=True) of train_step is left out: XLA "
                "has no accumulators."
            )
        train_step = undecorated(train_step)
        if self._step is not None:  # A train_step that calls another one is one micro-batch.
            return train_step(data)
        step = Step(self._options, data)
        with self._watching_assignments(), self._running(step):
            result = train_step(data)
        step.check_losses()
        step.calls.check_functions()
        return result

    @property
    def _step(self) -> Step | None:
        """The step that this thread runs; None in the update itself."""
        return getattr(self._thread, "step", None)

    @contextlib.contextmanager
    def _running(self, step: Step | None) -> Iterator[None]:
        """Notes the step that this thread runs. None lets the calls of an update pass."""
        before, self._thread.step = self._step, step
        try:
            yield
        finally:
            self._thread.step = before

    def _call_loss(
        self, call: Callable[..., Any], y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        """Lets the step see by what Keras divides the losses that the model was compiled with."""
        step, model = self._step, self._model
        if step is None:
            return call(y_true, y_pred, sample_weight)
        if not model._compile_loss.built and len(keras.tree.flatten(y_pred)) == 1:
            call(y_true, y_pred, sample_weight)  # This makes the loss.
        for loss in _weights.losses_of(model):
            self._replacements.replace_method(loss, "call", self._call_each_loss)
        return step.call_loss(call, y_true, y_pred, sample_weight)

    def _call_each_loss(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Lets the step see the values of a loss before they are reduced."""
        values, step = call(*args, **kwargs), self._step
        if step is not None:
            step.values = values
        return values

    def _apply_gradients(
        self, optimizer: Any, original: Any, grads_and_vars: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Accumulates the gradients that `train_step` passes to `apply_gradients`.

        Whatever this method of the optimizer does besides the update, it does once per update.
        """

        def update(pairs: Any) -> Any:
            return original(pairs, *args, **kwargs)

        return self._accumulate(Call(optimizer, list(grads_and_vars), update))

    def _apply(
        self,
        optimizer: Any,
        original: Any,
        grads: Any,
        trainable_variables: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Accumulates the gradients that `train_step` passes to `apply`, as `_apply_gradients`."""
        if self._step is None or (trainable_variables is None and not optimizer.built):
            return original(grads, trainable_variables, *args, **kwargs)
        given = variables_of(optimizer) if trainable_variables is None else trainable_variables
        grads, variables = list(grads), list(given)
        if len(grads) != len(variables):
            raise ValueError(
                f"{self._options.title}: train_step gives the {type(optimizer).__name__} "
                f"{len(grads)} gradients of {len(variables)} variables."
            )

        def update(pairs: Any) -> Any:
            return original([g for g, _ in pairs], [v for _, v in pairs], *args, **kwargs)

        return self._accumulate(Call(optimizer, list(zip(grads, variables, strict=True)), update))

    def _accumulate(self, call: Call) -> Any:
        step = self._step
        if step is None or not call.present:
            return call.update(call.pairs)
        step.calls.add(call)
        with self._running(None):
            self._accumulators.add(call, step)
        return call.optimizer.iterations

    @contextlib.contextmanager
    def _watching_assignments(self) -> Iterator[None]:
        """Warns if train_step assigns trainable variables that nothing trains.

        Others may be assigned: a limit of weights may be applied to each micro-batch.
        """
        # A program may have replaced the method of some itself.
        variables = [each for each in self._model.trainable_variables if "assign" not in vars(each)]
        assigned: set[int] = set()

        def assign(variable: Any, *args: Any, **kwargs: Any) -> Any:
            if self._step is not None:
                assigned.add(id(variable))
            return type(variable).assign(variable, *args, **kwargs)

        for variable in variables:
            variable.assign = functools.partial(assign, variable)
        try:
            yield
        finally:
            for variable in variables:
                vars(variable).pop("assign", None)
        trained = self._accumulators.trained()
        for optimizer in set(_optimizers_in(self._model)) - set(self._options.optimizers):
            trained.update(map(id, variables_of(optimizer)))
        if not assigned <= trained:
            self._options.warn_once(
                "%s: train_step assigns trainable variables that have no gradients, such as those "
                "of a target network, in each micro-batch and not once per update. Assign them in "
                "a method apply of the optimizer. If once per micro-batch is intended, set their "
                "trainable to False."
            )


def _optimizers_in(model: keras.Model) -> Iterator[keras.Optimizer]:
    """Yields the optimizers in attributes of a model, also in lists and dictionaries there."""
    for value in vars(model).values():
        values = value.values() if isinstance(value, dict) else value
        for each in values if isinstance(value, list | tuple | dict) else [value]:
            if isinstance(each, keras.Optimizer):
                yield each
