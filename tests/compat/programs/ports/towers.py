"""An Estimator that trains on two towers, with tf.layers and columns of features."""

import numpy as np
import tensorflow as tf

tf.logging.set_verbosity(tf.logging.ERROR)
COLORS = ["red", "green", "blue"]


def model_fn(features, labels, mode, params):
    initializers = [tf.glorot_uniform_initializer(seed=seed) for seed in (1, 2)]
    net = tf.feature_column.input_layer(features, params["columns"])
    net = tf.layers.dense(net, 8, activation=tf.nn.relu, kernel_initializer=initializers[0])
    net = tf.layers.dropout(net, 0.0, training=mode == tf.estimator.ModeKeys.TRAIN)
    logits = tf.layers.dense(net, 2, kernel_initializer=initializers[1])
    classes = tf.argmax(logits, 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"classes": classes})
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    metrics = {"accuracy": tf.metrics.accuracy(labels, classes)}
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    optimizer = tf.contrib.estimator.TowerOptimizer(tf.train.MomentumOptimizer(0.1, 0.9))
    train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main():
    random = np.random.RandomState(0)
    x = {"x": random.uniform(-1, 1, [64, 2]).astype(np.float32), "color": np.resize(COLORS, 64)}
    y = (x["x"].sum(axis=1) > 0).astype(np.int32)
    color = tf.feature_column.categorical_column_with_vocabulary_list("color", COLORS)
    columns = [
        tf.feature_column.numeric_column("x", [2]),
        tf.feature_column.indicator_column(color),
    ]
    session = tf.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
    config = tf.estimator.RunConfig(tf_random_seed=3, session_config=session)
    towers = tf.contrib.estimator.replicate_model_fn(
        model_fn, loss_reduction=tf.losses.Reduction.MEAN, devices=["/cpu:0", "/cpu:1"]
    )
    model = tf.estimator.Estimator(towers, config=config, params={"columns": columns})
    inputs = tf.estimator.inputs.numpy_input_fn(x, y, batch_size=16, num_epochs=2, shuffle=False)
    train = tf.estimator.TrainSpec(inputs, max_steps=8)
    evaluation = tf.estimator.EvalSpec(inputs, steps=None, start_delay_secs=0, throttle_secs=0)
    tf.estimator.train_and_evaluate(model, train, evaluation)
    print(sorted((name, float(value)) for name, value in model.evaluate(inputs).items()))
    print([int(each["classes"]) for each in model.predict(inputs)])


if __name__ == "__main__":
    main()
