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


def with_callback(
    fit: Callable[..., Any], callback: EndOfEpoch, args: Any, kwargs: Any
) -> tuple[inspect.BoundArguments, list[keras.callbacks.Callback]]:
    """Returns arguments of ``fit`` with a callback around the caller's, and those of the caller.

    Raises:
        TypeError: The model overrides ``fit`` with a method that takes no callbacks.
    """
    signature = inspect.signature(fit)
    bound = signature.bind(*args, **kwargs)
    named = bound.arguments
    if "callbacks" not in signature.parameters:
        kinds = {each.kind: name for name, each in signature.parameters.items()}
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            raise TypeError(
                f"The fit of model '{callback.model.name}' must accept `callbacks` or **kwargs, "
                "with which the accumulation finds the ends of epochs. Its signature is "
                f"fit{signature}."
            )
        named = named.setdefault(kinds[inspect.Parameter.VAR_KEYWORD], {})
    given = named.get("callbacks")
    if isinstance(given, keras.callbacks.CallbackList):
        callback.set_params(given.params or {})  # Keras does not call it, nor set_model.
        named["callbacks"] = keras.callbacks.CallbackList([callback, given, callback])
        return bound, given.callbacks
    callbacks = keras.tree.flatten(given or [])
    named["callbacks"] = [callback, *callbacks, callback]
    return bound, callbacks
