"""Which calls are in one JSON object that a model wrote?

Models name the parts of a call in many ways. Clear ones are read; the others are refused with the
reason. D9, D12, D13, U42.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tool_engine.model.tool import Tool
from tool_engine.protocols.arguments.argument_text import read_arguments
from tool_engine.protocols.arguments.coercion import fold_key
from tool_engine.protocols.function_call.json_tracker import ARGUMENTS, IDS, NAMES, RECORD

_WRAPPERS: Final = ("function_call", "function", "tool_call", "tool_use", "call")
_LISTS: Final = ("tool_calls", "function_calls", "calls")
_SIDE: Final = frozenset({"type", "index", *IDS})
_MOST_WRAPPERS: Final = 3
CALL_KEYS: Final = frozenset({*NAMES, *ARGUMENTS, *_WRAPPERS, *_LISTS, *_SIDE})


_OF_DEFINITIONS: Final = frozenset(
    {
        *("description", "title", "strict", "annotations", "cache_control", "examples", "returns"),
        *("input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema"),
        *("output", "output_schema", "outputSchema", "response", "responseJsonSchema"),
    }
)
"""Keys beside a tool's name that show a definition, in any protocol."""
_MOST_BESIDE: Final = 8
"""The most keys beside a call to check; with more it is refused."""
_MOST_SCHEMA: Final = 65_536
"""The most characters of arguments in a string that are searched for a schema."""


class Shape(NamedTuple):
    name: str
    arguments: dict[str, Any]
    call_id: str | None = None
    repairs: tuple[str, ...] = ()
    error: str | None = None
    is_truncated: bool = False
    says_arguments: bool = True
    """True if the object has arguments: without them, it may be no call at all."""


def find_shapes(
    value: Mapping[str, Any], *, repair: bool, get: Callable[[str], Tool | None]
) -> list[Shape]:
    """Return the calls in an object; empty if none, or a definition.

    Args:
        value: The object.
        repair: Whether malformed text with one reading is read.
        get: Returns a tool by its name: one that takes a schema may be called with one.
    """
    return list(_find_shapes(value, repair, get, _MOST_WRAPPERS))


def _find_shapes(
    value: Mapping[str, Any], repair: bool, get: Callable[[str], Tool | None], steps: int
) -> Iterator[Shape]:
    if RECORD in value or not steps:
        return
    named = [key for key in NAMES if isinstance(value.get(key), str) and value[key].strip()]
    if named:
        tool = get(value[named[0]].strip())
        if not _is_definition(value, tool):
            yield _read_shape(value, named, repair, tool)
        return
    held = _find_holder(value)
    if held is None:
        return
    is_list, call_id, others = (
        isinstance(value[held], list),
        _read_id(value),
        _list_others(value, held),
    )
    items = value[held] if is_list else [value[held]]
    parts = [
        list(_find_shapes(item, repair, get, steps - 1)) if isinstance(item, Mapping) else []
        for item in items
    ]
    if not any(parts):
        return
    for number, part in enumerate(parts, 1):
        error = f"entry {number} of {held[:64]!r} is no call"
        for shape in part or [Shape("", {}, error=error)]:
            known = shape if is_list or shape.call_id else shape._replace(call_id=call_id)
            yield _check_alone(known, value, others, get(shape.name))


def _find_holder(value: Mapping[str, Any]) -> str | None:
    for keys, kind in ((_WRAPPERS, Mapping), (_LISTS, list)):
        for key in keys:
            if value.get(key) and isinstance(value[key], kind):
                return key
    return next((key for key in value if len(value) == 1 and isinstance(value[key], Mapping)), None)


def _list_others(value: Mapping[str, Any], *read: str) -> list[str]:
    return [
        key
        for key, written in value.items()
        if key not in read and (key not in _SIDE or isinstance(written, Mapping | list))
    ]


def _check_alone(
    shape: Shape, value: Mapping[str, Any], others: list[str], tool: Tool | None
) -> Shape:
    """Return a call, refused if a key beside it may matter."""
    if shape.error is not None or not others:
        return shape
    is_known = tool is not None and len(others) <= _MOST_BESIDE
    declared = {fold_key(each.name) for each in tool.parameters} if tool is not None else set()
    meant = [
        key
        for key in others[:_MOST_BESIDE]
        if not is_known or fold_key(key) in declared or _may_be_call(key, value[key])
    ]
    if not meant:
        notes = (f"{key[:64]!r} beside the call was left out" for key in others)
        return shape._replace(repairs=(*shape.repairs, *notes))
    listed = ", ".join(repr(key[:64]) for key in meant)
    error = (
        f"beside the call stands {listed}, which may be another call or an argument: write each "
        "call as an object of its own, and each argument inside 'arguments'"
    )
    return Shape(shape.name, {}, shape.call_id, error=error)


def _may_be_call(key: str, written: Any) -> bool:
    return bool(written) and (key in CALL_KEYS or isinstance(written, Mapping | list))


def _is_definition(value: Mapping[str, Any], tool: Tool | None) -> bool:
    if _OF_DEFINITIONS & value.keys():
        return True
    return any(_is_schema(value[key], tool) for key in ARGUMENTS if key in value)


def _is_schema(value: Any, tool: Tool | None) -> bool:
    if isinstance(value, str) and len(value) < _MOST_SCHEMA:
        value = read_arguments(value, repair=False).value
    if not isinstance(value, Mapping):
        return False
    declared = {parameter.name for parameter in tool.parameters} if tool else set()
    if isinstance(value.get("properties"), Mapping):
        return "properties" not in declared
    return value.get("type") == "object" and "type" not in declared


def _read_shape(
    value: Mapping[str, Any], named: list[str], repair: bool, tool: Tool | None
) -> Shape:
    name, call_id = value[named[0]].strip(), _read_id(value)
    given = [key for key in ARGUMENTS if key in value]
    others = _list_others(value, *named, *given)
    if len(given) > 1 or len(named) > 1:
        both = " and ".join(map(repr, given if len(given) > 1 else named))
        error = f"the call has {both}: write one name, and one 'arguments'"
        return Shape(name, {}, call_id, error=error)
    if not given:
        return _read_without_arguments(name, call_id, others)
    return _check_alone(
        _read_arguments_of(name, call_id, value[given[0]], repair), value, others, tool
    )


def _read_arguments_of(name: str, call_id: str | None, written: Any, repair: bool) -> Shape:
    if isinstance(written, Mapping):
        return Shape(name, dict(written), call_id)
    if written is None and repair:
        return Shape(name, {}, call_id, ("the arguments were written as null: read as {}",))
    if not isinstance(written, str):
        error = f"the arguments must be a JSON object, got a {type(written).__name__}"
        return Shape(name, {}, call_id, error=error)
    read = read_arguments(written, repair=repair)
    return Shape(name, read.value or {}, call_id, read.repairs, read.error, read.is_truncated)


def _read_without_arguments(name: str, call_id: str | None, others: list[str]) -> Shape:
    if others:
        listed = ", ".join(key[:64] for key in others[:8])
        error = f"the call has no 'arguments', but {listed}: write them inside 'arguments'"
        return Shape(name, {}, call_id, error=error, says_arguments=False)
    note = ("no arguments were written: read as {}",)
    return Shape(name, {}, call_id, note, says_arguments=False)


def _read_id(value: Mapping[str, Any]) -> str | None:
    return next((value[key] for key in IDS if isinstance(value.get(key), str) and value[key]), None)
