"""Which function does a handler mean that is no `module:function`?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tool_engine.executors.python.handler_source import SourceError, source_of

FUNCTION: Final = "FUNCTION"
"""Stands where the name of a function is not known."""
_MOST_LISTED: Final = 8
_USUAL: Final = ("run", "main", "handle", "handler", "execute")
_IS_FILE: Final = re.compile(r"[/\\]|\.py\b")


def is_path(handler: str) -> bool:
    """Return True for the path of a file or of a module, which no executor has for its name."""
    return bool(_read_module(handler)) and ("." in handler or bool(_IS_FILE.search(handler)))


def write_place(handler: str) -> str:
    """Return `module:function` as far as the words alone say it; empty for other words."""
    words, _, function = handler.partition(":")
    dotted = _read_module(words)
    if not dotted or not is_path(words):
        return ""
    if function or _IS_FILE.search(words):
        return f"{dotted}:{function if function.isidentifier() else FUNCTION}"
    module, _, function = dotted.rpartition(".")
    return f"{module}:{function}"


def find_place(handler: str, name: str) -> str:
    """Return `module:function` for a handler that names a module, or what is known of it.

    Blocks: it reads the module's source; none of the code is run.

    Args:
        handler: What stands in the place of `module:function`.
        name: The tool's name, which its function may have.
    """
    for module in _list_modules(_read_module(handler)):
        try:
            functions = source_of(module).list_functions()
        except SourceError:
            continue
        return _choose_place(module, functions, name)
    return write_place(handler)


def word_place(place: str) -> str:
    """Return the cure that says a place."""
    return f"write {place}" if FUNCTION in place else f"did you mean {place!r}?"


def word_guess(handler: str, place: str) -> str:
    """Return the cure where no source was read: the last part may be a module."""
    cure = word_place(place)
    dotted = place.replace(":", ".")
    return f"{cure} Or {dotted}:{FUNCTION}, if it is a module" if dotted == handler else cure


def _choose_place(module: str, functions: list[str], name: str) -> str:
    likely = [each for each in (name, *_USUAL) if each in functions]
    likely = likely or functions[: len(functions) == 1]
    if likely or not functions:
        return f"{module}:{likely[0] if likely else FUNCTION}"
    listed = ", ".join(functions[:_MOST_LISTED])
    return f"{module}:{FUNCTION}, with a function of that module: {listed}"


def _list_modules(dotted: str) -> Iterator[str]:
    """Yield the modules that a path may mean: folders before the first package have no part."""
    parts = dotted.split(".") if dotted else []
    yield from (".".join(parts[number:]) for number in range(len(parts)))


def _read_module(path: str) -> str:
    """Return a path in the form of an import; empty if it cannot be one."""
    plain = re.sub(r"^(\.{0,2}[/\\])+|\.py$", "", path)
    dotted = re.sub(r"[/\\]", ".", plain)
    return dotted if all(part.isidentifier() for part in dotted.split(".")) else ""
