"""Which calls does a batch file ask for?"""

from __future__ import annotations

from typing import Any, Final

from tool_engine.cli.documents import read_entries
from tool_engine.cli.failures import CommandError, suggest_name

_FORM: Final = '{"tool": "echo", "params": {"message": "hi"}} or ["echo", {"message": "hi"}]'


def read_calls(path: str) -> list[tuple[str, dict[str, Any]]]:
    """Read calls from a list or from JSON lines; `-` is stdin.

    A CommandError names the place of an entry that is no call.
    """
    calls = [_read_call(place, entry) for place, entry in read_entries(path)]
    if not calls:
        raise CommandError(f"{path} holds no calls; write {_FORM}")
    return calls


def _read_call(place: str, entry: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(entry, dict):
        for key in entry:
            if key not in ("tool", "params"):
                hint = suggest_name(str(key), ("tool", "params"))
                raise CommandError(f"{place}: unknown key {key!r}{hint}")
        name, params = entry.get("tool"), entry.get("params")
    elif isinstance(entry, list) and 1 <= len(entry) <= 2:
        name, params = entry[0], entry[1] if len(entry) == 2 else None
    else:
        raise CommandError(f"{place}: no call; write {_FORM}")
    if not isinstance(name, str) or not name:
        raise CommandError(f"{place}: the call names no tool; write {_FORM}")
    if params is not None and not isinstance(params, dict):
        raise CommandError(f"{place}: params must be an object, got {type(params).__name__}")
    return name, params or {}
