"""What does the command line do to serve an engine, and to say to whom?"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from tool_engine.cli.app import run

DEADLINE = 30.0
ECHO = """
name: say
description: Says it again.
effect: read
parameters:
  - {name: message, type: string, required: true, description: What to say}
entry: {type: builtin, handler: echo}
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "say.yaml").write_text(ECHO)
    return folder


async def start(tools: Path, *words: str) -> tuple[asyncio.subprocess.Process, str]:
    """A server that runs, and its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tool_engine.cli", "--tools", str(tools), "serve", "--port", "0", *words),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    first = (await process.stderr.readline()).decode()
    assert first.startswith("serving 1 tools at http://127.0.0.1:"), first
    return process, first.split()[-1]


async def test_a_server_with_tokens_that_ends_at_a_signal(tools: Path, tmp_path: Path) -> None:
    """One with a token calls; SIGTERM lets open requests end, and ends the server."""
    path = tmp_path / "tokens.yaml"
    made = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tool_engine.cli", "token", "new", "ann", "--file", str(path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    token = (await made.communicate())[0].decode().strip()
    async with asyncio.timeout(DEADLINE), aiohttp.ClientSession() as http:
        process, url = await start(tools, "--token-file", str(path), "--mcp", "--grace", "1")
        headers = {"authorization": f"Bearer {token}"}
        body = {"arguments": {"message": "hello"}}
        async with http.post(f"{url}/v1/tools/say/calls", json=body, headers=headers) as answer:
            assert (await answer.json())["output"] == {"message": "hello"}
        async with http.get(f"{url}/v1/tools") as answer:
            assert answer.status == 401
        async with http.get(f"{url}/mcp") as answer:
            assert answer.status == 401
        async with http.get(f"{url}/v1/events", headers=headers) as events:
            assert await events.content.readline() == b":\n"
            process.send_signal(signal.SIGTERM)
            assert await events.content.read() == b"\n"
        assert process.stderr is not None
        rest = await process.stderr.read()
        assert (await process.wait(), rest) == (128 + signal.SIGTERM, b"")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "say whose requests to take: --token-file FILE, or --no-auth"),
        (("--no-auth", "--token-file", "x"), "say whose requests to take"),
        (("--no-auth", "--host", "0.0.0.0"), "all who reach 0.0.0.0 could call every tool"),  # noqa: S104 - refused
        (("--token-file", "none.yaml"), "the token file 'none.yaml' cannot be read"),
        (("--no-auth", "--rate", "many"), "rate: not a rate: 'many'"),
    ],
)
def test_what_is_not_served(
    tools: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    """It is refused with its cure, before anything is served."""
    assert run(["--tools", str(tools), "serve", "--port", "0", *words]) == 2
    assert says in capsys.readouterr().err


def test_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tokens are made, listed and taken back; the file has none of them."""
    path = tmp_path / "tokens.yaml"
    words = ("--file", str(path), "--json")
    made = ["token", "new", "ann", "--scope", "call", "--tool", "notes_*", *words]
    assert run(made) == 0
    token = json.loads(capsys.readouterr().out)["token"]
    assert token not in path.read_text()
    assert run(["token", "new", "bob", "--expires", "2099-01-01T00:00:00Z", *words]) == 0
    capsys.readouterr()
    assert run(["token", "list", *words]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed == [
        {"name": "ann", "scopes": ["call"], "tools": ["notes_*"], "expires": None},
        {
            "name": "bob",
            "scopes": ["call", "read"],
            "tools": ["*"],
            "expires": "2099-01-01T00:00:00Z",
        },
    ]
    assert run(["token", "revoke", "ann", "--file", str(path)]) == 0
    assert "ann" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert run(["token", "revoke", "bob", "--file", str(path)]) == 0
    assert path.read_text() == "[]\n"  # a server that runs takes none any more


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("make", "ann"), "there is no `token make`"),
        (("new",), "`token new` needs a name"),
        (("new", "ann", "--scope", "write"), "scopes must be a list of call, read"),
        (("new", "ann", "--expires", "soon"), "expires must be a time with its zone"),
        (("revoke", "bob"), "has no token of 'bob'; did you mean 'bo'?"),
    ],
)
def test_tokens_that_are_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    """A wrong word leaves the file as it was."""
    path = tmp_path / "tokens.yaml"
    assert run(["token", "new", "bo", "--file", str(path)]) == 0
    before = path.read_text()
    assert run(["token", *words, "--file", str(path)]) == 2
    assert says in capsys.readouterr().err
    assert path.read_text() == before
    assert [each.name for each in tmp_path.iterdir()] == ["tokens.yaml"]


def test_a_file_that_is_no_token_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written beside what could not be read."""
    path = tmp_path / "tokens.yaml"
    path.write_text("name: something else\n")
    assert run(["token", "new", "ann", "--file", str(path)]) == 2
    assert path.read_text() == "name: something else\n"
    assert run(["token", "list", "--file", str(tmp_path / "none.yaml")]) == 2
    assert "cannot be read" in capsys.readouterr().err
