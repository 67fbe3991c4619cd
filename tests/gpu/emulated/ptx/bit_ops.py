"""Logic, shifts and what else works on single bits."""

from __future__ import annotations

from .kernel import Kernel
from .syntax import Instruction
from .translation import translates
from .types import UNSIGNED, c_type

_LOGIC = {"and": "&", "or": "|", "xor": "^"}


def _sources(k: Kernel, i: Instruction, *widths: int) -> str:
    """Returns the operands after the first, with these widths, as arguments of a function."""
    operands = i.operands[1 : 1 + len(widths)]
    return ",".join(k.source(text, width) for text, width in zip(operands, widths, strict=True))


@translates("and", "or", "xor")
def logic(k: Kernel, i: Instruction) -> str:
    a, b = (k.source(operand, i.width) for operand in i.operands[1:])
    if i.width == 1:
        sign = {"and": "&&", "or": "||", "xor": "!="}[i.name]
        return k.assign(i.operands[0], f"({a} {sign} {b})", 1)
    return k.assign(i.operands[0], f"({UNSIGNED[i.width]})({a}{_LOGIC[i.name]}{b})", i.width)


@translates("not")
def invert(k: Kernel, i: Instruction) -> str:
    a = k.source(i.operands[1], i.width)
    return k.assign(
        i.operands[0], f"!{a}" if i.width == 1 else f"({UNSIGNED[i.width]})~{a}", i.width
    )


@translates("shl", "shr")
def shift(k: Kernel, i: Instruction) -> str:
    type_ = c_type(i.type) if i.name == "shr" else UNSIGNED[i.width]
    function = "ShiftedRight" if i.name == "shr" else "ShiftedLeft"
    a, b = k.source(i.operands[1], i.width), k.source(i.operands[2], 32)
    return k.assign(i.operands[0], f"({UNSIGNED[i.width]}){function}<{type_}>({a},{b})", i.width)


@translates("bmsk")
def mask(k: Kernel, i: Instruction) -> str:
    i.refuse("wrap")
    return k.assign(i.operands[0], f"BitMask({_sources(k, i, 32, 32)})", 32)


@translates("popc")
def count_ones(k: Kernel, i: Instruction) -> str:
    return k.assign(i.operands[0], f"NumOnes({_sources(k, i, i.width)})", 32)


@translates("clz")
def count_leading_zeros(k: Kernel, i: Instruction) -> str:
    arguments = _sources(k, i, i.width)
    return k.assign(i.operands[0], f"NumLeadingZeros<{UNSIGNED[i.width]}>({arguments})", 32)


@translates("brev")
def reverse(k: Kernel, i: Instruction) -> str:
    arguments = _sources(k, i, i.width)
    return k.assign(i.operands[0], f"ReversedBits<{UNSIGNED[i.width]}>({arguments})", i.width)
