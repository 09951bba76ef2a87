"""What does a definition say of sessions: who is asked first, and which values a tool takes?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from tool_engine.catalog.definition.fault import Fault
from tool_engine.model.nearness import find_nearest
from tool_engine.model.permission import Permission

__all__ = ["build_permission", "label_warnings", "permission_spec"]

_BARE: Final = ("user", "model", "rule")
_KINDS: Final = ("tool", "effect", "host")
_EFFECTS: Final = ("read", "write", "unknown")
_WILD: Final = re.compile(r"[*?\[]")


def build_permission(spec: str | Mapping[str, str]) -> Permission:
    """The permission that a faultless `permission` describes."""
    if isinstance(spec, str):
        spec = {"execution": spec}
    return _permission(spec.get("execution"), spec.get("result"))


@cache
def _permission(execution: Any, result: Any) -> Permission:
    # Thousands of tools share the few that there are.
    return Permission(execution=execution, result=result)


def permission_spec(permission: Permission | None) -> dict[str, str] | None:
    """The `permission` of a definition that describes this one; None where it says nothing."""
    if permission is None:
        return None
    given = {"execution": permission.execution, "result": permission.result}
    return {key: policy.value for key, policy in given.items() if policy is not None} or None


def label_warnings(labels: Iterable[str]) -> list[Fault]:
    """The labels of an `accepts` that no value carries, unless a program makes such labels."""
    found = ((number, _label_fault(label)) for number, label in enumerate(labels))
    return [fault._replace(path=("accepts", number)) for number, fault in found if fault]


def _label_fault(label: str) -> Fault | None:
    kind, colon, value = label.partition(":")
    if _WILD.search(kind) or (not colon and kind in _BARE):
        return None
    known = _KINDS if colon else _BARE
    if kind not in known:
        forms = (*_BARE, *(f"{each}:NAME" for each in _KINDS))
        near = find_nearest(kind, known)
        cure = "" if near else f"the labels are {', '.join(forms)}"
        return Fault((), f"no value carries the label {label[:80]!r}", nearest=near, cure=cure)
    if kind == "effect" and not _WILD.search(value) and value not in _EFFECTS:
        near, cure = find_nearest(value, _EFFECTS), f"the effects are {', '.join(_EFFECTS)}"
        return Fault((), f"no tool has the effect {value[:80]!r}", nearest=near, cure=cure)
    return None
