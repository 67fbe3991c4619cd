"""Uses tf.contrib.learn in many ways, and prints what each gives as JSON.

    all_cases.py FOLDER [CASE ...]

The program runs on TensorFlow 1.15 as well.
"""

import json
import os
import sys
import traceback

import arguments
import estimators
import experiments
import tensorflow as tf
from support import CASES

MODULES = (arguments, estimators, experiments)


def main(argv):
    tf.logging.set_verbosity(tf.logging.ERROR)
    report = {}
    chosen = argv[2:]
    for function in CASES:
        if chosen and function.__name__ not in chosen:
            continue
        folder = os.path.join(argv[1], function.__name__)
        os.makedirs(folder)
        try:
            report[function.__name__] = function(folder)
        except Exception:
            report[function.__name__] = traceback.format_exc()
    # One line for each case.
    lines = (json.dumps({name: result})[1:-1] for name, result in sorted(report.items()))
    print("{" + ",\n".join(lines) + "}", flush=True)


if __name__ == "__main__":
    main(sys.argv)
