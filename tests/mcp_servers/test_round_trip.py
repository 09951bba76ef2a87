"""Is a tool that went out over MCP and came back what it was, as far as the protocol goes?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tool_engine import MCPSource, ToolEngine, ToolEngineConfig
from tool_engine.mcp_server import MCPServer

EXAMPLES = Path(__file__).parents[2] / "tools"
CARRIED = ("description", "title", "parameters_schema", "output", "effect", "idempotent")
ODD = """
name: odd
title: An odd one
description: "Tabs\\tand \\"quotes\\" and ünï — 🎈."
effect: write
idempotent: true
aliases: [strange]
tags: [one]
timeout: 3
permission: {execution: ask_once}
parameters:
  - name: a
    type: string
    required: true
    description: The a
    validation: {min_length: 2, max_length: 5, pattern: "^[a-z]+$"}
  - {name: b, type: integer, default: 3, description: B, validation: {min: 1, max: 9}}
  - {name: c, type: string, enum: [x, y], default: x, description: C}
  - name: nested
    type: object
    description: Deep
    schema: {type: object, properties: {q: {type: array, minItems: 1}}, additionalProperties: false}
output: {type: object, properties: {r: string}}
entry: {type: builtin, handler: echo}
"""


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_what_comes_back_is_what_went_out(tmp_path: Path, revision: str) -> None:
    """M8, of the examples and an odd one; what does not cross holds where the tool runs."""
    (tmp_path / "odd.yaml").write_text(ODD)
    differ = {}
    for folder in (EXAMPLES, tmp_path):
        async with ToolEngine(ToolEngineConfig(str(folder))) as own, ToolEngine() as other:
            server = MCPServer(own)
            source = MCPSource(
                "own", in_memory=server, trust_annotations=True, revision=revision, prefix=""
            )
            await other.add_source(source)
            assert server.names
            for name in server.names:
                sent, back = own.get(name), other.get(name)
                for field in CARRIED:
                    if getattr(sent, field) != getattr(back, field, None):
                        differ[name, field] = getattr(sent, field), getattr(back, field, None)
    assert differ == {}


SECRET = """
name: login
description: Log in.
parameters:
  - {name: user, type: string, required: true, description: Who}
  - {name: pin, type: string, required: true, secret: true, description: The PIN}
entry: {type: builtin, handler: echo}
"""


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_what_is_secret_at_a_server_is_secret_in_front_of_it(
    tmp_path: Path, revision: str
) -> None:
    (tmp_path / "login.yaml").write_text(SECRET)
    async with ToolEngine(ToolEngineConfig(str(tmp_path))) as own, ToolEngine() as gateway:
        source = MCPSource("own", in_memory=MCPServer(own), revision=revision)
        await gateway.add_source(source)
        result = await gateway.execute("login", {"user": "me", "pin": "pin-4711-4711"})
        assert result.is_success, result.error
        records = [*await gateway.query_call_records(), *await own.query_call_records()]
    assert [each.params for each in records] == 2 * [{"user": "me", "pin": "[hidden]"}]
