"""The signatures of functions, in a form that tests can compare."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def bare_signature(function: Callable[..., Any]) -> str:
    """Returns names, kinds and defaults of a function's parameters, without annotations."""
    signature = inspect.signature(function)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    """Returns names, kinds and defaults of a signature; our annotations are left out."""
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]
