"""The times of the launcher, of the watches over servers and of builds, in seconds.

They are read from `current` whenever one is needed, so that tests can replace all of them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """The times, with what each is for."""

    interval_secs: float = 1.0  # Time between two requests to a server.
    pause_secs: float = 0.2  # The shortest time between an answer and the next request.
    answer_secs: float = 0.8  # Limit of a request. A stopped watch ends within about this time.
    progress_secs: float = 0.3  # The shortest time between two shown states of a progress bar.
    settled_secs: float = 0.1  # A line is shown without its end if nothing follows for this time.
    turn_secs: float = 1.0  # The launcher looks at its tasks this often if nothing happens.
    same_key_secs: float = 0.3  # A second signal within this time was sent along with the first.
    terminate_secs: float = 2.0  # Time from SIGINT to SIGTERM for tasks that have not ended.
    kill_secs: float = 4.0  # Time from the first signal to SIGKILL.
    interrupted_secs: float = 4.7  # An interrupted launcher ends after this time in any case.
    rest_secs: float = 0.2  # Time that an interrupted launcher has to write what is left.
    remains_secs: float = 1.0  # Time for processes that tasks have left behind to end.
    remains_poll_secs: float = 0.05  # How often the launcher looks whether any of them is left.
    kill_ended_secs: float = 2.0  # Time from SIGTERM to SIGKILL after the training.
    compiler_secs: float = 2.0  # Time from SIGTERM to SIGKILL for compilers.
    quick_secs: float = 30.0  # A task that is lost sooner after its start has not trained yet.
    max_delay_secs: float = 10.0  # The longest delay before such a task is started again.


current = Times()
