"""Arithmetic, comparisons and conversions.

Floating point operations are those of C++ with one rounding each, as IEEE 754 and PTX have them.
Operations that flush denormal numbers or approximate are refused.
"""

from __future__ import annotations

from .kernel import Kernel
from .syntax import Instruction
from .translation import translates
from .types import (
    FLOATS,
    NARROW_FLOATS,
    SIGNED,
    UNSIGNED,
    WIDTHS,
    Unsupported,
    c_type,
    to_bits,
)

_INEXACT = ("cc", "sat", "ftz", "approx")
_PACKED = ("f16x2", "bf16x2")
_COMPARISONS = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}


def _refuse_other_types(i: Instruction) -> None:
    i.refuse(*_INEXACT, *NARROW_FLOATS, *_PACKED)


def _values(k: Kernel, i: Instruction) -> list[str]:
    return [k.value(operand, i.type) for operand in i.operands[1:]]


@translates("add", "sub")
def add(k: Kernel, i: Instruction) -> str:
    _refuse_other_types(i)
    sign = "+" if i.name == "add" else "-"
    if i.type in FLOATS:
        i.refuse("rz", "rm", "rp")
        a, b = _values(k, i)
        return k.assign(i.operands[0], to_bits(f"{a}{sign}{b}", i.type), i.width)
    a, b = (k.source(operand, i.width) for operand in i.operands[1:])
    return k.assign(i.operands[0], f"({UNSIGNED[i.width]})({a}{sign}{b})", i.width)


@translates("min", "max")
def extreme(k: Kernel, i: Instruction) -> str:
    _refuse_other_types(i)
    i.refuse("NaN", "xorsign", "relu")
    function = f"std::f{i.name}" if i.type in FLOATS else f"std::{i.name}"
    a, b = _values(k, i)
    return k.assign(i.operands[0], to_bits(f"{function}({a},{b})", i.type), i.width)


@translates("div")
def divide(k: Kernel, i: Instruction) -> str:
    _refuse_other_types(i)
    a, b = _values(k, i)
    if i.type not in FLOATS:
        return k.assign(i.operands[0], f"({UNSIGNED[i.width]})Quotient({a},{b})", i.width)
    if not i.one_of("rn"):
        raise Unsupported("division that is not rounded to nearest")
    return k.assign(i.operands[0], to_bits(f"{a}/{b}", i.type), i.width)


@translates("mul", "mad")
def multiply(k: Kernel, i: Instruction) -> str:
    i.refuse(*FLOATS, *NARROW_FLOATS, *_PACKED, "hi")
    a, b = (k.value(operand, i.type) for operand in i.operands[1:3])
    width, type_ = i.width, UNSIGNED[i.width]
    if i.one_of("wide"):
        width, type_ = 2 * width, UNSIGNED[2 * width]
        double = c_type(f"{'s' if i.type[0] == 's' else 'u'}{width}")
        result = f"({type_})(({double}){a}*({double}){b})"
    else:
        a, b = (k.source(operand, width) for operand in i.operands[1:3])
        result = f"({type_})((uint64_t){a}*(uint64_t){b})"
    if i.name == "mad":
        result = f"({type_})({result}+{k.source(i.operands[3], width)})"
    return k.assign(i.operands[0], result, width)


def _comparison(how: str, type_: str, a: str, b: str) -> str:
    if type_ not in FLOATS:
        return f"({a} {_COMPARISONS[how]} {b})"
    if how == "neu":
        return f"(!({a} == {b}))"
    if how == "ne" or how not in _COMPARISONS:
        raise Unsupported(f"comparison of floating point numbers by {how}")
    return f"({a} {_COMPARISONS[how]} {b})"


@translates("setp")
def set_predicate(k: Kernel, i: Instruction) -> str:
    i.refuse(*_INEXACT, *NARROW_FLOATS, *_PACKED, "and", "or", "xor")
    type_ = "u" + i.type[1:] if i.type[0] == "b" else i.type
    a, b = (k.value(operand, type_) for operand in i.operands[1:3])
    return k.assign(i.operands[0], _comparison(i.modifiers[0], type_, a, b), 1)


@translates("selp")
def select(k: Kernel, i: Instruction) -> str:
    a, b = (k.source(operand, i.width) for operand in i.operands[1:3])
    return k.assign(i.operands[0], f"({k.source(i.operands[3], 1)} ? {a} : {b})", i.width)


@translates("cvt")
def convert(k: Kernel, i: Instruction) -> str:
    i.refuse("sat", "ftz")
    to, type_ = i.modifiers[-2:]
    if len(i.operands) > 2 or type_[0] == "b" and type_ != "bf16":
        raise Unsupported("conversion")
    if type_ in NARROW_FLOATS:
        function = "FloatOfHalf" if type_ == "f16" else "FloatOfBFloat16"
        value = f"{function}({k.source(i.operands[1], 16)})"
    else:
        value = k.value(i.operands[1], type_)
    if to in NARROW_FLOATS:
        if type_ != "f32" or not i.one_of("rn"):
            raise Unsupported("conversion to 16 bits")
        function = "HalfOf" if to == "f16" else "BFloat16Of"
        return k.assign(i.operands[0], f"{function}({value})", 16)
    width = WIDTHS[to]
    if to in FLOATS:
        result = to_bits(f"({'float' if to == 'f32' else 'double'})({value})", to)
        return k.assign(i.operands[0], result, width)
    if type_ in (*FLOATS, *NARROW_FLOATS):
        raise Unsupported("conversion of a floating point number to an integer")
    result = f"({UNSIGNED[width]})({(SIGNED if type_[0] == 's' else UNSIGNED)[width]})({value})"
    return k.assign(i.operands[0], result, width, signed=to[0] == "s")
