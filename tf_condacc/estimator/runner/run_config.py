"""The configuration of an Estimator.

Mirrors ``tf.estimator.RunConfig``, as far as it concerns a single process.
"""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """The configuration of an Estimator. Mirrors ``tf.estimator.RunConfig`` for a single process.

    Attributes:
        model_dir: Folder of checkpoints and summaries.
        tf_random_seed: Random seed of the graph; None for a random one.
        save_summary_steps: Number of steps between two summaries.
        save_checkpoints_steps: Number of steps between two checkpoints; None to use
            `save_checkpoints_secs`.
        save_checkpoints_secs: Number of seconds between two checkpoints.
        session_config: The ``tf.compat.v1.ConfigProto`` of sessions. By default soft placement is
            on.
        keep_checkpoint_max: Number of checkpoints to keep; 0 to keep all.
        keep_checkpoint_every_n_hours: Number of hours between checkpoints that are kept in
            addition.
        log_step_count_steps: Number of steps between two log messages with loss and speed.
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

    # Constants that a `model_fn` may read: they describe a single process.
    master = ""
    is_chief = True
    task_type = "worker"
    task_id = 0
    num_worker_replicas = 1
    num_ps_replicas = 0

    def replace(self, **changes: Any) -> RunConfig:
        """Returns a copy with other values of some attributes."""
        return dataclasses.replace(self, **changes)
