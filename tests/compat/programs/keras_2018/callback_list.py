"""Callbacks of Keras and a callback of the program's own."""

import os
import tempfile

import keras
import numpy as np
from keras.callbacks import EarlyStopping, LambdaCallback, LearningRateScheduler, ModelCheckpoint
from keras.layers import Dense
from keras.models import Sequential

folder = tempfile.mkdtemp()
seen = []


class LossHistory(keras.callbacks.Callback):
    def on_train_begin(self, logs={}):  # noqa: B006
        self.losses = []

    def on_batch_end(self, batch, logs={}):  # noqa: B006
        self.losses.append(logs.get("loss"))


x = np.random.RandomState(0).rand(12, 3)
y = x.sum(axis=1)
model = Sequential([Dense(1, input_shape=(3,), kernel_initializer="glorot_uniform")])
model.compile(loss="mse", optimizer=keras.optimizers.SGD(lr=0.1))
history = LossHistory()
path = os.path.join(folder, "weights.{epoch:02d}.hdf5")
model.fit(
    x,
    y,
    batch_size=4,
    epochs=4,
    verbose=0,
    shuffle=False,
    validation_split=0.25,
    callbacks=[
        history,
        EarlyStopping(monitor="val_loss", patience=1, min_delta=10.0),
        LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(logs["val_loss"])),
        LearningRateScheduler(lambda epoch: 0.1 / (1 + epoch)),
        ModelCheckpoint(path, save_weights_only=True),
    ],
)
rate = keras.backend.get_value(model.optimizer.lr)
result = [*history.losses, *seen, rate, len(os.listdir(folder))]
