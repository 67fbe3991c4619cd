"""Runs programs with one implementation of tf.estimator, in this process.

Run as ``python process.py IMPLEMENTATION FOLDER``, it prints a JSON object: for each
program its result, or its error as text. The implementation "package" is tensorflow_estimator.
"own" is the module that stands in for it, in a process that cannot import it.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import tests.compat.estimators.argument_programs  # noqa: F401 (Its programs are added to BOTH.)
from tests.compat.estimators import own_programs as own
from tests.compat.estimators import package_programs as package
from tests.compat.estimators.programs import BOTH
from tf_condacc.compat._estimator import estimator_module

LIMIT_SECS = 150


def main(name: str, folder: Path) -> None:
    faulthandler.dump_traceback_later(LIMIT_SECS, exit=True)  # A program may wait forever.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    results: dict[str, Any] = {}

    def run(program: Any, *arguments: Any) -> None:
        own_folder = folder / program.__name__
        own_folder.mkdir()
        begin = time.process_time()
        try:
            results[program.__name__] = program(*arguments, own_folder)
        except BaseException:
            results[program.__name__] = traceback.format_exc()
        print(f"{time.process_time() - begin:6.2f} s {program.__name__}", file=sys.stderr)

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
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
