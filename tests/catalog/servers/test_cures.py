"""What a message about an entry of `.mcp.json` says to do is done, and nothing is said any more."""

import json
from pathlib import Path
from typing import Any

import pytest

from tool_engine.catalog.servers.config_file import read_config_file

ONE = {"command": "x"}
CURES: list[tuple[Any, str, Any]] = [
    ({"a": 3}, "write a mapping with command or url", {"a": ONE}),
    ({"a": {}}, "add the program as command, or the endpoint as url", {"a": ONE}),
    ({"a": {**ONE, "bucket": "b"}}, "put it under tool-engine",
     {"a": {**ONE, "tool-engine": {"bucket": "b"}}}),
    ({"a": {**ONE, "tool-engine": {"zzz": 1}}}, "the keys here are version, ",
     {"a": {**ONE, "tool-engine": {"version": "2.0.0"}}}),
    ({"a": {"url": "https://x/sse"}}, 'write "type": "sse" if it is that',
     {"a": {"url": "https://x/sse", "type": "sse"}}),
    ({"a": {"url": "https://x", "serverUrl": "https://x"}}, "give one", {"a": {"url": "https://x"}}),
    ({"a": {**ONE, "autoApprove": []}}, "set permission under tool-engine",
     {"a": {**ONE, "tool-engine": {"permission": "ask_always"}}}),
    ({"a": {**ONE, "timeout": 9}}, "set it under tool-engine, in seconds",
     {"a": {**ONE, "tool-engine": {"timeout": 9}}}),
    ({"a": {**ONE, "includeTools": ["b"]}}, "set expose under tool-engine",
     {"a": {**ONE, "tool-engine": {"expose": ["b"]}}}),
    ({"a": {**ONE, "envFile": ".env"}}, "put its variables into env",
     {"a": {**ONE, "env": {"A": "b"}}}),
    ({"a": {"url": "https://x", "oauth": {}}}, "put a token into headers",
     {"a": {"url": "https://x", "headers": {"Authorization": "Bearer ${TOKEN}"}}}),
    ([], 'write {"NAME": {...}}', {"NAME": ONE}),
]  # fmt: skip


def said_of(tmp_path: Path, value: Any) -> list[str]:
    file = tmp_path / ".mcp.json"
    file.write_text(json.dumps(value))
    found = read_config_file(str(file))
    findings = [each for server in found.servers for each in server.findings]
    return [text for _, text in found.errors] + findings


@pytest.mark.parametrize(("wrong", "cure", "healed"), CURES)
def test_the_cure_cures(tmp_path: Path, wrong: Any, cure: str, healed: Any) -> None:
    (message,) = said_of(tmp_path, {"mcpServers": wrong})
    assert cure in message.rpartition("; ")[2], message
    assert said_of(tmp_path, {"mcpServers": healed}) == []


def test_lists_that_are_missing_or_name_one_twice(tmp_path: Path) -> None:
    (message,) = said_of(tmp_path, {"a": ONE})
    assert message.endswith("; list the servers under mcpServers")
    assert said_of(tmp_path, {"mcpServers": {"a": ONE}}) == []
    (message,) = said_of(tmp_path, {"mcpServers": {"a": ONE}, "servers": {"a": ONE}})
    assert message.endswith("; remove one, or rename it")
    assert said_of(tmp_path, {"mcpServers": {"a": ONE}, "servers": {"b": ONE}}) == []
    assert said_of(tmp_path, {"mcpServers": {"a": ONE}, "servers": {}}) == []
