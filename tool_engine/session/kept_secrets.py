"""What may be shown of a conversation that was kept with its secrets?

A session is kept as it is, or it could not go on. The definitions say which arguments are secret.
A name is no definition: a view may give it to another tool, and a session may have one of its own.
So a kept call says with which definition it ran, and where that is not here, or is not known, every
argument may be a secret. What a call answered may repeat it: of a call without its arguments in the
conversation, a result is shown only if nothing of them had to be hidden when they were kept.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, Final, NamedTuple

from tool_engine.errors import VariableError
from tool_engine.model.tool import Tool
from tool_engine.protocols.text.neutral_text import neutralize_text
from tool_engine.redaction import HIDDEN, OwnSecrets, secrets_of
from tool_engine.session.recent_secrets import read_kept_arguments
from tool_engine.session.variables.store import VariableKind, VariableStore

_NAMES: Final = ("toolName", "tool_name", "name")
_ARGUMENTS: Final = ("args", "arguments", "input", "params")
"""Keys of the arguments in a transcript, a request, and messages as the providers have them."""
_RAW: Final = "rawBlock"
"""The key of the arguments as the model wrote them."""
_DEFINITIONS: Final = ("definitionHash", "definition_hash")
_STATUS: Final = "status"
"""The key of how a call ended, which only the transcript has."""
_NEWS: Final = "news"
"""The key of what the model is to hear of calls that ended meanwhile."""
_OF_ARGUMENTS: Final = re.compile(r"_args(-\d+)?$")
"""How the name of a variable with a call's arguments ends; that of its result: `_result`."""
_DEEPEST: Final = 64


class _KeptCall(NamedTuple):
    tool: str
    key: str
    """The key under which the arguments stand."""
    arguments: dict[str, Any]
    raw: str
    """What the model wrote, where that is known."""
    definition: str | None
    """The hash of the definition that it ran with; None: it is not known."""
    has_ended: bool
    """Whether this is what the transcript has of its end."""


class KeptSecrets:
    """The secrets in the calls of one kept conversation, hidden wherever they stand.

    Args:
        data: What was kept.
        tools: The tools whose definitions are here.
    """

    def __init__(self, data: Mapping[str, Any], tools: Iterable[Tool]) -> None:
        self._tools = {each.definition_hash: each for each in tools if each.definition_hash}
        self._calls = [
            call for each in _find_mappings(data) if (call := _find_call(each)) is not None
        ]
        self._definitions = _find_definitions(self._calls)
        self._plain, self._has_unread = _find_plain_results(data)
        self._variables = VariableStore()
        with suppress(VariableError):
            self._variables = VariableStore.from_dict(data.get("variables", {}))

    def _find_tool(self, call: _KeptCall) -> Tool | None:
        """Return the tool that ran; None: its definition is not here, or not known."""
        known = {call.definition}
        if call.definition is None and not call.has_ended:
            known = self._definitions.get(call.tool, set())
        definition = next(iter(known)) if len(known) == 1 else None
        return None if definition is None else self._tools.get(definition)

    @property
    def unknown(self) -> list[str]:
        """The names of called tools of which it is not known here what is secret."""
        return sorted({each.tool for each in self._calls if self._find_tool(each) is None} - {""})

    def hide(self, value: Any) -> Any:
        """Return a copy of any part of the conversation, without secrets."""
        hidden = self._hide_arguments(value)
        if isinstance(value, Mapping) and value.get(_NEWS) and self._has_unread:
            hidden[_NEWS] = HIDDEN
        return self._all_secrets.value(hidden)

    def hide_text(self, text: str) -> str:
        return self._all_secrets.text(text)

    @cached_property
    def _all_secrets(self) -> OwnSecrets:
        """The secrets of all calls of known tools, by their values."""
        params: dict[str, Any] = {}
        names, parts, declared, filled = set[str](), set[str](), set[str](), list[Any]()
        for number, call in enumerate(self._calls):
            tool = self._find_tool(call)
            if call.raw and (tool is None or (_has_secrets(tool) and not call.arguments)):
                # No argument of it could be read: any part of it may be the secret.
                filled.append(call.raw)
            if tool is None:
                continue
            arguments = read_kept_arguments(tool, call.arguments, self._variables)
            for form, sent in enumerate((arguments, _neutralize_texts(arguments))):
                secrets = secrets_of(tool, sent)
                # Parameters of several tools may have one name, and only one of them be secret.
                named = {name: f"{number} {form} {name}" for name in sent}
                params.update((named[name], value) for name, value in sent.items())
                names.update(named[name] for name in secrets.names & named.keys())
                parts |= secrets.parts
            declared |= tool.declared_keys
        # A call that filled one in need not be in the transcript.
        filled += (value for tool in self._tools.values() for _, value in tool.secret_defaults)
        return OwnSecrets(params, names, parts, filled=filled, declared=declared)

    def _hide_arguments(self, value: Any, depth: int = 0) -> Any:
        if depth > _DEEPEST:
            return HIDDEN
        if isinstance(value, list | tuple):
            return [self._hide_arguments(each, depth + 1) for each in value]
        if not isinstance(value, Mapping):
            return value
        copy = {key: self._hide_arguments(each, depth + 1) for key, each in value.items()}
        if value.get("kind") == VariableKind.TOOL_CALL_RESULT.value:
            copy["value"] = copy.get("value") if value.get("name") in self._plain else HIDDEN
        call = _find_call(value)
        if call is None:
            return copy
        for key in (call.key, _RAW):
            if key in value:
                copy[key] = _write_like(self._find_tool(call), value[key])
        return copy


def _find_definitions(calls: Iterable[_KeptCall]) -> dict[str, set[str | None]]:
    """Return with which definitions the calls of each name ran; None: with one that is not known.

    Messages do not say with which one a call of theirs ran. It is sure where all calls of that name
    have ended with the same, and there are no more of them in the messages than have ended.
    """
    found: dict[str, set[str | None]] = {}
    ended, asked = Counter[str](), Counter[tuple[str, str]]()
    for each in calls:
        if each.has_ended:
            ended[each.tool] += 1
            found.setdefault(each.tool, set()).add(each.definition)
        elif each.definition is None:
            asked[each.tool, each.key] += 1
    for (tool, _), count in asked.items():
        if count > ended[tool]:
            found.setdefault(tool, set()).add(None)
    return found


def _find_plain_results(data: Mapping[str, Any]) -> tuple[set[str], bool]:
    """Return the results whose arguments were kept whole, and whether others were not.

    A conversation hides the secrets of its calls when it keeps their arguments, by the definitions
    that they ran with: where nothing had to be hidden, there was no secret.
    """
    plain, has_others = set[str](), False
    for each in _find_mappings(data.get("variables")):
        if each.get("kind") == VariableKind.TOOL_CALL_ARGS.value:
            is_plain = HIDDEN not in _write_text(each.get("value"))
            has_others = has_others or not is_plain
            if is_plain:
                plain.add(_OF_ARGUMENTS.sub(r"_result\1", str(each.get("name"))))
    return plain, has_others


def _has_secrets(tool: Tool) -> bool:
    return bool(tool.secret_names or tool.secret_parts)


def _neutralize_texts(value: Any) -> Any:
    """Return the value as the texts of results show it, without marks of calls."""
    if isinstance(value, str):
        return neutralize_text(value)
    if isinstance(value, Mapping):
        return {key: _neutralize_texts(each) for key, each in value.items()}
    return [_neutralize_texts(each) for each in value] if isinstance(value, list) else value


def _hide_values(tool: Tool | None, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of one call; of an unknown tool only their names."""
    if tool is None:
        return dict.fromkeys(arguments, HIDDEN)
    return secrets_of(tool, arguments).params(arguments)


def _write_like(tool: Tool | None, written: Any) -> Any:
    """Return arguments in the form that they were written in."""
    if tool is not None and not _has_secrets(tool):
        return written
    arguments = _read_object(written)
    if arguments is None:
        # Half a call, or one in a form of its own: any part of it may be the secret.
        return HIDDEN if written else written
    shown = _hide_values(tool, arguments)
    return _write_text(shown) if isinstance(written, str) else shown


def _write_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)


def _find_call(value: Mapping[str, Any]) -> _KeptCall | None:
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    key = next((key for key in _ARGUMENTS if isinstance(value.get(key), str | Mapping)), None)
    if name is None or key is None:
        return None
    raw = value.get(_RAW)
    definition = next((value[key] for key in _DEFINITIONS if value.get(key)), None)
    return _KeptCall(
        name,
        key,
        _read_object(value[key]) or {},
        raw if isinstance(raw, str) else "",
        definition if isinstance(definition, str) else None,
        # Calls in messages of some providers have a status, too.
        _STATUS in value and _NAMES[0] in value,
    )


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
