"""What does another permission or label of a tool mean for callers?"""

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

_EXECUTION: Final = list(ExecutionPolicy)
_RESULT: Final = list(ResultPolicy)


def compare_permission(
    field: str, old: Permission | None, new: Permission | None
) -> Iterator[ToolChange]:
    """Yield changes of consent; asking more often breaks callers."""
    before, after = old or Permission(), new or Permission()
    stricter = _compare_policies(before, after)
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
    """Yield changes of labels; fewer labels break callers."""
    if _takes_all_of(old, new):
        level = COSMETIC if _takes_all_of(new, old) else COMPATIBLE
    else:
        level = BREAKING
    yield changed(field, level, old, new)


def _compare_policies(old: Permission, new: Permission) -> dict[str, bool]:
    """Return the changed policies, with True where it asks more often.

    What is not given counts as the loosest value: other places may still ask for more.
    """
    before, after = _rank_policies(old), _rank_policies(new)
    return {name: after[name] > rank for name, rank in before.items() if after[name] != rank}


def _takes_all_of(old: list[str] | None, new: list[str] | None) -> bool:
    """Return True if `new` accepts all that `old` does; None: any."""
    if new is None:
        return True
    return old is not None and all(_is_covered(label, new) for label in old)


def _rank_policies(permission: Permission) -> dict[str, int]:
    execution = permission.execution or ExecutionPolicy.AUTO
    result = permission.result or ResultPolicy.NEVER
    return {
        "execution": _EXECUTION.index(execution),
        "result": _RESULT.index(result),
        "client_may_answer": -int(permission.client_may_answer),
    }


def _is_covered(label: str, others: Iterable[str]) -> bool:
    """Return True if another label certainly matches all that `label` does."""
    if label in others:
        return True
    # What a star matches, it matches in a glob, too; a `[` may hide that letters do not follow.
    simple = (other for other in others if not {"[", "?"} & set(other))
    return "[" not in label and any(fnmatchcase(label, other) for other in simple)
