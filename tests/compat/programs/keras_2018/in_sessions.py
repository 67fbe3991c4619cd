"""Layers of Keras and of TensorFlow in the program's own session and training loop."""

import numpy as np
import tensorflow as tf
from keras import backend as K
from keras.backend.tensorflow_backend import get_session, set_session
from keras.layers import Dense
from keras.losses import categorical_crossentropy
from keras.metrics import categorical_accuracy
from keras.utils import to_categorical

config = tf.ConfigProto()
config.gpu_options.allow_growth = True
set_session(tf.Session(config=config))
x_data = np.random.RandomState(0).rand(8, 4)
y_data = to_categorical(np.arange(8) % 2, 2)
x = tf.placeholder(tf.float32, [None, 4])
labels = tf.placeholder(tf.float32, [None, 2])
hidden = Dense(6, activation="relu")(x)
hidden = tf.layers.dense(hidden, 4, activation=tf.nn.relu)
predictions = Dense(2, activation="softmax")(hidden)
loss = tf.reduce_mean(categorical_crossentropy(labels, predictions))
train_step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
accuracy = tf.reduce_mean(categorical_accuracy(labels, predictions))
session = get_session()
session.run(tf.global_variables_initializer())
feeds = {x: x_data, labels: y_data, K.learning_phase(): 1}
result = [session.run([train_step, loss], feeds)[1] for _ in range(3)]
result += [session.run(accuracy, {x: x_data, labels: y_data})]
