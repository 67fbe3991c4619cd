"""Training from generators of batches and from a Sequence."""

import numpy as np
from keras.layers import Dense, Flatten
from keras.models import Sequential
from keras.preprocessing.image import ImageDataGenerator
from keras.utils import Sequence
from keras.utils.np_utils import to_categorical

random = np.random.RandomState(0)
images = random.rand(16, 6, 6, 1).astype("float32")
labels = to_categorical(np.arange(16) % 2, 2)


class Batches(Sequence):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        chosen = slice(4 * index, 4 * index + 4)
        return images[chosen], labels[chosen]


def batches():
    while True:
        yield from (Batches()[index] for index in range(4))


model = Sequential([Flatten(input_shape=(6, 6, 1)), Dense(2, activation="softmax")])
model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
first = model.fit_generator(batches(), steps_per_epoch=4, epochs=2, verbose=0)
augmented = ImageDataGenerator(rescale=0.5, featurewise_center=True)
augmented.fit(images)
second = model.fit_generator(
    augmented.flow(images, labels, batch_size=8, shuffle=False),
    steps_per_epoch=2,
    epochs=1,
    verbose=0,
    shuffle=False,
    validation_data=Batches(),
)
result = [*first.history["loss"], *second.history["loss"], *second.history["val_loss"]]
result += model.evaluate_generator(Batches(), steps=4)
result += [*model.predict_generator(Batches(), steps=1)[:, 0]]
