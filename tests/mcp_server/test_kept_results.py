"""Where does a client read the whole of a result that was cut?"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer as SDKServer
from mcp.shared.exceptions import MCPError

from tests.mcp_server.conftest import ERAS, Connect, text_of
from tests.mcp_server.test_transports import words_of
from tests.mcp_servers.programs import parameters
from tool_engine import MCPSource, ToolEngine
from tool_engine.mcp_server import MCPServer, ToolSelection

LONG = "word " * 1_000


@pytest.fixture
def long_engine(engine: ToolEngine) -> ToolEngine:
    """An engine with tools whose results are too long."""
    limited: dict[str, Any] = {
        "description": "Gives much.",
        "parameters": [],
        "entry": {"type": "custom"},
        "result": {"max_chars": 400},
    }
    engine.register_tool({**limited, "name": "text"}, lambda: LONG)
    engine.register_tool({**limited, "name": "rows"}, lambda: {"rows": list(range(1_000))})
    engine.register_tool({**limited, "name": "short"}, lambda: "short")
    engine.register_tool(
        {**limited, "name": "letters", "permission": {"result": "always"}}, lambda: LONG
    )
    return engine


def links_of(result: Any) -> list[str]:
    return [str(each.uri) for each in result.content if each.type == "resource_link"]


async def read(client: Any, uri: str) -> Any:
    (content,) = (await client.read_resource(uri)).contents
    return content


async def test_a_cut_result_has_a_link_to_the_whole(
    long_engine: ToolEngine, connect: Connect
) -> None:
    async with connect(MCPServer(long_engine)) as client:
        text, rows, short, letters = [
            await client.call_tool(name, {}) for name in ("text", "rows", "short", "letters")
        ]
        (to_text,), (to_rows,) = links_of(text), links_of(rows)
        whole, numbers = await read(client, to_text), await read(client, to_rows)

    assert len(text_of(text)) <= 400
    assert (whole.mime_type, whole.text) == ("text/plain", LONG)
    assert numbers.mime_type == "application/json"
    assert json.loads(numbers.text) == {"rows": list(range(1_000))}
    assert links_of(short) == links_of(letters) == []


async def test_clients_take_what_is_left_of_what_was_declared(
    engine: ToolEngine, connect: Connect
) -> None:
    """They hold results against what a tool declares, and a part of it is no longer so."""
    limited: dict[str, Any] = {
        "description": "Gives much.",
        "parameters": [],
        "entry": {"type": "custom"},
        "result": {"max_chars": 400},
    }
    strict: dict[str, Any] = {
        "type": "object",
        "properties": {"rows": {"type": "array", "minItems": 1_000}},
    }
    strict |= {"required": ["rows"], "additionalProperties": False}
    rows = {**limited, "name": "rows", "output": strict}
    engine.register_tool(rows, lambda: {"rows": list(range(1_000))})
    text = {**limited, "name": "text", "output": {"type": "string", "minLength": 1_000}}
    engine.register_tool(text, lambda: LONG)
    other = SDKServer("other")

    @other.tool()
    def tell() -> str:
        """Tell much."""
        return LONG

    cut = {"result": limited["result"]}
    await engine.add_source(MCPSource("other", in_memory=other, definition=cut))
    async with connect(MCPServer(engine)) as client:
        told = {each.name: each.output_schema for each in (await client.list_tools()).tools}
        results = {name: await client.call_tool(name, {}) for name in ("rows", "text", "tell")}
        whole = {name: await read(client, *links_of(each)) for name, each in results.items()}

    assert [told[name] for name in results] == [None] * 3
    assert [each.structured_content for each in results.values()] == [None] * 3
    assert all(len(text_of(each)) <= 400 for each in results.values())
    assert text_of(results["tell"]).startswith("word word")
    assert "Shortened" in text_of(results["tell"])
    assert LONG in json.loads(whole["tell"].text)["content"][0]["text"]


async def test_a_link_is_of_one_principal(long_engine: ToolEngine, connect: Connect) -> None:
    """Neither another one nor a guess reads it; to them it is as if there were none."""
    who: list[str | None] = ["ann"]
    async with connect(MCPServer(long_engine, principal=lambda _: who[0])) as client:
        (uri,) = links_of(await client.call_tool("text", {}))
        call_id = uri.split("/")[3]
        guesses = [f"tool-engine://results/{call_id}/{'A' * 22}", uri[:-1] + "_", uri + "A"]
        refused = []
        for guess in guesses:
            with pytest.raises(MCPError, match="Resource not found"):
                await client.read_resource(guess)
        for other in ("bob", None, ""):
            who[0] = other
            with pytest.raises(MCPError, match="Resource not found") as error:
                await client.read_resource(uri)
            refused.append(error.value.code)
        who[0] = "ann"
        assert (await read(client, uri)).text == LONG

    assert refused == [-32602] * 3


async def test_a_link_to_a_result_of_a_hidden_tool(
    long_engine: ToolEngine, connect: Connect
) -> None:
    """A tool that is taken from clients takes its results with it."""
    keys = [b"k" * 32]
    async with connect(MCPServer(long_engine, state_keys=keys)) as client:
        (uri,) = links_of(await client.call_tool("text", {}))
    hidden = ToolSelection(names=("rows",))
    async with connect(MCPServer(long_engine, state_keys=keys, expose=hidden)) as client:
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource(uri)


async def test_servers_that_share_their_keys_share_links(
    long_engine: ToolEngine, connect: Connect
) -> None:
    """A link goes on when the server was started again with its keys; else it is none."""
    old, new = b"o" * 32, b"n" * 32
    async with connect(MCPServer(long_engine, state_keys=[old])) as client:
        (uri,) = links_of(await client.call_tool("text", {}))
    async with connect(MCPServer(long_engine, state_keys=[new, old])) as client:
        assert (await read(client, uri)).text == LONG
    async with connect(MCPServer(long_engine, state_keys=[new])) as client:
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource(uri)


LONG_ECHO = """
name: long
description: Says a text again.
parameters:
  - {name: message, type: string, required: true, description: The text}
entry: {type: builtin, handler: echo}
result: {max_chars: 400}
"""
READ_RESULT = """
name: read_result
description: Reads on.
parameters:
  - {name: call_id, type: string, required: true, description: The call}
  - {name: offset, type: integer, default: 0, description: Where to begin}
entry: {type: builtin, handler: read_result}
"""


@pytest.mark.parametrize("era", ERAS)
def test_a_client_reads_on_in_its_own_results(tmp_path: Path, era: str) -> None:
    """A client that started the server has no name; its calls belong together all the same."""
    (tmp_path / "long.yaml").write_text(LONG_ECHO)
    (tmp_path / "read_result.yaml").write_text(READ_RESULT)

    async def use() -> tuple[Any, Any]:
        words = words_of(tmp_path, "mcp", "serve")
        command = parameters(*words)
        async with Client(command, mode=era) as client:
            cut = await client.call_tool("long", {"message": LONG})
            assert cut.meta is not None
            call_id = cut.meta["tool-engine/call_id"]
            return cut, await client.call_tool("read_result", {"call_id": call_id})

    cut, rest = asyncio.run(use())
    assert "read_result" in text_of(cut)
    assert not rest.is_error, text_of(rest)
    assert LONG in text_of(rest)
