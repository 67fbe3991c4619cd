"""How the ends of epochs are found, and a callback is passed to ``fit``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras


class EndOfEpoch(keras.callbacks.Callback):
    """Calls a function after the last batch of each epoch.

    It is both the first and the last of the callbacks. As the first one it calls the function
    before other callbacks save or compare the weights, and before the validation, which is the
    first event after the last batch. As the last one it sees that another callback has stopped the
    training.

    Args:
        model: The model.
        end: The function. Its argument is whether the epoch is the last one.
    """

    def __init__(self, model: keras.Model, end: Callable[[bool], None]) -> None:
        super().__init__()
        self.set_model(model)
        self._end = end
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch

    def on_test_begin(self, logs: Any = None) -> None:
        self._call()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._call()

    def on_train_end(self, logs: Any = None) -> None:
        self._end(True)

    def _call(self) -> None:
        num_epochs = self.params.get("epochs", 0)
        self._end(self.model.stop_training or self._epoch + 1 == num_epochs)


def call_with(
    fit: Callable[..., Any],
    callback: EndOfEpoch,
    check: Callable[[list[Any]], None],
    args: Any,
    kwargs: Any,
) -> Any:
    """Calls ``fit`` of a model with a callback before and after those that the caller passes.

    Args:
        fit: The method.
        callback: The callback.
        check: Called before with the caller's callbacks.
        args: The caller's arguments.
        kwargs: The caller's arguments by name.

    Raises:
        TypeError: The model overrides ``fit`` with a method that takes no callbacks.
    """
    signature = inspect.signature(fit)
    bound = signature.bind(*args, **kwargs)
    if "callbacks" in signature.parameters:
        bound.arguments["callbacks"] = _between(callback, bound.arguments.get("callbacks"), check)
        return fit(*bound.args, **bound.kwargs)
    if not any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values()):
        raise TypeError(
            f"The fit of model '{callback.model.name}' must accept `callbacks` or **kwargs, with "
            f"which the accumulation finds the ends of epochs. Its signature is fit{signature}."
        )
    named = bound.kwargs
    named["callbacks"] = _between(callback, named.get("callbacks"), check)
    return fit(*bound.args, **named)


def _between(callback: EndOfEpoch, given: Any, check: Callable[[list[Any]], None]) -> Any:
    """Returns the callbacks of the caller between the first and the last one."""
    if isinstance(given, keras.callbacks.CallbackList):
        # Keras does not call set_params and set_model on it.
        callback.set_params(given.params or {})
        check(given.callbacks)
        return keras.callbacks.CallbackList([callback, given, callback])
    callbacks = keras.tree.flatten(given or [])
    check(callbacks)
    return [callback, *callbacks, callback]
