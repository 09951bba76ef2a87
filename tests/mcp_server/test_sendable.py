"""Can a client read what is no text elsewhere?"""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client, types
from mcp.shared.exceptions import MCPError

from tests.mcp_server.conftest import ERAS, text_of
from tests.mcp_server.test_transports import serving
from tool_engine import ToolEngine
from tool_engine.mcp_server import MCPServer, find_request

HALF = "half \ud800"
SHOWN = "half \\ud800"


def fail() -> str:
    raise RuntimeError(HALF)


async def ask() -> str:
    """Ask the client."""
    request = find_request()
    assert request is not None
    answer = await request.elicit("name", HALF, {"type": "object", "properties": {}})
    return str(answer["action"])


LINK = {"content": [{"type": "resource_link", "uri": "a:b", "name": HALF}]}
OBJECT = {"type": "object"}
TOOLS = {
    "declared": ({"output": OBJECT}, lambda: {HALF: HALF}),
    "content": ({}, lambda: {"content": [], "structuredContent": {"a": HALF}}),
    "link": ({}, lambda: LINK),
    "long": ({"output": OBJECT}, lambda: {"a": HALF * 20_000, "b": "\x85\u2028"}),
    "break": ({}, fail),
    "ask": ({}, ask),
}


async def answer(context: Any, params: Any) -> Any:
    del context
    assert params.message == SHOWN
    return types.ElicitResult(action="accept", content={})


@pytest.mark.parametrize("era", ERAS)
async def test_half_of_a_pair_is_shown_as_its_escape(engine: ToolEngine, era: str) -> None:
    """As names of files have it; no answer is lost for it, whatever it stands in."""
    for name, (more, run) in TOOLS.items():
        definition = {"name": name, "description": "Gives it.", "parameters": [], **more}
        engine.register_tool(definition, run)
    server = MCPServer(engine)
    server.add_prompt("prompt", lambda: HALF, description=HALF)
    server.add_resource("a:b", lambda: HALF, name=HALF)
    client: Any
    async with (
        serving(engine, server) as url,
        Client(url, mode=era, elicitation_callback=answer) as client,
    ):
        results: dict[str, Any] = {name: await client.call_tool(name, {}) for name in TOOLS}
        (prompt,) = (await client.get_prompt("prompt")).messages
        (content,) = (await client.read_resource("a:b")).contents
        names = [each.name for each in (await client.list_resources()).resources]
        with pytest.raises(MCPError):
            await client.read_resource("c:d")

    assert results["declared"].structured_content == {SHOWN: SHOWN}
    assert results["content"].structured_content == {"a": SHOWN}
    assert results["link"].content[0].name == SHOWN
    assert results["long"].structured_content == {"a": SHOWN * 20_000, "b": "\x85\u2028"}
    assert SHOWN in text_of(results["break"])
    assert text_of(results["ask"]) == "accept"
    assert prompt.content.text == content.text == SHOWN
    assert names == [SHOWN]
