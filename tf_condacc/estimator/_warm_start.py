"""Initial values that an Estimator takes from a checkpoint of another model.

Mirrors ``tf.estimator.WarmStartSettings``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.compat import v1


class _Fields(NamedTuple):
    ckpt_to_initialize_from: str
    vars_to_warm_start: str | Sequence[Any] | None
    var_name_to_vocab_info: Mapping[str, Any]
    var_name_to_prev_var_name: Mapping[str, str]


class WarmStartSettings(_Fields):
    """Which variables start with which values of a checkpoint.

    Mirrors ``tf.estimator.WarmStartSettings``.

    Args:
        ckpt_to_initialize_from: Path of a checkpoint, or of a folder of checkpoints.
        vars_to_warm_start: Which variables start with values of the checkpoint:

            - A regular expression: the trainable variables whose names match.
            - A list of regular expressions: all variables whose names match one of them.
            - A list of variables: these.
            - None: only the variables in `var_name_to_vocab_info`.
        var_name_to_vocab_info: ``tf.compat.v1.train.VocabInfo`` objects by the names of variables.
        var_name_to_prev_var_name: Names in the checkpoint by the names of variables, for variables
            that are named differently there.

    Raises:
        ValueError: `ckpt_to_initialize_from` is empty.
    """

    __slots__ = ()

    def __new__(
        cls,
        ckpt_to_initialize_from: str | os.PathLike[str],
        vars_to_warm_start: str | Sequence[Any] | None = ".*",
        var_name_to_vocab_info: Mapping[str, Any] | None = None,
        var_name_to_prev_var_name: Mapping[str, str] | None = None,
    ) -> WarmStartSettings:
        if not ckpt_to_initialize_from:
            raise ValueError(
                "`ckpt_to_initialize_from` MUST be set in WarmStartSettings; got "
                f"{ckpt_to_initialize_from!r}."
            )
        return super().__new__(
            cls,
            os.fspath(ckpt_to_initialize_from),
            vars_to_warm_start,
            var_name_to_vocab_info or {},
            var_name_to_prev_var_name or {},
        )


def settings(warm_start_from: Any) -> WarmStartSettings | None:
    """Returns the settings for the argument `warm_start_from` of an Estimator.

    Args:
        warm_start_from: Path of a checkpoint, of a folder of checkpoints or of a SavedModel; or an
            object with the fields of `WarmStartSettings`; or None.

    Raises:
        ValueError: It is something else.
    """
    if warm_start_from is None:
        return None
    if isinstance(warm_start_from, (str, bytes, os.PathLike)):
        return WarmStartSettings(_checkpoint(os.fsdecode(warm_start_from)))
    if not hasattr(warm_start_from, "ckpt_to_initialize_from"):
        raise ValueError(
            "warm_start_from must be a string or a WarmStartSettings, instead got "
            f"{type(warm_start_from)}"
        )
    return WarmStartSettings(*(getattr(warm_start_from, name) for name in _Fields._fields))


def apply(settings: WarmStartSettings) -> None:
    """Changes the initial values of variables of the default graph."""
    v1.train.warm_start(
        settings.ckpt_to_initialize_from,
        settings.vars_to_warm_start,
        settings.var_name_to_vocab_info,
        settings.var_name_to_prev_var_name,
    )


def _checkpoint(path: str) -> str:
    """Returns the path of a SavedModel's variables. Other paths are returned as they are."""
    variables = os.path.join(path, "variables", "variables")
    return variables if tf.io.gfile.exists(f"{variables}.index") else path
