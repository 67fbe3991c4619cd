"""What mkdocstrings does not read in the docstrings of this package: examples, fields and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe

_NAME = re.compile(r"(?<![`\[])(`{1,2})([A-Za-z_][\w.]*)(\(\))?\1(?!`)")


class Docstrings(griffe.Extension):
    """Prepares the docstrings of a package that has been loaded."""

    def on_package(self, *, pkg: griffe.Module, loader: Any, **kwargs: Any) -> None:
        """Gives classes their parameters, and docstrings their examples and links."""
        public: dict[str, str] = {}
        for definition, path in _public(pkg):
            public.setdefault(definition, path)
        for each in list(_objects(pkg)):
            if isinstance(each, griffe.Class):
                _add_constructor(each)
        for each in list(_objects(pkg)):
            if each.docstring:
                text = re.sub(r"^Example:$", "Examples:", each.docstring.value, flags=re.MULTILINE)
                each.docstring.value = _linked(text, each, public)


def _objects(parent: griffe.Object) -> Iterator[griffe.Object]:
    yield parent
    for member in parent.members.values():
        if not member.is_alias:
            yield from _objects(member)


def _public(module: griffe.Module) -> Iterator[tuple[str, str]]:
    """Yields the definition and the public path of each name in an `__all__`."""
    for name in module.exports or ():
        try:
            member = module.members[str(name)]
            target = member.final_target if member.is_alias else member
        except (KeyError, griffe.AliasResolutionError):  # It is defined outside of the package.
            continue
        if target.is_module:
            yield from _public(target)
        else:
            yield target.canonical_path, f"{module.path}.{name}"


def _add_constructor(cls: griffe.Class) -> None:
    """Adds the constructor of a class whose `__new__` makes instances, such as a named tuple."""
    if "__init__" in cls.members:
        return
    if "__new__" in cls.members:
        parameters = cls.members["__new__"].parameters
    elif any(str(base).endswith("NamedTuple") for base in cls.bases):
        kind = griffe.ParameterKind.positional_or_keyword
        parameters = griffe.Parameters(
            griffe.Parameter("self", kind=kind),
            *(
                griffe.Parameter(name, kind=kind, annotation=field.annotation, default=field.value)
                for name, field in cls.members.items()
                if field.is_attribute and field.annotation
            ),
        )
    else:
        return
    cls.set_member("__init__", griffe.Function("__init__", parameters=parameters, parent=cls))


def _linked(text: str, owner: griffe.Object, public: dict[str, str]) -> str:
    """Links the names of public classes, functions and methods in a docstring."""
    arguments = {p.name for p in owner.parameters} if owner.is_function or owner.is_class else set()
    scopes = [owner]
    while scopes[-1].parent is not None:
        scopes.append(scopes[-1].parent)

    def link(match: re.Match[str]) -> str:
        name = match[2]
        path = None if name in arguments else _path(name, scopes, public)
        return f"[{match[0]}][{path}]" if path and path != _public_path(owner, public) else match[0]

    return "\n".join(
        line if line.lstrip().startswith(">>>") else _NAME.sub(link, line)
        for line in text.split("\n")
    )


def _public_path(each: griffe.Object, public: dict[str, str]) -> str | None:
    if each.canonical_path in public:
        return public[each.canonical_path]
    if each.parent is not None and each.parent.is_class and not each.name.startswith("_"):
        owner = public.get(each.parent.canonical_path)
        return owner and f"{owner}.{each.name}"
    return None


def _path(name: str, scopes: list[griffe.Object], public: dict[str, str]) -> str | None:
    """Returns where the API describes a name that is used inside of `scopes`."""
    if name.startswith("tf_condacc."):
        return name if name in public.values() else None
    first, *rest = name.split(".")
    for scope in scopes:
        found = scope.all_members.get(first)
        if found is None:
            continue
        try:
            for part in rest:
                found = found.all_members[part]
            if found.is_function or found.is_class:
                return _public_path(found, public)
        except (KeyError, griffe.AliasResolutionError):
            pass
        return None
    return None
