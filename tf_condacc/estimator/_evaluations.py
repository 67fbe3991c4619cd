"""The evaluations and exports of `train_and_evaluate`."""

from __future__ import annotations

import logging
import os
import time
from typing import Any, NamedTuple

from tensorflow.compat import v1

from tf_condacc.estimator._train_specs import EvalSpec

_LOG = logging.getLogger("tf_condacc")
_POLL_SECS = 1


class Result(NamedTuple):
    """The result of an evaluation.

    Attributes:
        metrics: What `Estimator.evaluate` returned.
        exports: What the exporters returned.
        is_last: Whether the training has come to its last step.
    """

    metrics: dict[str, Any]
    exports: list[Any]
    is_last: bool


class Evaluations:
    """Evaluates and exports the latest checkpoint of an Estimator, each checkpoint once.

    Args:
        estimator: The Estimator.
        spec: How to evaluate and export.
        max_steps: Global step at which training ends, or None.

    Attributes:
        last: The last result, or None.
    """

    def __init__(self, estimator: Any, spec: EvalSpec, max_steps: int | None) -> None:
        self._estimator, self._spec, self._max_steps = estimator, spec, max_steps
        self._evaluated: str | None = None
        self.last: Result | None = None

    def run(self) -> Result | None:
        """Returns the result for the latest checkpoint; None if there is no new one."""
        checkpoint = self._estimator.latest_checkpoint()
        if checkpoint is None or checkpoint == self._evaluated:
            return None
        metrics = self._estimator.evaluate(
            input_fn=self._spec.input_fn,
            steps=self._spec.steps,
            name=self._spec.name,
            checkpoint_path=checkpoint,
            hooks=self._spec.hooks,
        )
        is_last = bool(self._max_steps and metrics[v1.GraphKeys.GLOBAL_STEP] >= self._max_steps)
        exports = [
            exporter.export(
                estimator=self._estimator,
                export_path=os.path.join(self._estimator.model_dir, "export", exporter.name),
                checkpoint_path=checkpoint,
                eval_result=metrics,
                is_the_final_export=is_last,
            )
            for exporter in self._spec.exporters
        ]
        self._evaluated = checkpoint
        self.last = Result(metrics, exports, is_last)
        return self.last

    def run_until_training_ends(self) -> None:
        """Evaluates each new checkpoint, until one is of the last step of the training."""
        time.sleep(self._spec.start_delay_secs)
        warned = False
        while True:
            begin = time.monotonic()
            result = self.run()
            if result is not None and result.is_last:
                return
            if result is None and not warned:
                _LOG.warning(
                    "There is no new checkpoint to evaluate in %s.", self._estimator.model_dir
                )
            warned = result is None
            rest = begin + self._spec.throttle_secs - time.monotonic()
            time.sleep(max(rest, 0 if result else _POLL_SECS))


class EvaluatingListener(v1.train.CheckpointSaverListener):
    """Evaluates checkpoints as they are saved, and the last one at the end of training.

    The checkpoint that is saved before the first step is not evaluated.

    Args:
        evaluations: The evaluations.
        throttle_secs: Seconds from one evaluation to the next, at least.
    """

    def __init__(self, evaluations: Evaluations, throttle_secs: float) -> None:
        self._evaluations, self._throttle_secs = evaluations, throttle_secs
        self._is_first = True
        self._last: float | None = None

    def after_save(self, session: v1.Session, global_step_value: int) -> None:
        """Evaluates the checkpoint, unless the last evaluation was too short a time ago."""
        if self._is_first:
            self._is_first = False
            return
        now = time.monotonic()
        if self._last is None or now >= self._last + self._throttle_secs:
            self._last = now
            self._evaluations.run()

    def end(self, session: v1.Session, global_step_value: int) -> None:
        """Evaluates the last checkpoint, if that has not been done."""
        self._evaluations.run()
