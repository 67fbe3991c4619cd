"""A model with shared layers, two inputs and two outputs."""

import numpy as np
from keras import Input, Model
from keras.layers import GRU, Dense, Dot, TimeDistributed
from keras.layers.merge import add, concatenate
from keras.optimizers import RMSprop
from keras.regularizers import l2

left, right = Input(shape=(4, 2), name="left"), Input(shape=(4, 2), name="right")
shared = GRU(3, kernel_regularizer=l2(1e-3))
encoded = [shared(TimeDistributed(Dense(2, activation="tanh"))(each)) for each in (left, right)]
similar = Dot(axes=-1, normalize=True)(encoded)
total = Dense(1, name="total")(concatenate([add(encoded), similar]))
model = Model(inputs=[left, right], outputs=[similar, total])
model.compile(
    optimizer=RMSprop(lr=0.01, rho=0.9), loss=["binary_crossentropy", "mse"], loss_weights=[1, 0.2]
)
random = np.random.RandomState(0)
data = {"left": random.rand(8, 4, 2), "right": random.rand(8, 4, 2)}
targets = [np.arange(8) % 2, random.rand(8)]
history = model.fit(data, targets, batch_size=4, epochs=2, verbose=0, shuffle=False)
result = [*history.history["loss"], *history.history["total_loss"]]
result += [*model.predict([data["left"][:2], data["right"][:2]])[1][:, 0]]
