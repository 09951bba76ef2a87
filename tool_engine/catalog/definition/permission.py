"""Which permission does a definition set, and can its labels match?"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final

from tool_engine.catalog.definition.fault import Fault
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.model.permission import ExecutionPolicy, Permission

_ASKING: Final = (ExecutionPolicy.ASK_ONCE, ExecutionPolicy.ASK_ALWAYS)
_BARE: Final = ("user", "model", "rule")
_KINDS: Final = ("tool", "effect", "host")
_EFFECTS: Final = ("read", "write", "unknown")
_WILD: Final = re.compile(r"[*?\[]")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BRACKETS: Final = re.compile(r"\[([^\]]*:[^\]]*)\](?::[0-9*]+)?")
_TOOL: Final = re.compile(r"(?:source-[1-9][0-9]*:)?[A-Za-z_][A-Za-z0-9_.-]{0,127}")


def build_permission(spec: str | Mapping[str, Any]) -> Permission:
    if isinstance(spec, str):
        spec = {"execution": spec}
    client = spec.get("client_may_answer", False)
    return _cached_permission(spec.get("execution"), spec.get("result"), client)


@cache
def _cached_permission(execution: Any, result: Any, client_may_answer: bool) -> Permission:
    # Cached: thousands of tools share few permissions.
    return Permission(execution=execution, result=result, client_may_answer=client_may_answer)


def permission_spec(permission: Permission | None) -> dict[str, Any] | None:
    if permission is None:
        return None
    given = {"execution": permission.execution, "result": permission.result}
    spec: dict[str, Any] = {key: each.value for key, each in given.items() if each is not None}
    if permission.client_may_answer:
        spec["client_may_answer"] = True
    return spec or None


def permission_warnings(spec: str | Mapping[str, Any]) -> list[Fault]:
    """Return a warning for a client that may answer what no call asks."""
    permission = build_permission(spec)
    if not permission.client_may_answer or permission.execution in _ASKING:
        return []
    path = ("permission", "client_may_answer")
    cure = "write execution: ask_once or ask_always, or leave it out"
    return [Fault(path, "no call of the tool is asked about", cure=cure)]


def label_warnings(labels: Iterable[str]) -> list[Fault]:
    """Return warnings for labels in `accepts` that no built-in value carries."""
    found = ((number, _label_fault(label)) for number, label in enumerate(labels))
    return [fault._replace(path=("accepts", number)) for number, fault in found if fault]


def _label_fault(label: str) -> Fault | None:
    kind, colon, value = label.partition(":")
    if _WILD.search(kind):
        return _wild_fault(label)
    if not colon and kind in _BARE:
        return None
    known = _KINDS if colon else _BARE
    if kind not in known:
        forms = (*_BARE, *(f"{each}:NAME" for each in _KINDS))
        near = find_nearest(kind, known)
        cure = "" if near else f"the labels are {', '.join(forms)}"
        near = f"{near}{colon}{value}" if near else ""
        return Fault((), f"no value carries the label {label[:80]!r}", nearest=near, cure=cure)
    if kind == "effect" and not any(fnmatchcase(each, value) for each in _EFFECTS):
        near = find_nearest(value, _EFFECTS)
        cure = "" if near else f"the effects are {', '.join(_EFFECTS)}"
        near = f"effect:{near}" if near else ""
        return Fault((), f"no tool has the effect {value[:80]!r}", nearest=near, cure=cure)
    if kind == "host":
        return _host_fault(value)
    return _tool_fault(value) if kind == "tool" else None


def _wild_fault(label: str) -> Fault | None:
    start = label[: _WILD.search(label).start()]  # type: ignore[union-attr] # it has one
    if _is_start(start):
        return None
    small = start.lower()
    near = small + label[len(start) :] if _is_start(small) else ""
    forms = (*_BARE, *(f"{each}:NAME" for each in _KINDS))
    cure = "" if near else f"the labels are {', '.join(forms)}"
    return Fault((), f"no value carries the label {label[:80]!r}", nearest=near, cure=cure)


def _is_start(text: str) -> bool:
    kinds = [f"{each}:" for each in _KINDS]
    return any(each.startswith(text) for each in (*_BARE, *kinds))


def _host_fault(value: str) -> Fault | None:
    name = _SCHEME.sub("", value)
    name = re.split(r"[/#\\]", name, maxsplit=1)[0].rpartition("@")[2]
    if name.count(":") == 1 and "*:" not in name:
        # Two colons: an IPv6 address, which has no port in a label.
        name = name.partition(":")[0]
    if (found := _BRACKETS.fullmatch(name)) is not None:
        name = found[1]
    with contextlib.suppress(UnicodeError):
        name = name if name.isascii() else name.encode("idna").decode()
    if name.lower() == value.lower():
        return None
    near = f"host:{name}" if name.isascii() and name else ""
    cure = "" if near else "write the host alone, such as host:example.com"
    return Fault((), f"no host is spelled {value[:80]!r}", nearest=near, cure=cure)


def _tool_fault(value: str) -> Fault | None:
    if _WILD.search(value) or _TOOL.fullmatch(value):
        return None
    cure = "a name has letters, digits, _, . and -; * stands for any, as in tool:web_*"
    return Fault((), f"no tool can be named {value[:80]!r}", cure=cure)
