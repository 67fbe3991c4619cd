"""Moves, loads, stores and atomic operations."""

from __future__ import annotations

import re

from .kernel import Kernel
from .syntax import Instruction, split_operands
from .translation import translates
from .types import UNSIGNED, Unsupported, from_bits, to_bits

_SPACES = {"global": "kGlobal", "shared": "kShared", "param": "kParameters"}


@translates("mov")
def move(k: Kernel, i: Instruction) -> str:
    target, source = i.operands
    type_ = UNSIGNED[i.width]
    if source.startswith("{"):
        parts = split_operands(source[1:-1])
        width = i.width // len(parts)
        shifted = [f"((({type_}){k.source(x, width)})<<{n * width})" for n, x in enumerate(parts)]
        return k.assign(target, "|".join(shifted), i.width)
    if target.startswith("{"):
        parts = split_operands(target[1:-1])
        width = i.width // len(parts)
        lines = [f"{{ const {type_} m_ = {k.source(source, i.width)};"]
        for n, part in enumerate(parts):
            lines.append(k.assign(part, f"({UNSIGNED[width]})(m_>>{n * width})", width))
        return " ".join(lines) + " }"
    return k.assign(target, k.source(source, i.width), i.width)


@translates("cvta")
def convert_address(k: Kernel, i: Instruction) -> str:
    i.refuse("shared")
    return k.assign(i.operands[0], k.source(i.operands[1], 64), 64)


def _checked_address(k: Kernel, i: Instruction, text: str, num_bytes: int, access: str) -> str:
    """Returns the declaration of `a_`, the address of an access, which is checked."""
    i.refuse("local", "const")
    space = i.one_of(*_SPACES) or "generic"
    template = f"{num_bytes},{access},{_SPACES.get(space, 'kGeneric')}"
    return f"{{ const uint64_t a_ = Checked<{template}>(c,{k.address(space, text)});"


def _vector(i: Instruction, text: str) -> list[str]:
    is_vector = any(re.fullmatch(r"v\d", modifier) for modifier in i.modifiers)
    return split_operands(text[1:-1]) if is_vector else [text]


@translates("ld")
def load(k: Kernel, i: Instruction) -> str:
    targets, size = _vector(i, i.operands[0]), i.width // 8
    lines = [_checked_address(k, i, i.operands[1], size * len(targets), "kRead")]
    for n, target in enumerate(targets):
        value = f"Load<{UNSIGNED[i.width]}>(a_+{n * size})"
        lines.append(k.assign(target, value, i.width, signed=i.type[0] == "s"))
    return " ".join(lines) + " }"


@translates("st")
def store(k: Kernel, i: Instruction) -> str:
    sources, size = _vector(i, i.operands[1]), i.width // 8
    lines = [_checked_address(k, i, i.operands[0], size * len(sources), "kWrite")]
    for n, source in enumerate(sources):
        lines.append(f"Store<{UNSIGNED[i.width]}>(a_+{n * size},{k.source(source, i.width)});")
    return " ".join(lines) + " }"


@translates("atom")
def atomic(k: Kernel, i: Instruction) -> str:
    target, address, operand = i.operands
    old = from_bits("o_", i.type)
    new_values = {"add": f"{old}+b_", "min": f"({old}<b_?{old}:b_)"}
    how = i.one_of(*new_values)
    if how is None:
        raise Unsupported("kind of atomic operation")
    type_ = UNSIGNED[i.width]
    lines = [
        _checked_address(k, i, address, i.width // 8, "kAtomic"),
        f"const {type_} o_ = Load<{type_}>(a_);",
        f"const auto b_ = {k.value(operand, i.type)};",
        f"Store<{type_}>(a_, {to_bits(new_values[how], i.type)});",
        k.assign(target, "o_", i.width),
    ]
    return " ".join(lines) + " }"


# Threads run one after another here, and their accesses are never reordered.
@translates("membar", "nanosleep")
def nothing(_k: Kernel, _i: Instruction) -> str:
    return ";"
