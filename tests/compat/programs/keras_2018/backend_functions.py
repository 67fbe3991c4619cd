"""Functions and gradients of the backend, with a loss of the program's own."""

import numpy as np
from keras import backend as K
from keras.layers import Dense, Dropout, Input, Lambda
from keras.models import Model

x = Input(shape=(4,), name="features")
hidden = Dense(5, activation="tanh")(x)
dropped = Dropout(0.5, seed=1)(hidden)
length = Lambda(lambda each: K.sqrt(K.sum(K.square(each), axis=-1, keepdims=True)))(dropped)
model = Model(inputs=x, outputs=length)


def huber(y_true, y_pred):
    error = K.abs(y_true - y_pred)
    return K.mean(K.switch(error < 1.0, 0.5 * K.square(error), error - 0.5), axis=-1)


def largest(y_true, y_pred):
    return K.max(y_pred)


model.compile(loss=huber, optimizer="rmsprop", metrics=[largest])
data = np.random.RandomState(0).rand(8, 4).astype("float32")
losses = model.fit(data, np.full([8, 1], 3.0), batch_size=8, epochs=2, verbose=0).history["loss"]
slope = K.gradients(K.mean(hidden[:, 0]), model.input)[0]
slope /= K.sqrt(K.mean(K.square(slope))) + K.epsilon()
iterate = K.function([model.input], [K.mean(hidden[:, 0]), slope])
image = np.zeros((1, 4), "float32")
for _ in range(3):
    value, step = iterate([image])
    image += 0.1 * step
predict = K.function([model.layers[0].input, K.learning_phase()], [model.layers[-1].output])
result = [*losses, value, *image[0], *predict([data[:2], 0])[0][:, 0]]
