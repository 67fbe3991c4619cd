"""Functions that write a model as a SavedModel."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorflow.compat import v1

from tf_condacc._model_fn import SpecLike
from tf_condacc.estimator import _sessions
from tf_condacc.estimator._run_config import RunConfig
from tf_condacc.estimator.export import ServingInputReceiver, SignatureDef


def signatures(
    export_outputs: Mapping[str, Any] | None, receiver: ServingInputReceiver
) -> dict[str, SignatureDef]:
    """Returns the signatures of the outputs, for each way in which the model can be fed.

    Raises:
        ValueError: There are no outputs, or none of them has a valid signature.
    """
    if not export_outputs:
        raise ValueError("export_outputs must be defined by the model_fn to export a model.")
    ways = {"": receiver.receiver_tensors}
    for name, tensors in (receiver.receiver_tensors_alternatives or {}).items():
        ways[f"{name}:"] = tensors
    found, reasons = {}, []
    for way, tensors in ways.items():
        for key, output in export_outputs.items():
            try:
                found[f"{way}{key}"] = output.as_signature_def(tensors)
            except ValueError as error:
                reasons.append(f"{way}{key}: {error}")
    if not found:
        raise ValueError(f"The model has no valid signature. {' '.join(reasons)}")
    return found


def write(
    spec: SpecLike,
    receiver: ServingInputReceiver,
    config: RunConfig,
    checkpoint: str,
    export_dir_base: str,
    assets_extra: Mapping[str, str],
    as_text: bool,
) -> str:
    """Writes a SavedModel into a new folder.

    The folder is written under a temporary name, and renamed when it is complete.

    Args:
        spec: The spec of the model in mode PREDICT.
        receiver: The inputs of the model.
        config: Configuration of the Estimator.
        checkpoint: Path of the checkpoint with the variables' values.
        export_dir_base: Parent of the new folder.
        assets_extra: Source paths of further files, by their paths in the folder "assets.extra".
        as_text: Whether to write the text form of the SavedModel proto.

    Returns:
        Path of the new folder, whose name is the time in seconds.

    Raises:
        ValueError: The model has no valid signature.
    """
    signature_defs = signatures(spec.export_outputs, receiver)
    scaffold = spec.scaffold or v1.train.Scaffold()
    saver = scaffold.saver or v1.train.Saver(sharded=True)
    folder = _new_folder(Path(export_dir_base))
    unfinished = folder.with_name(f"temp-{folder.name}")
    with v1.Session(config=_sessions.session_config(config)) as session:
        saver.restore(session, checkpoint)
        initialize = scaffold.local_init_op or v1.train.Scaffold.default_local_init_op()
        session.run(initialize)
        builder = v1.saved_model.Builder(str(unfinished))
        builder.add_meta_graph_and_variables(
            session,
            [v1.saved_model.SERVING],
            signature_def_map=signature_defs,
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=initialize,
            saver=saver,
            strip_default_attrs=True,
        )
        builder.save(as_text)
    for name, source in assets_extra.items():
        copy = unfinished / "assets.extra" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
    os.rename(unfinished, folder)
    return str(folder)


def _new_folder(base: Path) -> Path:
    """Returns a folder named after the time, or after a later time if that name is taken."""
    numbers = [int(time.time())]
    for path in base.iterdir() if base.exists() else ():
        name = path.name.removeprefix("temp-")
        if name.isdecimal():
            numbers.append(int(name) + 1)
    return base / str(max(numbers))
