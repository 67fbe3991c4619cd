"""A kernel: what it declares, and C++ for its operands."""

from __future__ import annotations

import re

from .syntax import Parameter, Variable, aligned
from .types import SIGNED, UNSIGNED, WIDTHS, Unsupported, from_bits

_SPECIAL = {
    "%laneid": "c->lane",
    "%lanemask_le": "((2u<<c->lane)-1u)",
    "%lanemask_ge": "(~((1u<<c->lane)-1u))",
}
_PLACE = re.compile(r"%(tid|ntid|ctaid|nctaid)\.([xyz])")
_INTEGER = re.compile(r"(-?)(0[xX][0-9a-fA-F]+|\d+)U?")
_FLOAT = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})")
_SUM = re.compile(r"(.+?)\s*([+-])\s*(-?\d+)")


def identifier(name: str, suffix: str = "") -> str:
    return "v_" + re.sub(r"\W", "_", name) + suffix


class _Registers:
    """The registers that one pair of braces declares."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self._widths: dict[str, int] = {}
        self._ranges: list[tuple[str, int, int]] = []  # prefix, count, width

    def declare(self, name: str, width: int) -> None:
        numbered = re.fullmatch(r"([%\w$]+)<(\d+)>", name)
        if numbered:
            self._ranges.append((numbered[1], int(numbered[2]), width))
        else:
            self._widths[name] = width

    def find(self, name: str) -> tuple[str, int] | None:
        width = self._widths.get(name)
        for prefix, count, range_width in self._ranges:
            number = name[len(prefix) :] if name.startswith(prefix) else ""
            if width is None and number.isdigit() and int(number) < count:
                width = range_width
        return None if width is None else (identifier(name, self._suffix), width)


class Kernel:
    """The declarations of one kernel, and the C++ of its code as far as it is translated."""

    def __init__(self, name: str, parameters: list[Parameter], globals_: dict[str, str]) -> None:
        self.name = name
        self.parameters = parameters
        self.used_registers: dict[str, int] = {}  # C++ identifier: width in bits
        self.shared_bytes = 0
        self.synchronizes = False
        self.code: list[str] = []
        # An address, in its own space, as a C++ expression.
        self._symbols = dict(globals_)
        for parameter in parameters:
            self._symbols[parameter.name] = f"((uint64_t)(c->parameters+{parameter.offset}))"
        self._scopes = [_Registers("")]
        self._num_scopes = 0

    def begin_scope(self) -> None:
        self._num_scopes += 1
        self._scopes.append(_Registers(f"_s{self._num_scopes}"))

    def end_scope(self) -> None:
        self._scopes.pop()

    def declare_registers(self, type_: str, names: str) -> None:
        for name in names.split(","):
            self._scopes[-1].declare(name.strip(), WIDTHS[type_])

    def declare_variable(self, variable: Variable) -> None:
        if variable.space != "shared":
            raise Unsupported(f"variable {variable.name} in {variable.space} memory in a kernel")
        begin = aligned(self.shared_bytes, variable.alignment)
        self._symbols[variable.name] = f"((uint64_t){begin}u)"
        self.shared_bytes = begin + variable.size

    def register(self, name: str) -> tuple[str, int] | None:
        """Returns the C++ identifier and the width of a register, or None if it is none."""
        for scope in reversed(self._scopes):
            found = scope.find(name)
            if found:
                self.used_registers[found[0]] = found[1]
                return found
        return None

    def source(self, text: str, width: int) -> str:
        """Returns C++ for an operand that is read, an unsigned value of `width` bits."""
        negated = text.startswith("!")
        register = self.register(text.removeprefix("!"))
        if register:
            name, register_width = register
            if width == 1:
                return f"(!{name})" if negated else name
            return name if register_width == width else f"(({UNSIGNED[width]}){name})"
        place = _PLACE.fullmatch(text)
        if width == 1 and text in ("0", "1", "-1"):
            return "false" if text == "0" else "true"
        if place:
            value = f"c->{place[1]}[{'xyz'.index(place[2])}]"
        else:
            value = _SPECIAL.get(text) or _immediate(text, width) or self._symbol_plus(text)
        return f"(({UNSIGNED[width]}){value})"

    def value(self, text: str, type_: str) -> str:
        """Returns C++ for an operand that is read as a value of a type of PTX."""
        return from_bits(self.source(text, WIDTHS[type_]), type_)

    def assign(self, text: str, value: str, width: int, signed: bool = False) -> str:
        """Returns the assignment of an unsigned value, extended if the register is wider."""
        if text == "_":
            return f"(void)({value});"
        register = self.register(text)
        if not register:
            raise Unsupported(f"destination {text}")
        name, register_width = register
        if register_width == 1:
            return f"{name} = ({value});" if width == 1 else f"{name} = ({value}) & 1;"
        if signed and register_width > width:
            extended = f"({SIGNED[register_width]})({SIGNED[width]})({value})"
            return f"{name} = ({UNSIGNED[register_width]}){extended};"
        return f"{name} = ({UNSIGNED[register_width]})({value});"

    def address(self, space: str, text: str) -> str:
        """Returns C++ for the address `[base+offset]`."""
        inner = text.removeprefix("[").removesuffix("]").strip()
        base, offset = inner, 0
        parts = _SUM.fullmatch(inner)
        if parts and not _immediate(inner, 64):
            base, offset = parts[1], int(parts[3]) * (-1 if parts[2] == "-" else 1)
        register = self.register(base)
        if register:
            start = f"(uint64_t){register[0]}"
        else:
            start = self._symbols.get(base) or _immediate(base, 64) or ""
        if not start:
            raise Unsupported(f"address {text}")
        address = f"({start}+({offset}ll))"
        return f"SharedAddress(c,{address})" if space == "shared" else address

    def _symbol_plus(self, text: str) -> str:
        parts = _SUM.fullmatch(text)
        base, offset = (parts[1], parts[2] + parts[3]) if parts else (text, "")
        if base not in self._symbols:
            raise Unsupported(f"operand {text}")
        return f"({self._symbols[base]}{offset})"


def _immediate(text: str, width: int) -> str | None:
    """Returns C++ for a number, in 32 or 64 bits, or None if the text is not a number."""
    floating = _FLOAT.fullmatch(text)
    if floating:
        return f"0x{floating[1]}u" if floating[1] else f"0x{floating[2]}ull"
    integer = _INTEGER.fullmatch(text)
    if not integer:
        return None
    value = int(integer[1] + integer[2], 16 if integer[2][:2].lower() == "0x" else 10)
    bits = max(width, 32)
    return f"0x{value & ((1 << bits) - 1):x}{'ull' if bits == 64 else 'u'}"
