"""Which arguments does a text hold that a model wrote as JSON?

Strict JSON is tried first. Finished but malformed text may be repaired where only one reading is
left, and every repair is reported; text that is cut off or ambiguous is never read.
"""

from __future__ import annotations

import json
import re
from importlib import import_module
from typing import Any, Final, NamedTuple

from tool_engine.errors import MissingExtraError
from tool_engine.protocols.arguments.json_tokens import (
    CONTROL,
    MAX_DEPTH,
    LexedText,
    lex_text,
    nests_too_deep,
)
from tool_engine.protocols.arguments.strict_json import RefusedJSONError, read_json


class ReadArguments(NamedTuple):
    """The arguments read from a text."""

    value: dict[str, Any] | None
    """The arguments; None: they could not be read, and `error` says why."""
    repairs: tuple[str, ...] = ()
    """One sentence for each change that was needed to read them."""
    error: str | None = None
    is_truncated: bool = False
    """True if the text ends inside a value."""


_EMPTY: Final = "no arguments were written: read as {}"
_NULL: Final = "the arguments were written as null: read as {}"
_BOM: Final = "a byte order mark before the arguments was left out"
_FENCE: Final = "the code fence around the arguments was left out"
_TWICE: Final = "the arguments were written as JSON inside a JSON string: the string was read"
_TOO_DEEP: Final = "the arguments nest too deep to be read: write them flatter"
_CURE: Final = "write one complete JSON object"
_FENCED: Final = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\r?\n(.*?)(?:\n[ \t]*)?```", re.DOTALL)
# Closing tags and tokens of a model's own template never hold an argument.
_LEFT_OVER: Final = re.compile(r"(?:[\s}\]),;`]|</[^<>\n]{1,64}>|<\|[^<>\n]{1,64}\|>)+")


def read_arguments(text: str, *, repair: bool = True) -> ReadArguments:
    """Read the arguments of one call. Never raises.

    Args:
        text: One JSON object, as the model wrote it.
        repair: Whether finished but malformed text may be repaired, where only one reading is left.
            Wrong quotes, commas and words take the extra `repair`.
    """
    if not text.strip():
        return ReadArguments({}, (_EMPTY,))
    if nests_too_deep(text):
        message = f"the arguments nest more than {MAX_DEPTH} levels deep: write them flatter"
        return ReadArguments(None, error=message, is_truncated=bool(lex_text(text).unfinished))
    try:
        return _take_object(read_json(text), repair=repair)
    except json.JSONDecodeError as error:
        return _read_malformed(text, error, repair=repair)
    except (RefusedJSONError, RecursionError) as error:
        return _refuse_text(error)


def _refuse_text(fault: Exception) -> ReadArguments:
    if isinstance(fault, RecursionError):
        return ReadArguments(None, error=_TOO_DEEP)
    return ReadArguments(None, error=f"the arguments cannot be read: {fault}; {_CURE}")


def _take_object(value: Any, *, repair: bool, done: tuple[str, ...] = ()) -> ReadArguments:
    if isinstance(value, dict):
        return ReadArguments(value, done)
    if repair and value is None:
        return ReadArguments({}, (*done, _NULL))
    if repair and isinstance(value, str) and value.lstrip()[:1] == "{":
        try:
            inner = None if nests_too_deep(value) else read_json(value)
        except json.JSONDecodeError as error:
            cut = lex_text(value).unfinished is not None
            message = (
                f"the arguments are a JSON string that holds no JSON object ({error}); {_CURE}"
            )
            return ReadArguments(None, error=message, is_truncated=cut)
        if isinstance(inner, dict):
            return ReadArguments(inner, (*done, _TWICE))
    kind = {list: "a list", str: "a string", type(None): "null", bool: "a boolean"}
    found = kind.get(type(value), "a number")
    return ReadArguments(None, error=f"the arguments must be a JSON object, got {found}; {_CURE}")


def _read_malformed(text: str, error: json.JSONDecodeError, *, repair: bool) -> ReadArguments:
    inner, done = _unwrap_text(text)
    lexed = lex_text(inner)
    if lexed.unfinished:
        message = (
            f"the arguments were cut off: they end inside {lexed.unfinished}; {_CURE}, shorter"
        )
        return ReadArguments(None, error=message, is_truncated=True)
    if not lexed.tokens or not repair:
        return ReadArguments(None, error=_describe_fault(error))
    try:
        return _repair_arguments(inner, done, lexed)
    except json.JSONDecodeError as fault:
        return ReadArguments(None, error=_describe_fault(fault))
    except (RefusedJSONError, RecursionError) as fault:
        return _refuse_text(fault)
    except MissingExtraError as missing:
        return ReadArguments(None, error=f"{_describe_fault(error)} ({missing})")


def _unwrap_text(text: str) -> tuple[str, tuple[str, ...]]:
    inner = text.strip()
    done: list[str] = []
    if inner.startswith("\ufeff"):
        inner = inner.lstrip("\ufeff").strip()
        done.append(_BOM)
    fenced = _FENCED.fullmatch(inner) if inner.startswith("```") else None
    if fenced is not None:
        inner = fenced[1].strip()
        done.append(_FENCE)
    return inner, tuple(done)


def _repair_arguments(text: str, done: tuple[str, ...], lexed: LexedText) -> ReadArguments:
    """Raise `RefusedJSONError` or `json.JSONDecodeError` if several readings are left."""
    try:
        return _take_object(read_json(text), repair=True, done=done)
    except json.JSONDecodeError as error:
        strict_error = error
    try:
        return _take_object(read_json(text, is_lenient=True), repair=True, done=(*done, CONTROL))
    except json.JSONDecodeError as error:
        read = _drop_rest(text, error, done) if error.msg == "Extra data" else None
    if read is not None:
        return read
    repairing = import_module("tool_engine.protocols.arguments.repair")
    try:
        value, repairs = repairing.repair_text(text, lexed.tokens)
    except json.JSONDecodeError as error:
        raise (error if error.msg else strict_error) from error
    return _take_object(value, repair=False, done=(*done, *repairs))


def _drop_rest(
    text: str, error: json.JSONDecodeError, done: tuple[str, ...]
) -> ReadArguments | None:
    head, rest = text[: error.pos], text[error.pos :]
    if rest.startswith("{"):
        raise RefusedJSONError("they are two objects one after the other, as of two calls")
    if _LEFT_OVER.fullmatch(rest) is None:
        return None
    try:
        value, changes = read_json(head), done
    except json.JSONDecodeError:
        value, changes = read_json(head, is_lenient=True), (*done, CONTROL)
    dropped = f"what follows the arguments was left out: {rest.strip()[:40]!r}"
    return _take_object(value, repair=True, done=(*changes, dropped))


def _describe_fault(error: json.JSONDecodeError) -> str:
    near = error.doc[max(0, error.pos - 20) : error.pos + 20]
    return (
        f"the arguments are no valid JSON: {error.msg} at line {error.lineno}, column "
        f"{error.colno} (character {error.pos}), near {near!r}; {_CURE}"
    )
