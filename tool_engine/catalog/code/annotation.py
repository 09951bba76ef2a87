"""How does a Python type hint become a JSON Schema without references?"""

from __future__ import annotations

import types
import typing
from importlib import import_module
from pathlib import PurePath
from typing import Annotated, Any, Final, Literal, NamedTuple, Union

import msgspec

from tool_engine.catalog.code.metadata import (
    NeedsPydanticError,
    NotForMsgspecError,
    UnsupportedHintError,
    readable_hint,
)
from tool_engine.catalog.code.unfolding import stand_alone, without_defaults
from tool_engine.model.parameter import PARAMETER_TYPES

__all__ = [
    "HintReading",
    "UnsupportedHintError",
    "described_as",
    "is_native",
    "read_hint",
]

_NATIVE: Final = frozenset({str, int, float, bool, type(None), Any, object, dict, list})
_CONTAINERS: Final = frozenset({list, dict, Union, types.UnionType, Annotated})


class HintReading(NamedTuple):
    """A hint's JSON Schema without references, and what pydantic makes of it."""

    schema: dict[str, Any]
    typed: Any
    """A `PydanticType`; None where msgspec converts to the hint."""


def read_hint(hint: Any) -> HintReading:
    """Read a hint with msgspec, or with pydantic what only that reads.

    Raises:
        UnsupportedHintError: It has no JSON Schema, or holds a rule that is not understood.
    """
    if hint is Any or hint is object:
        return HintReading({"type": [*PARAMETER_TYPES, "null"]}, None)
    try:
        schema, typed = _msgspec_schema(hint), None
    except NotForMsgspecError as error:
        typed = _read_with_pydantic(hint, error)
        schema = without_defaults(typed.schema)
    return HintReading(stand_alone(schema), typed)


def _msgspec_schema(hint: Any) -> dict[str, Any]:
    readable = readable_hint(hint)
    try:
        return msgspec.json.schema(readable, schema_hook=_path_schema)
    except (TypeError, NameError, RecursionError, ValueError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        # The rest of msgspec's message is advice about its own hooks, which do not exist here.
        reason = "" if reason.endswith(":") or not reason else f": {reason}"
        raise NotForMsgspecError(
            f"the type {hint!r} has no JSON form{reason}; take a str, int, float, bool, list, dict,"
            " dataclass, TypedDict, msgspec.Struct or a model of pydantic, and make of it in the"
            " function what you need"
        ) from error


def _path_schema(kind: type) -> dict[str, Any]:
    if issubclass(kind, PurePath):
        return {"type": "string"}
    # The word by which msgspec's hooks say that a type is none of theirs.
    raise NotImplementedError


def _read_with_pydantic(hint: Any, unread: UnsupportedHintError) -> Any:
    try:
        pydantic_type = import_module("tool_engine.catalog.code.pydantic_type")
    except ImportError:
        raise unread from None
    try:
        return pydantic_type.PydanticType(hint)
    except UnsupportedHintError:
        raise
    except Exception as error:  # pydantic and classes of a user may raise anything
        if (
            not isinstance(unread, NeedsPydanticError)
            and "SchemaGeneration" in type(error).__name__
        ):
            raise unread from error
        reason = str(error).partition("\n")[0]
        raise UnsupportedHintError(f"pydantic cannot read {hint!r}: {reason}; mend it") from error


def described_as(hint: Any) -> str | None:
    """Return the description of `Annotated[T, "text"]` or `Annotated[T, Meta(...)]`."""
    if typing.get_origin(hint) is not Annotated:
        return None
    for part in hint.__metadata__:
        text = part if isinstance(part, str) else getattr(part, "description", None)
        if isinstance(text, str):
            return text
    return None


def is_native(hint: Any) -> bool:
    """Return True if decoded JSON already fits the hint, as with `list[int]`."""
    origin = typing.get_origin(hint)
    if origin is Literal:
        return True
    if origin is Annotated:
        return is_native(hint.__origin__) and _has_plain_rules(hint)
    if origin in _CONTAINERS:
        arguments = typing.get_args(hint)
        if origin is dict and arguments[0] is not str:
            return False
        return all(map(is_native, arguments))
    try:
        return hint in _NATIVE
    except TypeError:  # an unhashable hint is a foreign one
        return False


def _has_plain_rules(hint: Any) -> bool:
    """Return True if JSON Schema says all that the rules of `hint` say."""
    try:
        readable_hint(hint)
    except NotForMsgspecError:
        return False
    return True
