"""Modules of TensorFlow 1 that the finder knows."""

from __future__ import annotations

import types

import pytest

import tf_condacc


@pytest.fixture(scope="module")
def find():
    """Returns the module that the finder finds by a name, or None."""
    from tf_condacc.compat._finder import Finder

    finder = Finder(tf_condacc.estimator)

    def find(name):
        spec = finder.find_spec(name)
        return spec and spec.loader_state

    return find


@pytest.mark.parametrize("package", ["tensorflow", "tensorflow.compat.v1", "tensorflow_estimator"])
def test_all_paths_of_contrib_lead_to_one_module(find, package):
    module = find(f"{package}.contrib.estimator.python.estimator.replicate_model_fn")
    assert module is find("tensorflow.contrib.estimator.python.estimator.replicate_model_fn")
    assert module.TowerOptimizer is tf_condacc.TowerOptimizer


@pytest.mark.parametrize(
    "name",
    ["tensorflow", "tensorflow.python.ops", "tensorflow.contribution", "contrib", "nets.contrib"],
)
def test_other_modules_are_left_to_python(find, name):
    assert find(name) is None


@pytest.mark.parametrize("name", ["estimator", "model_fn", "run_config", "export.export_output"])
def test_private_modules_of_the_estimator_have_its_public_names(find, name):
    module = find(f"tensorflow.python.estimator.{name}")
    assert module.EstimatorSpec is tf_condacc.estimator.EstimatorSpec
    assert module.PredictOutput is tf_condacc.estimator.export.PredictOutput
    with pytest.raises(AttributeError, match=r"no_name is not provided. Use tf.estimator"):
        _ = module.no_name


def test_a_name_that_needs_keras_2_is_imported_with_advice(find, monkeypatch):
    import tensorflow as tf

    message = "`GRUCell` is not available with Keras 3."
    monkeypatch.setattr(tf.compat.v1.nn, "rnn_cell", types.ModuleType("rnn_cell"))
    monkeypatch.setattr(tf.compat.v1.nn.rnn_cell, "__getattr__", refuse(message), raising=False)
    with pytest.raises(ImportError, match="rnn.GRUCell is not provided.*install tf-keras"):
        find("tensorflow.contrib.rnn.GRUCell")


def test_a_name_of_the_package_is_advised_where_our_estimator_stands_for_it(find, monkeypatch):
    import tensorflow as tf

    from tf_condacc.compat._estimator import own_estimator

    monkeypatch.setattr(tf.compat.v1, "estimator", own_estimator(), raising=False)
    with pytest.raises(AttributeError, match="pip install 'tensorflow-estimator=="):
        _ = find("tensorflow.contrib.estimator").add_metrics


def refuse(message):
    def refuse(name):
        raise AttributeError(message)

    return refuse


def test_a_private_module_that_only_the_package_has_says_so(find):
    with pytest.raises(ImportError, match=r"canned.dnn is not provided.*tensorflow-estimator"):
        find("tensorflow.python.estimator.canned.dnn")
