"""Mutants that change no behaviour, and why: by file, change and line."""

SURVIVORS: dict[tuple[str, str, str], str] = {}
