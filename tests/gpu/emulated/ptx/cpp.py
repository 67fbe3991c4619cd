"""Writes the C++ of a module."""

from __future__ import annotations

from .kernel import Kernel
from .module import Module
from .types import UNSIGNED

INCLUDES = ("access.h", "bits.h", "collectives.h", "numbers.h", "thread.h")


def module_as_cpp(module: Module) -> str:
    lines = [f'#include "tests/gpu/emulated/runtime/{header}"' for header in INCLUDES]
    lines += ["namespace {", "using namespace condacc::emulated;", *module.declarations]
    for number, kernel in enumerate(module.kernels):
        lines += _function(kernel, f"Kernel{number}")
        lines.append(_registration(kernel, number))
    return "\n".join([*lines, "}  // namespace", ""])


def _function(kernel: Kernel, name: str) -> list[str]:
    lines = [f"void {name}(Thread* c) {{"]
    for register, width in sorted(kernel.used_registers.items()):
        lines.append(f"  {UNSIGNED[width]} {register} = 0; (void){register};")
    return [*lines, *kernel.code, "}"]


def _registration(kernel: Kernel, number: int) -> str:
    parameters = ",".join(f"{{{each.size},{each.offset}}}" for each in kernel.parameters)
    synchronizes = "true" if kernel.synchronizes else "false"
    return (
        f'const KernelRegistration registration{number}({{"{kernel.name}", Kernel{number}, '
        f"{kernel.shared_bytes}, {synchronizes}, {{{parameters}}}}});"
    )
