"""What does a client hear when the code of a prompt or a resource fails?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.mcp_server.conftest import Connect
from tool_engine import ToolEngine
from tool_engine.mcp_server import MCPServer

INTERNAL = -32603


def fail() -> str:
    raise ValueError("the disk is full")


def leave() -> str:
    raise SystemExit(3)


async def give_up() -> str:
    """Wait for what was cancelled, which is no wish of the client."""
    waited_for: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    waited_for.cancel()
    return await waited_for


def end() -> str:
    raise BaseException("the end")


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (leave, "the prompt 'greet' failed: SystemExit: 3"),
        (give_up, "the prompt 'greet' failed: CancelledError"),
        (end, "the prompt 'greet' failed: BaseException: the end"),
        (fail, "the prompt 'greet' failed: ValueError: the disk is full"),
        (lambda: 5, "must return a text or a list of messages, got int"),
        (lambda: [5], "returned a message that is none: 5"),
        (lambda: [{"role": "user"}], "returned a message that is none: {'role': 'user'}"),
    ],
)
async def test_a_prompt_that_fails_is_no_fault_of_the_client(
    engine: ToolEngine, connect: Connect, write: Callable[[], Any], words: str
) -> None:
    """The error says which prompt, and why; an answer without messages is none."""
    server = MCPServer(engine)
    server.add_prompt("greet", write)
    async with connect(server) as client:
        with pytest.raises(MCPError) as raised:
            await client.get_prompt("greet")
    assert raised.value.code == INTERNAL
    assert words in raised.value.message


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (leave, "the resource 'docs://guide' failed: SystemExit: 3"),
        (give_up, "the resource 'docs://guide' failed: CancelledError"),
        (fail, "the resource 'docs://guide' failed: ValueError: the disk is full"),
        (lambda: 5, "must be a text or bytes, got int"),
    ],
)
async def test_a_resource_that_fails_says_so(
    engine: ToolEngine, connect: Connect, read: Callable[[], Any], words: str
) -> None:
    server = MCPServer(engine)
    server.add_resource("docs://guide", read)
    async with connect(server) as client:
        with pytest.raises(MCPError) as raised:
            await client.read_resource("docs://guide")
    assert raised.value.code == INTERNAL
    assert words in raised.value.message
