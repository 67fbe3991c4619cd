"""The product's times as tests of real processes need them: nothing fires on a busy machine.

A test about what follows when one of these times has passed makes it short, and waits for that.
"""

from __future__ import annotations

from tests.support.waiting import PATIENCE_SECS

# Tasks get this time to end, and the launcher gets it to write their output. A task that is lost
# within it counts as one that was lost at its start.
LAUNCHER = {
    "same_key_secs": 0.0,
    **dict.fromkeys(("terminate_secs", "kill_secs", "interrupted_secs"), PATIENCE_SECS),
    **dict.fromkeys(("rest_secs", "kill_ended_secs", "quick_secs"), PATIENCE_SECS),
}
# Servers have time to answer, and steps, hooks and reports to end.
_CLUSTER = {
    "opening_secs": PATIENCE_SECS / 10,  # Each time, the worker asks whether it waits in vain.
    **dict.fromkeys(("ps_answer_secs", "report_end_secs", "last_secs"), PATIENCE_SECS),
    **dict.fromkeys(("preempted_step_secs", "preempted_hooks_secs", "tell_secs"), PATIENCE_SECS),
}


def set_cluster_times(**others: float) -> None:
    """Makes the task of a cluster in this process patient, but for the given times."""
    from tf_condacc import _times  # It imports TensorFlow.

    _times.current = _times.Times(**{**_CLUSTER, **others})
