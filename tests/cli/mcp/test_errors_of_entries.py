"""`config`, `list` and `validate` say what is wrong with servers, with place and cure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Command

ENTRIES = """{"mcpServers": {
  "program": {"command": "wether-server"},
  "unset": {"command": "python3", "env": {"A": "${NO_SUCH_VARIABLE}"}},
  "key": {"comand": "x"}
}}
"""
PROGRAM = "its program 'wether-server' is not on PATH; did you mean 'weather-server'?"
UNSET = "set it before the engine starts, or write ${env:NO_SUCH_VARIABLE:-default}"
KEY = "unknown key 'comand'; did you mean 'command'?"


@pytest.fixture
def project(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tools").mkdir(exist_ok=True)
    (tmp_path / ".mcp.json").write_text(ENTRIES)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "weather-server").write_text("")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    monkeypatch.delenv("TOOL_ENGINE_TOOLS")
    return tmp_path


def find_line(text: str, start: str) -> str:
    (line,) = [
        each for each in text.splitlines() if each.removeprefix("warning: ").startswith(start)
    ]
    return line


def test_list_says_each(project: Path, command: Command) -> None:
    ended = command("--mcp-config", ".mcp.json", "list")
    assert PROGRAM in find_line(ended.err, ".mcp.json:2:26: ")
    assert UNSET in find_line(ended.err, ".mcp.json:3:48: ")
    assert KEY in find_line(ended.err, ".mcp.json:4:11: ")


def test_validate_says_each_and_starts_nothing(project: Path, command: Command) -> None:
    """What the machine lacks is a warning: the file is right elsewhere."""
    ended = command("--mcp-config", ".mcp.json", "validate")
    assert ended.code == 1
    assert KEY in find_line(ended.out, ".mcp.json:4:11: ")
    (project / ".mcp.json").write_text(ENTRIES.replace("comand", "command"))
    ended = command("--mcp-config", ".mcp.json", "validate")
    assert ended.code == 0
    assert PROGRAM in find_line(ended.out, ".mcp.json:2:26: ")
    assert UNSET in find_line(ended.out, ".mcp.json:3:48: ")


def test_config_says_what_is_wrong_in_the_file(project: Path, command: Command) -> None:
    ended = command("--mcp-config", ".mcp.json", "config")
    assert (ended.code, len(ended.err.splitlines())) == (1, 1)
    assert KEY in find_line(ended.err, ".mcp.json:4:11: ")


def test_servers_of_a_file_and_of_the_settings_are_checked(project: Path, command: Command) -> None:
    (project / "tools" / "one.yaml").write_text(
        "kind: mcp_server\nname: one\ncommand: wether-server\n"
    )
    (project / "tool-engine.toml").write_text('[mcp_servers.two]\ncommand = "wether-server"\n')
    said = command("validate").out
    assert PROGRAM in find_line(said, "tools/one.yaml:3:10: ")
    assert PROGRAM in find_line(said, "tool-engine.toml:2:11: ")
    listed = command("list").err
    assert PROGRAM in find_line(listed, "tool-engine.toml:2:11: ")
