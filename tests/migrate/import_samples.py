"""Programs whose imports ``condacc migrate`` changes."""

from __future__ import annotations

from tests.migrate.sample import sample

SAMPLES = [
    sample(
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
    sample(
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
    sample(
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
    sample(
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
    sample(
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
    sample(
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
    sample(
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
    sample(
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
    sample(
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
    sample(
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
    sample(
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
    sample(
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
]
