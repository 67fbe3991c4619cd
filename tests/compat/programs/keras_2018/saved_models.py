"""Models that are saved and loaded, with objects of the program's own."""

import os
import tempfile

import numpy as np
from keras import backend as K
from keras.layers import Activation, Dense
from keras.models import Sequential, load_model, model_from_json
from keras.utils import CustomObjectScope
from keras.utils.generic_utils import get_custom_objects


def swish(x):
    return x * K.sigmoid(x)


get_custom_objects().update({"swish": swish})
folder = tempfile.mkdtemp()
x = np.random.RandomState(0).rand(8, 3)
y = x.max(axis=1)
model = Sequential([Dense(4, input_dim=3), Activation("swish"), Dense(1)])
model.compile(loss="mae", optimizer="nadam")
losses = [model.train_on_batch(x, y)]
model.save(os.path.join(folder, "model.h5"))
loaded = load_model(os.path.join(folder, "model.h5"))
losses += [model.train_on_batch(x, y), loaded.train_on_batch(x, y)]
with CustomObjectScope({"swish": swish}):
    built = model_from_json(model.to_json())
model.save_weights(os.path.join(folder, "weights.h5"))
built.load_weights(os.path.join(folder, "weights.h5"))
result = [*losses, *built.predict(x)[:, 0], model.count_params()]
