"""Runners, configurations, and the arguments of everything."""

import inspect
import json
import os

import tensorflow as tf
from support import (
    case,
    configured,
    core,
    core_model_fn,
    error,
    experiment,
    learn_model_fn,
    results,
)
from tensorflow.contrib import learn
from tensorflow.contrib.learn.python.learn import learn_runner
from tensorflow.contrib.learn.python.learn.estimators import run_config as run_config_lib
from tensorflow.contrib.learn.python.learn.utils import input_fn_utils, saved_model_export_utils
from tensorflow.contrib.training import HParams

# Methods of tuples, and the deprecated ones of Estimator, which are not provided.
NOT_COMPARED = ("count", "index", "export", "get_params", "set_params")


@case
def a_runner_checks_its_arguments(folder):
    config = configured(folder)

    def made(run_config=None, hparams=None, output_dir=None):
        seen.append([run_config is config, hparams and hparams.rate, output_dir == folder])
        config_of = run_config and run_config.replace(save_checkpoints_steps=1)
        estimator = tf.estimator.Estimator(core_model_fn, output_dir, config_of)
        return experiment(estimator, train_steps=2)[0]

    def with_another(run_config, hparams):
        return experiment(core(folder + "other"))[0]

    def with_none(run_config, hparams):
        return experiment(tf.estimator.Estimator(core_model_fn, folder))[0]

    seen = []
    run = learn_runner.run
    return [
        results(run(made, run_config=config, hparams=HParams(rate=0.5))),
        results(run(made, output_dir=folder)),
        type(run(made, output_dir=folder, schedule="train")).__name__,
        seen,
        error(run, made),
        error(run, made, output_dir=folder, run_config=config),
        error(run, made, output_dir=""),
        error(run, made, output_dir=folder, hparams=HParams()),
        error(run, "made", output_dir=folder),
        error(run, lambda output_dir: 3, output_dir=folder),
        error(run, made, output_dir=folder, schedule="sing"),
        error(run, made, output_dir=folder, schedule="train_steps"),
        error(run, made, run_config=learn.RunConfig()),
        error(run, made, run_config=tf.estimator.RunConfig(folder)),
        error(run, made, run_config=config, hparams={"rate": 1}),
        error(run, with_another, run_config=config),
        error(run, with_none, run_config=config),
    ]


@case
def a_tuner_runs_trials(folder):
    class Tuner:
        trials = 2

        def next_trial(self):
            self.trials -= 1
            return self.trials >= 0

        def run_experiment(self, experiment_fn):
            config = configured(os.path.join(folder, str(self.trials)))
            made = experiment_fn(run_config=config, hparams=HParams(steps=self.trials + 1))
            found.append(results(made.train_and_evaluate())[0]["global_step"])

    def made(run_config, hparams):
        estimator = tf.estimator.Estimator(core_model_fn, config=run_config)
        return experiment(estimator, train_steps=hparams.steps)[0]

    found = []
    learn_runner.tune(made, Tuner())
    return found


@case
def an_experiment_checks_its_arguments(folder):
    estimator = core(folder)
    own = learn.Estimator(learn_model_fn, folder)
    new = lambda *a, **k: learn.Experiment(*a, train_input_fn=1, eval_input_fn=2, **k)  # noqa: E731
    return [
        error(new, 3),
        error(new, estimator, eval_metrics={}),
        error(new, own, saving_listeners=[]),
        error(new, estimator, export_strategies=[3]),
        error(new, estimator, train_steps_per_iteration=0.5),
        error(new, estimator),
        error(new(estimator).run_std_server),
        error(setattr, new(estimator), "train_steps", 3),
    ]


@case
def configurations(folder):
    def described(config):
        cluster = config.cluster_spec.as_dict()
        names = (
            "task_type",
            "task_id",
            "master",
            "is_chief",
            "num_ps_replicas",
            "num_worker_replicas",
            "environment",
            "evaluation_master",
            "save_checkpoints_secs",
            "save_checkpoints_steps",
            "model_dir",
            "keep_checkpoint_max",
        )
        return [cluster, {name: getattr(config, name) for name in names}, config.get_task_id()]

    found = [described(learn.RunConfig()), described(learn.RunConfig(save_checkpoints_steps=3))]
    spec = {"ps": ["localhost:1"], "master": ["localhost:2"], "worker": ["localhost:3"]}
    for job in spec:
        task = {"cluster": spec, "environment": "cloud", "task": {"type": job, "index": 0}}
        os.environ["TF_CONFIG"] = json.dumps(task)
        found.append(described(learn.RunConfig(model_dir="m")))
    del os.environ["TF_CONFIG"]
    config = learn.RunConfig(None, 3, True, 0.5, 7, model_dir="m")
    proto = config.tf_config
    found += [
        proto.intra_op_parallelism_threads,
        proto.inter_op_parallelism_threads,
        proto.log_device_placement,
        proto.gpu_options.per_process_gpu_memory_fraction,
        config.tf_random_seed,
        isinstance(config, tf.estimator.RunConfig),
        config.session_config,
    ]
    same = config.uid() == config.replace(save_summary_steps=3).uid()
    other = config.uid() == config.replace(model_dir="n").uid()
    changed = learn.RunConfig(num_cores=1).uid() == learn.RunConfig().uid()
    ignored = learn.RunConfig(model_dir="m").uid(["model_dir"]) == learn.RunConfig().uid(
        ["model_dir"]
    )
    return found + [same, other, changed, ignored]


@case
def constants(folder):
    def public(kind):
        return {
            name: value
            for name, value in vars(kind).items()
            if not name.startswith("_") and isinstance(value, (str, int))
        }

    kinds = (
        learn.ModeKeys,
        learn.ProblemType,
        learn.PredictionKey,
        run_config_lib.TaskType,
        run_config_lib.Environment,
    )
    return [public(kind) for kind in kinds] + [learn.TaskType is run_config_lib.TaskType]


@case
def signatures(folder):
    """Returns names, kinds and defaults of the arguments of all functions and methods."""
    kinds = (
        learn.Estimator,
        learn.Experiment,
        learn.ExportStrategy,
        learn.MetricSpec,
        learn.ModelFnOps,
        learn.ModeKeys,
        learn.RunConfig,
    )
    functions = (
        input_fn_utils.build_default_serving_input_fn,
        input_fn_utils.build_parsing_serving_input_fn,
        learn.io.numpy_input_fn,
        learn_runner.run,
        learn_runner.tune,
        saved_model_export_utils.make_export_strategy,
    )
    found = {function.__name__: arguments_of(function) for function in functions}
    for kind in kinds:
        for name in dir(kind):
            value = getattr(kind, name)
            is_constructor = name in ("__init__", "__new__") and inspect.isfunction(value)
            is_method = not name.startswith("_") and name not in NOT_COMPARED
            if callable(value) and (is_constructor or is_method):
                arguments = arguments_of(value)
                # The class itself has another name in each version of Python.
                found[f"{kind.__name__}.{name}"] = arguments[is_constructor:]
    return found


def arguments_of(function):
    """Returns names, kinds and defaults as text; those of collected arguments have no name."""
    texts = []
    for each in inspect.signature(function).parameters.values():
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            texts.append(str(each)[: str(each).rindex("*") + 1])
        else:
            is_required = each.default is each.empty
            texts.append(each.name if is_required else f"{each.name}={each.default!r}")
    return texts
