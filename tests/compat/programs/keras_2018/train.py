"""Runs programs of this folder, and prints the numbers that they leave as `result`."""

import importlib
import json
import sys

import keras
import numpy as np
import tensorflow as tf

for name in sys.argv[1:]:
    keras.backend.clear_session()
    tf.set_random_seed(1)
    np.random.seed(1)
    result = importlib.import_module(name).result
    print(json.dumps([name, [float(each) for each in result]]))
