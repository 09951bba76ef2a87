"""What may the file of a recorded conversation contain?"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tool_engine.catalog.strict_yaml import load_all
from tool_engine.errors import ConfigurationError, DefinitionError
from tool_engine.model.checks.field_types import convert_value
from tool_engine.named_file import read_named, why_unread

_MISFIT: Final = re.compile(
    r"Expected `(?P<expected>[^`]+)`, got `(?P<got>[^`]+)`(?: - at `(?P<place>[^`]+)`)?"
)
_KINDS: Final = {
    "array": "a list",
    "object": "a mapping",
    "str": "a text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
}


class ScriptCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] = {}
    id: str | None = None
    """None: derived from the number of the turn."""


class ScriptError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    message: str
    status: int | None = None
    is_transient: bool = False
    is_refusal: bool = False


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a request must hold for its recorded reply to fit."""

    contains: str | list[str] = []
    """Texts after the model's last reply: the user's words, results of calls."""
    system: str | list[str] = []
    tools: list[str] = []
    may_call: bool | None = None
    """Whether the model may call a tool in this turn; None: either way."""


class ScriptReply(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One turn of the model: `text` and `calls`, or the provider's reply."""

    text: str = ""
    calls: list[ScriptCall] = []
    reply: Any = None
    chunks: list[Any] | None = None
    error: ScriptError | None = None
    expect: Expectation | None = None


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    replies: list[ScriptReply]
    protocol: str = "openai"
    """The protocol in which the model calls tools: a name that `get_protocol` knows."""
    wire: str | None = None
    """The protocol whose messages carried text, such as `anthropic`; None: plain text."""
    name: str = "recorded"


def read_script(source: str | os.PathLike[str] | Mapping[str, Any]) -> Script:
    """Read a script from a JSON or YAML file, or a mapping.

    Raises:
        ConfigurationError: The file cannot be read, or something in it is wrong; the message says
            where.
    """
    if not isinstance(source, str | os.PathLike | Mapping):
        raise ConfigurationError(
            f"a recorded conversation is a file or a mapping, got {type(source).__name__}"
        )
    place = "the script" if isinstance(source, Mapping) else os.fspath(source)
    try:
        value = source if isinstance(source, Mapping) else _load_file(Path(source))
        if not isinstance(value, Mapping):
            raise ConfigurationError(
                f"{place} is no recorded conversation, but {type(value).__name__}; write its "
                "replies as {replies: [{text: Hello.}]}"
            )
        script = convert_value(value, Script)
    except OSError as error:
        raise ConfigurationError(f"cannot read {place}: {why_unread(error)}") from error
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{place}: {_word_misfit(str(error))}") from error
    except (DefinitionError, msgspec.MsgspecError) as error:
        raise ConfigurationError(f"{place} is no recorded conversation: {error}") from error
    for number, reply in enumerate(script.replies, 1):
        _check_reply(reply, f"{place}, reply {number}")
    return script


def _word_misfit(message: str) -> str:
    """Say what a part of a script has to be, in words of JSON."""
    found = _MISFIT.match(message)
    if found is None:
        return f"this is no recorded conversation: {message}"
    expected, got = (
        " or ".join(_KINDS.get(each, each) for each in part.split(" | "))
        for part in (found["expected"], found["got"])
    )
    key = found["place"].removeprefix("$.") or "a script"
    return (
        f"{key} must be {expected}, got {got}; write its replies as {{replies: [{{text: Hello.}}]}}"
    )


def _load_file(path: Path) -> Any:
    data = read_named(path)
    if path.suffix.lower() == ".json":
        return msgspec.json.decode(data)
    documents = load_all(data, str(path))
    if len(documents) != 1:
        raise ConfigurationError(
            f"{path} holds {len(documents)} documents, a recorded conversation is one: write "
            '{"replies": [...]}, or record one'
        )
    return documents[0]


def _check_reply(reply: ScriptReply, place: str) -> None:
    forms = {
        "text or calls": bool(reply.text or reply.calls),
        "reply": reply.reply is not None,
        "chunks": reply.chunks is not None,
    }
    said = [name for name, is_there in forms.items() if is_there]
    if len(said) > 1:
        raise ConfigurationError(f"{place}: {' and '.join(said)} stand side by side: write one")
    if not said and reply.error is None:
        raise ConfigurationError(
            f"{place}: there is nothing in it: write text, calls, reply, chunks or error"
        )
    if reply.error is not None and said not in ([], ["chunks"]):
        raise ConfigurationError(f"{place}: an error comes alone or after chunks, not {said[0]}")
