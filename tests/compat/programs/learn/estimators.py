"""Estimators, models, metrics and exports of tf.contrib.learn."""

import os

import tensorflow as tf
from support import (
    X,
    Y,
    batches,
    case,
    checkpoints,
    configured,
    core,
    error,
    experiment,
    folders,
    learn_model_fn,
    network,
    numbers,
    results,
)
from tensorflow.contrib import learn
from tensorflow.contrib.learn.python.learn.utils import input_fn_utils


@case
def an_estimator_of_learn(folder):
    def engineer(features, labels):
        return {"x": features["x"]}, labels

    estimator = learn.Estimator(
        learn_model_fn, config=configured(folder), feature_engineering_fn=engineer
    )
    before = [
        error(estimator.evaluate, input_fn=batches(1)),
        error(estimator.predict, input_fn=batches(1)),
        error(estimator.get_variable_value, "slope"),
    ]
    same = estimator.fit(input_fn=batches(), max_steps=3) is estimator
    estimator.fit(input_fn=batches(), max_steps=3)
    estimator.partial_fit(input_fn=batches())
    metrics = {
        "error": learn.MetricSpec(tf.metrics.mean_absolute_error, "y"),
        "largest": learn.MetricSpec(lambda predictions: tf.metrics.mean(predictions), "y"),
    }
    pairs = {("squares", "y"): lambda y, labels: tf.metrics.mean_squared_error(labels, y)}
    evaluated = [
        numbers(estimator.evaluate(input_fn=batches(1), metrics=each))
        for each in (metrics, pairs, None)
    ]
    constant = lambda: {"x": tf.constant(X)}  # noqa: E731
    predicted = [each["y"].tolist() for each in estimator.predict(input_fn=constant)]
    batch = estimator.predict(input_fn=constant, as_iterable=False, outputs=["y"])
    return [
        before,
        same,
        checkpoints(folder),
        evaluated,
        predicted,
        batch["y"].tolist(),
        estimator.get_variable_names(),
        float(estimator.get_variable_value("slope")),
        error(estimator.fit),
        error(estimator.evaluate, input_fn=batches(), metrics=3),
    ]


@case
def model_functions_return_tuples(folder):
    def model_fn(features, labels, mode, params, model_dir):
        seen.append([params, model_dir == folder])
        return network(features, labels, mode)

    seen = []
    estimator = learn.Estimator(model_fn, folder, params={"rate": 1})
    estimator.fit(input_fn=batches(), steps=1)
    constant = lambda: ({"x": tf.constant(X)}, None)  # noqa: E731
    predicted = [each.tolist() for each in estimator.predict(input_fn=constant)]
    wrong = learn.Estimator(lambda features, labels: (1, 2), folder)
    return [
        seen,
        predicted,
        error(wrong.fit, input_fn=batches(), steps=2),
        error(learn.Estimator, lambda features, labels: None, params={"a": 1}),
        error(learn.Estimator, model_fn, folder, configured(folder + "other")),
    ]


@case
def an_experiment_of_learn(folder):
    metrics = {"error": learn.MetricSpec(tf.metrics.mean_absolute_error)}
    estimator = learn.Estimator(learn_model_fn, config=configured(folder))
    made, seen = experiment(estimator, train_steps=3, eval_metrics=metrics)
    result = results(made.train_and_evaluate())
    return [result, seen.steps, sorted(made.eval_metrics), made.train_steps, made.eval_steps]


@case
def a_model_is_served(folder):
    def model_fn(features, labels, mode):
        y, loss, train_op = network(features, labels, mode)
        outputs = {
            "own": (learn.ProblemType.LINEAR_REGRESSION, {"scores": y}),
            "names": (learn.ProblemType.CLASSIFICATION, {"probabilities": y}),
            "other": (learn.ProblemType.UNSPECIFIED, {"y": y + 1}),
        }
        return learn.ModelFnOps(mode, {"y": y}, loss, train_op, output_alternatives=outputs)

    estimator = learn.Estimator(model_fn, folder)
    estimator.fit(input_fn=batches(), steps=2)
    parsing = input_fn_utils.build_parsing_serving_input_fn({"x": tf.FixedLenFeature([1], "float")})
    path = estimator.export_savedmodel(os.path.join(folder, "export"), parsing, "other")
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.append(3.0)
    served = signatures_of(path.decode(), [example.SerializeToString()])
    default = input_fn_utils.build_default_serving_input_fn({"x": tf.constant(X)})
    simple = learn.Estimator(learn_model_fn, folder)
    path = simple.export_savedmodel(os.path.join(folder, "simple"), default)
    strategy = learn.make_export_strategy(parsing, "own", exports_to_keep=1)
    base = os.path.join(folder, "strategy")
    paths = [strategy.export(estimator, base) for _ in range(2)]
    return [
        served,
        signatures_of(path.decode(), X),
        len(folders(base)),
        len(set(paths)),
        error(strategy.export, core(folder), base),
        strategy.name,
        error(estimator.export_savedmodel, folder, parsing),
        error(estimator.export_savedmodel, folder, None),
    ]


def signatures_of(path, inputs):
    """Returns the outputs of the default signature, and the kinds of all signatures."""
    with tf.Session(graph=tf.Graph()) as session:
        model = tf.saved_model.loader.load(session, ["serve"], path)
        signature = model.signature_def["serving_default"]
        (fed,) = signature.inputs.values()
        outputs = {
            name: session.run(output.name, {fed.name: inputs}).tolist()
            for name, output in signature.outputs.items()
        }
        kinds = {each.method_name for each in model.signature_def.values()}
    return [outputs, sorted(kind.rpartition("/")[2] for kind in kinds)]


@case
def operations_are_checked(folder):
    with tf.Graph().as_default():
        one = tf.constant([1.0])
        ops = learn.ModelFnOps("eval", one, one, tf.no_op())
        fields = [ops._fields, ops.loss.shape.as_list(), ops.eval_metric_ops, ops.training_hooks]
        return [
            fields,
            error(learn.ModelFnOps, "sing"),
            error(learn.ModelFnOps, "train", loss=one),
            error(learn.ModelFnOps, "train", train_op=tf.no_op()),
            error(learn.ModelFnOps, "train", train_op=tf.no_op(), loss=tf.constant([1.0, 2.0])),
            error(learn.ModelFnOps, "eval", loss=one),
            error(learn.ModelFnOps, "infer"),
            error(learn.ModelFnOps, "infer", one, eval_metric_ops=[]),
            error(learn.ModelFnOps, "infer", one, training_hooks=[3]),
            type(ops.estimator_spec()).__name__,
        ]


@case
def metrics_find_their_arguments(folder):
    def called(**named):
        return sorted(named.items())

    def positional(guess, labels=None, weight=None):
        return called(guess=guess, labels=labels, weight=weight)

    def labels_first(target, guess):
        return called(target=target, guess=guess)

    def ambiguous(labels, label):
        pass

    values = ({"w": 1}, {"l": 2}, {"p": 3, "q": 4})
    spec = learn.MetricSpec
    return [
        spec(positional, "p", "l", "w").create_metric_ops(*values),
        spec(positional, "q").create_metric_ops(*values),
        spec(labels_first, "p").create_metric_ops(*values),
        spec(lambda logits: logits, "p").create_metric_ops(*values),
        spec(lambda guess: guess).create_metric_ops(1, 2, {"p": 3}),
        str(spec(positional, "p")),
        error(spec, ambiguous),
        error(spec, lambda guess: 1, label_key="l"),
        error(spec, lambda labels: 1, weight_key="w"),
        error(spec(positional).create_metric_ops, *values),
        error(spec(positional, "r").create_metric_ops, *values),
        error(spec(positional, "p").create_metric_ops, 1, 2, 3),
    ]


@case
def arrays_are_fed(folder):
    input_fn = learn.io.numpy_input_fn({"x": X}, Y, batch_size=2)
    estimator = core(folder)
    estimator.train(input_fn)
    return checkpoints(folder)
