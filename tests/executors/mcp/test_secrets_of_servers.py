"""What a server is reached with is sent to it, and shown nowhere else."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from rich.pretty import pretty_repr

from tests.executors.mcp.test_hostile_sites import (
    make_answer,
    make_result,
    make_text,
    send,
    serving,
)
from tests.mcp_servers.programs import program as made_of
from tool_engine import MCPServerSettings, MCPSource, ToolEngine, ToolEngineConfig

KEY = "k3yk3yk3yk3yk3yk3y"
REPEATING = """
import json, sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("odd")
@server.tool()
def repeat() -> str:
    return json.dumps(sys.argv[1:])
server.run()
"""


@pytest.mark.parametrize(
    ("place", "secret"),
    [
        (f"/s/{KEY}/mcp", KEY),
        ("/s/c0ffee12-3456-7890-abcd-ef0123456789/mcp", "c0ffee12-3456-7890-abcd-ef0123456789"),
        (f"/mcp?some={KEY}", KEY),
        ("/mcp?token=short1", "short1"),
    ],
)
async def test_what_is_secret_in_an_address(
    engine: ToolEngine, caplog: pytest.LogCaptureFixture, place: str, secret: str
) -> None:
    """It is neither logged nor shown to a model when the server repeats it."""

    def repeat(asked: dict[str, Any]) -> bytes:
        return make_answer(200, make_result(asked, make_text(f"you asked {place}")))

    with caplog.at_level(logging.INFO):
        async with serving(send(repeat)) as site:
            source = MCPSource("site", url=site.url.replace("/mcp", place))
            await engine.add_source(source)
            result = await engine.execute("buy", {})
            site.refuses = make_answer(500, f"<p>{place}".encode(), kind="text/html")
            failed = await engine.execute("buy", {})
    assert place in site.paths
    assert result.is_success
    assert not failed.is_success
    assert "HTTP Request: POST http://127.0.0.1:" in caplog.text
    shown = [result, failed, engine.load_errors, caplog.text, source, source.settings]
    assert [each for each in shown if secret in repr(each)] == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/my-first-server-v2/mcp?region=europe"])
async def test_what_people_read_in_an_address_is_shown(engine: ToolEngine, url: str) -> None:
    """A result is not changed for the sake of words that are no secret."""
    words = "my-first-server-v2 europe 127.0.0.1 mcp 2026-07-28"

    def say(asked: dict[str, Any]) -> bytes:
        return make_answer(200, make_result(asked, make_text(words)))

    async with serving(send(say)) as site:
        port = site.url.split(":")[2].partition("/")[0]
        await engine.add_source(MCPSource("site", url=url.format(port=port)))
        result = await engine.execute("buy", {})
    assert result.output["content"][0]["text"] == words


@pytest.mark.parametrize(
    "words",
    [
        ("--api-key", KEY),
        (f"--api-key={KEY}",),
        (f"API_KEY={KEY}",),
        ("--header", f"X-Api-Key: {KEY}"),
        (f"https://me:{KEY}@host.example/mcp",),
        ("${SOME_TOKEN}",),
        ("--database", "postgres://me:${SOME_TOKEN}@host.example/data"),
    ],
)
async def test_what_is_secret_among_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """The program gets it, and a result shows all but that."""
    monkeypatch.setenv("SOME_TOKEN", KEY)
    monkeypatch.setenv("SOME_PLACE", "in-the-garden")
    program = tmp_path / "repeat.py"
    program.write_text(REPEATING)
    entry = made_of(str(program), *words, "${SOME_PLACE}")
    config = ToolEngineConfig(str(tmp_path), mcp_servers={"odd": entry})
    async with ToolEngine(config) as engine:
        assert engine.load_errors == []
        result = await engine.execute("repeat", {})
    assert result.is_success, result.error
    assert KEY not in repr(result)
    assert "in-the-garden" in repr(result)


def test_settings_show_no_secret() -> None:
    """Neither do those of a configuration: a path or a query may be a key."""
    url = f"https://me:{KEY}@Host.example:8443/s/{KEY}/mcp?q={KEY}"
    settings = MCPServerSettings(name="web", transport="http", url=url, headers={"X-Some": KEY})
    program = {"command": "npx", "args": [KEY], "env": {"SOME": KEY}}
    mapping: dict[str, dict[str, Any]] = {"web": {"url": url}, "program": program}
    for servers in ([settings], mapping):
        config = ToolEngineConfig(mcp_servers=servers)
        for shown in (repr(config), pretty_repr(config)):
            assert KEY not in shown
            assert "web" in shown
