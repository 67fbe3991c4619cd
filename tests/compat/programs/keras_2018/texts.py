"""A recurrent network that classifies texts."""

import numpy as np
from keras.layers import LSTM, Dense, Embedding
from keras.layers.convolutional import Conv1D
from keras.layers.pooling import MaxPooling1D
from keras.layers.wrappers import Bidirectional
from keras.models import Sequential
from keras.preprocessing import sequence, text

texts = ["a good film", "a bad film", "good", "so very bad that it is not good"] * 4
labels = np.array([1, 0, 1, 0] * 4)
tokenizer = text.Tokenizer(num_words=20)
tokenizer.fit_on_texts(texts)
x_train = sequence.pad_sequences(tokenizer.texts_to_sequences(texts), maxlen=8)
model = Sequential()
model.add(Embedding(20, 6, input_length=8))
model.add(Conv1D(4, 3, padding="same", activation="relu"))
model.add(MaxPooling1D(pool_size=2))
model.add(Bidirectional(LSTM(5)))
model.add(Dense(1, activation="sigmoid"))
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["acc"])
history = model.fit(x_train, labels, batch_size=4, epochs=2, verbose=0, shuffle=False)
result = [*history.history["loss"], *history.history["acc"], *model.predict(x_train[:4])[:, 0]]
