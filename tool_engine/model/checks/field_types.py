"""Does each field of a setting have the type of its annotation?"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.model.json.data import public_fields
from tool_engine.model.json.returned_value import safe_repr

_Made = TypeVar("_Made")
_UNKNOWN = re.compile(r"unknown field `(.*?)`(?: - at `)?([^`]*)`?$", re.DOTALL)
_STEP = re.compile(r"\.(\w+)")
_CONTAINERS = (dict, list, tuple, msgspec.Struct)


def convert_value(value: Any, kind: type[_Made]) -> _Made:
    """Return a value as an object of a class, as `msgspec.convert` does.

    Raises:
        msgspec.ValidationError: It is none, or half of a surrogate pair is in it. An unknown key
            comes with the nearest known one.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        found = _UNKNOWN.search(str(error))
        if found is None:
            raise
        keys = _list_keys(kind, found[2])
        near = suggest_near(found[1], keys) or (f"; there are: {', '.join(keys)}" if keys else "")
        raise msgspec.ValidationError(f"{error}{near}") from None
    except UnicodeEncodeError:
        # That is how `msgspec` says that a text cannot be anything else.
        raise msgspec.ValidationError("half of a surrogate pair is no text") from None


def _list_keys(kind: Any, place: str) -> list[str]:
    """Return the keys of the object at a place of a value, such as `$.replies[0]`."""
    found = list(_list_structs(kind))
    for name in _STEP.findall(place):
        fields = [field for each in found for field in msgspec.structs.fields(each)]
        inner = [field.type for field in fields if field.encode_name == name]
        found = [struct for each in inner for struct in _list_structs(each)]
    return [field.encode_name for each in found for field in msgspec.structs.fields(each)]


def _list_structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the objects in a type: itself, or what a list, a mapping or a choice holds."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for each in get_args(kind):
        yield from _list_structs(each)


def check_kinds(setting: msgspec.Struct, names: Collection[str] | None = None) -> None:
    """Check the fields of a new setting; containers become copies of their own.

    Values from code are held to the same rules as JSON: no text for a number.

    Args:
        setting: What was made.
        names: The fields to look at; None: all.

    Raises:
        ConfigurationError: A field holds another kind; the message names the field and the place.
    """
    for field in public_fields(type(setting)):
        if names is not None and field.name not in names:
            continue
        value = getattr(setting, field.name)
        if field.type is bool:
            check_switch(field.name, value)
            continue
        try:
            converted = convert_value(value, field.type)
        except msgspec.ValidationError as error:
            place, fault = _place_of(field.name, field.type, value, error)
            raise ConfigurationError(f"{place}: {fault}, got {safe_repr(value)[:80]}") from error
        if isinstance(converted, _CONTAINERS) and converted is not value:
            # The caller that passed it may go on changing it: unchecked, and for all who share it.
            msgspec.structs.force_setattr(setting, field.name, converted)


def _place_of(
    name: str, kind: Any, value: object, error: msgspec.ValidationError
) -> tuple[str, msgspec.ValidationError]:
    """Return where in a setting the fault is, and the error there."""
    entries = value.items() if isinstance(value, Mapping) and get_origin(kind) is dict else ()
    for key, each in entries:
        try:
            convert_value(each, get_args(kind)[1])
            convert_value({key: each}, kind)
        except msgspec.ValidationError as fault:
            return f"{name}[{key!r}]", fault
    return name, error
