"""Experiments in many ways."""

import os

import tensorflow as tf
from support import (
    batches,
    case,
    checkpoints,
    core,
    error,
    experiment,
    folders,
    learn_model_fn,
    numbers,
    results,
)
from tensorflow.contrib import learn
from tensorflow.contrib.learn.python.learn.utils import saved_model_export_utils


@case
def each_checkpoint_is_evaluated(folder):
    made, seen = experiment(core(folder), train_steps=5)
    result = results(made.train_and_evaluate())
    return [result, seen.steps, seen.batches, checkpoints(folder), folders(folder)]


@case
def evaluations_are_as_rare_as_the_frequency_says(folder):
    found = []
    for every in (0, 3, 100):
        made, seen = experiment(core(folder), train_steps=10, min_eval_frequency=every)
        made.estimator.train(batches(), steps=1)
        made.train_and_evaluate()
        found.append(seen.steps)
        folder += "_"
        tf.gfile.MakeDirs(folder)
    return found


@case
def looks_for_checkpoints_have_an_interval(folder):
    made, seen = experiment(core(folder), train_steps=5, check_interval_secs=1000)
    made.train_and_evaluate()
    return seen.steps


@case
def a_training_that_has_ended_is_evaluated_again(folder):
    made, seen = experiment(core(folder), train_steps=3, min_eval_frequency=0)
    return [results(made.train_and_evaluate()) for _ in range(2)] + [seen.steps]


@case
def a_training_without_steps_ends_with_its_input(folder):
    made, seen = experiment(core(folder), train_input_fn=batches(2))
    result = results(made.train_and_evaluate())
    return [result, seen.steps, type(made.train()).__name__]


@case
def evaluations_have_steps(folder):
    made, seen = experiment(core(folder), train_steps=1, eval_steps=1)
    made.train()
    return [
        numbers(made.evaluate()),
        numbers(made.evaluate(name="own")),
        seen.batches,
        folders(folder),
    ]


@case
def an_evaluation_before_training(folder):
    made, _ = experiment(core(folder))
    own, _ = experiment(learn.Estimator(learn_model_fn, folder))
    return [numbers(made.evaluate()), error(own.evaluate)]


@case
def checkpoints_are_exported(folder):
    def serving_input_fn():
        x = tf.placeholder(tf.float32, [None, 1])
        return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})

    strategy = saved_model_export_utils.make_export_strategy(serving_input_fn, exports_to_keep=1)
    found = []
    for checkpoint_and_export in (False, True):
        folder += "_"
        made, seen = experiment(
            core(folder),
            train_steps=5,
            checkpoint_and_export=checkpoint_and_export,
            export_strategies=strategy,
        )
        result = made.train_and_evaluate()
        export = os.path.join(folder, "export", "Servo")
        found.append([results(result), seen.steps, folders(folder), len(folders(export))])
        old = made.reset_export_strategies(None)
        found.append([each.name for each in old])
    return found


@case
def training_and_evaluation_take_turns(folder):
    made, seen = experiment(core(folder), train_steps=4, train_steps_per_iteration=2)
    turns = results(made.continuous_train_and_eval())
    asked = []

    def goes_on(metrics, checkpoint_path=None):
        asked.append([metrics and sorted(metrics), checkpoint_path and checkpoint_path[-1]])
        return len(asked) < 2

    more, _ = experiment(core(folder), train_steps_per_iteration=1)
    return [turns, seen.steps, results(more.continuous_train_and_eval(goes_on)), asked]


@case
def new_checkpoints_are_evaluated(folder):
    made, seen = experiment(core(folder), train_steps=4, continuous_eval_throttle_secs=0)
    made.train()
    made.continuous_eval()
    made.continuous_eval_on_train_data(continuous_eval_predicate_fn=lambda metrics: False)
    asked = []

    def goes_on(metrics):
        asked.append(sorted(metrics or {}))
        return len(asked) < 4

    other, others = experiment(core(folder), train_steps=6, continuous_eval_throttle_secs=0)
    other.continuous_eval(continuous_eval_predicate_fn=goes_on)
    other.continuous_eval(
        evaluate_checkpoint_only_once=False,
        continuous_eval_predicate_fn=lambda metrics: len(others.steps) < 3,
        name="often",
    )
    return [
        seen.steps,
        others.steps,
        asked,
        folders(folder),
        error(made.continuous_eval, continuous_eval_predicate_fn=3),
    ]


@case
def a_test_is_one_step(folder):
    made, seen = experiment(core(folder))
    return [numbers(made.test()), checkpoints(folder), folders(folder)]


@case
def a_local_run_evaluates_at_the_end(folder):
    made, seen = experiment(core(folder), train_steps=5)
    if hasattr(made, "local_run"):
        return [results(made.local_run()), seen.steps]
    return "missing"
