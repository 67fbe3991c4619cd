"""The options of sources in which stand-ins of the tests take the place of headers of the core."""

def _included(headers):
    return [option for header in headers for option in ("-include", "tests/cc/" + header)]

# For C++ tests: a clock that they move, and condition variables that count who waits.
CHECKED_COPTS = _included([
    "stand_ins/cond_var.h",
    "stand_ins/timer_queue.h",
])

# For the explorer of schedules: locks and timers of fibers, and a count of what is reached.
EXPLORED_COPTS = _included([
    "explorer/stand_ins/mutex.h",
    "explorer/stand_ins/timer_queue.h",
    "explorer/stand_ins/reached.h",
])
