"""Which function translates which instruction."""

from __future__ import annotations

from collections.abc import Callable

from .kernel import Kernel
from .syntax import Instruction
from .types import Unsupported

Translation = Callable[[Kernel, Instruction], str]

_TRANSLATIONS: dict[str, Translation] = {}


def translates(*names: str) -> Callable[[Translation], Translation]:
    """Registers a function that returns C++ statements for the instructions so named."""

    def register(function: Translation) -> Translation:
        _TRANSLATIONS.update(dict.fromkeys(names, function))
        return function

    return register


def translate(kernel: Kernel, instruction: Instruction) -> str:
    """Returns C++ statements for an instruction, without its guard."""
    if instruction.name not in _TRANSLATIONS:
        raise Unsupported("unknown instruction")
    return _TRANSLATIONS[instruction.name](kernel, instruction)
