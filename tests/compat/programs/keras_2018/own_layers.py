"""Layers, an initializer and a regularizer of the program's own."""

import numpy as np
from keras import backend as K
from keras import initializers, regularizers
from keras.engine.topology import InputSpec, Layer
from keras.layers import Dense, Input
from keras.models import Model
from keras.utils.conv_utils import normalize_padding


class Attention(Layer):
    def __init__(self, units, **kwargs):
        self.units = units
        self.init = initializers.get("normal")
        self.padding = normalize_padding("SAME")
        super().__init__(**kwargs)

    def build(self, input_shape):
        self.input_spec = [InputSpec(ndim=3)]
        self.W = self.add_weight(
            name="W",
            shape=(int(input_shape[-1]), self.units),
            initializer=self.init,
            regularizer=regularizers.l2(0.01),
            trainable=True,
        )
        self.u = self.add_weight(name="u", shape=(self.units, 1), initializer="uniform")
        super().build(input_shape)

    def call(self, x, mask=None):
        weights = K.softmax(K.squeeze(K.dot(K.tanh(K.dot(x, self.W)), self.u), -1))
        return K.sum(x * K.expand_dims(weights), axis=1)

    def compute_output_shape(self, input_shape):
        return input_shape[0], input_shape[-1]


random = np.random.RandomState(0)
words = Input(shape=(5, 3))
model = Model(words, Dense(1)(Attention(4)(words)))
model.compile("adagrad", "mean_squared_error")
x = random.rand(8, 5, 3)
history = model.fit(x, x.sum(axis=(1, 2)), batch_size=4, epochs=2, verbose=0, shuffle=False)
result = [*history.history["loss"], *model.predict(x[:2])[:, 0]]
