"""Functions that make and run an Experiment. Mirrors ``tf.contrib.learn.learn_runner``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tf_condacc.compat._hparams import HParams
from tf_condacc.compat.learn._experiment import Experiment
from tf_condacc.compat.learn._run_config import RunConfig

__all__ = ["run", "tune"]

# The method of an Experiment that a task of a cluster runs by default.
_SCHEDULES = {
    "chief": "train",
    "evaluator": "continuous_eval",
    "master": "train_and_evaluate",
    "ps": "run_std_server",
    "worker": "train",
}


def run(
    experiment_fn: Callable[..., Experiment],
    output_dir: str | None = None,
    schedule: str | None = None,
    run_config: RunConfig | None = None,
    hparams: HParams | None = None,
) -> Any:
    """Makes an Experiment and runs it. Mirrors ``learn_runner.run``.

    Args:
        experiment_fn: Function that returns an `Experiment`. It is called with `output_dir`, or
            with `run_config` and `hparams`; then its Estimator must have that configuration.
        output_dir: Folder of the model.
        schedule: Name of the method of the Experiment to call. By default "train_and_evaluate"
            without a cluster. In a cluster, a "master" runs "train_and_evaluate", a worker "train",
            a parameter server "run_std_server", and an evaluator "continuous_eval".
        run_config: A `RunConfig` with a `model_dir`, instead of `output_dir`.
        hparams: A `tf_condacc.compat.HParams` for `experiment_fn`, or None.

    Returns:
        What the method of the Experiment returned.

    Raises:
        ValueError: Not one of `output_dir` and `run_config` is given, `run_config` has no
            `model_dir`, an argument has the wrong type, or there is no such method.
        TypeError: `experiment_fn` is not a function or does not return an `Experiment`, or the
            schedule is not the name of a method.
        RuntimeError: The Estimator has another configuration than `run_config`.
    """
    if output_dir is not None and run_config is not None:
        raise ValueError("Cannot provide both `output_dir` and `run_config`")
    if output_dir is None and run_config is None:
        raise ValueError("Must set value for `output_dir` or `run_config`")
    if not callable(experiment_fn):
        raise TypeError(f'Experiment builder "{experiment_fn}" is not callable.')
    if run_config is not None:
        experiment = _checking(experiment_fn)(run_config, hparams)
    else:
        if not output_dir:
            raise ValueError(f"Must specify an output directory; got {output_dir!r}.")
        if hparams is not None:
            raise ValueError("Must set `hparams` as None for `experiment_fn` with `output_dir`.")
        experiment = _checked(experiment_fn(output_dir=output_dir))
    config = run_config or experiment.estimator.config
    return _method(experiment, schedule or _default_schedule(config))()


def tune(experiment_fn: Callable[..., Experiment], tuner: Any) -> None:
    """Runs an Experiment for each trial of a tuner. Mirrors ``learn_runner.tune``.

    Args:
        experiment_fn: Function of `run_config` and `hparams` that returns an `Experiment`.
        tuner: Object with the methods `next_trial`, which returns whether there is a further trial,
            and `run_experiment`, which calls its argument with the `run_config` and `hparams` of
            the trial.
    """
    while tuner.next_trial():
        tuner.run_experiment(_checking(experiment_fn, needs_hparams=True))


def _checking(
    experiment_fn: Callable[..., Experiment], needs_hparams: bool = False
) -> Callable[..., Experiment]:
    """Returns a function that checks the arguments of `experiment_fn` and its Estimator."""

    def checking(run_config: Any, hparams: Any) -> Experiment:
        if not isinstance(run_config, RunConfig):
            raise ValueError(
                "`run_config` must be `tf.contrib.learn.RunConfig` instance; got "
                f"{type(run_config)}."
            )
        if not run_config.model_dir:
            raise ValueError("Must specify a model directory `model_dir` in `run_config`.")
        if hparams is not None and not isinstance(hparams, HParams):
            raise ValueError(f"`hparams` must be `HParams` instance; got {type(hparams)}.")
        if needs_hparams and hparams is None:
            raise ValueError("`hparams` cannot be `None`.")
        expected = run_config.uid()
        experiment = _checked(experiment_fn(run_config, hparams))
        config = experiment.estimator.config
        if not hasattr(config, "uid"):
            raise RuntimeError(
                "Pass `run_config` argument of the `experiment_fn` to the Estimator in Experiment. "
                "It is likely a different `RunConfig` is passed to `Estimator` or the `config` "
                f"constructor argument in `Estimator` is not set; got {type(config)}."
            )
        if config.uid() != expected:
            raise RuntimeError(
                "`RunConfig` instance is expected to be used by the `Estimator` inside the "
                f"`Experiment`. expected {expected}, but got {config.uid()}"
            )
        return experiment

    return checking


def _checked(experiment: Any) -> Experiment:
    if not isinstance(experiment, Experiment):
        raise TypeError(
            "Experiment builder did not return an Experiment instance, got "
            f"{type(experiment)} instead."
        )
    return experiment


def _default_schedule(config: Any) -> str:
    tasks = [
        task for job in config.cluster_spec.jobs for task in config.cluster_spec.job_tasks(job)
    ]
    if len(tasks) < 2 and config.task_type != "evaluator":
        return "train_and_evaluate"
    return _SCHEDULES.get(config.task_type, "train_and_evaluate")


def _method(experiment: Experiment, schedule: str) -> Callable[[], Any]:
    methods = [
        name
        for name in dir(experiment)
        if not name.startswith("_") and callable(getattr(experiment, name))
    ]
    if not hasattr(experiment, schedule):
        raise ValueError(
            f"Schedule references non-existent task {schedule}. Allowed values for this "
            f"experiment are: {methods}"
        )
    if schedule not in methods:
        raise TypeError(
            f"Schedule references non-callable member {schedule}. Allowed values for this "
            f"experiment are: {methods}"
        )
    return getattr(experiment, schedule)
