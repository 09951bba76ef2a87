"""What does an edit of a tool mean for its callers?

*Breaking*: a call that was right may now be refused or do something else, or its answer may lack
what it had. *Compatible*: old calls keep their meaning. *Cosmetic*: only words for people and
models changed. docs/how-to/versions-and-rollback.md says why each kind is what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from tool_engine.catalog.change.parameter_change import (
    compare_input,
    compare_output,
    compare_parameters,
)
from tool_engine.catalog.change.permission_change import compare_accepts, compare_permission
from tool_engine.catalog.change.schema_change import is_same
from tool_engine.catalog.change.tool_change import (
    BREAKING,
    COMPATIBLE,
    COSMETIC,
    NONE,
    ToolChange,
    is_lower,
    is_major_step,
    make_change,
    next_major,
)
from tool_engine.model.result import ResultLimits
from tool_engine.model.tool import Tool

_LEVELS: Final = (NONE, COSMETIC, COMPATIBLE, BREAKING)
_SCOPES: Final = ("private", "team", "public")


class ToolDiff(msgspec.Struct, frozen=True):
    """The difference between two versions of a tool."""

    name: str
    old_version: str
    new_version: str
    changes: list[ToolChange]
    """Every edit, the worst first."""

    @property
    def level(self) -> str:
        """The worst level of all changes: `none`, `cosmetic`, `compatible` or `breaking`."""
        return max((change.level for change in self.changes), key=_LEVELS.index, default=NONE)

    @property
    def breaks_unannounced(self) -> bool:
        """True if it is breaking without a major step of the version."""
        return self.level == BREAKING and not is_major_step(self.old_version, self.new_version)

    @property
    def warning(self) -> str | None:
        """The fault in the version's step and its cure, or None."""
        if self.breaks_unannounced:
            breaking = [change for change in self.changes if change.level == BREAKING]
            more = f" and {len(breaking) - 3} more" if len(breaking) > 3 else ""
            what = "; ".join(f"{change.path}: {change.message}" for change in breaking[:3])
            step = "still" if self.old_version == self.new_version else "only"
            return (
                f"a breaking edit of {self.name!r}, which is {step} version {self.new_version!r}: "
                f"{what}{more}; make it version {next_major(self.old_version)}"
            )
        if is_lower(self.old_version, self.new_version):
            return (
                f"the version of {self.name!r} goes down, from {self.old_version} to "
                f"{self.new_version}; if that is no slip, nothing needs to be done"
            )
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values: `old_version`, `new_version`, `level`, `changes`."""
        return {
            "old_version": self.old_version,
            "new_version": self.new_version,
            "level": self.level,
            "changes": [msgspec.structs.asdict(change) for change in self.changes],
        }


def compare_versions(old: Tool, new: Tool) -> ToolDiff:
    """Return the edits between two versions of a tool with their levels.

    Example:
        >>> compare_versions(tool, msgspec.structs.replace(tool, description="Other words")).level
        'cosmetic'
    """
    changes: list[ToolChange] = []
    is_listed = old.input_schema is None and new.input_schema is None
    left_out = _NOT_CONTENT if is_listed else _NOT_CONTENT | {"parameters", "input_schema"}
    for field in Tool.__struct_fields__:
        before, after = getattr(old, field), getattr(new, field)
        if before is not after and field not in left_out and not is_same(before, after):
            changes += _COMPARED.get(field, _compare_unknown)(field, before, after)
    if left_out != _NOT_CONTENT:
        changes += compare_input(old, new)
    if not changes and old.definition_hash != new.definition_hash:
        message = "the definition is written in another way and means the same"
        changes.append(ToolChange("", "rewritten", COSMETIC, None, None, message))
    changes.sort(key=lambda change: -_LEVELS.index(change.level))
    return ToolDiff(new.name, old.version, new.version, changes)


_NOT_CONTENT: Final = frozenset({"id", "definition_hash", "source", "findings", "once_secret"})

_Comparison = Callable[[str, Any, Any], Iterator[ToolChange]]


def _compare_unknown(field: str, old: Any, new: Any) -> Iterator[ToolChange]:
    yield make_change(field, BREAKING, old, new)


def _compare_plain(level: str, field: str, old: Any, new: Any) -> Iterator[ToolChange]:
    yield make_change(field, level, old, new)


def _compare_words(field: str, old: Any, new: Any) -> Iterator[ToolChange]:
    # Long texts by nature: the new one stands in the definition.
    yield ToolChange(field, f"{field}_changed", COSMETIC, None, None, f"another {field}")


def _compare_version(field: str, old: str, new: str) -> Iterator[ToolChange]:
    kind = "version_lowered" if is_lower(old, new) else "version_changed"
    yield make_change(field, COSMETIC, old, new, kind)


def _compare_scope(field: str, old: str, new: str) -> Iterator[ToolChange]:
    is_wider = _SCOPES.index(new) > _SCOPES.index(old)
    kind = "scope_widened" if is_wider else "scope_narrowed"
    yield make_change(field, COMPATIBLE if is_wider else BREAKING, old, new, kind)


def _compare_effect(field: str, old: str, new: str) -> Iterator[ToolChange]:
    # Approval depends on it; a first statement of the effect breaks no promise.
    yield make_change(field, COMPATIBLE if old == "unknown" else BREAKING, old, new)


def _compare_idempotent(field: str, old: bool, new: bool) -> Iterator[ToolChange]:
    yield make_change(field, COMPATIBLE if new else BREAKING, old, new)


def _compare_output_mode(field: str, old: str, new: str) -> Iterator[ToolChange]:
    yield make_change(field, COMPATIBLE if new == "enforce" else BREAKING, old, new)


def _compare_background(field: str, old: str, new: str) -> Iterator[ToolChange]:
    # Whatever starts it or calls it, and no longer can.
    yield make_change(field, COMPATIBLE if new == "allowed" else BREAKING, old, new)


def _compare_callers(
    field: str, old: tuple[str, ...], new: tuple[str, ...]
) -> Iterator[ToolChange]:
    # Who could call it, or by which name, and no longer can.
    yield make_change(field, BREAKING if set(old) - set(new) else COMPATIBLE, old, new)


def _compare_command(field: str, old: str | None, new: str | None) -> Iterator[ToolChange]:
    yield make_change(field, COMPATIBLE if old is None else BREAKING, old, new)


def _compare_concurrency(field: str, old: Any, new: Any) -> Iterator[ToolChange]:
    for name in old.__struct_fields__:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            # It decides whether a call waits, ends or shares a result: a part of its meaning.
            level = BREAKING if name == "collision" else COMPATIBLE
            yield make_change(f"{field}.{name}", level, before, after)


def _compare_limits(
    field: str, old: ResultLimits | None, new: ResultLimits | None
) -> Iterator[ToolChange]:
    before, after = old or ResultLimits(), new or ResultLimits()
    for name in ("max_chars", "max_items"):
        was, now = getattr(before, name), getattr(after, name)
        if was != now:
            # Below a lower limit an answer lacks what it had; above a higher one it has more.
            yield make_change(f"{field}.{name}", _level_of_bound(was, now), was, now)
    if before.limit != after.limit:
        # Without a limit of the tool, the session's holds, which is unknown here.
        was, now = before.limit, after.limit
        is_wider = now is not None and (now < 1 or (was is not None and 0 < was < now))
        is_same = was is not None and now is not None and was < 1 and now < 1
        level = COSMETIC if is_same else COMPATIBLE if is_wider else BREAKING
        yield make_change(f"{field}.limit", level, was, now)
    for name in ("strategy", "select", "show"):
        was, now = getattr(before, name), getattr(after, name)
        if was != now:
            yield make_change(f"{field}.{name}", BREAKING, was, now)
    if (old is None) is not (new is None) and before == after:
        message = "limits that limit nothing"
        yield make_change(field, COSMETIC, old, new, "result_changed", message)


def _level_of_bound(old: int | None, new: int | None) -> str:
    is_wider = new is None or (old is not None and new > old)
    return COMPATIBLE if is_wider else BREAKING


def _compare_bound(field: str, old: int | None, new: int | None) -> Iterator[ToolChange]:
    yield make_change(field, _level_of_bound(old, new), old, new)


def _compare_entry(
    field: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[ToolChange]:
    for path, before, after in _changed_leaves(("entry",), old, new):
        kind = {"handler": "handler_changed", "url": "endpoint_changed"}.get(path[-1])
        yield make_change(".".join(path), BREAKING, before, after, kind or "entry_changed")


def _changed_leaves(
    path: tuple[str, ...], old: Any, new: Any
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _changed_leaves((*path, key), old.get(key), new.get(key))
    elif not is_same(old, new):
        yield path, old, new


_cosmetic: Final = partial(_compare_plain, COSMETIC)
_compatible: Final = partial(_compare_plain, COMPATIBLE)
_COMPARED: Final[Mapping[str, _Comparison]] = {
    "name": _compare_unknown,
    "version": _compare_version,
    "description": _compare_words,
    "category": _compatible,
    "tags": _cosmetic,
    "parameters": compare_parameters,
    "input_schema": _compare_unknown,
    "implementation_config": _compare_entry,
    "status": _compatible,
    "output": compare_output,
    "output_mode": _compare_output_mode,
    "title": _cosmetic,
    "audience": _compare_callers,
    "aliases": _compare_callers,
    "vcp_command": _compare_command,
    "annotations": _compatible,
    "author": _cosmetic,
    "icon": _cosmetic,
    "shareable_scope": _compare_scope,
    "timeout": _compatible,
    "retry": _compatible,
    "effect": _compare_effect,
    "idempotent": _compare_idempotent,
    "concurrency": _compare_concurrency,
    "rate": _compatible,
    "result": _compare_limits,
    "permission": compare_permission,
    "accepts": compare_accepts,
    "max_uses": _compare_bound,
    "background": _compare_background,
    "examples": _compare_words,
    "tests": _compare_words,
}
