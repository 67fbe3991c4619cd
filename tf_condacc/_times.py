"""The times after which tasks of a cluster ask again, warn, or go on without others, in seconds.

They are read from `current` whenever one is needed, so that tests can replace all of them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """The times, with what each is for."""

    worker_interval_secs: float = 1.0  # The chief asks the server of each worker this often.
    first_interval_secs: float = 0.2  # The chief asks a worker this often until it has answered.
    worker_answer_secs: float = 0.5  # Limit of such a request.
    ps_answer_secs: float = 1.0  # A parameter server that does not answer by then may be lost.
    report_end_secs: float = 5.0  # Limit of the report of a task's end.
    last_secs: float = 2.0  # How long a parameter server answers after the training.
    preempted_step_secs: float = 1.0  # A step that takes longer may wait for other tasks.
    preempted_hooks_secs: float = 10.0  # Hooks may be saving a checkpoint, or may have failed.
    connections_secs: float = 5.0  # Connections are checked this often.
    lost_connection_secs: int = 20  # A connection to a machine that is silent so long is closed.
    poll_secs: int = 1  # A worker asks this often whether the variables are initialized.
    opening_secs: float = 5.0  # A waiting worker asks this often whether the gate will open.
    tell_secs: float = 2.0  # How long the end of a session may wait for the gate's server.
    save_secs: float = 60.0  # A warning is logged if the workers of a strategy save so long.


current = Times()
