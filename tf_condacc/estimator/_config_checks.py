"""Checks of the attributes of a RunConfig."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

from tensorflow.compat import v1

from tf_condacc.estimator import _specs

# The default of the two intervals between checkpoints, of which at most one is set.
DEFAULT: Any = object()
_DEFAULT_SECS = 600


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, float)) and value >= 0


def _is_positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and value > 0


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral)


def _is_device_fn(value: Any) -> bool:
    return callable(value) and _specs.argument_names(value) == {"op"}


# A check for the values of each attribute other than None, and the requirement as an error says it.
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "tf_random_seed": (_is_integer, "must be integer"),
    "save_summary_steps": (_is_count, "should be >= 0"),
    "save_checkpoints_steps": (_is_count, "should be >= 0"),
    "save_checkpoints_secs": (_is_count, "should be >= 0"),
    "session_config": (
        lambda value: isinstance(value, v1.ConfigProto),
        "must be instance of ConfigProto",
    ),
    "keep_checkpoint_max": (_is_count, "should be >= 0"),
    "keep_checkpoint_every_n_hours": (_is_positive, "should be > 0"),
    "log_step_count_steps": (_is_count, "should be >= 0"),
    "device_fn": (_is_device_fn, 'must be callable with exactly one argument "op"'),
    "protocol": (lambda value: value == "grpc", "should be grpc"),
    "experimental_max_worker_delay_secs": (_is_integer, "must be an integer if set"),
    "session_creation_timeout_secs": (_is_positive, "should be > 0"),
}
_STRATEGIES = ("train_distribute", "eval_distribute", "experimental_distribute")


def check(config: Any) -> None:
    """Checks the attributes of a configuration.

    Raises:
        ValueError: The value of an attribute is not valid or not supported.
    """
    for name, (is_valid, expected) in _CHECKS.items():
        value = getattr(config, name)
        if value is not None and not is_valid(value):
            raise ValueError(f"{name} {expected}; got {value!r}.")
    if config.model_dir is not None and not config.model_dir:
        raise ValueError(f"model_dir should be non-empty; got {config.model_dir!r}.")
    for name in _STRATEGIES:
        if getattr(config, name) is not None:
            raise ValueError(
                f"{name} is not supported by the Estimator of tf_condacc; got "
                f"{getattr(config, name)!r}. Use replicate_model_fn for several devices, "
                "train_and_evaluate for a cluster, or the package tensorflow-estimator "
                '(pip install ".[estimator]" in the clone of tf_condacc).'
            )


def intervals(steps: Any, secs: Any) -> tuple[Any, Any]:
    """Returns the numbers of steps and seconds between two checkpoints, of which one is None or 0.

    Args:
        steps: Number of steps, None or `DEFAULT`.
        secs: Number of seconds, None or `DEFAULT`.

    Raises:
        ValueError: Both are numbers above 0.
    """
    if steps is DEFAULT and secs is DEFAULT:
        return None, _DEFAULT_SECS
    steps, secs = (None if each is DEFAULT else each for each in (steps, secs))
    if steps and secs:
        raise ValueError(
            "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set; got "
            f"{steps!r} and {secs!r}."
        )
    return steps, secs
