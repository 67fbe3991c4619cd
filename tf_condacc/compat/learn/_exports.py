"""Exports of trained models. Mirrors the export strategies of tf.contrib.learn."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tensorflow.compat import v1

from tf_condacc._model_fn import call_accepted
from tf_condacc._typing import Nested
from tf_condacc.estimator import export


class GraphRewriteSpec(NamedTuple):
    """Changes of an exported graph. Mirrors the class of tf.contrib.learn.

    Attributes:
        tags: Tags of the graph in the SavedModel.
        transforms: Names of the changes.
    """

    tags: tuple[str, ...]
    transforms: tuple[str, ...]


# The only graph that is exported: the one for serving, without changes.
UNCHANGED = (GraphRewriteSpec((v1.saved_model.SERVING,), ()),)


class InputFnOps(NamedTuple):
    """The inputs of an exported model. Mirrors ``InputFnOps`` of tf.contrib.learn.

    Attributes:
        features: The features that the `model_fn` is called with.
        labels: The labels, which have no effect.
        default_inputs: A dictionary of the placeholders that are fed.
    """

    features: Nested
    labels: Nested
    default_inputs: Mapping[str, Any]


def build_parsing_serving_input_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], InputFnOps]:
    """Returns a function that makes inputs of serialized ``tf.train.Example`` protos.

    Mirrors ``build_parsing_serving_input_fn`` of tf.contrib.learn.

    Args:
        feature_spec: The features to parse, as ``tf.io.parse_example`` takes them.
        default_batch_size: Number of examples; None if unknown.
    """
    return _inputs(export.build_parsing_serving_input_receiver_fn(feature_spec, default_batch_size))


def build_default_serving_input_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], InputFnOps]:
    """Returns a function that makes inputs that are the features themselves.

    Mirrors ``build_default_serving_input_fn`` of tf.contrib.learn.

    Args:
        features: A dictionary from names to tensors `[n, …]` with the dtypes and shapes.
        default_batch_size: First dimension of the inputs; None if unknown.
    """
    return _inputs(export.build_raw_serving_input_receiver_fn(features, default_batch_size))


def receiver_fn_of(serving_input_fn: Callable[[], Any]) -> Callable[[], Any]:
    """Returns a function that makes what ``tf.estimator`` takes as the inputs of a model.

    Args:
        serving_input_fn: Function that returns an `InputFnOps`, or a ``ServingInputReceiver`` of
            ``tf.estimator``, which is left as it is.
    """

    def receiver_fn() -> Any:
        inputs = serving_input_fn()
        if hasattr(inputs, "receiver_tensors"):
            return inputs
        return export.ServingInputReceiver(inputs.features, inputs.default_inputs)

    return receiver_fn


class ExportStrategy(NamedTuple):
    """A way to export a model. Mirrors ``tf.contrib.learn.ExportStrategy``.

    Attributes:
        name: The name. Exports go to ``model_dir/export/<name>``.
        export_fn: Function of an Estimator and the path of the folder of the exports, which may
            have the arguments `checkpoint_path`, `eval_result` and `strip_default_attrs`.
        strip_default_attrs: Passed to `export_fn`.
    """

    name: str
    export_fn: Callable[..., Any]
    strip_default_attrs: bool | None = None

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str | None = None,
        eval_result: Mapping[str, Any] | None = None,
    ) -> Any:
        """Exports a model.

        Args:
            estimator: The Estimator.
            export_path: Folder of the exports of this strategy.
            checkpoint_path: Path of the checkpoint. By default the latest checkpoint.
            eval_result: Result of the evaluation.

        Returns:
            The result of `export_fn`.
        """
        return call_accepted(
            self.export_fn,
            estimator,
            export_path,
            checkpoint_path=checkpoint_path,
            eval_result=eval_result,
            strip_default_attrs=self.strip_default_attrs,
        )


def make_export_strategy(
    serving_input_fn: Callable[[], Any],
    default_output_alternative_key: str | None = None,
    assets_extra: Mapping[str, str] | None = None,
    as_text: bool = False,
    exports_to_keep: int | None = 5,
    strip_default_attrs: bool | None = None,
) -> ExportStrategy:
    """Returns a strategy that exports SavedModels. Mirrors ``make_export_strategy``.

    Args:
        serving_input_fn: Function that returns an `InputFnOps`, or a ``ServingInputReceiver``.
        default_output_alternative_key: Name of the outputs that are the default signature. It must
            be None for an Estimator of ``tf.estimator``.
        assets_extra: Source paths of files to copy, by their paths in the folder "assets.extra".
        as_text: Whether to write the text form of the SavedModel proto.
        exports_to_keep: Number of exports to keep; older ones are deleted. None to keep all.
        strip_default_attrs: Has no effect: attributes that have their default are left out.

    Returns:
        A strategy with the name "Servo", which raises a ValueError if the key is given for an
        Estimator of ``tf.estimator``.
    """

    def export_fn(
        estimator: Any, export_dir_base: Any, checkpoint_path: str | None = None
    ) -> bytes:
        folder = v1.compat.path_to_str(v1.compat.as_str_any(export_dir_base))
        key = {}
        if default_output_alternative_key is not None:
            if not hasattr(estimator, "fit"):
                raise ValueError(
                    "default_output_alternative_key is not supported in core Estimator. Given: "
                    f"{default_output_alternative_key!r}"
                )
            key = {"default_output_alternative_key": default_output_alternative_key}
        result = estimator.export_savedmodel(
            folder,
            receiver_fn_of(serving_input_fn),
            assets_extra=assets_extra,
            as_text=as_text,
            checkpoint_path=checkpoint_path,
            **key,
        )
        if exports_to_keep is not None:
            _delete_old_exports(folder, exports_to_keep)
        return result

    return ExportStrategy("Servo", export_fn, strip_default_attrs)


def _delete_old_exports(folder: str, exports_to_keep: int) -> None:
    """Deletes the exports in a folder, whose names are times, apart from the latest ones."""
    exports = [path for path in Path(folder).iterdir() if path.name.isdecimal()]
    for path in sorted(exports, key=lambda path: int(path.name))[:-exports_to_keep]:
        shutil.rmtree(path, ignore_errors=True)


def _inputs(receiver_fn: Callable[[], Any]) -> Callable[[], InputFnOps]:
    def serving_input_fn() -> InputFnOps:
        receiver = receiver_fn()
        return InputFnOps(receiver.features, None, receiver.receiver_tensors)

    return serving_input_fn
