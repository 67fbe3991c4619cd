"""The types of PTX, and the C++ types that hold their values."""

from __future__ import annotations

WIDTHS = {"pred": 1, "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "f16x2": 32, "bf16x2": 32}
WIDTHS |= {f"{kind}{width}": width for kind in "bus" for width in (8, 16, 32, 64)}

UNSIGNED = {1: "bool", 8: "uint8_t", 16: "uint16_t", 32: "uint32_t", 64: "uint64_t"}
SIGNED = {8: "int8_t", 16: "int16_t", 32: "int32_t", 64: "int64_t"}

FLOATS = ("f32", "f64")
NARROW_FLOATS = ("f16", "bf16")


class Unsupported(Exception):
    """PTX that this translator does not know."""


def c_type(type_: str) -> str:
    """Returns the C++ integer type with the width and the sign of a type of PTX."""
    return (SIGNED if type_[0] == "s" else UNSIGNED)[WIDTHS[type_]]


def from_bits(bits: str, type_: str) -> str:
    """Returns C++ for the value of type `type_` that an unsigned expression holds the bits of."""
    if type_ in FLOATS:
        return f"{'FloatOf' if type_ == 'f32' else 'DoubleOf'}({bits})"
    return f"(({c_type(type_)}){bits})" if type_[0] == "s" else bits


def to_bits(value: str, type_: str) -> str:
    """Returns C++ for the bits of a value of type `type_`, as an unsigned integer."""
    return f"BitsOf({value})" if type_ in FLOATS else f"({UNSIGNED[WIDTHS[type_]]})({value})"
