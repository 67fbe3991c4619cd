"""A convolutional network that classifies images."""

import keras
import numpy as np
from keras import backend as K
from keras.layers import Activation, Conv2D, Dense, Dropout, Flatten, MaxPooling2D
from keras.models import Sequential
from keras.utils import np_utils

batch_size = 8
x_train = np.random.RandomState(0).rand(32, 12, 12)
y_train = np.arange(32) % 3
if K.image_data_format() == "channels_first":
    x_train = x_train.reshape(-1, 1, 12, 12)
else:
    x_train = x_train.reshape(-1, 12, 12, 1)
x_train = x_train.astype("float32")
y_train = np_utils.to_categorical(y_train, 3)
model = Sequential()
model.add(Conv2D(4, (3, 3), padding="same", input_shape=x_train.shape[1:]))
model.add(Activation("relu"))
model.add(Conv2D(4, kernel_size=(3, 3), activation="relu"))
model.add(MaxPooling2D(pool_size=(2, 2)))
model.add(Dropout(0.25, seed=1))
model.add(Flatten())
model.add(Dense(3, activation="softmax"))
optimizer = keras.optimizers.SGD(lr=0.05, decay=1e-3, momentum=0.9, nesterov=True)
model.compile(loss=keras.losses.categorical_crossentropy, optimizer=optimizer, metrics=["accuracy"])
history = model.fit(
    x_train,
    y_train,
    batch_size=batch_size,
    epochs=2,
    verbose=0,
    shuffle=False,
    validation_data=(x_train[:8], y_train[:8]),
)
score = model.evaluate(x_train, y_train, verbose=0)
result = [*history.history["loss"], *history.history["val_loss"], *score]
