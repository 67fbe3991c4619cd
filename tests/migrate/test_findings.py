"""Tests of the findings: what needs manual review, and where it is."""

from __future__ import annotations

import pytest

from condacc.migrate._findings import Code
from condacc.migrate._names import OP_TYPES
from condacc.migrate._program import migrate_text

TF = "import tensorflow as tf\n"
# A program, and the codes, lines and columns of its findings.
FOUND = {
    "a name of contrib": (TF + "x = 1 + tf.contrib.rnn.Cell()", "TC101 2:9"),
    "a module of contrib that is assigned": (
        TF + "slim = tf.contrib.slim\nslim.conv2d",
        "TC101 2:8",
    ),
    "an import from contrib": ("from tensorflow.contrib import slim\nslim.conv2d", "TC102 1:32"),
    "an import of contrib": ("import tensorflow.contrib.rnn as r\nr.Cell", "TC102 1:8"),
    "an import of contrib itself": ("from tensorflow import contrib", "TC102 1:24"),
    "names of contrib beside ours": (
        "from tensorflow.contrib.opt import DropStaleGradientOptimizer, LazyAdamOptimizer",
        "TC102 1:64",
    ),
    "a look-up in contrib": (TF + "getattr(tf.contrib, name)", "TC103 2:1"),
    "a look-up of a name of ours": (TF + 'getattr(tf.train, "SyncReplicasOptimizer")', "TC103 2:1"),
    "a module that is named by a string": (
        TF + 'import_module("tensorflow.contrib.opt")',
        "TC103 2:15",
    ),
    "the Estimator": (
        TF + "tf.estimator.Estimator(f, tf.compat.v1.estimator.RunConfig())",
        "TC201 2:1, TC201 2:27",
    ),
    "an import of the Estimator": ("from tensorflow import estimator as e\ne.X", "TC201 1:24"),
    "a private module": ("from tensorflow.python.ops import seq2seq", "TC301 1:35"),
    "a private name": (
        "from tensorflow.python.framework.ops import get_default_graph, IndexedSlices",
        "TC301 1:64",
    ),
    "the tutorial of MNIST": (
        "from tensorflow.examples.tutorials.mnist import input_data\n"
        "import tensorflow.examples.tutorials.mnist.mnist as m",
        "TC306 1:49, TC306 2:8",
    ),
    "what NumPy 2 lacks": (
        TF + "import numpy as np\nfrom numpy import asfarray\n"
        "np.int(3) + np.lib.pad(x, 1) + np.reshape(x, newshape=2) + np.int32(4) + tf.float_",
        "TC307 3:19, TC307 4:1, TC307 4:13, TC307 4:32",
    ),
    "a chief that nothing prepares": (
        TF + "tf.train.SyncReplicasOptimizer(a, 1)\ntf.train.SyncReplicasOptimizer(b, 1)",
        "TC410 2:1",
    ),
    "a private module by its name": (TF + "tf.python.ops.x", "TC301 2:1"),
    "all names of a module": ("from tensorflow.contrib.opt import *", "TC302 1:1"),
    "layers of Keras 2": (
        TF + "tf.compat.v1.layers.dense(x, 1)\ntf.nn.rnn_cell.LSTMCell\n"
        "tf.keras.regularizers.l2(0.1), tf.compat.v1.keras.initializers.VarianceScaling(1.0)",
        "TC303 2:1, TC303 3:1, TC303 4:1, TC303 4:32",
    ),
    "a module that tf_upgrade_v2 makes up": (
        "from tensorflow.compat.v1.python.platform import tf_logging as logging",
        "TC304 1:50",
    ),
    "a session without a graph": (
        TF + "x = tf.compat.v1.placeholder(tf.float32)\nwith tf.compat.v1.Session() as s: pass",
        "TC305 2:5",
    ),
    "a session with a hook of tf.estimator": (
        TF + "tf.compat.v1.Session()\nhook = tf.estimator.StopAtStepHook(9)",
        "TC305 2:1, TC201 3:8",
    ),
    "a monitored session that is imported": (
        "from tensorflow.compat.v1.train import MonitoredTrainingSession as M\n"
        "from tensorflow.compat.v1 import Session\nSession(); disable_v2_behavior",
        "TC305 3:1",
    ),
    "threads that do not see the graph": (
        "from tensorflow.compat.v1 import train\nwith Graph().as_default(): train.Supervisor()",
        "TC305 2:28",
    ),
    "threads of slim": (
        TF + "slim = tf.contrib.slim\nwith tf.Graph().as_default(): slim.learning.train(op)",
        "TC101 2:8, TC305 3:31",
    ),
    "types of operations": (
        TF + 'op.type == "AccumulatorApplyGradient"\nop.type in ["ConditionalAccumulator", "Add"]\n'
        'x = {"SparseAccumulatorTakeGradient": 1}',
        "TC401 2:12, TC401 3:13, TC401 4:6",
    ),
    "a name that is assigned or deleted": (
        TF + "tf.ConditionalAccumulator = Mine\ndel tf.SparseConditionalAccumulator",
        "TC402 2:1, TC402 3:5",
    ),
    "a name with several meanings": (
        TF + "if x:\n    tf = y\ntf.ConditionalAccumulator",
        "TC403 4:1",
    ),
    "types that are given to the device setter": (
        TF + 'tf.train.replica_device_setter(1, ps_ops=["Variable"])',
        "TC404 2:1",
    ),
    "a server without the package": (TF + "tf.distribute.Server(c).join()", "TC405 2:1"),
    "the package's name for something else": (
        TF + "def f(tf_condacc):\n    return tf.ConditionalAccumulator",
        "TC406 3:12",
    ),
    "a comment in a name": (TF + "x = (tf  # why\n     .ConditionalAccumulator)", "TC407 2:6"),
    "a device setter behind a variable": (
        TF + "tf.train.replica_device_setter(1)\n"
        'def f(d):\n    with tf.device(d), tf.device("/cpu:0"): pass\n    tf.device(self.setter)',
        "TC409 4:10, TC409 5:5",
    ),
    "a function for tf.device by a keyword or of version 2": (
        TF + "tf.device(device_name=lambda op: 1)\ntf.compat.v2.device(lambda op: 1)",
        "TC409 2:1, TC409 3:1",
    ),
    "a function for a device that is imported": (
        "from tensorflow import device\ndef f(op_fn): device(op_fn)",
        "TC409 2:15",
    ),
    "a late import in a function": (
        "def f():\n    x = tf.ConditionalAccumulator\n"
        "    from tensorflow.contrib import opt\n    return opt.DropStaleGradientOptimizer\n" + TF,
        "TC102 3:36, TC408 4:12",
    ),
}
QUIET = {
    "private modules that TensorFlow has": "from tensorflow.python.framework import ops\n"
    "from tensorflow.python.ops.math_ops import add, reduce_sum\n"
    "import tensorflow.python.ops.array_ops as a\n"
    "from tensorflow.python.client import device_lib",
    "a chief that its hook prepares": TF
    + "tf.train.SyncReplicasOptimizer(a, 1).make_session_run_hook(True)",
    "a chief that is prepared": TF + "sess.run(tf.train.SyncReplicasOptimizer(a, 1).chief_init_op)",
    "a chief that slim prepares": TF
    + "o = tf.train.SyncReplicasOptimizer(a, 1)\nlearning.train(op, sync_optimizer=o)",
    "devices that are no functions": TF
    + "tf.device(tf.train.replica_device_setter(1))\ntf.device(tf.DeviceSpec(job='ps'))\n"
    "tf.device(v.device)\ntf.device('/gpu:{}'.format(setters))\ntf.device(str(fn))",
    "public names": TF + "tf.keras.layers.Dense(1)\nfrom tensorflow.compat.v1 import train",
    "a server with the package": TF + "tf.distribute.Server(c)\nimport tf_condacc",
    "a server with a name that is rewritten": TF + "tf.train.Server(c, tf.ConditionalAccumulator)",
    "names of operations": TF + '__all__ = ["ConditionalAccumulator"]\nf("ConditionalAccumulator")',
    "a session in version 1's behaviour": TF
    + "def main():\n    tf.compat.v1.disable_v2_behavior()\n    tf.compat.v1.Session()",
    "the class of a session": TF + "isinstance(x, tf.compat.v1.Session)",
    "a session of a graph": TF + "with tf.Graph().as_default(): tf.compat.v1.Session()",
    "threads in version 1's behaviour": TF
    + "tf.compat.v1.disable_v2_behavior()\ntf.compat.v1.train.Supervisor()",
    "names of devices": TF
    + "for d in devices:\n    with tf.device(d), tf.device(f'/gpu:{i}'): pass",
    "other modules": "from mine.contrib import x\nfrom . import contrib\nfrom .tensorflow import x",
    "no TensorFlow": "from torch.contrib import x",
}


@pytest.mark.parametrize("name", FOUND)
def test_a_finding_says_where_it_is(name):
    program, expected = FOUND[name]
    found = [f"{one.code.code} {_place(one)}" for one in migrate_text(program).findings]
    assert ", ".join(found) == expected


def _place(finding):
    return f"{finding.place.line}:{finding.place.column}"


@pytest.mark.parametrize("name", QUIET)
def test_nothing_is_found_in(name):
    assert migrate_text(QUIET[name]).findings == ()


def test_each_code_is_found_by_a_test_and_says_what_to_do():
    codes = [code.code for code in Code]
    assert len(set(codes)) == len(codes)
    tested = {each.split()[0] for _, found in FOUND.values() for each in found.split(", ")}
    of_notebooks = {Code.OLD_NOTEBOOK.code, Code.BAD_CELL.code}
    assert tested | of_notebooks == set(codes)
    assert all(code.remedy.endswith(".") for code in Code)


def test_types_of_operations_are_those_that_tensorflow_registers():
    from tensorflow.python.framework import op_def_registry

    assert all(op_def_registry.get(name) is not None for name in OP_TYPES)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("framework.get_or_create_global_step", "Use tf.compat.v1.train.get_or_create_global_step"),
        ("slim.conv2d", "It is in tf_slim of the package tf-slim: keep it, and call `from tf_con"),
        ("training.batch_all", "If it is in tf_slim.training.training and tf_slim.training.eval"),
        ("framework.python.ops.variables", "It is in tf_slim.ops.variables of the package tf-sl"),
        ("predictor.from_saved_model", "`condacc run` does not provide it. Instead"),
        ("crf.crf_decode", "`condacc run` does not provide it. Instead: copy"),
        ("rnn.LSTMCell", "Use tf.compat.v1.nn.rnn_cell.LSTMCell, or run the program unedited"),
        ("rnn.NASCell", "`condacc run` does not provide it. Instead: use tf.compat.v1.nn.rnn_cell"),
        ("tpu.TPUEstimator", "tf.estimator.tpu.TPUEstimator is the same: install the package te"),
        ("tpu.python.tpu.tpu_config.TPUConfig", "tf.estimator.tpu.TPUConfig is the same: in"),
        (
            "cluster_resolver.TPUClusterResolver",
            "Use tf.distribute.cluster_resolver.TPUClusterResolver, or run the program unedited",
        ),
        ("data.map_and_batch", "Use tf.data.experimental.map_and_batch, or run the program"),
        ("layers.embed_sequence", "Instead: use tf.compat.v1.get_variable"),
        ("learn.Experiment", "Use tf_condacc.compat.learn.Experiment, or run the program unedited"),
        ("learn.learn_runner.run", "Use tf_condacc.compat.learn.learn_runner.run, or run"),
        ("learn.DNNClassifier", "Instead: use tf.estimator.DNNClassifier"),
    ],
)
def test_the_remedy_for_a_name_of_contrib_is_that_of_this_name(name, expected):
    module, _, attribute = name.rpartition(".")
    use = migrate_text(f"{TF}tf.contrib.{name}").findings
    imported = migrate_text(f"from tensorflow.contrib.{module} import {attribute}").findings
    assert [one.remedy.startswith(expected) for one in use] == [True], use
    assert [one.remedy for one in imported] == [
        f"tf_upgrade_v2 does not mention it. {use[0].remedy}"
    ]


def test_names_that_the_estimator_lacks_are_named_at_the_names_that_stay():
    text = TF + "tf.estimator.RunConfig()\ntf.estimator.DNNClassifier()"
    outcome = migrate_text(text, with_estimator=True)
    assert outcome.rewritings == ()
    config, model = (one.remedy for one in outcome.findings)
    assert "as they are, because tf_condacc.estimator does not have DNNClassifier:" in config
    assert model.startswith("tf_condacc.estimator does not have it: install the package")
    for call, lacking in (
        ("Estimator(f, warm_start_from='a')", "Estimator(warm_start_from=...)"),
        ("Estimator(f, None, None, None, 'a')", "Estimator(warm_start_from=...)"),
        ("EvalSpec(f, exporters=[mine])", "EvalSpec(exporters=...)"),
    ):
        outcome = migrate_text(f"{TF}tf.estimator.{call}", with_estimator=True)
        (finding,) = outcome.findings
        assert outcome.rewritings == ()
        assert f"tf_condacc.estimator does not have {lacking}: install" in finding.remedy
    (alone,) = migrate_text(TF + "tf.estimator.RunConfig()").findings
    assert "use --estimator if" in alone.remedy
