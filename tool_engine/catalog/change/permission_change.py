"""What does it mean for callers when another consent is asked, or other values are taken?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final

from tool_engine.catalog.change.tool_change import (
    BREAKING,
    COMPATIBLE,
    COSMETIC,
    ToolChange,
    changed,
)
from tool_engine.model.permission import ExecutionPolicy, Permission, ResultPolicy

__all__ = ["compare_accepts", "compare_permission"]

_EXECUTION: Final = list(ExecutionPolicy)
_RESULT: Final = list(ResultPolicy)


def compare_permission(
    field: str, old: Permission | None, new: Permission | None
) -> Iterator[ToolChange]:
    """Who is asked more often may be refused what was right until now."""
    before, after = old or Permission(), new or Permission()
    stricter = _stricter(before, after)
    for name, asks_more in stricter.items():
        level = BREAKING if asks_more else COMPATIBLE
        kind = "permission_tightened" if asks_more else "permission_loosened"
        was, now = getattr(before, name), getattr(after, name)
        yield changed(f"{field}.{name}", level, was, now, kind)
    if not stricter:
        yield changed(field, COSMETIC, old, new)


def compare_accepts(
    field: str, old: list[str] | None, new: list[str] | None
) -> Iterator[ToolChange]:
    """Fewer labels refuse values that were taken until now."""
    if _takes_all_of(old, new):
        level = COSMETIC if _takes_all_of(new, old) else COMPATIBLE
    else:
        level = BREAKING
    yield changed(field, level, old, new)


def _stricter(old: Permission, new: Permission) -> dict[str, bool]:
    """Of `execution` and `result`, those that changed: whether somebody is asked more often.

    What is not said is as loose as can be: other places may still say more.
    """
    before, after = _ranks(old), _ranks(new)
    return {name: after[name] > rank for name, rank in before.items() if after[name] != rank}


def _takes_all_of(old: list[str] | None, new: list[str] | None) -> bool:
    """Whether each value that `old` accepts is accepted by `new`, too; None accepts any."""
    if new is None:
        return True
    return old is not None and all(_is_covered(label, new) for label in old)


def _ranks(permission: Permission) -> dict[str, int]:
    execution = permission.execution or ExecutionPolicy.AUTO
    result = permission.result or ResultPolicy.NEVER
    return {"execution": _EXECUTION.index(execution), "result": _RESULT.index(result)}


def _is_covered(label: str, others: Iterable[str]) -> bool:
    """Whether another label matches all that `label` does, as far as that is easily seen."""
    if label in others:
        return True
    # What a star matches, it matches in a glob, too; a `[` may hide that letters do not follow.
    simple = (other for other in others if not {"[", "?"} & set(other))
    return "[" not in label and any(fnmatchcase(label, other) for other in simple)
