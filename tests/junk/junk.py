"""Calls every op of the plugin with junk, and fails if a call changes what it must not.

usage: python -m tests.junk.junk [CALLS [SEED [FILE]]]

The arguments are tensors of any data type, rank and shape, handles of any kind, and attributes of
any value. Ops run eagerly and in functions, where their shape functions run as well. A call that
waits is cancelled. A call that fails must leave accumulators as they were. Before each call it is
written to FILE, which tells what ended the process if anything does.
"""

from __future__ import annotations

import collections
import os
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_CONDACC_STALL_WARNING_SECS", "0")

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.eager import cancellation, context, execute

from tf_condacc._ops.native import ops

tf.get_logger().setLevel("CRITICAL")

CANCELLED_AFTER_SECS = 0.02
PREFIX = "Condacc>"
DTYPES = [
    tf.float32,
    tf.float16,
    tf.bfloat16,
    tf.float64,
    tf.complex64,
    tf.int32,
    tf.int64,
    tf.bool,
    tf.uint8,
    tf.string,
    tf.qint8,
]
# A shape has few elements, or so many that no memory suffices for them.
SHAPES: list[list[int | None] | None] = [
    [3],
    [2, 3],
    None,
    [],
    [0],
    [None, 3],
    [1, 1, 1, 1, 1, 1, 2, 3],
    [2**45],
    [2**40, 2**40],
    [0, 2**62],
]
STRINGS = ["c", "w", "run", "", "MEAN", "GLOBAL_MEAN", "ä/ö \n", "x" * 300]
NUMBERS = [0, 1, 2, 3, -1, 5, 2**31 - 1, -(2**31)]
LARGE = [2**31, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, 1.0, 0.05, -1.0, float("inf"), float("nan"), 1e30]
# What an argument is like when it is not junk, by its name or else by its type.
FITTING: dict[str, Any] = {
    "dtype": tf.float32.as_datatype_enum,
    "dtypes": [tf.float32.as_datatype_enum],
    "Tindices": tf.int64.as_datatype_enum,
    "T": tf.int64.as_datatype_enum,
    "shape": [3],
    "shapes": [[3]],
    "names": ["n"],
    "reduction_type": "SUM",
    "type": tf.float32.as_datatype_enum,
    "string": "c",
    "int": 2,
    "float": 0.05,
    "bool": False,
}
# The shapes of such tensors. The others are scalars.
FITTING_SHAPES = {
    "gradient": [3],
    "gradients": [3],
    "values": [3],
    "indices": [2],
    "shape": [0],
}
# The kinds of handles that ops want, by the beginnings of their names.
WANTED = {
    "DenseAccumulator": "none",
    "SparseAccumulator": "none",
    "Dense": "dense",
    "Sparse": "sparse",
    "Accumulator": "dense",
    "SyncGateFinish": "step",
    "SyncGateClaim": "step",
    "SyncGate": "gate",
    "StalenessGateEnd": "reservation",
    "StalenessGate": "staleness",
    "TowerDense": "tower_dense",
    "TowerSparse": "tower_sparse",
}


def registered_ops() -> list[Any]:
    """Returns the definitions of all ops of the plugin."""
    assert ops
    defined = op_def_pb2.OpList()
    defined.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    return [each for each in defined.op if each.name.startswith(PREFIX)]


class Junk:
    """Makes calls.

    Args:
        seed: Seed of all choices.
    """

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._handles: dict[str, list[Any]] = collections.defaultdict(list)
        self._variables = [tf.Variable(0, dtype=tf.int64), tf.Variable([1.0, 2.0])]
        self._bundles = [tf.zeros([8], tf.uint8)]
        self._names = iter(range(sys.maxsize))
        self.failures: list[str] = []
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.calls: collections.Counter[str] = collections.Counter()
        self.succeeded: collections.Counter[str] = collections.Counter()

    def renew_handles(self) -> None:
        """Makes new objects of each kind, and forgets the old ones."""
        held = self._handles
        held.clear()
        for shape in ([3], None, [2, 3]):
            for reduction in ("MEAN", "SUM"):
                held["dense"].append(
                    ops.condacc_dense_accumulator(tf.float32, shape, reduction, anonymous=True)
                )
                held["sparse"].append(
                    ops.condacc_sparse_accumulator(tf.float32, shape, reduction, anonymous=True)
                )
            held["tower_dense"].append(ops.condacc_tower_dense_sum(tf.float32, shape or [3]))
            held["tower_sparse"].append(ops.condacc_tower_sparse_sum(tf.float32, shape or [3]))
        held["dense"].append(ops.condacc_dense_accumulator(tf.int64, [3], "SUM", anonymous=True))
        for handle in held["dense"][:4]:
            for step in (0, 9):
                ops.condacc_dense_apply(handle, tf.constant(step, tf.int64), tf.ones([3]), [], [])
        for handle in held["tower_dense"][:2]:
            ops.condacc_tower_dense_add(handle, tf.ones([3]))
        number = tf.constant(1, tf.int64)
        for workers in (1, 2):
            gate = ops.condacc_sync_gate(anonymous=True)
            opened, _ = ops.condacc_sync_gate_prepare(gate, number, number * 0, False, "c")
            ops.condacc_sync_gate_open(gate, number, opened, False, "c", workers, workers)
            held["gate"].append(gate)
            held["step"].append(ops.condacc_sync_gate_enter(gate, opened, "w", "run"))
        step = ops.condacc_sync_gate_enter(held["gate"][0], opened, "w", "run")
        ops.condacc_sync_gate_claim(step)
        ops.condacc_sync_gate_add_credits(held["gate"][0], number, number, "c")
        ops.condacc_sync_gate_finish(step, [True])
        held["gate"].append(ops.condacc_sync_gate(anonymous=True))
        staleness = ops.condacc_staleness_gate(anonymous=True)
        held["staleness"].append(staleness)
        step = self._variables[0]
        held["reservation"].append(
            ops.condacc_staleness_gate_decide(
                staleness, step.handle, step, number, tf.int64, "c", "o"
            )[2]
        )
        held["variable"].append(step.handle)
        held["other"] += [
            *(variable.handle for variable in self._variables),
            tf.raw_ops.AnonymousIterator(output_types=[tf.int64], output_shapes=[[]])
            if hasattr(tf.raw_ops, "AnonymousIterator")
            else step.handle,
            tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0).resource_handle,
            tf.stack([gate, gate]),
            tf.zeros([0], tf.int64),
        ]

    def run(self, calls: int, path: str | None) -> None:
        """Makes so many calls, as many of each op."""
        definitions = registered_ops()
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if path else None
        for number in range(calls):
            if number % 50 == 0:
                self.renew_handles()
            definition = definitions[number % len(definitions)]
            values, attributes = self._arguments(definition)
            text = f"{number}: {definition.name} {attributes} {[_described(v) for v in values]}"
            if log is not None:
                os.ftruncate(log, 0)
                os.pwrite(log, text.encode(errors="replace"), 0)
            self._check(definition, values, attributes, text)
        if log is not None:
            os.close(log)

    def _check(self, definition: Any, values: list[Any], attributes: Any, text: str) -> None:
        """Makes a call. If it fails, accumulators must be as they were."""
        self.calls[definition.name] += 1
        watched = [handle for handle in values if any(handle is h for h in self._accumulators())]
        before = [_state(handle) for handle in watched]
        manager = cancellation.CancellationManager()
        cancel = threading.Timer(CANCELLED_AFTER_SECS, manager.start_cancel)
        cancel.daemon = True
        cancel.start()
        try:
            made = self._call(definition, values, attributes, manager)
            outcome = "succeeded"
            self.succeeded[definition.name] += 1
            self._keep(definition, made)
        except Exception as error:  # Whatever it is, the process lives.
            outcome = type(error).__name__
            # It accumulates, and then waits.
            if definition.name != f"{PREFIX}DenseApplyTake":
                after = [_state(handle) for handle in watched]
                if after != before:
                    self.failures.append(f"{text}: {before} became {after} by {error}")
        finally:
            cancel.cancel()
        self.outcomes[outcome] += 1

    def _call(self, definition: Any, values: list[Any], attributes: Any, manager: Any) -> Any:
        number = sum(_length(each, attributes, len(values)) for each in definition.output_arg)
        flat = tuple(part for pair in attributes.items() for part in pair)

        def body(*inputs: Any) -> Any:
            if not tf.executing_eagerly():
                name = definition.name.removeprefix(PREFIX)
                wrapper = getattr(ops, f"condacc_{_snake(name)}")
                given = _wrapper_arguments(definition, inputs, attributes)
                made = wrapper(**given)
                return None if isinstance(made, tf.Operation) else made
            return execute.execute_with_cancellation(
                definition.name, number, list(inputs), flat, context.context(), manager
            )

        if self._draw.random() < 0.9:
            return body(*values)
        if self._draw.random() < 0.5:  # The shape function sees constants.
            traced = tf.function(lambda: body(*values)).get_concrete_function()
            return manager.get_cancelable_function(traced)()
        specs = [tf.TensorSpec(None, value.dtype) for value in values]
        traced = tf.function(body).get_concrete_function(*specs)
        return manager.get_cancelable_function(traced)(*values)

    def _keep(self, definition: Any, made: Any) -> None:
        """Keeps handles and bundles that a call has made, for other calls."""
        for each in tf.nest.flatten(made):
            if tf.is_tensor(each) and each.dtype == tf.resource:
                self._handles["made"].append(each)
            elif definition.name.endswith("Pack"):
                self._bundles.append(each)

    def _accumulators(self) -> Iterator[Any]:
        yield from self._handles["dense"]
        yield from self._handles["sparse"]

    def _arguments(self, definition: Any) -> tuple[list[Any], dict[str, Any]]:
        """Draws inputs and attributes: in half of the calls most are junk, in the others few."""
        draw = self._draw
        self._share = draw.choice([0.02, 0.3])
        attributes = {each.name: self._attribute(each.type, each.name) for each in definition.attr}
        values: list[Any] = []
        for each in definition.input_arg:
            if each.type_list_attr:
                dtypes = attributes[each.type_list_attr]
            else:
                count = draw.randrange(0, 4) if each.number_attr else 1
                dtypes = [each.type or attributes[each.type_attr]] * count
                if each.number_attr:
                    attributes[each.number_attr] = count
            values += [self._input(definition.name, each.name, tf.as_dtype(d)) for d in dtypes]
        return values, attributes

    def _is_junk(self) -> bool:
        return self._draw.random() < self._share

    def _input(self, op: str, name: str, dtype: tf.DType) -> Any:
        draw, op = self._draw, op.removeprefix(PREFIX)
        if self._is_junk() and draw.random() < 0.2:
            dtype = draw.choice([*DTYPES, tf.resource])
        if name == "bundle" and not self._is_junk():
            return draw.choice(self._bundles)
        if dtype != tf.resource:
            return self._tensor(op, name, dtype)
        kind = next((WANTED[prefix] for prefix in WANTED if op.startswith(prefix)), "other")
        if name == "step" and kind == "staleness":
            kind = "variable"
        if self._is_junk() or not self._handles[kind]:
            kind = draw.choice([kind for kind in self._handles if self._handles[kind]])
        return draw.choice(self._handles[kind])

    def _tensor(self, op: str, name: str, dtype: tf.DType) -> tf.Tensor:
        draw = self._draw
        shape = list(FITTING_SHAPES.get(name, []))
        if name == "values" and "Sparse" in op:
            shape = [2, 3]
        pool = [0, 1, 1]
        if self._is_junk():
            shape = draw.choice([[], [3], [2, 3], [0], [0, 3], [1], [1, 2, 3], [1] * 8])
        if self._is_junk():
            pool = NUMBERS + LARGE if dtype == tf.int64 else NUMBERS
            pool = FLOATS if dtype.is_floating and draw.random() < 0.5 else pool
        count = int(np.prod(shape))
        if dtype == tf.string:
            return tf.constant([draw.choice(STRINGS)] * count, tf.string, shape)
        array = np.array([draw.choice(pool) for _ in range(count)], np.float64).reshape(shape)
        with np.errstate(all="ignore"):
            if dtype in (tf.bool, tf.uint8, tf.qint8):
                bits = tf.constant(array != 0)
                return bits if dtype == tf.bool else tf.bitcast(tf.cast(bits, tf.uint8), dtype)
            return tf.constant(array.astype(dtype.as_numpy_dtype), dtype)

    def _attribute(self, kind: str, name: str) -> Any:
        draw = self._draw
        if name == "shared_name":
            return draw.choice(["", f"junk_{next(self._names)}", "shared"])
        if name == "anonymous":
            return draw.random() < 0.5
        if not self._is_junk():
            return FITTING.get(name, FITTING.get(kind, []))
        if kind == "type":
            return draw.choice(DTYPES).as_datatype_enum
        if kind.startswith("list("):
            return [self._attribute(kind[5:-1], "") for _ in range(draw.randrange(0, 4))]
        pools = {"shape": SHAPES, "string": STRINGS, "int": NUMBERS, "float": FLOATS}
        return draw.choice(pools.get(kind, [False, True]))


def _length(argument: Any, attributes: dict[str, Any], num_inputs: int) -> int:
    if argument.type_list_attr:
        return len(attributes[argument.type_list_attr])
    return attributes[argument.number_attr] if argument.number_attr else 1


def _snake(name: str) -> str:
    if name.startswith("Import_"):
        return name.lower()
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _wrapper_arguments(definition: Any, inputs: Any, attributes: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of the function of an op."""
    given: dict[str, Any] = {}
    left = list(inputs)
    inferred = set()
    for each in definition.input_arg:
        if each.number_attr or each.type_list_attr:
            inferred.add(each.number_attr or each.type_list_attr)
            count = _length(each, attributes, 0)
            given[each.name], left = left[:count], left[count:]
        else:
            given[each.name] = left.pop(0)
        inferred.add(each.type_attr)
    return given | {name: value for name, value in attributes.items() if name not in inferred}


def _described(value: Any) -> str:
    if value.dtype == tf.resource:
        return f"<handle {value.shape}>"
    return f"{value.dtype.name}{value.shape.as_list()} {str(value.numpy())[:80]!r}"


def _state(handle: Any) -> tuple[int, ...]:
    return (
        int(ops.condacc_accumulator_num_accumulated([handle])),
        int(ops.condacc_accumulator_num_dropped(handle)),
        int(ops.condacc_accumulator_global_step(handle)),
    )


def main() -> int:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**31)
    junk = Junk(seed)
    junk.run(calls, sys.argv[3] if len(sys.argv) > 3 else None)
    never = sorted(name for name in junk.calls if not junk.succeeded[name])
    print(f"{calls} calls of {len(junk.calls)} ops, seed {seed}: {dict(junk.outcomes)}")
    print(f"ops that no call has passed: {never}")
    for failure in junk.failures:
        print(failure)
    return 1 if junk.failures else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # Calls may be waiting in the gates' threads.
