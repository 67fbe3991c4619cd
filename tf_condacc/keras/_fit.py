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


def call_with(fit: Callable[..., Any], callback: EndOfEpoch, args: Any, kwargs: Any) -> Any:
    """Calls ``fit`` of a model with a callback before and after those that the caller passes."""
    signature = inspect.signature(fit)
    bound = signature.bind(*args, **kwargs)
    # A model may override fit with other parameters, and pass on the rest.
    arguments = bound.arguments if "callbacks" in signature.parameters else bound.kwargs
    given = arguments.get("callbacks")
    if isinstance(given, keras.callbacks.CallbackList):  # Keras then sets nothing.
        callback.set_params(given.params or {})
        arguments["callbacks"] = keras.callbacks.CallbackList([callback, given, callback])
    else:
        arguments["callbacks"] = [callback, *keras.tree.flatten(given or []), callback]
    is_named = arguments is bound.arguments
    return fit(*bound.args, **bound.kwargs) if is_named else fit(*bound.args, **arguments)
