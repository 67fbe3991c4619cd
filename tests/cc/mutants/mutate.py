"""Makes mutants of C++ sources: small changes, each of which may be a bug.

All mutants of a source stand in it at the same time. Each is switched on by its number, so one
build serves for all of them; see mutants.h.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# What a comparison may become.
COMPARISONS = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "==": ("!=",),
    "!=": ("==",),
}
CODES = {"<": 0, "<=": 1, ">": 2, ">=": 3, "==": 4, "!=": 5}


@dataclass(frozen=True)
class Mutant:
    """A change of a source, as text that is inserted."""

    position: int
    change: str  # What the change does.
    code: str  # The code that it changes.
    # With {n} for the number of the mutant. Empty if those of the mutant before serve for this one.
    insertions: tuple[tuple[int, str], ...]


def blank(text: str) -> str:
    """Returns the text with blanks for comments and preprocessor lines, and `_` for literals."""

    def blanks(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " " if found[0][0] in "/#" else "_", found[0])

    text = re.sub(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', blanks, text)
    return re.sub(r"^#[^\n]*", blanks, text, flags=re.MULTILINE)


def end_of_bracket(text: str, begin: int) -> int:
    """Returns the position of the bracket that closes the one at `begin`."""
    depth = 0
    for i in range(begin, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i
    raise ValueError("a bracket is never closed")


def functions(text: str) -> Iterator[tuple[int, int]]:
    """Yields where bodies of functions begin and end."""
    i = 0
    while (begin := text.find("{", i)) >= 0:
        i = begin + 1
        head = re.split(r"[;{}]|public:|private:|protected:", text[:begin])[-1]
        is_type = re.match(r"\s*(template <[^>]*>\s*)?(class|struct|enum|namespace)\b", head)
        if is_type or "(" not in head or re.search(r"\b(constexpr|constexpr static)\b", head):
            if "constexpr" in head:
                i = end_of_bracket(text, begin)
            continue
        end = end_of_bracket(text, begin)
        yield begin, end
        i = end


def end_of_operand(text: str, begin: int) -> int:
    """Returns where the operand of `&&` or `||` ends that begins here."""
    i = begin
    while True:
        if text[i : i + 2] == "::":
            i += 2
        elif text[i] in ");,?:]}" or text[i : i + 2] in ("&&", "||"):
            return i
        else:
            i = end_of_bracket(text, i) + 1 if text[i] in "([{" else i + 1


def mutants_of_comparisons(text: str, begin: int, end: int) -> Iterator[Mutant]:
    """Yields mutants that compare otherwise."""
    for found in re.compile(r" (<=|>=|==|!=|<|>)(?=[ \n])").finditer(text, begin, end):
        line_begin = text.rfind("\n", 0, found.start()) + 1
        if "for (" in text[line_begin : found.start()]:
            continue  # Loops over containers would only never end, or read what is not there.
        others = COMPARISONS[found[1]]
        codes = ", ".join(str(CODES[name]) for name in (found[1], others[0], others[-1]))
        # The next mutant uses the same text: its number is one higher.
        inserted = " ::mutants::Compare{{{n}, " + codes + "}} " + found[1]
        for i, to in enumerate(others):
            insertions = ((found.end(1), inserted),) if i == 0 else ()
            yield Mutant(found.start(1), f"{found[1]} becomes {to}", "", insertions)


def mutants_of_conditions(text: str, begin: int, end: int) -> Iterator[Mutant]:
    """Yields mutants whose conditions are always true or false, or lack an operand."""
    for found in re.compile(r"\b(if|while) \(").finditer(text, begin, end):
        first = found.end()
        last = end_of_bracket(text, first - 1)
        condition = text[first:last]
        if ";" in condition or re.search(r"[^=!<>]=[^=]", condition) or condition == "true":
            continue
        for value in ("true", "false"):
            if found[1] == "while" and value == "true":
                continue
            insertions = ((first, f"::mutants::IsOn({{n}}) ? {value} : ("), (last, ")"))
            yield Mutant(first, f"the condition is {value}", "", insertions)
        if found[1] == "while" and re.match(r"\) \w+\.Wait\(", text[last : last + 30]):
            insertions = ((first, "::mutants::Again({n}) && ("), (last, ")"))
            yield Mutant(first, "the condition is tested once", "", insertions)
    for found in re.compile(r"(&&|\|\|)\s").finditer(text, begin, end):
        if text[found.start() - 1] not in " \n":
            continue  # An rvalue reference.
        first = found.end()
        while text[first].isspace():
            first += 1
        last = end_of_operand(text, first)
        while text[last - 1].isspace():
            last -= 1
        is_and = found[1] == "&&"
        switch = "::mutants::IsOn({n}) ||" if is_and else "!::mutants::IsOn({n}) &&"
        insertions = ((first, f"({switch} ("), (last, "))"))
        yield Mutant(first, f"an operand of {found[1]} is left out", "", insertions)


def mutants_of_statements(text: str, begin: int, end: int) -> Iterator[Mutant]:
    """Yields mutants that lack a statement, or add 0 in place of 1."""
    start = re.compile(r"(?<=[;{}\)e])\s+(?=[\w*+(-])")
    for found in start.finditer(text, begin, end):
        first = found.end()
        last = first
        while text[last] not in ";{}":
            last = end_of_bracket(text, last) + 1 if text[last] in "([" else last + 1
        statement = text[first : last + 1]
        is_one = re.match(r"(\+\+|--)[\w.>\[\]()-]+;|[\w.:>*()-]+(\(|;| [-+|]?= )", statement)
        if text[last] != ";" or is_one is None:
            continue
        if re.match(
            r"(if|while|for|switch|return|else|case|default|do|throw|delete)\b|CONDACC_", statement
        ):
            continue
        if text[found.start() - 1] == "e" and text[found.start() - 4 : found.start()] != "else":
            continue
        insertions = ((first, "{{ if (!::mutants::IsOn({n})) "), (last + 1, " }}"))
        yield Mutant(first, "the statement is left out", "", insertions)
    for found in re.compile(r" [-+] 1\b(?![.x])").finditer(text, begin, end):
        yield Mutant(
            found.start(), "0 in place of 1", "", ((found.end(), " * !::mutants::IsOn({n})"),)
        )


def mutants_of(text: str) -> list[Mutant]:
    """Returns the mutants of a source, in the order of their places."""
    code = blank(text)
    found = []
    for begin, end in functions(code):
        for mutants in (mutants_of_comparisons, mutants_of_conditions, mutants_of_statements):
            for each in mutants(code, begin, end):
                line = text[text.rfind("\n", 0, each.position) + 1 : text.find("\n", each.position)]
                if "CONDACC_" in line or "static_assert" in line or "constexpr" in line:
                    continue
                found.append(Mutant(each.position, each.change, line.strip(), each.insertions))
    return sorted(found, key=lambda mutant: mutant.position)


def with_mutants(text: str, mutants: list[Mutant], first_number: int) -> str:
    """Returns the source with all of its mutants, which are numbered from `first_number`."""
    insertions = []
    for i, mutant in enumerate(mutants):
        for position, inserted in mutant.insertions:
            opens = inserted.rstrip()[-1] not in ")}"
            # Of what is inserted at one place, what ends comes first, and inner ends before outer.
            length = mutant.insertions[-1][0] - mutant.insertions[0][0]
            order = (position, 1, -length) if opens else (position, 0, length)
            insertions.append((order, i, inserted.format(n=first_number + i)))
    made, end = [], 0
    for (position, _, _), _, inserted in sorted(insertions):
        made += [text[end:position], inserted]
        end = position
    return "".join([*made, text[end:]])
