"""Reads a PTX file: its variables and its kernels, whose code is translated on the way."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from . import arithmetic_ops, bit_ops, collective_ops, memory_ops  # noqa: F401  (they register)
from .kernel import Kernel, identifier
from .syntax import (
    Instruction,
    parse_instruction,
    parse_parameters,
    parse_variable,
    statements,
    without_comments,
)
from .translation import translate
from .types import Unsupported

_DIRECTIVE = re.compile(r"\s*\.(version|target|address_size)[^\n]*")
_FUNCTION = re.compile(
    r"\s*(?:\.(?:visible|weak|extern)\s+)?\.(entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)\s*"
    r"(\(.*?\))?[^{;]*([{;])",
    re.S,
)
_LINKAGE = re.compile(r"^\.(visible|weak|extern|common)\s+")


@dataclass
class Module:
    """The kernels of a PTX file, and C++ that declares its variables."""

    declarations: list[str] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    symbols: dict[str, str] = field(default_factory=dict)


def parse_module(text: str) -> Module:
    module = Module()
    text = without_comments(text)
    position = 0
    while text[position:].strip():
        directive = _DIRECTIVE.match(text, position)
        function = _FUNCTION.match(text, position)
        if directive:
            position = directive.end()
        elif function:
            position = function.end()
            if function[4] == "{":
                body = text[position : _end_of_block(text, position)]
                position += len(body) + 1
                # Functions are inlined, and their remaining declarations are not used.
                if function[1] == "entry":
                    _add_kernel(module, function[2], function[3] or "", body)
        else:
            end = text.index(";", position)
            _add_variable(module, " ".join(text[position:end].split()))
            position = end + 1
    return module


def _end_of_block(text: str, position: int) -> int:
    """Returns the position of the brace that closes the one before `position`."""
    depth = 1
    while depth > 0:
        depth += (text[position] == "{") - (text[position] == "}")
        position += 1
    return position - 1


def _add_variable(module: Module, text: str) -> None:
    variable = parse_variable(_LINKAGE.sub("", text))
    if variable is None or variable.space == "shared":
        raise Unsupported(f"outside of kernels: {text[:100]}")
    name = identifier(variable.name)
    module.symbols[variable.name] = f"((uint64_t)({name}))"
    module.declarations.append(
        f"alignas({max(variable.alignment, 1)}) static uint8_t {name}[{max(variable.size, 1)}];"
    )


def _add_kernel(module: Module, name: str, header: str, body: str) -> None:
    kernel = Kernel(name, parse_parameters(header), module.symbols)
    for kind, text in statements(body):
        if kind == "{":
            kernel.begin_scope()
        elif kind == "}":
            kernel.end_scope()
        elif kind == "label":
            kernel.code.append(f"{identifier(text)}: ;")
        elif text.startswith("."):
            _declare(kernel, text)
        else:
            _add_instruction(kernel, text)
    module.kernels.append(kernel)


def _declare(kernel: Kernel, text: str) -> None:
    registers = re.fullmatch(r"\.reg\s+\.(\w+)\s+(.*)", text)
    variable = parse_variable(text)
    if registers:
        kernel.declare_registers(registers[1], registers[2])
    elif variable:
        kernel.declare_variable(variable)
    elif not text.startswith((".pragma", ".loc")):
        raise Unsupported(f"directive {text[:80]}")


def _add_instruction(kernel: Kernel, text: str) -> None:
    instruction = parse_instruction(text)
    try:
        guard = kernel.source(instruction.guard, 1) if instruction.guard else ""
        code = _branch(instruction) or translate(kernel, instruction)
    except Unsupported as error:
        raise Unsupported(f"`{text}` in {kernel.name}: {error}") from error
    kernel.code.append(f"  if ({guard}) {{ {code} }}" if guard else f"  {code}")


def _branch(instruction: Instruction) -> str:
    """Returns C++ for an instruction that branches; empty for other instructions."""
    if instruction.name == "bra":
        return f"goto {identifier(instruction.operands[0])};"
    return "return;" if instruction.name in ("ret", "exit") else ""
