"""The options of sources that are run by the explorer of schedules."""

# Stand-ins take the place of the headers of locks and timers, and of the one that notes coverage.
EXPLORED_COPTS = [
    "-include",
    "tests/cc/explorer/stand_ins/mutex.h",
    "-include",
    "tests/cc/explorer/stand_ins/timer_queue.h",
    "-include",
    "tests/cc/explorer/stand_ins/reached.h",
]
