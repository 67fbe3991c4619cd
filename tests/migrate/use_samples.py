"""Programs in which ``condacc migrate`` changes names, or leaves them alone."""

from __future__ import annotations

from tests.migrate.sample import sample

SAMPLES = [
    sample(
        "names over several lines, in f-strings, decorators, annotations and defaults",
        """\
        import tensorflow as tf

        @tf.contrib.estimator.replicate_model_fn
        def model_fn(a: tf.ConditionalAccumulator, b=tf.train.SyncReplicasOptimizer):
            return f"{tf.train.SyncReplicasOptimizer!r:>9}"
        x = (tf
             .train
             .SyncReplicasOptimizer)(tf.float32)
        """,
        """\
        import tensorflow as tf
        import tf_condacc

        @tf_condacc.replicate_model_fn
        def model_fn(a: tf_condacc.ConditionalAccumulator, b=tf_condacc.SyncReplicasOptimizer):
            return f"{tf_condacc.SyncReplicasOptimizer!r:>9}"
        x = (tf_condacc.SyncReplicasOptimizer)(tf.float32)
        """,
    ),
    sample(
        "other names, strings and comments are left alone",
        '''\
        """Uses tf.ConditionalAccumulator."""
        import tensorflow as tf
        from mine import ConditionalAccumulator, data_flow_ops
        from .contrib import opt
        from .tensorflow.contrib.opt import DropStaleGradientOptimizer

        # tf.contrib.opt.DropStaleGradientOptimizer
        def f(tf, opt=None):
            return tf.ConditionalAccumulator, opt.DropStaleGradientOptimizer

        class Local:
            tf = None
            x = [tf.ConditionalAccumulator for tf in ()]
        print("tf.ConditionalAccumulator", data_flow_ops.ConditionalAccumulator)
        print(mine.tf.ConditionalAccumulator)
        print(dict(tf=1).tf.ConditionalAccumulator, tf.compat.v1.ConditionalAccumulatorOfMine)
        ''',
    ),
    sample(
        "the Estimator, if asked for",
        """\
        import tensorflow as tf
        from tensorflow.estimator import ModeKeys, train_and_evaluate
        print(tf.estimator.Estimator, ModeKeys.TRAIN, tf.compat.v1.estimator.ModeKeys.EVAL)
        print(tf.estimator.export.PredictOutput, train_and_evaluate)
        """,
        """\
        import tf_condacc
        from tf_condacc.estimator import ModeKeys, train_and_evaluate
        print(tf_condacc.estimator.Estimator, ModeKeys.TRAIN, tf_condacc.estimator.ModeKeys.EVAL)
        print(tf_condacc.estimator.export.PredictOutput, train_and_evaluate)
        """,
        estimator=True,
    ),
    sample(
        "the Estimator, if no value is given to start warm or to export",
        """\
        from tensorflow.estimator import Estimator, EvalSpec
        print(Estimator(model_fn, warm_start_from=None), EvalSpec(input_fn, 1, None, None, None))
        """,
        """\
        from tf_condacc.estimator import Estimator, EvalSpec
        print(Estimator(model_fn, warm_start_from=None), EvalSpec(input_fn, 1, None, None, None))
        """,
        estimator=True,
    ),
    sample(
        "no name of the Estimator, if an import of one of them is not provided",
        """\
        import tensorflow as tf
        from tensorflow.estimator import ModeKeys, DNNRegressor
        print(tf.estimator.Estimator, ModeKeys.TRAIN)
        """,
        estimator=True,
    ),
    sample(
        "tf.device with a device setter or another function",
        """\
        import tensorflow as tf
        with tf.device(tf.train.replica_device_setter(ps_tasks=1)), tf.device("/cpu:0"):
            pass
        setter = tf.compat.v1.train.replica_device_setter(1) if ps else "/gpu:0"
        def place(op): return ""
        with tf.device(place), tf.device(lambda op: ""): pass
        with tf.compat.v1.device(place): pass
        setter = None
        setter = tf.compat.v1.train.replica_device_setter(1)
        with tf.device(setter): pass
        """,
        """\
        import tensorflow as tf
        import tf_condacc
        with tf.compat.v1.device(tf_condacc.replica_device_setter(ps_tasks=1)), tf.device("/cpu:0"):
            pass
        setter = tf_condacc.replica_device_setter(1) if ps else "/gpu:0"
        def place(op): return ""
        with tf.compat.v1.device(place), tf.compat.v1.device(lambda op: ""): pass
        with tf.compat.v1.device(place): pass
        setter = None
        setter = tf_condacc.replica_device_setter(1)
        with tf.compat.v1.device(setter): pass
        """,
    ),
    sample(
        "tf.layers, which tf_upgrade_v2 leaves as it is",
        """\
        import tensorflow as tf
        import tensorflow.compat.v1 as v1
        x = tf.layers.dense(tf.layers.flatten(x), 1, kernel_initializer=model.layers[0])
        v1.layers.dense(tf.compat.v1.layers.dense(x, tf.keras.layers), tf.contrib.layers)
        """,
        """\
        import tensorflow as tf
        import tensorflow.compat.v1 as v1
        x = tf.compat.v1.layers.dense(tf.compat.v1.layers.flatten(x), 1, kernel_initializer=model.layers[0])
        v1.layers.dense(tf.compat.v1.layers.dense(x, tf.keras.layers), tf.contrib.layers)
        """,  # noqa: E501
    ),
    sample(
        "functions of tf.summary, which tf_upgrade_v2 leaves as they are",
        """\
        import tensorflow as tf
        tf.summary.scalar("loss", loss), tf.summary.image("x", x, 3), map(tf.summary.text, a, b)
        tf.summary.scalar("loss", loss, step=1), tf.summary.text("t", x, 1), v1.summary.merge_all()
        """,
        """\
        import tensorflow as tf
        tf.compat.v1.summary.scalar("loss", loss), tf.compat.v1.summary.image("x", x, 3), map(tf.compat.v1.summary.text, a, b)
        tf.summary.scalar("loss", loss, step=1), tf.summary.text("t", x, 1), v1.summary.merge_all()
        """,  # noqa: E501
    ),
    sample(
        "summaries of TensorFlow 2",
        """\
        import tensorflow as tf
        with tf.summary.create_file_writer(folder).as_default():
            tf.summary.scalar("loss", loss, steps)
        """,
    ),
    sample(
        "tf.device with a device setter that was rewritten before",
        """\
        import tensorflow
        from tf_condacc import replica_device_setter as setter
        with tensorflow.device(setter(1)): pass
        """,
        """\
        import tensorflow
        from tf_condacc import replica_device_setter as setter
        with tensorflow.compat.v1.device(setter(1)): pass
        """,
    ),
    sample(
        "tf.device of TensorFlow 1",
        """\
        import tensorflow.compat.v1 as tf
        import tf_condacc
        with tf.device(tf_condacc.replica_device_setter(1)): pass
        """,
    ),
]
