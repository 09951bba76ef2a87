"""How does a text match a model's pattern in a time that no pattern can blow up?

Patterns run on the engine that also checks the patterns of definitions: it takes linear time and
has no lookaround and no back-reference. A glob becomes such a pattern.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from tool_engine.errors import ToolExecutionError

MOST_CHARACTERS: Final = 4096
"""The matched part of a text: one step may not keep the whole process waiting."""
_MAX_LENGTH: Final = 500
# The largest compiled pattern, which bounds the cost of each character.
_MAX_SIZE: Final = 48 * 1024
_SYNTAX: Final = frozenset("\\^$.|?*+()[]{}/")


class LinearPattern:
    """A compiled pattern that is searched for anywhere in a text.

    Args:
        pattern: A regular expression.
        what: The pattern's name in errors.
        given: The caller's text, if the pattern was made of it; it is judged and shown.

    Raises:
        ToolExecutionError: It is no pattern, too long, too large, or needs more than linear time.
    """

    __slots__ = ("_is_valid", "source")

    def __init__(self, pattern: str, what: str = "pattern", given: str | None = None) -> None:
        self.source = pattern
        given = pattern if given is None else given
        if len(given) > _MAX_LENGTH:
            raise ToolExecutionError(
                f"the {what} is {len(given)} characters long; the most are {_MAX_LENGTH}"
            )
        # Loaded on first use: only patterns need it.
        rules: Any = import_module("jsonschema_rs")
        options = rules.RegexOptions(size_limit=_MAX_SIZE, dfa_size_limit=_MAX_SIZE)
        try:
            validator = rules.Draft202012Validator({"pattern": pattern}, pattern_options=options)
        except (ValueError, rules.ValidationError):
            raise ToolExecutionError(
                f"the {what} {given[:80]!r} cannot be used: it is no regular expression, too "
                "large, or has a lookaround or back-reference; write it simpler, or search for a "
                "literal text"
            ) from None
        self._is_valid = validator.is_valid

    def matches(self, text: str) -> bool:
        return bool(self._is_valid(text[:MOST_CHARACTERS]))


def literal_pattern(text: str) -> str:
    return "".join(f"\\{c}" if c in _SYNTAX else c for c in text)


def glob_pattern(glob: str) -> str:
    """Return the pattern of a glob such as `src/**/*.{ts,tsx}`, for paths with `/`.

    `*` and `?` stay within a name, `**` spans folders, `[ab]` is one of these, `{a,b}` one of
    these; a glob without `/` fits the name in every folder. A bracket or brace that is not closed,
    and nested braces, raise `ToolExecutionError`.
    """
    wanted = glob.removeprefix("./") if "/" in glob.rstrip("/") else f"**/{glob}"
    return f"^{_Glob(wanted.strip('/')).pattern()}$"


class _Glob:
    def __init__(self, glob: str) -> None:
        self._rest = glob
        self._glob = glob

    def pattern(self) -> str:
        parts: list[str] = []
        while self._rest:
            parts.append(self._take_next())
        return "".join(parts)

    def _take_next(self) -> str:
        for glob, pattern in (("**/", "(?:[^/]*/)*"), ("**", ".*"), ("*", "[^/]*"), ("?", "[^/]")):
            if self._rest.startswith(glob):
                self._rest = self._rest[len(glob) :]
                return pattern
        first, self._rest = self._rest[0], self._rest[1:]
        if first == "[":
            return self._one_of()
        if first == "{":
            inside = self._take_until("}", first)
            if "{" in inside:
                raise ToolExecutionError(f"the glob {self._glob[:80]!r} nests braces; use one pair")
            return f"(?:{'|'.join(_Glob(each).pattern() for each in inside.split(','))})"
        return literal_pattern(first)

    def _one_of(self) -> str:
        inside = self._take_until("]", "[")
        negated = inside[:1] in ("!", "^")
        characters = inside[1:] if negated else inside
        escaped = "".join(
            c if c.isalnum() or c == "-" else f"\\u{{{ord(c):x}}}" for c in characters
        )
        return f"[{'^/' if negated else ''}{escaped}]"

    def _take_until(self, end: str, start: str) -> str:
        inside, found, rest = self._rest.partition(end)
        if not found or not inside:
            raise ToolExecutionError(
                f"the glob {self._glob[:80]!r} has a {start!r} without its {end!r}; write both"
            )
        self._rest = rest
        return inside
