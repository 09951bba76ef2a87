"""What do other parameters, or another declared output, mean for callers?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import jsonschema_rs
import msgspec

from tool_engine.catalog.change.schema_change import Reach, SchemaChange, is_same, schema_changes
from tool_engine.catalog.change.tool_change import (
    BREAKING,
    COMPATIBLE,
    COSMETIC,
    ToolChange,
    make_change,
)
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.schema import parameters_schema
from tool_engine.model.tool import Tool
from tool_engine.redaction import HIDDEN, redact

_INPUT_LEVELS: Final = {
    Reach.SAME: COSMETIC,
    Reach.MORE: COMPATIBLE,
    Reach.FEWER: BREAKING,
    Reach.OTHER: BREAKING,
    Reach.DEFAULT: BREAKING,
}
_OUTPUT_LEVELS: Final = {
    **_INPUT_LEVELS,
    # A reader is surprised by new values of an answer, not by values that no longer come.
    Reach.MORE: BREAKING,
    Reach.FEWER: COMPATIBLE,
    Reach.DEFAULT: COSMETIC,
}


def compare_input(old: Tool, new: Tool) -> Iterator[ToolChange]:
    """Yield changes of parameters that a tool has as one JSON Schema."""
    hides = bool(old.secret_names | new.secret_names)
    for change in schema_changes(old.parameters_schema, new.parameters_schema):
        level = _INPUT_LEVELS[change.reach]
        yield _schema_change("parameters", change, level, is_secret=hides)


def compare_output(field: str, old: Any, new: Any) -> Iterator[ToolChange]:
    """Yield changes of what a tool declares to answer."""
    if old is None:
        yield make_change(field, COMPATIBLE, None, new, "output_declared", "is declared now")
    elif new is None:
        yield make_change(field, BREAKING, old, None, "output_undeclared", "is declared no more")
    else:
        for change in schema_changes(old, new):
            yield _schema_change(field, change, _OUTPUT_LEVELS[change.reach])


def _schema_change(
    field: str, change: SchemaChange, level: str, *, is_secret: bool = False
) -> ToolChange:
    path = ".".join((field, *change.path))
    if is_secret:
        return ToolChange(path, change.kind, level, HIDDEN, HIDDEN, "a rule of a secret changed")
    message = str(redact(change.message))
    return make_change(path, level, change.old, change.new, change.kind, message)


def compare_parameters(
    field: str, old: list[ToolParameter], new: list[ToolParameter]
) -> Iterator[ToolChange]:
    """Yield parameters that came, went, were renamed or have other rules."""
    before = {parameter.name: parameter for parameter in old}
    after = {parameter.name: parameter for parameter in new}
    added = {name: after[name] for name in after if name not in before}
    for name, parameter in before.items():
        if name in after:
            yield from _compare_parameter(f"{field}.{name}", parameter, after[name])
            continue
        heir = next((other for other in added.values() if _is_renamed(parameter, other)), None)
        kind, message = "parameter_removed", f"the parameter {name!r} is gone"
        if heir is not None:
            del added[heir.name]
            kind, message = "parameter_renamed", f"{name!r} is called {heir.name!r} now"
        heir_name = None if heir is None else heir.name
        yield make_change(f"{field}.{name}", BREAKING, name, heir_name, kind, message)
    for name, parameter in added.items():
        level = BREAKING if parameter.required else COMPATIBLE
        must = "required" if parameter.required else "optional"
        message = f"the {must} parameter {name!r} is new"
        yield make_change(f"{field}.{name}", level, None, name, "parameter_added", message)
    if [name for name in before if name in after] != [name for name in after if name in before]:
        message = "the parameters stand in another order"
        yield make_change(field, COSMETIC, list(before), list(after), "reordered", message)


def _is_renamed(old: ToolParameter, new: ToolParameter) -> bool:
    return msgspec.structs.replace(new, name=old.name) == old


def _compare_parameter(path: str, old: ToolParameter, new: ToolParameter) -> Iterator[ToolChange]:
    if is_same(old, new):
        return
    is_secret = old.secret or new.secret
    if old.required != new.required:
        kind = "became_required" if new.required else "became_optional"
        level = BREAKING if new.required else COMPATIBLE
        yield make_change(f"{path}.required", level, old.required, new.required, kind)
    yield from _compare_default(path, old, new, is_secret)
    before, after = _schema_of(old), _schema_of(new)
    for change in schema_changes(before, after):
        yield _schema_change(path, change, _INPUT_LEVELS[change.reach], is_secret=is_secret)
    if not old.required and _takes_null(before) != _takes_null(after):
        message = "null, which stood for a value left out, is a value now, or the other way round"
        yield make_change(path, BREAKING, None, None, "null_changed", message)
    if old.secret != new.secret:
        level = COMPATIBLE if new.secret else BREAKING
        yield ToolChange(
            f"{path}.secret",
            "became_secret" if new.secret else "became_visible",
            level,
            old.secret,
            new.secret,
            "its values are hidden now" if new.secret else "its values are hidden no more",
        )


def _compare_default(
    path: str, old: ToolParameter, new: ToolParameter, is_secret: bool
) -> Iterator[ToolChange]:
    if old.has_default == new.has_default and is_same(old.default, new.default):
        return
    # The default of a required parameter is never used: no call leaves it out.
    level = COSMETIC if old.required else BREAKING
    before, after = (
        HIDDEN if is_secret and each.has_default else each.default for each in (old, new)
    )
    yield make_change(f"{path}.default", level, before, after)


def _schema_of(parameter: ToolParameter) -> dict[str, Any]:
    plain = msgspec.structs.replace(parameter, default=None, has_default=False)
    whole = parameters_schema([plain])
    schema: dict[str, Any] = whole["properties"][parameter.name]
    return {**schema, "$defs": whole["$defs"]} if "$defs" in whole else schema


def _takes_null(schema: dict[str, Any]) -> bool:
    return bool(jsonschema_rs.Draft202012Validator(schema).is_valid(None))
