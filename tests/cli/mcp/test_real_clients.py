"""What the clients themselves make of an entry: each that is on PATH reads it, and connects.

None needs an account for it. They are programs of npm: `@anthropic-ai/claude-code`,
`@google/gemini-cli` and `@openai/codex`, some 760 MB, which nothing here installs.
"""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server.test_transports import TOOL, serving, write_tokens
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.cli.app import run

SECRET = "only-ann-knows-this"
PATIENCE_MS = 200_000
"""Each has a bound of its own for the start of a server: 5 s, 10 s, 30 s."""
WAYS = ["stdio", "http", "http with a token", "http with a wrong token"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one tool, in which a client finds no settings but ours."""
    for name in ("tools", "home/.claude", "home/.gemini", "home/.codex"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "tools" / "shout.yaml").write_text(TOOL)
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "HOME": str(tmp_path / "home"),
        "CODEX_HOME": str(tmp_path / "home" / ".codex"),
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "MCP_TIMEOUT": str(PATIENCE_MS),
        "TOOL_ENGINE_RECORDS": "none",
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


async def ask(*words: str) -> str:
    """What a program prints."""
    pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    program = await asyncio.create_subprocess_exec(*words, stdin=none, stdout=pipe, stderr=pipe)
    out, error = await program.communicate()
    return (out + error).decode()


async def ask_claude(folder: Path, entry: str) -> bool:
    (folder / ".mcp.json").write_text(entry)
    # That of a project is asked about, else.
    settings = {"enableAllProjectMcpServers": True}
    (folder / "home" / ".claude" / "settings.json").write_text(json.dumps(settings))
    said = await ask("claude", "mcp", "list")
    assert "tool-engine: " in said, said
    return "Connected" in said


async def ask_gemini(folder: Path, entry: str) -> bool:
    settings = json.loads(entry)
    settings["mcpServers"]["tool-engine"]["timeout"] = PATIENCE_MS
    (folder / "home" / ".gemini" / "settings.json").write_text(json.dumps(settings))
    said = await ask("gemini", "mcp", "list")
    assert "tool-engine: " in said, said
    return "Connected" in said


async def ask_codex(folder: Path, entry: str) -> bool:
    """Its list of servers connects to none; what its windows speak to does."""
    patient = f"{entry}startup_timeout_sec = {PATIENCE_MS // 1_000}\n"
    (folder / "home" / ".codex" / "config.toml").write_text(patient)
    pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    program = await asyncio.create_subprocess_exec(
        "codex", "app-server", stdin=pipe, stdout=pipe, stderr=none, limit=2**24
    )
    assert program.stdin is not None
    assert program.stdout is not None
    about = {"clientInfo": {"name": "test", "title": "test", "version": "1"}}
    for message in (
        {"id": 1, "method": "initialize", "params": about},
        {"method": "initialized"},
        {"id": 2, "method": "mcpServerStatus/list", "params": {}},
    ):
        program.stdin.write(json.dumps(message).encode() + b"\n")
    try:
        async for line in program.stdout:
            said = json.loads(line)
            if said.get("id") == 2:
                ((name, tools),) = [(e["name"], e["tools"]) for e in said["result"]["data"]]
                assert name == "tool-engine"
                return list(tools) == ["shout"]
    finally:
        # What npm has put on PATH only starts another, which ends with its input.
        program.stdin.close()
        await program.wait()
    raise AssertionError("it ended before it had answered")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("program", "client", "connects"),
    [
        ("claude", "claude-code", ask_claude),
        ("gemini", "gemini", ask_gemini),
        ("codex", "codex", ask_codex),
    ],
    ids=["claude", "gemini", "codex"],
)
async def test_a_client_connects(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    program: str,
    client: str,
    connects: Any,
    way: str,
) -> None:
    """By the entry that `mcp install` prints for it, with the token of the variable it names."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not on PATH")
    words, tokens = ["mcp", "install", client], write_tokens(folder / "tokens.yaml", ann=SECRET)
    monkeypatch.setenv("MCP_TOKEN", "another" if "wrong" in way else SECRET)
    async with ToolEngine(ToolEngineConfig(tools_directory=str(folder / "tools"))) as engine:
        options: dict[str, Any] = {"token_file": tokens} if "token" in way else {}
        async with serving(engine, **options) as url:
            if way != "stdio":
                words += ["--http", url.split("/")[2]]
            if "token" in way:
                words += ["--token-file", tokens]
            assert await asyncio.to_thread(run, words) == 0
            assert await connects(folder, capsys.readouterr().out) is ("wrong" not in way)
