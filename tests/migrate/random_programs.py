"""Random programs that use TensorFlow's names, and what these names mean when the programs run."""

from __future__ import annotations

import builtins
import random
import textwrap
from typing import Any

from condacc.migrate._names import PROVIDED, plain

# Imports, and expressions that use them.
_IMPORTS = [
    (
        "import tensorflow as tf",
        ["tf.ConditionalAccumulator", "tf.contrib.opt.{drop}", "tf.float32"],
    ),
    ("import tensorflow as tf", ["tf.compat.v1.train.SyncReplicasOptimizer", "tf.nn.relu"]),
    ("import tensorflow.compat.v1 as v1", ["v1.SparseConditionalAccumulator", "v1.int32"]),
    ("from tensorflow.compat import v1 as tf", ["tf.ConditionalAccumulatorBase"]),
    ("from tensorflow.contrib import opt", ["opt.{drop}", "opt.Other"]),
    ("from tensorflow.contrib import opt, estimator as est", ["opt.{drop}", "est.TowerOptimizer"]),
    ("from tensorflow.contrib.opt import {drop} as D, Other as O", ["D", "O", "D.minimize"]),
    ("from tensorflow.contrib.opt import {drop}", ["{drop}"]),
    ("import tensorflow.contrib.opt", ["tensorflow.contrib.opt.{drop}", "tensorflow.float32"]),
    (
        "import tensorflow.contrib.training as tr, os",
        ["tr.GreedyLoadBalancingStrategy", "tr.HParams"],
    ),
    (
        "from tensorflow.python.ops import data_flow_ops as d",
        ["d.ConditionalAccumulator", "d.FIFOQueue"],
    ),
    ("import tf_condacc", ["tf_condacc.TowerOptimizer"]),
    ("from mine import tensorflow as tf, opt", ["tf.ConditionalAccumulator", "opt.{drop}"]),
]
_DROP = "DropStaleGradientOptimizer"
_BLOCKS = [
    "{imports}\n{uses}",
    "def f():\n    {imports}\n    {uses}\nf()",
    "{imports}\ndef f():\n    {uses}\nf()",
    "if True:\n    {imports}\n{uses}",
    "try:\n    {imports}\nexcept ImportError:\n    raise\n{uses}",
    "class C:\n    {imports}\n    {uses}",
    "{imports}\ndef f(tf, opt=mine.opt):\n    {uses}\nf(mine.tf)",
    "{imports}\n{uses}\nrecord(*[{tf}.ConditionalAccumulator for {tf} in [mine.tf]])",
    "def f():\n    def g():\n        {uses}\n    {imports}\n    g()\nf()",
]


def random_program(made: random.Random) -> str:
    """Returns a program that records what its names mean by calling ``record``."""
    blocks = ['"""A program."""', "import mine"]
    for _ in range(made.randint(1, 4)):
        chosen = made.sample(_IMPORTS, made.randint(1, 2))
        imports = [statement.format(drop=_DROP) for statement, _ in chosen]
        uses = [made.choice(uses).format(drop=_DROP) for _, uses in chosen for _ in range(2)]
        block = made.choice(_BLOCKS)
        for line in block.split("\n"):
            indent = line[: len(line) - len(line.lstrip())]
            text = line.strip().format(
                imports="\n".join(imports),
                uses="\n".join(f"record({use})" for use in uses),
                tf=made.choice(["tf", "v1", "opt"]),
            )
            blocks.append(textwrap.indent(text, indent))
    return "\n".join(blocks) + "\n"


class _Named:
    """An object that knows the name by which it was reached. It has every attribute."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return _Named(f"{self._name}.{name}")


def recorded(program: str, has_contrib: bool) -> list[str]:
    """Runs a program whose imports always succeed; returns the names that it recorded.

    Args:
        program: The program.
        has_contrib: False if ``tensorflow.contrib`` cannot be imported.
    """
    names: list[str] = []

    def record(*values: Any) -> None:
        names.extend(value._name for value in values)

    def import_(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        if not has_contrib and name.startswith("tensorflow.contrib"):
            raise ImportError(name)
        return _Named(name if fromlist else name.split(".")[0])

    space = {
        "record": record,
        "__builtins__": {**vars(builtins), "__import__": import_},
        "__name__": "p",
    }
    try:
        exec(compile(program, "<program>", "exec"), space)
    except NameError as error:  # A name that is bound in another block only.
        names.append(str(error))
    return names


def rewritten(name: str) -> str:
    """Returns the name that takes the place of one of TensorFlow, or the name itself."""
    plain_name = plain(name)
    for original, target in PROVIDED.items():
        if plain_name is not None and f"{plain_name}.".startswith(f"{original}."):
            return target + plain_name[len(original) :]
    return name
