"""How does a value of this package read as JSON values?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any, get_args

import msgspec

from tool_engine.model.json.returned_value import copy_plain


class Data:
    """A structure whose JSON form is its fields."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, with `[hidden]` in place of secrets.

        Choices are their values, times are in ISO 8601, and what JSON cannot hold is a text.

        Returns:
            One entry for each public field; nothing in it belongs to the value.
        """
        return fields_as_json(self, redact_json)


def show_fields(value: Any) -> list[tuple[str, Any]]:
    """List the public fields for rich as they read; a structure's own way reads past that."""
    return [(name, getattr(value, name)) for name in value.__struct_fields__ if name[0] != "_"]


def show_repr(value: Any) -> Any:
    """Have rich show the `repr` of a structure, which hides what its fields do not."""


def redact_json(value: Any) -> Any:
    """Return a JSON value with `[hidden]` in place of secrets."""
    # By name: the vocabulary stands below what knows secrets.
    return import_module("tool_engine.redaction").redact(value)


def fields_as_json(value: Any, hide: Callable[[Any], Any] = lambda value: value) -> dict[str, Any]:
    """Return the public fields of a structure as JSON values.

    Args:
        value: The structure.
        hide: Returns what may be shown of a JSON value; left out: all of it.
    """
    kind: type[msgspec.Struct] = type(value)
    free = _free_fields(kind)
    return {
        name: _as_json(getattr(value, name), name in free, hide)
        for name in (field.name for field in public_fields(kind))
    }


@cache
def _free_fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Return the fields that may hold anything, such as arguments and outputs."""
    return frozenset(field.name for field in public_fields(kind) if _is_free(field.type))


def _is_free(annotation: Any) -> bool:
    return annotation is Any or any(map(_is_free, get_args(annotation)))


def _as_json(value: Any, is_free: bool, hide: Callable[[Any], Any]) -> Any:
    if isinstance(value, Data):
        return value.to_dict()
    if isinstance(value, msgspec.Struct):
        return fields_as_json(value, hide)
    if isinstance(value, Mapping | list | tuple | frozenset):
        return _entries_as_json(value, is_free, hide)
    if isinstance(value, Enum):
        return value.value
    return value.isoformat() if isinstance(value, date) else hide(copy_plain(value))


def _entries_as_json(value: Any, is_free: bool, hide: Callable[[Any], Any]) -> Any:
    entries = value.values() if isinstance(value, Mapping) else value
    if is_free and not any(isinstance(each, Data) for each in entries):
        return hide(copy_plain(value))
    # Keys are names that a user gave here: a bucket called `token` is no secret.
    copies = [_as_json(each, is_free, hide) for each in entries]
    if isinstance(value, Mapping):
        return dict(zip(map(str, value), copies, strict=True))
    return sorted(copies) if isinstance(value, frozenset) else copies


@cache
def public_fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a class that are for its users, with their annotations."""
    # To read the annotations takes longer than all that is checked.
    return tuple(each for each in msgspec.structs.fields(kind) if not each.name.startswith("_"))
