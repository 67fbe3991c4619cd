"""`fit` with micro-batches equals plain Keras with batches that are as large."""

from __future__ import annotations

import keras
import pytest

from tests.keras import trainings
from tests.keras.trainings import (
    CLASSES,
    IDS,
    LABELS,
    UPDATES_PER_EPOCH,
    WEIGHTS,
    Case,
    DecoratedStep,
    LossOfKeras,
    OwnLoss,
    Subclassed,
    X,
    Y,
    embedding,
    functional,
    sequential,
    tagger,
    two_outputs,
)

optimizers = keras.optimizers
_SUM = keras.losses.MeanSquaredError(reduction="sum")
_BY_WEIGHT = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
_CLASSIFYING = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
_SCHEDULE = optimizers.schedules.ExponentialDecay(0.1, 2, 0.5, staircase=True)


def _loss_scaling() -> keras.Optimizer:
    return optimizers.LossScaleOptimizer(
        optimizers.SGD(0.05), initial_scale=512.0, dynamic_growth_steps=3
    )


# Optimizers that divide by the root of small numbers have a larger epsilon, so that differences of
# the last bit stay small.
CASES = {
    "sequential": Case(
        sequential,
        lambda: optimizers.SGD(_SCHEDULE, use_ema=True, ema_overwrite_frequency=3),
        compile={"steps_per_execution": 3},
        fit={"validation_data": (X[:20], Y[:20])},
    ),
    "functional": Case(
        functional,
        lambda: optimizers.AdamW(0.01, weight_decay=0.1, epsilon=1e-3),
        compile={"weighted_metrics": ["mse"]},
        fit={"sample_weight": WEIGHTS, "validation_split": 0.1},
    ),
    "subclassed": Case(
        lambda: Subclassed(3),
        lambda: optimizers.RMSprop(0.01, epsilon=1e-3),
        y=CLASSES,
        compile={"loss": _CLASSIFYING, "metrics": ["accuracy"], "run_eagerly": True},
        fit={"class_weight": {0: 1.0, 1: 0.5, 2: 3.0}},
    ),
    "decorated": Case(
        DecoratedStep,
        lambda: optimizers.SGD(0.05, global_clipnorm=0.1),
        compile={"metrics": None},
        compares_loss=False,
    ),
    "two outputs": Case(
        two_outputs,
        y={"a": Y, "b": CLASSES},
        compile={
            "loss": {"a": "mse", "b": _CLASSIFYING},
            "loss_weights": {"a": 1.0, "b": 0.3},
            "metrics": {"a": "mae", "b": "accuracy"},
        },
        compares_loss=False,
    ),
    "sum": Case(
        sequential, lambda: optimizers.SGD(0.002), compile={"loss": _SUM}, compares_loss=False
    ),
    "mask": Case(lambda: tagger(LossOfKeras), x=IDS, y=LABELS, compares_loss=False),
    "own compute_loss": Case(lambda: tagger(OwnLoss), x=IDS, y=LABELS, compares_loss=False),
    "mask and mean_with_sample_weight": Case(
        tagger,
        x=IDS,
        y=LABELS,
        compile={"loss": _BY_WEIGHT},
        fit={"sample_weight": WEIGHTS[:, None]},
        compares_loss=False,
    ),
    "mixed_float16": Case(sequential, _loss_scaling, dtype_policy="mixed_float16", tolerance=5e-4),
    "embedding, Adam": Case(
        embedding,
        lambda: optimizers.Adam(0.01, epsilon=1e-3),
        x=IDS,
        truth=lambda: embedding(is_dense=True),
    ),
}
# In some cases the weights agree, but not the reported losses. Keras weights the losses of batches
# by their numbers of samples, which differs with masks, "mean_with_sample_weight" and "sum". It
# weights the losses of single outputs equally. Keras's Adam is wrong for the repeated rows of
# embeddings, so its truth has dense gradients.


@pytest.mark.parametrize("name", CASES)
def test_micro_batches_equal_large_batches(name):
    case = CASES[name]
    ours, truth = trainings.accumulating(case), trainings.plain(case)
    trainings.assert_same(case, ours, truth)
    assert ours.num_updates == trainings.EPOCHS * UPDATES_PER_EPOCH
