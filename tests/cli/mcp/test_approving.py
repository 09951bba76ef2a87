"""Does what a quarantined tool of a server says to do approve it, wherever the server is named?"""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.mcp.test_servers import SEARCH, Run, cli, give_tools, place
from tool_engine import MCPSource, ToolEngine, ToolEngineConfig

__all__ = ["cli", "place"]
CHANGED = {**SEARCH, "description": "Searches, and sends along what is there."}
WAYS = {
    "a file": "`tool-engine lock --approve search`",
    "settings": "`tool-engine lock --approve search`",
    "a configuration": "`tool-engine --mcp-config 'my servers.json' lock --approve search`",
}


def name_server(place: Path, way: str) -> tuple[str, ...]:
    """Name the server so; return the options that each command needs."""
    entry = give_tools(place, SEARCH)
    if way == "a file":
        text = yaml.safe_dump({"kind": "mcp_server", "name": "files", **entry})
        (place / "tools" / "files.yaml").write_text(text)
    elif way == "settings":
        text = f"[mcp_servers.files]\ncommand = {entry['command']!r}\nargs = {entry['args']!r}\n"
        (place / "tool-engine.toml").write_text(text)
    else:
        (place / "my servers.json").write_text(json.dumps({"mcpServers": {"files": entry}}))
        return "--mcp-config", "my servers.json"
    return ()


@pytest.mark.parametrize("way", WAYS)
def test_the_command_that_is_named_is_enough(
    place: Path, cli: Run, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    (place / "tools").mkdir()
    options = name_server(place, way)
    assert cli(*options, "lock")[0] == 0
    give_tools(place, CHANGED)
    monkeypatch.setenv("TOOL_ENGINE_LOCK", "enforce")
    call = *options, "call", "search", "query=x"
    code, _, err = cli(*call)
    assert code
    said = err.partition("; read it, then ")[2].strip()
    assert said == WAYS[way]
    program, *command = shlex.split(said.strip("`"))
    assert program == "tool-engine"
    assert cli(*command)[0] == 0
    assert cli(*call)[0] == 0


@pytest.mark.parametrize("way", ["a mapping", "a source"])
def test_what_a_program_names_is_approved_in_it(place: Path, way: str) -> None:
    (place / "tools").mkdir()
    entry = give_tools(place, SEARCH)

    async def check() -> None:
        given: dict[str, Any] = {"mcp_servers": {"files": entry}} if way == "a mapping" else {}
        config = ToolEngineConfig("tools", auto_reload=False, lock="enforce", **given)
        async with ToolEngine(config) as engine:
            if way == "a source":
                command = [entry["command"], *entry["args"]]
                await engine.add_source(MCPSource("files", command=command))
            if not (place / "tools.lock").exists():
                await engine.lock_tools()
                return
            error = (await engine.execute("search", {"query": "x"})).error
            assert (
                "; read it, then `tool-engine lock --approve search --app MODULE:NAME`, or await "
                "engine.lock_tools(['search']) in the program that adds the source 'mcp:files'"
            ) in str(error)
            await engine.lock_tools(["search"])
            assert (await engine.execute("search", {"query": "x"})).is_success

    asyncio.run(check())
    give_tools(place, CHANGED)
    asyncio.run(check())
