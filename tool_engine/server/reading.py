"""Which value does a request send, read in the one way that its operation declares?"""

from __future__ import annotations

import json
import re
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

import msgspec

from tool_engine.access.problem import Problem
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.protocols.arguments.strict_json import RefusedJSONError, read_json
from tool_engine.server.problems import make_invalid

_NUMBERS: Final = (int, float, bool)
_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
"""What may be half of a surrogate pair: a text with one can be neither kept nor sent."""
_LONGEST: Final = 10_000
"""Characters of one parameter of an address."""

_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>.*?)`")
_ARGUMENTS: Final = ("params", "parameters", "args", "input", "inputs", "kwargs")
"""Words of others for `arguments`."""
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>.*?)`")
_LONGEST_REASON: Final = 400
"""Characters of what is wrong."""
_CHOICE: Final = "Invalid enum value"
_PLACE: Final = re.compile(r" - at `(?P<place>[^`]*)`$")


def decode_body(data: bytes, kind: Any) -> Any:
    """Return what a body holds.

    Raises:
        Problem: It is no JSON, can be read in two ways, or does not fit.
    """
    try:
        value = read_json(data.decode())
        if _HALF.search(data) is not None and not _is_text(value):
            raise RefusedJSONError("half of a surrogate pair is no character")
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            return msgspec.convert(_make_whole(value, kind), kind)
    except UnicodeDecodeError:
        raise make_invalid("the body is no UTF-8; write JSON in UTF-8") from None
    except RecursionError:
        raise make_invalid("the body nests too deep; send less") from None
    except msgspec.ValidationError as error:
        reason = _explain_misfit(error, kind)
        raise Problem(422, "invalid-body", f"the body does not fit: {reason}") from error
    except RefusedJSONError as error:
        raise make_invalid(
            f"the body is refused: {error}; write what each reader of JSON takes for the same"
        ) from error
    except ValueError as error:
        raise make_invalid(f"the body is no JSON: {error}; write one JSON object") from error


def _is_text(value: Any) -> bool:
    """Return True if all texts of a value can be written as UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def read_query(text: bytes, kind: type[msgspec.Struct] | None) -> Any:
    """Return what the query of an address holds; None where an operation takes none.

    Raises:
        Problem: It cannot be read, or a parameter is unknown, stands twice or does not fit.
    """
    if not text:
        return None if kind is None else kind()
    try:
        pairs = parse_qsl(
            text.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict"
        )
    except (ValueError, UnicodeError):
        raise make_invalid(
            "the query of the address cannot be read; write name=value&name=value"
        ) from None
    if kind is None and not pairs:
        return None
    fields = {} if kind is None else _list_fields(kind)
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name not in fields:
            hint = suggest_near(name[:80], fields) or "; leave it out"
            raise make_invalid(f"{name[:80]!r} is no parameter here{hint}")
        if name in values:
            raise make_invalid(f"{name!r} stands twice in the address; give it once")
        if len(value) > _LONGEST:
            raise make_invalid(f"{name!r} is too long; give a shorter one")
        try:
            # Each by itself, as what it is where it is there: the text `null` is a text.
            kind_of = _base_of(fields[name])
            values[name] = msgspec.convert(value, fields[name], strict=kind_of not in _NUMBERS)
        except msgspec.ValidationError as error:
            reason = _explain_misfit(error, fields[name])
            raise make_invalid(f"the parameter {name!r} does not fit: {reason}") from error
    return None if kind is None else kind(**values)


@cache
def _list_fields(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the type of each field, without None."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: _without_none(hint) for name, hint in hints.items()}


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (Union, UnionType):
        return hint
    return Union[tuple(each for each in get_args(hint) if each is not type(None))]  # noqa: UP007 - made at run time


def _base_of(hint: Any) -> Any:
    """Return a type without what is noted of it."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _make_whole(value: Any, hint: Any) -> Any:
    """Return a value whose whole numbers are such: JSON's 7.0 is one, as JSON Schema says."""
    kind = _base_of(hint)
    if kind is int:
        is_whole = isinstance(value, float) and value.is_integer()
        return int(value) if is_whole else value
    if not isinstance(value, dict):
        return value
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = _list_fields(kind)
        return {name: _make_whole(each, fields.get(name)) for name, each in value.items()}
    if get_origin(kind) is dict:
        return {name: _make_whole(each, get_args(kind)[1]) for name, each in value.items()}
    return value


def _explain_misfit(error: msgspec.ValidationError, kind: Any) -> str:
    """Return what is wrong with a value and, after a semicolon, what fits.

    Args:
        error: What msgspec says of it.
        kind: The type that it does not fit.
    """
    text = _shorten_text(str(error))
    place = _PLACE.search(text)
    part = _find_part(kind, "" if place is None else place["place"])
    if (found := _UNKNOWN.match(text)) is not None:
        known = list(_list_fields(part)) if _is_class(part) else []
        if "arguments" in known and place is None:
            return text + _suggest_arguments(found["name"], known)
        near = suggest_near(found["name"], known)
        return text + (near or f"; leave it out, or give one of {', '.join(known)}")
    if (found := _MISSING.match(text)) is not None:
        return f"{text}; add it"
    if text.startswith(_CHOICE) and get_origin(part) is Literal:
        return f"{text}; give one of {', '.join(map(repr, get_args(part)))}"
    return f"{text}; give such a one, as /openapi.json describes it"


def _suggest_arguments(name: str, known: list[str]) -> str:
    """Return what to do about an unknown key of a call: most often it is an argument's name."""
    if name in _ARGUMENTS:
        return "; rename it to 'arguments'"
    written = f'{{"arguments": {{{json.dumps(name)}: ...}}}}'
    near = suggest_near(name, known)
    return near or f"; put it under 'arguments', as {written}, or give one of {', '.join(known)}"


def _shorten_text(text: str) -> str:
    """Return what msgspec says without most of a long value: the place and the cure are read."""
    return (
        text
        if len(text) <= _LONGEST_REASON
        else f"{text[: _LONGEST_REASON // 2]}…{text[-_LONGEST_REASON // 2 :]}"
    )


def _is_class(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _find_part(kind: Any, place: str) -> Any:
    """Return the type of a part of a value, such as `$.steps[...].name`; None: it is not known."""
    for name in re.findall(r"\.(\w+)", place):
        kind = _list_fields(kind).get(name) if _is_class(kind) else None
        if get_origin(kind) in (list, tuple, dict):
            kind = get_args(kind)[-1]
    return kind
