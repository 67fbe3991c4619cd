"""How an Estimator runs.

Mirrors ``tf.estimator.RunConfig``, as far as it concerns a single process.
"""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """How an Estimator runs. Mirrors ``tf.estimator.RunConfig`` for a single process.

    Attributes:
        model_dir: Where checkpoints and summaries are kept.
        tf_random_seed: Of the graph; None for a random one.
        save_summary_steps: Summaries are written after so many steps.
        save_checkpoints_steps: Checkpoints are written after so many steps, if given.
        save_checkpoints_secs: And else after so many seconds.
        session_config: A ``tf.compat.v1.ConfigProto``. By default soft placement is on.
        keep_checkpoint_max: Number of checkpoints to keep; 0 for all.
        keep_checkpoint_every_n_hours: Besides those, one after so many hours.
        log_step_count_steps: Loss and speed are logged after so many steps.
    """

    model_dir: str | None = None
    tf_random_seed: int | None = None
    save_summary_steps: int = 100
    save_checkpoints_steps: int | None = None
    save_checkpoints_secs: int | None = 600
    session_config: Any = None
    keep_checkpoint_max: int = 5
    keep_checkpoint_every_n_hours: float = 10000
    log_step_count_steps: int = 100

    # Of a single process, for a `model_fn` that asks.
    master = ""
    is_chief = True
    task_type = "worker"
    task_id = 0
    num_worker_replicas = 1
    num_ps_replicas = 0

    def replace(self, **changes: Any) -> RunConfig:
        """A copy with other values of some attributes."""
        return dataclasses.replace(self, **changes)
