"""Splits the text of PTX into declarations, labels and instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .types import WIDTHS, Unsupported

_LABEL = re.compile(r"([A-Za-z_$][\w$]*)\s*:(?!:)")
_VARIABLE = re.compile(r"\.(shared|global|const|local)\s+(.*)", re.S)
_DECLARATOR = re.compile(r"(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$.]+)\s*(?:\[(\d*)\])?", re.S)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+"
    r"(?:\.ptr(?:\s+\.\w+)*(?:\s+\.align\s+\d+)?\s+)?([\w$]+)(?:\[(\d+)\])?"
)
_GUARD = re.compile(r"@(!?[%\w$]+)\s+(.*)")


@dataclass(frozen=True)
class Variable:
    """A variable in memory; `size` and `alignment` are in bytes."""

    space: str
    name: str
    size: int
    alignment: int


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel, `offset` bytes after the first."""

    name: str
    size: int
    offset: int


@dataclass(frozen=True)
class Instruction:
    """One instruction: `@guard name.modifier.type operand, operand`."""

    text: str
    guard: str
    name: str
    modifiers: list[str]
    operands: list[str]

    @property
    def type(self) -> str:
        return self.modifiers[-1] if self.modifiers else ""

    @property
    def width(self) -> int:
        return WIDTHS.get(self.type, 0)

    def one_of(self, *candidates: str) -> str | None:
        """Returns the first modifier that is one of `candidates`."""
        return next((modifier for modifier in self.modifiers if modifier in candidates), None)

    def refuse(self, *modifiers: str) -> None:
        """Raises Unsupported if the instruction has one of these modifiers."""
        found = self.one_of(*modifiers)
        if found:
            raise Unsupported(f"modifier {found}")


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", " ", text, flags=re.S))


def aligned(offset: int, alignment: int) -> int:
    """Returns the first multiple of `alignment` that is not below `offset`."""
    return (offset + alignment - 1) // alignment * alignment


def split_operands(text: str) -> list[str]:
    """Splits at the commas outside of brackets and braces."""
    operands, depth = [""], 0
    for character in text:
        depth += (character in "[{(") - (character in "]})")
        if character == "," and depth == 0:
            operands.append("")
        else:
            operands[-1] += character
    return [operand.strip() for operand in operands if operand.strip()]


def parse_instruction(text: str) -> Instruction:
    guarded = _GUARD.match(text)
    guard, rest = (guarded[1], guarded[2]) if guarded else ("", text)
    operation, _, operands = rest.partition(" ")
    name, *modifiers = operation.split(".")
    # Modifiers like .shared::cta and .L1::no_allocate change nothing here.
    modifiers = [modifier for modifier in modifiers if "::" not in modifier]
    return Instruction(text, guard, name, modifiers, split_operands(operands))


def parse_variable(text: str) -> Variable | None:
    """Returns the variable that a statement declares, or None if it declares none."""
    declaration = _VARIABLE.match(text)
    if not declaration:
        return None
    parts = _DECLARATOR.fullmatch(declaration[2].strip())
    if not parts:
        raise Unsupported(f"declaration {text[:80]}")
    alignment, type_, name, count = parts.groups()
    size = WIDTHS[type_] // 8
    length = 1 if count is None else int(count or 0)
    return Variable(declaration[1], name, size * length, int(alignment or size))


def parse_parameters(header: str) -> list[Parameter]:
    parameters: list[Parameter] = []
    end = 0
    for alignment, type_, name, count in _PARAMETER.findall(header):
        size = WIDTHS[type_] // 8
        begin = aligned(end, int(alignment or size))
        parameters.append(Parameter(name, size * int(count or 1), begin))
        end = begin + parameters[-1].size
    return parameters


def statements(text: str) -> Iterator[tuple[str, str]]:
    """Yields what a kernel's body consists of.

    Yields:
        ("{", ""), ("}", ""), ("label", name) or ("statement", text).
    """
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
        elif text[position] in "{}":
            yield text[position], ""
            position += 1
        elif label := _LABEL.match(text, position):
            yield "label", label[1]
            position = label.end()
        else:
            end = text.index(";", position)
            yield "statement", " ".join(text[position:end].split())
            position = end + 1
