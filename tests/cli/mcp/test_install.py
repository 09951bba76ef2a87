"""`mcp install`: an entry in the form and under the keys that each client reads."""

import json
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine.cli.app import run

Ended = tuple[int, str, str]
Run = Callable[..., Ended]
HTTP = ("--http", "127.0.0.1:8931")
URL = "http://127.0.0.1:8931/mcp"


@pytest.fixture
def install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs the command in a folder with a line break and a quote in its name."""
    folder = tmp_path / 'a "b"\nc é'
    (folder / "tools").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TOOL_ENGINE_RECORDS", "none")

    def call(*words: str) -> Ended:
        code = run(["mcp", "install", *words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def read(text: str, table: str) -> Any:
    """The only entry of the only table."""
    said = tomllib.loads(text) if text.startswith("[") else json.loads(text)
    ((name, entries),) = said.items()
    assert name == table
    ((_, entry),) = entries.items()
    return entry


# What the clients' own pages say, read in November 2026.
@pytest.mark.parametrize(
    ("client", "table", "is_typed", "url", "token"),
    [
        (None, "mcpServers", False, {"type": "http", "url": URL}, "${MCP_TOKEN}"),
        ("claude-code", "mcpServers", False, {"type": "http", "url": URL}, "${MCP_TOKEN}"),
        ("cursor", "mcpServers", False, {"url": URL}, "${env:MCP_TOKEN}"),
        ("vscode", "servers", True, {"type": "http", "url": URL}, "${env:MCP_TOKEN}"),
        ("windsurf", "mcpServers", False, {"serverUrl": URL}, "${env:MCP_TOKEN}"),
        ("zed", "context_servers", False, {"url": URL}, "TOKEN"),
        ("gemini", "mcpServers", False, {"httpUrl": URL}, "$MCP_TOKEN"),
        ("codex", "mcp_servers", False, {"url": URL}, None),
    ],
)
def test_each_client(
    install: Run,
    client: str | None,
    table: str,
    is_typed: bool,
    url: dict[str, str],
    token: str | None,
) -> None:
    words = () if client is None else (client,)
    code, text, _ = install(*words, "--tool", "calc*")
    started = read(text, table)
    assert code == 0
    assert started.pop("type", None) == ("stdio" if is_typed else None)
    assert started.keys() == {"command", "args"}
    assert shutil.which(started["command"])
    assert started["args"][-4:] == ["mcp", "serve", "--tool", "calc*"]
    assert str(Path.cwd() / "tools") in started["args"]
    assert read(install(*words, *HTTP)[1], table) == url
    known = read(install(*words, *HTTP, "--token-file", "tokens.yaml")[1], table)
    kept = {"bearer_token_env_var": "MCP_TOKEN"}
    if token is not None:
        kept = {"headers": {"Authorization": f"Bearer {token}"}}  # type: ignore[dict-item]
    assert known == url | kept


def test_where_it_belongs(install: Run) -> None:
    """Beside the entry, so that what is piped into a file is the entry alone."""
    assert install("zed")[2] == "settings.json: zed: open settings file\n"
    assert "mcp install CLIENT, of claude-desktop, claude-code, cursor" in install()[2]


def test_a_server_that_could_not_start(install: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, the client would say no more than that it ended."""
    monkeypatch.setattr("tool_engine.cli.mcp.install_word.find_spec", lambda _: None)
    code, text, said = install("cursor")
    assert (code, read(text, "mcpServers").keys()) == (0, {"command", "args"})
    assert "the server would not start: pip install 'tool-engine[mcp]'\n" in said


def test_one_that_starts_its_servers(install: Run) -> None:
    code, text, said = install("claude-desktop", *HTTP)
    assert (code, text) == (2, "")
    assert "leave out --http, and it starts the server itself" in said
    code, text, _ = install("claude-desktop")
    assert read(text, "mcpServers").keys() == {"command", "args"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("curser",), "without one prints what most others read; did you mean 'cursor'?"),
        (("emacs",), "there are: claude-code, claude-desktop, codex, cursor"),
        (("zed", "cursor"), "takes one client, or none"),
    ],
)
def test_others(install: Run, words: tuple[str, ...], said: str) -> None:
    code, text, error = install(*words)
    assert (code, text) == (2, "")
    assert said in error


def test_a_name_that_toml_quotes(install: Run) -> None:
    text = install("codex", "--name", 'my "tools" é')[1]
    assert list(tomllib.loads(text)["mcp_servers"]) == ['my "tools" é']


def test_without_the_program_on_the_path(
    install: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The client starts the Python that printed it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    started = read(install("codex")[1], "mcp_servers")
    assert (started["command"], started["args"][:2]) == (
        sys.executable,
        ["-m", "tool_engine.cli"],
    )
