"""What may a command show of a conversation that was kept with its secrets?

A session is kept as it is, or it could not go on. The definitions say which arguments are secret;
of a tool without a definition here, every argument may be one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

from tool_engine.cli.console import json_text
from tool_engine.model.tool import Tool
from tool_engine.redaction import HIDDEN, OwnSecrets, secrets_of

_NAMES: Final = ("toolName", "tool_name", "name")
_ARGUMENTS: Final = ("args", "arguments", "input", "params")
"""Keys of the arguments in a transcript, a request, and messages as the providers have them."""
_RAW: Final = "rawBlock"
"""The key of the arguments as the model wrote them."""
_DEEPEST: Final = 64


class _KeptCall(NamedTuple):
    tool: str
    key: str
    """The key under which the arguments stand."""
    arguments: dict[str, Any]


class KeptSecrets:
    """The secrets in the calls of one kept conversation, hidden wherever they stand.

    Args:
        data: What was kept.
        find: Returns the tool of a name, or None.
    """

    def __init__(self, data: Mapping[str, Any], find: Callable[[str], Tool | None]) -> None:
        self._find = find
        self._calls = [
            call for each in _find_mappings(data) if (call := _find_call(each)) is not None
        ]

    @property
    def unknown(self) -> list[str]:
        """The names of called tools without a definition."""
        return sorted({each.tool for each in self._calls if self._find(each.tool) is None})

    def hide(self, value: Any) -> Any:
        """Return a copy of any part of the conversation, without secrets."""
        return self._all_secrets.value(self._hide_arguments(value))

    def hide_text(self, text: str) -> str:
        return self._all_secrets.text(text)

    @cached_property
    def _all_secrets(self) -> OwnSecrets:
        """The secrets of all calls of known tools, by their values."""
        params: dict[str, Any] = {}
        names, parts, declared, filled = set[str](), set[str](), set[str](), list[Any]()
        for number, call in enumerate(self._calls):
            tool = self._find(call.tool)
            if tool is None:
                continue
            secrets = secrets_of(tool, call.arguments)
            # Parameters of several tools may have one name, and only one of them be secret.
            named = {name: f"{number} {name}" for name in call.arguments}
            params.update((named[name], value) for name, value in call.arguments.items())
            names.update(named[name] for name in secrets.names & named.keys())
            parts |= secrets.parts
            declared |= tool.declared_keys
            filled += (value for _, value in tool.secret_defaults)
        return OwnSecrets(params, names, parts, filled=filled, declared=declared)

    def _hide_arguments(self, value: Any, depth: int = 0) -> Any:
        if depth > _DEEPEST:
            return HIDDEN
        if isinstance(value, list | tuple):
            return [self._hide_arguments(each, depth + 1) for each in value]
        if not isinstance(value, Mapping):
            return value
        copy = {key: self._hide_arguments(each, depth + 1) for key, each in value.items()}
        call = _find_call(value)
        if call is None:
            return copy
        for key in (call.key, _RAW):
            if key in value:
                copy[key] = self._write_like(call.tool, value[key])
        return copy

    def _hide_values(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of one call; of an unknown tool only their names."""
        tool = self._find(name)
        if tool is None:
            return dict.fromkeys(arguments, HIDDEN)
        return secrets_of(tool, arguments).params(arguments)

    def _write_like(self, name: str, written: Any) -> Any:
        """Return arguments in the form that they were written in."""
        tool, arguments = self._find(name), _read_object(written)
        if tool is not None and not (tool.secret_names or tool.secret_parts):
            return written
        if arguments is None:
            # Half a call, or one in a form of its own: any part of it may be the secret.
            return HIDDEN if written else written
        shown = self._hide_values(name, arguments)
        return json_text(shown, indent=None) if isinstance(written, str) else shown


def _find_call(value: Mapping[str, Any]) -> _KeptCall | None:
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    key = next((key for key in _ARGUMENTS if isinstance(value.get(key), str | Mapping)), None)
    if name is None or key is None:
        return None
    return _KeptCall(name, key, _read_object(value[key]) or {})


def _read_object(value: Any) -> dict[str, Any] | None:
    """Return the object that a value is, or that a text is in JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return dict(value) if isinstance(value, Mapping) else None


def _find_mappings(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        yield value
        for each in value.values():
            yield from _find_mappings(each, depth + 1)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _find_mappings(each, depth + 1)
