"""A module that stands for ``tf.estimator`` where tensorflow_estimator is not installed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tf_condacc import estimator


class _OwnEstimator(ModuleType):
    """A module whose missing names raise an error that says what provides them.

    Args:
        name: Name of the module.
        contents: Module whose public names it has.
    """

    def __init__(self, name: str, contents: ModuleType) -> None:
        super().__init__(name, contents.__doc__)
        names = getattr(contents, "__all__", None) or [
            name for name in vars(contents) if not name.startswith("_")
        ]
        self.__all__ = sorted(names)
        vars(self).update({name: getattr(contents, name) for name in names})

    def __getattr__(self, name: str) -> Any:
        hint = ""
        if not name.startswith("__"):
            hint = (
                f": tf_condacc's own Estimator has {', '.join(self.__all__)}. The package "
                'tensorflow_estimator, which pip install "tf_condacc[estimator]" installs, '
                f"provides {name}."
            )
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}{hint}")


MODULE = _OwnEstimator("tf.estimator", estimator)
