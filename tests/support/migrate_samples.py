"""Programs before and after they are rewritten by ``python -m tf_condacc.migrate``."""

from __future__ import annotations

import dataclasses
import textwrap


@dataclasses.dataclass(frozen=True)
class Sample:
    """A program before and after the rewriting. If `after` is None, nothing changes."""

    name: str
    before: str
    after: str | None = None
    estimator: bool = False

    @property
    def expected(self) -> str:
        """The program that the rewriting must return."""
        return self.before if self.after is None else self.after


def _sample(name: str, before: str, after: str | None = None, estimator: bool = False) -> Sample:
    after = None if after is None else textwrap.dedent(after)
    return Sample(name, textwrap.dedent(before), after, estimator)


SAMPLES = [
    _sample(
        "what tf_upgrade_v2 writes",
        """\
        import tensorflow as tf

        acc = tf.compat.v1.ConditionalAccumulator(tf.float32, shape=[2])
        rows = tf.compat.v1.sparse.SparseConditionalAccumulator(tf.float32)
        sgd = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        sync = tf.compat.v1.train.SyncReplicasOptimizer(sgd, 2)
        """,
        """\
        import tensorflow as tf
        import tf_condacc

        acc = tf_condacc.ConditionalAccumulator(tf.float32, shape=[2])
        rows = tf_condacc.SparseConditionalAccumulator(tf.float32)
        sgd = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        sync = tf_condacc.SyncReplicasOptimizer(sgd, 2)
        """,
    ),
    _sample(
        "names of contrib, with a docstring and a future import",
        '''\
        #!/usr/bin/env python
        """A program."""
        from __future__ import print_function

        import os

        import tensorflow.compat.v1 as tf

        sgd = tf.train.GradientDescentOptimizer(0.1)
        opt = tf.contrib.opt.DropStaleGradientOptimizer(sgd, staleness=3)
        opt = tf.contrib.estimator.TowerOptimizer(opt)
        fn = tf.contrib.estimator.replicate_model_fn(model_fn)
        ''',
        '''\
        #!/usr/bin/env python
        """A program."""
        from __future__ import print_function

        import os

        import tensorflow.compat.v1 as tf
        import tf_condacc

        sgd = tf.train.GradientDescentOptimizer(0.1)
        opt = tf_condacc.DropStaleGradientOptimizer(sgd, staleness=3)
        opt = tf_condacc.TowerOptimizer(opt)
        fn = tf_condacc.replicate_model_fn(model_fn)
        ''',
    ),
    _sample(
        "names imported from contrib keep their aliases",
        """\
        from tensorflow.contrib.opt import DropStaleGradientOptimizer as Drop  # staleness
        from tensorflow.contrib.estimator.python.estimator.replicate_model_fn import TowerOptimizer
        from tensorflow.contrib.opt.python.training.drop_stale_gradient_optimizer import (
            DropStaleGradientOptimizer,
        )
        from tensorflow_estimator.contrib.estimator.python.estimator import replicate_model_fn as r
        print(r.replicate_model_fn, Drop, TowerOptimizer, DropStaleGradientOptimizer)
        """,
        """\
        from tf_condacc import DropStaleGradientOptimizer as Drop  # staleness
        from tf_condacc import TowerOptimizer
        from tf_condacc import (
            DropStaleGradientOptimizer,
        )
        import tf_condacc
        print(tf_condacc.replicate_model_fn, Drop, TowerOptimizer, DropStaleGradientOptimizer)
        """,
    ),
    _sample(
        "an import of several names is split",
        """\
        from tensorflow.contrib.training import HParams, GreedyLoadBalancingStrategy as Greedy
        from tensorflow.contrib.estimator import (
            TowerOptimizer,  # towers
            InMemoryEvaluatorHook,
        )
        print(HParams, Greedy, TowerOptimizer, InMemoryEvaluatorHook)
        """,
        """\
        from tensorflow.contrib.training import HParams
        from tf_condacc.cluster import GreedyLoadBalancingStrategy as Greedy
        from tensorflow.contrib.estimator import (
            InMemoryEvaluatorHook,
        )
        from tf_condacc import TowerOptimizer  # towers
        print(HParams, Greedy, TowerOptimizer, InMemoryEvaluatorHook)
        """,
    ),
    _sample(
        "modules that are no longer used are no longer imported",
        """\
        import tensorflow as tf
        # The optimizers.
        from tensorflow.contrib import opt  # noqa: E402
        from tensorflow.python.ops import data_flow_ops
        from tensorflow.contrib import estimator, slim

        optimizer = opt.DropStaleGradientOptimizer(sgd, 1)
        accumulator = data_flow_ops.ConditionalAccumulator(tf.float32)
        towers = estimator.TowerOptimizer(optimizer)
        slim.conv2d()
        """,
        """\
        import tensorflow as tf
        # The optimizers.
        import tf_condacc  # noqa: E402
        from tensorflow.contrib import slim

        optimizer = tf_condacc.DropStaleGradientOptimizer(sgd, 1)
        accumulator = tf_condacc.ConditionalAccumulator(tf.float32)
        towers = tf_condacc.TowerOptimizer(optimizer)
        slim.conv2d()
        """,
    ),
    _sample(
        "modules that are used otherwise stay",
        """\
        from tensorflow.python.ops import data_flow_ops

        accumulator = data_flow_ops.ConditionalAccumulator(float)
        queue = data_flow_ops.FIFOQueue(1, float)
        """,
        """\
        from tensorflow.python.ops import data_flow_ops
        import tf_condacc

        accumulator = tf_condacc.ConditionalAccumulator(float)
        queue = data_flow_ops.FIFOQueue(1, float)
        """,
    ),
    _sample(
        "an exported module stays",
        """\
        from tensorflow.contrib import opt
        __all__ = ["opt", "Mine"]
        class Mine(opt.DropStaleGradientOptimizer):
            pass
        """,
        """\
        from tensorflow.contrib import opt
        import tf_condacc
        __all__ = ["opt", "Mine"]
        class Mine(tf_condacc.DropStaleGradientOptimizer):
            pass
        """,
    ),
    _sample(
        "a module that is an attribute of a class stays",
        """\
        class Model:
            import tensorflow.compat.v1 as tf
            kind = tf.ConditionalAccumulator
            def shape(self):
                return self.tf.TensorShape([])
        """,
        """\
        class Model:
            import tensorflow.compat.v1 as tf
            import tf_condacc
            kind = tf_condacc.ConditionalAccumulator
            def shape(self):
                return self.tf.TensorShape([])
        """,
    ),
    _sample(
        "imports that go on in the next line",
        """\
        from tensorflow.contrib import opt, \\
            slim
        from tensorflow.contrib import rnn, \\
            estimator
        from tensorflow.contrib.estimator import \\
            TowerOptimizer
        def one_line(): import tensorflow as t; return t.ConditionalAccumulator
        print(opt.DropStaleGradientOptimizer, slim, rnn, estimator.replicate_model_fn)
        """,
        """\
        from tensorflow.contrib import slim
        import tf_condacc
        from tensorflow.contrib import rnn
        from tf_condacc import \\
            TowerOptimizer
        def one_line(): pass; return tf_condacc.ConditionalAccumulator
        print(tf_condacc.DropStaleGradientOptimizer, slim, rnn, tf_condacc.replicate_model_fn)
        """,
    ),
    _sample(
        "imports in functions and blocks",
        """\
        def build():
            from tensorflow.contrib import opt as o
            return o.DropStaleGradientOptimizer

        def late():
            import tensorflow as tf
            def inner():
                return tf.compat.v1.ConditionalAccumulator
            return inner, tf.float32

        def either(new):
            if new:
                import tensorflow.compat.v1 as tf
            else:
                import tensorflow as tf
            return tf.ConditionalAccumulator, tf.float32
        """,
        """\
        def build():
            import tf_condacc
            return tf_condacc.DropStaleGradientOptimizer

        def late():
            import tensorflow as tf
            import tf_condacc
            def inner():
                return tf_condacc.ConditionalAccumulator
            return inner, tf.float32

        def either(new):
            if new:
                import tensorflow.compat.v1 as tf
                import tf_condacc
            else:
                import tensorflow as tf
                import tf_condacc
            return tf_condacc.ConditionalAccumulator, tf.float32
        """,
    ),
    _sample(
        "a block keeps a statement",
        """\
        import tensorflow as tf
        if tf.version:
            # For old versions.
            from tensorflow.contrib import opt
        if tf.version: from tensorflow.contrib import estimator
        print(opt.DropStaleGradientOptimizer, estimator.TowerOptimizer)
        print(tf.ConditionalAccumulator)
        """,
        """\
        import tensorflow as tf
        import tf_condacc
        if tf.version:
            # For old versions.
            pass
        if tf.version: pass
        print(tf_condacc.DropStaleGradientOptimizer, tf_condacc.TowerOptimizer)
        print(tf_condacc.ConditionalAccumulator)
        """,
    ),
    _sample(
        "several statements in a line",
        """\
        import os; import tensorflow as tf; tf.ConditionalAccumulator, tf
        print(tf.float32); from tensorflow.contrib import opt; opt.DropStaleGradientOptimizer
        """,
        """\
        import os; import tensorflow as tf; import tf_condacc; tf_condacc.ConditionalAccumulator, tf
        print(tf.float32); pass; tf_condacc.DropStaleGradientOptimizer
        """,
    ),
    _sample(
        "a module under a name of its own",
        """\
        import tensorflow as tf
        v1 = tf.compat.v1
        contrib_opt = tf.contrib.opt

        def place():
            train = v1.train
            return train.replica_device_setter(1)
        print(contrib_opt.DropStaleGradientOptimizer, v1.ConditionalAccumulatorBase)
        """,
        """\
        import tensorflow as tf
        import tf_condacc
        v1 = tf.compat.v1
        contrib_opt = tf.contrib.opt

        def place():
            train = v1.train
            return tf_condacc.replica_device_setter(1)
        print(tf_condacc.DropStaleGradientOptimizer, tf_condacc.ConditionalAccumulatorBase)
        """,
    ),
    _sample(
        "an import of this package is used",
        """\
        import tf_condacc as tfc
        import tensorflow as tf
        print(tf.ConditionalAccumulator, tf.float32)
        """,
        """\
        import tf_condacc as tfc
        import tensorflow as tf
        print(tfc.ConditionalAccumulator, tf.float32)
        """,
    ),
    _sample(
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
    _sample(
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
    _sample(
        "names that may be something else are left alone",
        """\
        try:
            from tensorflow.contrib import opt
        except ImportError:
            opt = None
        print(opt.DropStaleGradientOptimizer)
        """,
    ),
    _sample(
        "the Estimator is left alone",
        """\
        import tensorflow as tf
        from tensorflow.estimator import ModeKeys
        print(tf.estimator.Estimator, ModeKeys.TRAIN)
        """,
    ),
    _sample(
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
    _sample(
        "no name of the Estimator, if one of them is not provided",
        """\
        import tensorflow as tf
        from tensorflow.estimator import ModeKeys
        print(tf.estimator.Estimator, ModeKeys.TRAIN, tf.estimator.BestExporter)
        """,
        estimator=True,
    ),
    _sample(
        "no name of the Estimator, if an import of one of them is not provided",
        """\
        import tensorflow as tf
        from tensorflow.estimator import ModeKeys, DNNRegressor
        print(tf.estimator.Estimator, ModeKeys.TRAIN)
        """,
        estimator=True,
    ),
    _sample(
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
    _sample(
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
    _sample(
        "tf.device of TensorFlow 1",
        """\
        import tensorflow.compat.v1 as tf
        import tf_condacc
        with tf.device(tf_condacc.replica_device_setter(1)): pass
        """,
    ),
]
