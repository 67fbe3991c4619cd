"""Runs programs with one implementation of tf.estimator, in this process.

Run as ``python process.py IMPLEMENTATION FOLDER [PROGRAM]``, it writes the result of each program,
or its error as text, into FOLDER/PROGRAM.json. The implementation "package" is
tensorflow_estimator. "own" is the module that stands in for it, in a process that cannot import it.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from pathlib import Path
from typing import Any

import tests.compat.estimators.argument_programs  # noqa: F401 (Its programs are added to BOTH.)
from tests.compat.estimators import own_programs as own
from tests.compat.estimators import package_programs as package
from tests.compat.estimators.programs import BOTH
from tf_condacc.compat._estimator import estimator_module


def main(name: str, folder: Path, only: str = "") -> None:
    logging.getLogger("tensorflow").setLevel(logging.ERROR)

    def run(program: Any, *arguments: Any) -> None:
        own_folder = folder / program.__name__
        own_folder.mkdir()
        print(f"{program.__name__} begins", file=sys.stderr)
        try:
            result = json.dumps(program(*arguments, own_folder))
        except BaseException:
            result = json.dumps(traceback.format_exc())
        (folder / f"{program.__name__}.json").write_text(result)

    if only:
        run(getattr(package, only), estimator_module())
        return
    if name == "own":
        run(own.a_cluster_trains_and_evaluates)  # It forks, so TensorFlow must not be in use yet.
        sys.modules["tensorflow_estimator"] = None  # type: ignore[assignment]
    else:
        run(package.what_is_added_can_be_undone)
    programs = {"own": own.PROGRAMS, "package": package.PROGRAMS}[name]
    module = estimator_module()
    for program in (*BOTH.values(), *programs):
        run(program, module)
    if name == "own":
        del sys.modules["tensorflow_estimator"]
        run(package.canned_models_say_that_they_need_keras_2)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
