"""Which settings does the definition of a server stand for, with its variables filled in?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from tool_engine.catalog.definition.server_definition import MARK, VARIABLE, list_texts
from tool_engine.catalog.kinds import ServerDefinition
from tool_engine.errors import ConfigurationError
from tool_engine.executors.mcp.server_settings import OF_TOOLS, MCPServerSettings
from tool_engine.model.json.plain import read_plain
from tool_engine.redaction import is_secret_key

_AS_THEY_ARE: Final = ("prefix", "trust_annotations", "connect_timeout", "idle_timeout")


def settings_of(server: ServerDefinition) -> MCPServerSettings:
    """Return the settings of a server; what `list_unset` names is empty."""
    content = server.content
    fields: dict[str, Any] = {key: content[key] for key in _AS_THEY_ARE if key in content}
    if "command" in content:
        words = [content["command"], *content.get("args", ())]
        fields["command"] = tuple(map(_fill_in, words))
        fields["env"] = _keep_all(content.get("env", {}))
        if "cwd" in content:
            fields["cwd"] = _fill_in(content["cwd"])
    else:
        fields["transport"] = content.get("type", "http")
        fields["url"] = _fill_in(content["url"])
        fields["headers"] = _keep_all(content.get("headers", {}))
        fields["allow"] = tuple(content.get("allow", ()))
    if "expose" in content:
        fields["expose"] = tuple(content["expose"])
    return MCPServerSettings(
        name=server.name,
        definition=_definition_of(content),
        tools={name: _definition_of(each) for name, each in content.get("tools", {}).items()},
        **fields,
    )


def list_unset(server: ServerDefinition) -> Iterator[ConfigurationError]:
    """Yield an error about each variable that is not set and has no default."""
    for path, text in list_texts(server):
        for found in MARK.finditer(text):
            variable = VARIABLE.fullmatch(found["inner"])
            if variable is None or variable["default"] is not None:
                continue
            name = variable["name"]
            if not os.environ.get(name):
                yield ConfigurationError(
                    f"{server.locate(path)}: the server {server.name!r} needs the variable {name}, "
                    "which is not set; set it before the engine starts, or write "
                    f"${{env:{name}:-default}}"
                )


def describe_settings(settings: MCPServerSettings) -> ServerDefinition:
    """Return settings as a definition, by which they are approved."""
    unsaid = msgspec.structs.asdict(MCPServerSettings(name=settings.name))
    fields = msgspec.structs.asdict(settings)
    said = {key: value for key, value in fields.items() if value != unsaid[key]}
    # Only to be compared, so what is no JSON may be its text.
    data = msgspec.json.encode(read_plain(said), enc_hook=repr)
    return ServerDefinition(name=settings.name, content=msgspec.json.decode(data))


def _definition_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a tool's definition says of these keys."""
    fields = {key: content[key] for key in OF_TOOLS if key in content}
    if "bucket" in content:
        fields["concurrency"] = {**fields.get("concurrency", {}), "bucket": content["bucket"]}
    return fields


def _fill_in(text: str) -> str:
    """Return a text with the values of its variables; secrets stay out."""

    def fill(found: re.Match[str]) -> str:
        name, default = _read_mark(found)
        value = os.environ.get(name)
        return f"${{env:{name}}}" if value and is_secret_key(name) else value or default

    return MARK.sub(fill, text)


def _keep_all(values: Mapping[str, str]) -> dict[str, str]:
    """Return texts whose variables are kept, or have their default; secrets stay out."""

    def keep(found: re.Match[str]) -> str:
        if found["inner"].startswith("file:"):
            return found[0]
        name, default = _read_mark(found)
        return f"${{env:{name}}}" if os.environ.get(name) else default

    return {key: MARK.sub(keep, text) for key, text in values.items()}


def _read_mark(found: re.Match[str]) -> tuple[str, str]:
    variable = VARIABLE.fullmatch(found["inner"])
    if variable is None:
        return found["inner"], found[0]
    return variable["name"], variable["default"] or ""
