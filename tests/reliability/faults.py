"""Bad inputs and faults, each in processes of their own: what TensorFlow does, and what we do.

usage: python -m tests.reliability.faults [CASE LIBRARY]

With a case and a library, "tensorflow" or "tf_condacc", it is run in this process. Otherwise all
cases are run, and a table is printed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_CONDACC_STALL_WARNING_SECS", "0")

LIMIT_SECS = 40
LIBRARIES = ("tensorflow", "tf_condacc")
WAIT_MS = 2000  # After this time, a take that should have ended is said to wait.


class Accumulators:
    """The classes of a library, in the default graph, and a session.

    Args:
        library: "tensorflow" or "tf_condacc".
    """

    def __init__(self, library: str) -> None:
        import tensorflow as tf
        from tensorflow.compat import v1

        import tf_condacc

        tf.get_logger().setLevel("CRITICAL")
        self.is_ours = library == "tf_condacc"
        self.tf, self.v1 = tf, v1
        classes: Any = tf_condacc if self.is_ours else v1
        self.dense = classes.ConditionalAccumulator
        self.sparse = classes.SparseConditionalAccumulator
        self._session: Any = None

    @property
    def session(self) -> Any:
        if self._session is None:
            self._session = self.v1.Session()
        return self._session

    def fed(self, value: Any, dtype: Any) -> tuple[Any, Any]:
        """Returns a placeholder without a shape, and the value to feed."""
        return self.v1.placeholder(dtype, None), value

    def run(self, fetches: Any, feed: Any = None) -> Any:
        options = self.v1.RunOptions(timeout_in_ms=WAIT_MS)
        return self.session.run(fetches, feed, options=options)


def rows_that_are_not_ascending(lib: Accumulators) -> str:
    acc = lib.sparse(lib.tf.float32, [4, 1], reduction_type="SUM")
    first = acc.apply_grad([3, 0], [[30.0], [1.0]])
    second = acc.apply_grad([0, 3], [[2.0], [40.0]])
    take = acc.take_grad(2)
    for op in (first, second):
        lib.run(op)
    taken = lib.run(take)
    got = dict(zip(taken.indices.tolist(), taken.values[:, 0].tolist(), strict=True))
    return _compared(got, {0: 3.0, 3: 70.0})


def a_row_that_comes_twice(lib: Accumulators) -> str:
    acc = lib.sparse(lib.tf.float32, [4, 1])
    first, second = (acc.apply_grad([1, 1], [[1.0], [3.0]]) for _ in range(2))
    take = acc.take_grad(2)
    for op in (first, second):
        lib.run(op)
    taken = lib.run(take)
    got = list(zip(taken.indices.tolist(), taken.values[:, 0].tolist(), strict=True))
    return _compared(got, [(1, 4.0)])


def a_negative_row(lib: Accumulators) -> str:
    acc = lib.sparse(lib.tf.float32, [4, 1])
    lib.run(acc.apply_grad([-1], [[1.0]]))
    return f"wrong: the row {lib.run(acc.take_grad(1)).indices.tolist()} is taken"


def a_vector_for_the_number_to_take(lib: Accumulators) -> str:
    acc = lib.dense(lib.tf.float32, [2])
    number, value = lib.fed([1, 1], lib.tf.int32)
    lib.run(acc.apply_grad([1.0, 2.0]))
    return f"{lib.run(acc.take_grad(number), {number: value})} is taken"


def a_vector_for_the_local_step(lib: Accumulators) -> str:
    acc = lib.dense(lib.tf.float32, [2])
    step, value = lib.fed([0, 0], lib.tf.int64)
    lib.run(acc.apply_grad([1.0, 2.0], step), {step: value})
    return "the gradient is accepted"


def no_elements_for_the_global_step(lib: Accumulators) -> str:
    acc = lib.dense(lib.tf.float32, [2])
    step, value = lib.fed([], lib.tf.int64)
    lib.run(acc.set_global_step(step), {step: value})
    return "the step is set"


def a_take_of_none(lib: Accumulators) -> str:
    acc = lib.dense(lib.tf.float32, [2])
    lib.run(acc.apply_grad([1.0, 2.0]))
    return f"{lib.run(acc.take_grad(0))} is taken"


def a_scalar_for_the_indices(lib: Accumulators) -> str:
    acc = lib.sparse(lib.tf.float32, None)
    indices, index = lib.fed(1, lib.tf.int64)
    values, value = lib.fed(5.0, lib.tf.float32)
    lib.run(acc.apply_grad(indices, values), {indices: index, values: value})
    return "the gradient is accepted"


def another_shape_under_the_same_name(lib: Accumulators) -> str:
    first = lib.dense(lib.tf.float32, [2], shared_name="same")
    second = lib.dense(lib.tf.float32, [3], shared_name="same")
    lib.run(first.apply_grad([1.0, 2.0]))
    return f"wrong: {lib.run(second.take_grad(1))} is taken from the accumulator of shape [3]"


def another_dtype_under_the_same_name(lib: Accumulators) -> str:
    first = lib.dense(lib.tf.float32, [2], shared_name="same")
    second = lib.dense(lib.tf.float64, [2], shared_name="same")
    lib.run(first.apply_grad([1.0, 2.0]))
    return f"{lib.run(second.take_grad(1))} is taken"


def two_eager_accumulators(lib: Accumulators) -> str:
    first, second = (lib.dense(lib.tf.float32, [1], reduction_type="SUM") for _ in range(2))
    first.apply_grad([1.0])
    got = int(second.num_accumulated())
    return "right" if got == 0 else "wrong: the gradient of one is in the other"


def an_eager_take_that_is_interrupted(lib: Accumulators) -> str:
    def ring(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, ring)
    acc = lib.dense(lib.tf.float32, [1])
    signal.alarm(1)
    try:
        acc.take_grad(1)
    except KeyboardInterrupt:
        return "KeyboardInterrupt"
    return "the take ends"


CASES: dict[str, Callable[[Accumulators], str]] = {
    "rows of a sparse gradient in any order": rows_that_are_not_ascending,
    "a row that a sparse gradient has twice": a_row_that_comes_twice,
    "a negative row": a_negative_row,
    "a scalar for the row numbers": a_scalar_for_the_indices,
    "a vector for `num_required`": a_vector_for_the_number_to_take,
    "a vector for `local_step`": a_vector_for_the_local_step,
    "no element for `new_global_step`": no_elements_for_the_global_step,
    "`take_grad(0)`": a_take_of_none,
    "another shape under the same `shared_name`": another_shape_under_the_same_name,
    "another data type under the same `shared_name`": another_dtype_under_the_same_name,
    "two eager accumulators without a name": two_eager_accumulators,
    "Ctrl-C while an eager take waits": an_eager_take_that_is_interrupted,
}
# The other cases make a graph.
EAGER = (two_eager_accumulators, an_eager_take_that_is_interrupted)


def _compared(got: Any, right: Any) -> str:
    return "right" if got == right else f"wrong: {got} instead of {right}"


def run_here(case: str, library: str) -> str:
    """Runs a case in this process, and returns what happened."""
    lib = Accumulators(library)
    is_eager = CASES[case] in EAGER
    with contextlib.nullcontext() if is_eager else lib.tf.Graph().as_default():
        try:
            return CASES[case](lib)
        except lib.tf.errors.DeadlineExceededError:
            return "waits"
        except Exception as error:
            return f"{type(error).__name__}"


def run_apart(case: str, library: str, python: list[str] | None = None) -> str:
    """Runs a case in another process, and returns what happened, even if it ends the process."""
    command = [*(python or [sys.executable]), "-m", "tests.reliability.faults", case, library]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        output, _ = process.communicate(timeout=LIMIT_SECS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "waits, and nothing ends it"
    if process.returncode < 0 or process.returncode > 128:
        number = -process.returncode if process.returncode < 0 else process.returncode - 128
        return f"the process ends with {signal.Signals(number).name}"
    return output.strip().splitlines()[-1] if output.strip() else f"status {process.returncode}"


def table(python: list[str] | None = None) -> list[str]:
    """Runs all cases, and returns the lines of a table.

    Args:
        python: The command of the Python that runs them.
    """
    rows = ["| Bad input or fault | TensorFlow's own | tf_condacc |", "|---|---|---|"]
    for case in CASES:
        rows.append(
            f"| {case} | {' | '.join(run_apart(case, library, python) for library in LIBRARIES)} |"
        )
    return rows


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(run_here(*sys.argv[1:]), flush=True)
        os._exit(0)
    print("\n".join(table()))
