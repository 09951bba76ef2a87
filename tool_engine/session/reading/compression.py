"""How do a call's arguments and result become short texts for logs?

Secrets are hidden before anything is cut: half of one would not be recognised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.content.blocks import read_content, write_text
from tool_engine.model.json.free_key import free_key, text_key
from tool_engine.model.json.returned_value import safe_repr, to_text
from tool_engine.model.tool import Tool
from tool_engine.output.graphemes import cluster_start
from tool_engine.redaction import HIDDEN, OwnSecrets, secrets_if_known
from tool_engine.redaction.text import place_to_cut
from tool_engine.session.formatting import data_of
from tool_engine.session.reading.presentation import Presentation, make_text

_PREVIEW: Final = 200
"""Characters of a result. U41."""
_LONGEST_TEXT: Final = 50
"""Characters of a text in arguments. U41."""
_LONGEST_PLACE: Final = 500
"""Characters of an id or a path, which says nothing once it is cut."""
_LONGEST: Final = 1_000
"""Characters of all arguments, and of the result of a tool's own function."""
_LOOKED_AT: Final = 8_192
"""Characters of each text that are searched for secrets."""
_MOST_VALUES: Final = 500
_MAX_DEPTH: Final = 16
_WORDS: Final = re.compile(r"[A-Z]+s?(?![a-z])|[A-Z]?[a-z]+")
_PLACES: Final = frozenset({"id", "ids", "path", "paths"})
_ELLIPSIS: Final = "…"


def compressed_args(
    args: Mapping[str, Any], presentation: Presentation | None = None, tool: Tool | None = None
) -> str:
    """Return arguments as short JSON for logs, at most 1,000 characters. S8, U41.

    Texts are cut at 50 characters, all but ids and paths. Never raises: where
    `presentation.compress_args` does, or returns no text, the default is used.

    Args:
        args: The arguments.
        presentation: The presentation of the tool.
        tool: The tool, whose secret parameters are hidden.
    """
    own = None if presentation is None else presentation.compress_args

    def default(secrets: OwnSecrets) -> str:
        return to_text(_shorten_texts(secrets.params(_Start(secrets).of(args, 0)), ""))

    name = "the tool" if tool is None else tool.name
    return _compress_value(
        own, args, name, default, _LONGEST, partial(secrets_if_known, tool, args)
    )


def compressed_result(
    result: ToolExecutionResult,
    presentation: Presentation | None = None,
    args: Mapping[str, Any] | None = None,
    tool: Tool | None = None,
) -> str:
    """Return a result's beginning for logs, at most 200 characters. S8, U41.

    Never raises: where `presentation.compress_result` does, or returns no text, the default is
    used. What that function makes may have 1,000 characters.

    Args:
        result: The finished call.
        presentation: The presentation of the tool.
        args: Its arguments: where the tool has secret ones, those that the result repeats are
            hidden, and without `args` nothing of the result is shown.
        tool: The tool. Without it no argument is known to be secret.
    """
    own = None if presentation is None else presentation.compress_result

    def default(secrets: OwnSecrets) -> str:
        if not result.is_success:
            return f"Error ({result.error_type}): {_hide_start(result.error or '', secrets)}"
        parts = read_content(result.output)
        value = write_text(parts) if parts else data_of(result.output)
        return to_text(secrets.value(_Start(secrets).of(value, 0)))

    find_secrets = partial(secrets_if_known, tool, args)
    return _compress_value(own, result, result.tool_name, default, _PREVIEW, find_secrets)


def _compress_value(
    own: Callable[[Any], str] | None,
    value: Any,
    tool_name: str,
    default: Callable[[OwnSecrets], str],
    most: int,
    find_secrets: Callable[[], OwnSecrets | None],
) -> str:
    secrets = find_secrets()
    if secrets is None:
        return HIDDEN
    make = partial(make_text, [], find_secrets=lambda: secrets)
    text = None if own is None else make("compression", tool_name, own, value)
    if text is not None:
        return _cut_text(_hide_start(text, secrets), _LONGEST)
    text = make("value", tool_name, default, secrets)
    return _cut_text(_hide_start(safe_repr(value), secrets) if text is None else text, most)


class _Start:
    """Copy the beginning of a value: large ones cost no more."""

    def __init__(self, secrets: OwnSecrets) -> None:
        self._left = _MOST_VALUES
        self._secrets = secrets

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if isinstance(value, str):
            return _cut_start(str.__str__(value), self._secrets)
        if depth >= _MAX_DEPTH:
            return _ELLIPSIS
        if isinstance(value, Mapping):
            few = islice(value.items(), max(0, self._left))
            copy: dict[str, Any] = {}
            for key, item in few:
                name = free_key(_cut_start(text_key(key, value), self._secrets), copy)
                copy[name] = self.of(item, depth + 1)
            return copy
        if isinstance(value, list | tuple):
            return [self.of(item, depth + 1) for item in islice(value, max(0, self._left))]
        return value


def _hide_start(text: str, secrets: OwnSecrets) -> str:
    return secrets.text(_cut_start(text, secrets))


def _cut_start(text: str, secrets: OwnSecrets) -> str:
    if len(text) <= _LOOKED_AT:
        return text
    # Of a secret that is longer than what is looked at, its own beginning is enough.
    cut = text[: place_to_cut(text, _LOOKED_AT, hide=secrets.text)]
    return secrets.beginning(cut) + _ELLIPSIS


def _shorten_texts(value: Any, name: str) -> Any:
    if isinstance(value, str):
        words = _WORDS.findall(name)
        is_place = bool(words) and words[-1].lower() in _PLACES
        return _cut_text(value, _LONGEST_PLACE if is_place else _LONGEST_TEXT)
    if isinstance(value, dict):
        return {key: _shorten_texts(item, key) for key, item in value.items()}
    return [_shorten_texts(item, name) for item in value] if isinstance(value, list) else value


def _cut_text(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return text[: cluster_start(text, most - len(_ELLIPSIS))] + _ELLIPSIS
