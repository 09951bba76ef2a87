"""What errors about servers of tools say to do is done, and it works.

The rows are as those of `test_cures_of_errors`. Those of `.mcp.json`: `tests/catalog/servers`.
"""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.test_cures_of_errors import names_cure
from tests.mcp_servers.programs import entry
from tool_engine import ConfigurationError, ToolEngine, ToolEngineConfig
from tool_engine.cli.app import run
from tool_engine.executors.mcp.mcp_source import MCPSource
from tool_engine.mcp_server import MCPServer

ANOTHER = "cli/mcp/import_word.py: name another with --output DIR"
REMOVE = "cli/mcp/import_word.py: remove it, or name another folder with --output DIR"
TAKE_OUT = "cli/mcp/import_word.py: take this one out of it, or leave out --force"
NAME_IT = "executors/mcp/file_tool.py: name it in mcp_servers, or in a file with kind: mcp_server"
SET_IT = "mcp_servers/settings.py: set it before the engine starts, or write ${env:…:-default}"
SAME = "executors/mcp/file_tool.py: write the same permission into the file"
LISTED = "see tool-engine mcp list"
OF_CALL, OF_IMPORT = (f"cli/mcp/{word}_word.py: {LISTED}" for word in ("call", "import"))
ANEW = "executors/mcp/mcp_source.py: make another MCPSource of source.settings"
START = "executors/mcp/http.py: start it, or correct its url"
RAISE = "executors/mcp/connection.py: raise its connect_timeout if it takes longer to start"
OF_TOOLS = (
    "executors/mcp/mcp_source.py: write definition={…: ...}, or tools={NAME: {…: ...}} for "
    "single ones"
)
TRIED = {START, RAISE, OF_TOOLS}
TRIED |= {OF_CALL, OF_IMPORT, ANOTHER, ANEW, REMOVE, TAKE_OUT, NAME_IT, SET_IT, SAME}
SHOUT = {
    "name": "shout",
    "description": "Shouts.",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
    "entry": {"type": "mcp", "server": "one", "tool": "echo"},
}


def engine_of(folder: Path, entries: dict[str, Any]) -> ToolEngine:
    config = ToolEngineConfig(str(folder / "tools"), mcp_servers=entries, auto_reload=False)
    return ToolEngine(config)


async def test_variables_that_are_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is set, or has a default."""
    (tmp_path / "tools").mkdir()
    monkeypatch.delenv("WHO_IS_IT", raising=False)
    async with engine_of(tmp_path, {"one": {**entry(), "env": {"WHO": "${WHO_IS_IT}"}}}) as engine:
        ((_, message),) = engine.load_errors
        assert names_cure(SET_IT, message), message
        monkeypatch.setenv("WHO_IS_IT", "me")
        await engine.reload()
        assert engine.load_errors == []
    monkeypatch.delenv("WHO_IS_IT")
    written = {**entry(), "env": {"WHO": "${env:WHO_IS_IT:-default}"}}
    async with engine_of(tmp_path, {"one": written}) as engine:
        result = await engine.execute("whoami", {})
        assert result.output["content"][0]["text"].endswith(" default")


async def test_a_source_of_another_engine(tmp_path: Path) -> None:
    """Another source of the same settings is that server's, too."""
    (tmp_path / "tools").mkdir()
    program = entry()
    command = [program["command"], *program["args"]]
    source = MCPSource("one", command=command, env=program["env"])
    async with engine_of(tmp_path, {}) as first, engine_of(tmp_path, {}) as second:
        await first.add_source(source)
        with pytest.raises(ConfigurationError) as raised:
            await second.add_source(source)
        assert names_cure(ANEW, str(raised.value)), raised.value
        await second.add_source(MCPSource(source.settings))
        for engine in (first, second):
            assert (await engine.execute("echo", {"text": "hi"})).is_success


@pytest.mark.parametrize(
    "right", [{"definition": {"timeout": 7.0}}, {"tools": {"echo": {"timeout": 7.0}}}]
)
async def test_what_is_about_tools(tmp_path: Path, right: dict[str, Any]) -> None:
    """It holds for each of them, or for the one that is named."""
    (tmp_path / "tools").mkdir()
    program = entry()
    reached: Any = {"command": [program["command"], *program["args"]], "env": program["env"]}
    with pytest.raises(ConfigurationError) as raised:
        MCPSource("one", **reached, timeout=7.0)
    assert names_cure(OF_TOOLS, str(raised.value)), raised.value
    async with engine_of(tmp_path, {}) as engine:
        await engine.add_source(MCPSource("one", **reached, **right))
        assert engine.index.get_or_raise("echo").timeout == 7.0


async def test_servers_that_are_not_there(tmp_path: Path) -> None:
    """It is named in the configuration, or in a file."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "shout.yaml").write_text(json.dumps(SHOUT))
    async with engine_of(tmp_path, {}) as engine:
        result = await engine.execute("shout", {"text": "hi"})
        assert names_cure(NAME_IT, str(result.error)), result.error
        definition = {"kind": "mcp_server", "name": "one", **entry()}
        (tmp_path / "tools" / "one.yaml").write_text(json.dumps(definition))
        await engine.reload()
        assert (await engine.execute("shout", {"text": "hi"})).is_success
    async with engine_of(tmp_path, {"one": entry()}) as engine:
        assert (await engine.execute("shout", {"text": "hi"})).is_success


def test_files_that_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another folder is taken, and so is the same one without the file."""
    config, folder = tmp_path / ".mcp.json", tmp_path / "out"
    config.write_text(json.dumps({"mcpServers": {"one": entry()}}))

    def write(output: Path, *more: str) -> tuple[int, str]:
        words = ["--mcp-config", str(config), "--tools", str(tmp_path), "mcp", "import", "one"]
        code = run([*words, "--tool", "echo", "--output", str(output), *more])
        return code, capsys.readouterr().err

    assert write(folder)[0] == 0
    assert write(folder)[0] == 0, "the same text again is no change"
    (folder / "echo.yaml").write_text("mine")
    code, said = write(folder)
    assert code == 2
    assert names_cure(REMOVE, said.strip()), said
    assert write(tmp_path / "other")[0] == 0
    (folder / "echo.yaml").unlink()
    assert write(folder)[0] == 0
    code, said = write(config)
    assert code == 2
    assert names_cure(ANOTHER, said.strip()), said
    text = (folder / "echo.yaml").read_text().replace("timeout:", "timeout: 7 #")
    text = text if "timeout: 7" in text else f"{text}timeout: 7\n"
    several = f"kind: group\nname: g\ndescription: All.\ntags: [a]\n---\n{text}"
    (folder / "echo.yaml").write_text(several)
    code, said = write(folder, "--force")
    assert code == 2
    assert names_cure(TAKE_OUT, said.strip()), said
    assert write(folder)[0] == 1, "it differs, and stays"
    (folder / "echo.yaml").write_text(text)
    assert write(folder, "--force")[0] == write(folder)[0] == 0


async def test_servers_that_do_not_answer(tmp_path: Path) -> None:
    """One that is started is reached; one that has longer answers."""
    (tmp_path / "tools").mkdir()
    async with ToolEngine() as served:
        server, ready = MCPServer(served), asyncio.Event()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            one = {"url": f"http://127.0.0.1:{port}/mcp"}
            async with engine_of(tmp_path, {"one": one}) as engine:
                ((_, message),) = engine.load_errors
        assert names_cure(START, message), message
        serving = asyncio.create_task(server.run_http(port=port, on_ready=lambda _: ready.set()))
        await ready.wait()
        async with engine_of(tmp_path, {"one": one}) as engine:
            assert engine.load_errors == []
        serving.cancel()
        await asyncio.wait([serving])
    async with engine_of(tmp_path, {"one": entry(connect_timeout=0.001)}) as engine:
        ((_, message),) = engine.load_errors
        assert names_cure(RAISE, message), message
    async with engine_of(tmp_path, {"one": entry(connect_timeout=60)}) as engine:
        assert engine.load_errors == []


async def test_a_permission_of_the_server(tmp_path: Path) -> None:
    """With it in the file, too, a person is asked."""
    (tmp_path / "tools").mkdir()
    file = tmp_path / "tools" / "shout.yaml"
    file.write_text(json.dumps(SHOUT))
    one = entry("one", tools={"echo": {"permission": "ask_once"}})
    async with engine_of(tmp_path, {"one": one}) as engine:
        refused = await engine.execute("shout", {"text": "hi"})
        assert names_cure(SAME, str(refused.error)), refused.error
        file.write_text(json.dumps({**SHOUT, "permission": "ask_once"}))
        await engine.reload()
        asked = await engine.execute("shout", {"text": "hi"})
        assert asked.error_type == "execution_rejected"


def test_servers_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The list says what is wrong."""
    config = tmp_path / ".mcp.json"
    config.write_text(json.dumps({"mcpServers": {"one": {"command": 3}}}))
    words = ["--mcp-config", str(config), "--tools", str(tmp_path), "--records", "none", "mcp"]
    for cure, asked in ((OF_CALL, ["call", "one", "echo"]), (OF_IMPORT, ["import", "one"])):
        assert run([*words, *asked]) == 1
        said = capsys.readouterr().err.splitlines()[-1]
        assert names_cure(cure, said), said
    assert run([*words, "list"]) == 1
    assert "mcpServers.one.command: expected text" in capsys.readouterr().out
