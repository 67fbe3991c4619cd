"""Objects that export a model after its evaluation.

Mirrors the exporters of ``tf.estimator``.
"""

from __future__ import annotations

import abc
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_condacc.estimator.export import ServingInputReceiver

if TYPE_CHECKING:
    from tf_condacc.estimator._estimator import Estimator


class Exporter(abc.ABC):
    """Exports a model after its evaluation. Mirrors ``tf.estimator.Exporter``."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name. Exports go to ``model_dir/export/<name>``."""

    @abc.abstractmethod
    def export(
        self,
        estimator: Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> str | None:
        """Exports a model.

        Args:
            estimator: The Estimator.
            export_path: Folder of the exports of this object.
            checkpoint_path: Path of the checkpoint that was evaluated.
            eval_result: Result of the evaluation.
            is_the_final_export: Whether the training has reached its last step.

        Returns:
            Path of the exported model, or None if there is none.
        """


class _SavedModelExporter(Exporter):
    """Exports SavedModels.

    Args:
        name: Name of the exporter.
        serving_input_receiver_fn: Function that returns an `export.ServingInputReceiver`.
        assets_extra: Source paths of files to copy; see `Estimator.export_saved_model`.
        as_text: Whether to write the text form of the SavedModel proto.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], ServingInputReceiver],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ) -> None:
        self._name = name
        self._serving_input_receiver_fn = serving_input_receiver_fn
        self._assets_extra = assets_extra
        self._as_text = as_text

    @property
    def name(self) -> str:
        """The name of the exporter."""
        return self._name

    def _export(self, estimator: Estimator, export_path: str, checkpoint_path: str) -> str:
        return estimator.export_saved_model(
            export_path,
            self._serving_input_receiver_fn,
            assets_extra=self._assets_extra,
            as_text=self._as_text,
            checkpoint_path=checkpoint_path,
        )


class FinalExporter(_SavedModelExporter):
    """Exports the model once, at the end of training. Mirrors ``tf.estimator.FinalExporter``.

    The end is the evaluation at the `max_steps` of a TrainSpec. Without `max_steps` there is no
    export.

    Args:
        name: Name of the exporter.
        serving_input_receiver_fn: Function that returns an `export.ServingInputReceiver`.
        assets_extra: Source paths of files to copy; see `Estimator.export_saved_model`.
        as_text: Whether to write the text form of the SavedModel proto.
    """

    def export(
        self,
        estimator: Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> str | None:
        """Exports the model if the training has ended; see `Exporter.export`."""
        if not is_the_final_export:
            return None
        return self._export(estimator, export_path, checkpoint_path)


class LatestExporter(_SavedModelExporter):
    """Exports the model after each evaluation. Mirrors ``tf.estimator.LatestExporter``.

    Args:
        name: Name of the exporter.
        serving_input_receiver_fn: Function that returns an `export.ServingInputReceiver`.
        assets_extra: Source paths of files to copy; see `Estimator.export_saved_model`.
        as_text: Whether to write the text form of the SavedModel proto.
        exports_to_keep: Number of exports to keep; older ones are deleted. None to keep all.

    Raises:
        ValueError: `exports_to_keep` is lower than 1.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], ServingInputReceiver],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        if exports_to_keep is not None and exports_to_keep <= 0:
            raise ValueError(
                "`exports_to_keep`, if provided, must be a positive number. Got "
                f"{exports_to_keep!r}."
            )
        self._exports_to_keep = exports_to_keep

    def export(
        self,
        estimator: Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> str:
        """Exports the model and deletes old exports; see `Exporter.export`."""
        result = self._export(estimator, export_path, checkpoint_path)
        if self._exports_to_keep is not None:
            delete_old_exports(export_path, self._exports_to_keep)
        return result


def delete_old_exports(folder: str | os.PathLike[str], exports_to_keep: int) -> None:
    """Deletes the exports in a folder, whose names are times, apart from the latest ones."""
    exports = [path for path in Path(folder).iterdir() if path.name.isdecimal()]
    for path in sorted(exports, key=lambda path: int(path.name))[:-exports_to_keep]:
        shutil.rmtree(path, ignore_errors=True)
