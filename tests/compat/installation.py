"""Program that installs and uninstalls the names of TensorFlow 1, and reports what it finds.

It is a program, because other tests must not see the names.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import data_flow_ops  # Before the installation, as programs do.

import tf_condacc
from tf_condacc import compat

FIRST_IMPORTS = (
    "import tensorflow.contrib",
    "from tensorflow import contrib",
    "from tensorflow.contrib import estimator",
    "from tensorflow.contrib.estimator import TowerOptimizer, replicate_model_fn",
    "from tensorflow.contrib.opt import DropStaleGradientOptimizer",
    "from tensorflow.contrib.opt.python.training import drop_stale_gradient_optimizer",
    "from tensorflow.contrib.opt import *; DropStaleGradientOptimizer",
    "from tensorflow.contrib.slim import *; conv2d",
    "import tensorflow.contrib.estimator.python.estimator.replicate_model_fn",
    "import tensorflow.compat.v1.contrib.opt as opt",
    "from tensorflow.compat.v1.contrib.estimator import TowerOptimizer",
    "import tensorflow.contrib.slim as slim",
    "import tensorflow.contrib.slim.nets",
    "from tensorflow.contrib.slim.nets import resnet_v1",
    "from tensorflow.contrib.slim.python.slim.nets import resnet_utils",
    "from tensorflow.contrib.framework.python.ops import add_arg_scope, variables",
    "from tensorflow.contrib.framework.python.ops.variables import get_or_create_global_step",
    "from tensorflow.contrib.layers import conv2d, xavier_initializer",
    "from tensorflow.contrib.layers.python.layers import utils",
    "from tensorflow.contrib.training.python.training import evaluation",
    "from tensorflow.contrib.training.python.training.hparam import HParams",
    "from tensorflow.python.estimator import estimator, model_fn",
    "from tensorflow.python.estimator.run_config import RunConfig",
    "from tensorflow.estimator import Estimator, EstimatorSpec",
    "from tensorflow.compat.v1.estimator import ModeKeys",
    "from tensorflow.python.training import distribution_strategy_context, training_ops",
    "from tensorflow.python.training.tracking import tracking, util; tracking.AutoTrackable",
    "from tensorflow.examples.tutorials.mnist import input_data, mnist",
    "import tensorflow.examples.tutorials.mnist.input_data as data; data.read_data_sets",
    "import tensorflow.examples.tutorials.mnist.mnist; tensorflow.examples.tutorials.mnist.mnist",
    "from tensorflow.contrib.learn.python.learn.datasets.mnist import DataSet, read_data_sets",
    "from tensorflow.contrib import learn; learn.datasets.load_dataset",
    "from tensorflow.contrib.learn import Experiment, RunConfig, learn_runner; learn_runner.run",
    "import tensorflow.contrib.learn as learn; learn.utils.saved_model_export_utils",
    "from tensorflow.contrib.framework.python.ops import variables as v; v.model_variable",
    "from tensorflow.contrib.layers.python.layers import layers as l; l.conv2d",
    "from tensorflow.contrib.metrics.python.ops import metric_ops; metric_ops.streaming_mean",
    "from tensorflow.contrib.data.python.ops import batching; batching.map_and_batch",
)
MISSING = (
    "tf.contrib.crf",
    "tf.contrib.opt.AdamWOptimizer",
    "tf.contrib.rnn.BasicLSTMCell",
    "tf.contrib.slim.conv4d",
    "tf.contrib.distributions.Mixture",
    "tf.contrib.data.StatsAggregator",
    "tf.contrib.training.RandomStrategy",
    "tf.contrib.layers.sparse_column_with_hash_bucket",
    "tf.contrib.legacy_seq2seq",
    "tf.contrib.nn.alpha_dropout",
    "tf.contrib.data.batch_and_drop_remainder",
)
RENAMED = {
    "data.map_and_batch": "data.experimental.map_and_batch",
    "distributions.Bernoulli": "distributions.Bernoulli",
    "framework.get_or_create_global_step": "train.get_or_create_global_step",
    "framework.nest.flatten": "nest.flatten",
    "rnn.static_rnn": "nn.static_rnn",
    "util.make_tensor_proto": "make_tensor_proto",
}


def snapshot() -> dict[str, Any]:
    """Returns all modules of TensorFlow, and what each of their attributes is."""
    return {
        name: (id(module), {key: _identity(key, value) for key, value in vars(module).items()})
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in ("tensorflow", "tf_condacc", "tf_slim", "tf_keras")
        and hasattr(module, "__dict__")
    }


def _identity(key: str, value: Any) -> Any:
    return list(value) if key == "__all__" else id(value)


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Returns the names of the modules and attributes that differ."""
    found = [f"module {name}" for name in before.keys() ^ after.keys()]
    for name in before.keys() & after.keys():
        (module, attributes), (module_now, attributes_now) = before[name], after[name]
        if module != module_now:
            found.append(f"module {name}")
        found += [
            f"{name}.{key}"
            for key in attributes.keys() | attributes_now.keys()
            if attributes.get(key) != attributes_now.get(key)
        ]
    return found


def failed_imports() -> list[str]:
    """Returns the imports that fail, with their errors. Each starts from the same state."""
    failed = []
    for statement in FIRST_IMPORTS:
        with compat.installed():
            try:
                exec(statement, {})
            except Exception as error:
                failed.append(f"{statement}: {error!r}")
    return failed


def error_of(statement: str) -> str:
    """Returns the type and the message of the error of a statement."""
    try:
        exec(statement, {"tf": tf})
    except (AttributeError, ImportError) as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def at(path: str) -> Any:
    """Returns an object of ``tf.compat.v1``."""
    found = tf.compat.v1
    for name in path.split("."):
        found = getattr(found, name)
    return found


def has_hook_of_tensorflow() -> bool:
    """Returns whether our optimizer's hook is an instance of TensorFlow's private class."""
    train = tf.compat.v1.train
    module = importlib.import_module("tensorflow.python.training.sync_replicas_optimizer")
    with tf.Graph().as_default():
        variable = tf.compat.v1.get_variable("variable", [1])
        optimizer = train.SyncReplicasOptimizer(train.GradientDescentOptimizer(0.1), 1)
        optimizer.minimize(variable, train.get_or_create_global_step())
        hook = optimizer.make_session_run_hook(True)
    return isinstance(hook, module._SyncReplicasOptimizerHook)


def ours() -> dict[str, bool]:
    """Returns for each name whether it is an object of this package."""
    modules = importlib.import_module("tensorflow.python.training.training")
    standard = importlib.import_module("tensorflow.python.ops.standard_ops")
    v1 = tf.compat.v1
    dense, sparse = tf_condacc.ConditionalAccumulator, tf_condacc.SparseConditionalAccumulator
    sync = tf_condacc.SyncReplicasOptimizer
    device = v1.train.replica_device_setter(ps_tasks=2)
    with tf.Graph().as_default(), v1.device(device):
        places = [v1.ConditionalAccumulator(tf.float32).accumulator_ref.device for _ in range(2)]
    return {
        "tf.compat.v1 dense": v1.ConditionalAccumulator is dense,
        "tf.compat.v1 base": v1.ConditionalAccumulatorBase is tf_condacc.ConditionalAccumulatorBase,
        "tf.compat.v1 sparse": v1.SparseConditionalAccumulator is sparse,
        "tf.compat.v1.sparse": v1.sparse.SparseConditionalAccumulator is sparse,
        "data_flow_ops": data_flow_ops.ConditionalAccumulator is dense,
        "standard_ops": standard.SparseConditionalAccumulator is sparse,
        "tf.compat.v1.train": v1.train.SyncReplicasOptimizer is sync,
        "hook": has_hook_of_tensorflow(),
        "training.training": modules.SyncReplicasOptimizer is sync,
        "parameter servers": places == ["/job:ps/task:0", "/job:ps/task:1"],
        "drop stale": v1.contrib.opt.DropStaleGradientOptimizer
        is tf.contrib.opt.DropStaleGradientOptimizer
        is tf_condacc.DropStaleGradientOptimizer,
        "towers": v1.contrib.estimator.TowerOptimizer is tf_condacc.TowerOptimizer,
        "replicate": tf.contrib.estimator.replicate_model_fn is tf_condacc.replicate_model_fn,
        "MNIST": v1.contrib.learn.datasets.mnist.read_data_sets
        is importlib.import_module("tensorflow.examples.tutorials.mnist.input_data").read_data_sets
        is v1.examples.tutorials.mnist.input_data.read_data_sets,
        "balancing": v1.contrib.training.byte_size_load_fn is tf_condacc.cluster.byte_size_load_fn,
    }


def merged_devices() -> list[str]:
    """Returns the devices of two variables under a device setter of a program's own.

    It merges devices in place, as copies of ``replicate_model_fn`` and ``local_device_setter`` do.
    """
    device = importlib.import_module("tensorflow.python.framework.device")

    def setter(operation: Any) -> str:
        worker = device.DeviceSpec.from_string("/job:worker/cpu:1")
        if operation.type != "VarHandleOp":
            worker = device.DeviceSpec.from_string("/job:ps/task:2")
        found = device.DeviceSpec.from_string(operation.device or "")
        worker.merge_from(found)
        return str(worker.to_string())

    with tf.Graph().as_default(), tf.compat.v1.device(setter), tf.compat.v1.device("/task:3"):
        variable = tf.compat.v1.get_variable("variable", [1], use_resource=True)
        return [variable.handle.device, tf.constant(1).device]


def unresolved() -> list[str]:
    """Returns the names in the tables of private modules and ``tf.contrib`` without an object."""
    originals = importlib.import_module("condacc.originals")
    has_tensorboard = importlib.util.find_spec("tensorboard") is not None
    names = {
        f"tensorflow.{path}": places
        for path, places in originals.NAMES.items()
        # The cells of tf.contrib.rnn need Keras 2.
        if path.startswith(("contrib", "python.")) and path != "contrib.rnn"
    } | {path: {} for path in originals.MOVED_MODULES if path.startswith("tensorflow.")}
    return [
        f"{path}.{name}"
        for path, places in names.items()
        if has_tensorboard or not ("tensorboard" in path or "event_accumulator" in path)
        if (module := importlib.import_module(path)) is not None
        for name in places
        if not hasattr(module, name)
    ]


def without_slim() -> dict[str, str]:
    """Returns the errors of names of slim if it is not installed."""
    sys.modules["tf_slim"] = None  # type: ignore[assignment]  # Python says that it is missing.
    with compat.installed():
        statements = (
            "import tensorflow.contrib.slim",
            "from tensorflow.contrib import layers",
            "tf.contrib.slim",
            "tf.contrib.framework.arg_scope",
            "tf.contrib.framework.get_global_step",
            "from tensorflow.contrib.opt import DropStaleGradientOptimizer",
        )
        errors = {statement: error_of(statement) for statement in statements}
    del sys.modules["tf_slim"]
    return errors


def main() -> None:
    """Writes the report."""
    report: dict[str, Any] = {"without slim": without_slim()}
    originals = (data_flow_ops.ConditionalAccumulator, tf.compat.v1.train.SyncReplicasOptimizer)
    report["failed imports"] = failed_imports()  # Also imports what remains, such as tf_slim.
    with compat.installed():
        ours()  # Its first graph changes variables of TensorFlow that are set once.
        report["unresolved"] = unresolved()
    before, finders = snapshot(), list(sys.meta_path)
    with compat.installed():
        compat.install()
        with compat.installed():
            pass
        later = importlib.import_module("tensorflow.compat.v1.train")
        is_ours = later.SyncReplicasOptimizer is tf_condacc.SyncReplicasOptimizer
        report["ours"] = ours() | {"a module that was imported later": is_ours}
        report["missing"] = {name: error_of(name) for name in MISSING}
        report["missing import"] = error_of("from tensorflow.contrib.opt import AdamWOptimizer")
        report["missing module"] = error_of("import tensorflow.contrib.crf.python")
        report["devices"] = merged_devices()
        report["hasattr"] = [hasattr(tf.contrib, name) for name in ("slim", "crf")]
        report["renamed"] = {
            old: at(f"contrib.{old}") is at(new) or at(f"contrib.{old}").__name__
            for old, new in RENAMED.items()
        }
    compat.uninstall()
    found = differences(before, snapshot())
    report["differences"] = [each for each in found if "tensorflow.compat.v1.train" not in each]
    report["restored"] = [
        sys.meta_path == finders,
        data_flow_ops.ConditionalAccumulator is originals[0],
        tf.compat.v1.train.SyncReplicasOptimizer is originals[1],
        later.SyncReplicasOptimizer is originals[1],
        not hasattr(tf, "contrib"),
        error_of("import tensorflow.contrib").startswith("ModuleNotFoundError"),
    ]
    print(json.dumps(report))


if __name__ == "__main__":
    main()
