"""A generator and a discriminator that are trained in turn."""

import numpy as np
from keras.layers import Input
from keras.layers.advanced_activations import LeakyReLU
from keras.layers.core import Dense, Reshape
from keras.layers.normalization import BatchNormalization
from keras.models import Model, Sequential
from keras.optimizers import Adam

random = np.random.RandomState(0)
images = random.rand(16, 4, 4).astype("float32")
optimizer = Adam(0.002, 0.5)
generator = Sequential()
generator.add(Dense(8, input_dim=3))
generator.add(LeakyReLU(alpha=0.2))
generator.add(BatchNormalization(momentum=0.8))
generator.add(Dense(16, activation="tanh"))
generator.add(Reshape((4, 4)))
discriminator = Sequential()
discriminator.add(Reshape((16,), input_shape=(4, 4)))
discriminator.add(Dense(8))
discriminator.add(LeakyReLU(alpha=0.2))
discriminator.add(Dense(1, activation="sigmoid"))
discriminator.compile(loss="binary_crossentropy", optimizer=optimizer, metrics=["accuracy"])
noise = Input(shape=(3,))
discriminator.trainable = False
combined = Model(noise, discriminator(generator(noise)))
combined.compile(loss="binary_crossentropy", optimizer=Adam(lr=0.002, beta_1=0.5))
result = []
for _ in range(3):
    real = images[random.randint(0, 16, 4)]
    fake = generator.predict(random.normal(0, 1, (4, 3)))
    result += discriminator.train_on_batch(real, np.ones((4, 1)))
    result += discriminator.train_on_batch(fake, np.zeros((4, 1)))
    result.append(combined.train_on_batch(random.normal(0, 1, (4, 3)), np.ones((4, 1))))
