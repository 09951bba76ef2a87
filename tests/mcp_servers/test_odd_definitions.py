"""Is an odd definition that goes out over MCP, and comes back into a file, the same to a client?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine import MCPSource, Tool, ToolConfigLoader, ToolEngine
from tool_engine.cli.mcp.import_word import write_tool
from tool_engine.mcp_server import MCPServer
from tool_engine.protocols import definition_findings


def one(name: str = "a", kind: str = "string", **keys: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "description": "One.", **keys}


def whole(**keys: Any) -> dict[str, Any]:
    return {"parameters": {"type": "object", **keys}}


def schema(**properties: Any) -> dict[str, Any]:
    return whole(properties=properties)


REF = {"$ref": "#/$defs/n"}
NODE = {"type": "object", "properties": {"kids": {"type": "array", "items": REF}}}
LINES = "One.\n\n  - two: yes\n\ttab\n# no\n'a' \"b\" {c: d} %e\n---\n...\nend"
ODD: dict[str, dict[str, Any]] = {
    "refers": whole(properties={"t": REF}, **{"$defs": {"n": NODE}}),
    "values": schema(a={"const": None}, b={"enum": [1, "1", None, True, 1.5]}),
    "one_of": schema(a={"oneOf": [{"type": "string"}, {"type": "integer", "minimum": 3}]}),
    "all_of": whole(allOf=[{"required": ["a"]}]),
    "tuple": schema(a={"type": "array", "prefixItems": [{"type": "string"}], "items": False}),
    "dependent": whole(dependentRequired={"a": ["b"]}),
    "closed": whole(properties={"a": {}}, additionalProperties=False),
    "open": whole(properties={"a": {}}, additionalProperties=True),
    "patterns": whole(patternProperties={"^x-": {}}),
    "none": {"parameters": []},
    "any": whole(),
    "large": {"parameters": [one(kind="integer", validation={"min": -(2**63), "max": 2**63 - 1})]},
    "small": {"parameters": [one(kind="number", validation={"min": 1e-300, "max": 1e300})]},
    "names": {"parameters": [one("_meta"), one("name"), one("arguments", "object"), one("type")]},
    "letters": {"parameters": [one("größe"), one("名")], "description": "描述 🙂 – naïve"},
    "lines": {"description": LINES},
    "marks": {"parameters": [one(description="a: b # c\n- d")]},
    "long": {"description": "x" * 5_000},
    "title": {"title": "A: title #1"},
    "hints": {"annotations": {"destructiveHint": True, "openWorldHint": False, "title": "t"}},
    "own_hint": {"annotations": {"destructive": True}},
    "list": {"output": {"type": "array", "items": {"type": "integer"}}},
    "number": {"output": {"type": "integer", "description": "N."}},
    "object": {"output": {"type": "object", "properties": {"n": "integer"}, "required": ["n"]}},
    "cut": {"output": {"type": "object"}, "result": {"max_chars": 100}},
    "limits": {"timeout": 3, "rate": "5/min", "tags": ["x"], "category": "file", "aliases": ["z"]},
    "secret": {"parameters": [one(secret=True, required=True)]},
    "secret_default": {"parameters": [one(secret=True, default="abc")]},
    "formats": schema(a={"type": "string", "format": "date-time"}),
    "pattern": schema(a={"pattern": "^[a-z]{2,}\\d$"}),
    "booleans": schema(a=True, b={}),
    "conditions": whole(**{"if": {"required": ["a"]}}, then={"required": ["b"]}),
    "words": {"parameters": [one("yes", "boolean", default=False), one("no", enum=["on", "~"])]},
    "texts": {"parameters": [one(default="012", enum=["2020-01-01", "0x10", "1e3", "012"])]},
    "blanks": {"parameters": [one(default=" tab\tline\n\u2028 end ")]},
    "not": schema(a={"exclusiveMinimum": 0, "not": {"const": 7}}),
    "contains": schema(a={"type": "array", "contains": {"const": 1}, "minContains": 2}),
    "further": whole(propertyNames={"maxLength": 3}, minProperties=1),
    "remarks": schema(a={"deprecated": True, "readOnly": True, "examples": ["x"]}),
    "version": {"version": "2.3.4", "effect": "write", "idempotent": True},
    "dot.and-dash": {},
    "n" * 64: {},
}  # fmt: skip
SAID = {"long": "what is behind the first 4,000 was left out", "own_hint": "is no key of MCP"}
"""What is lost, and what says so."""


def describe(tool: Tool) -> dict[str, Any]:
    engine = ToolEngine()
    engine.register_tools([(tool, None)])
    (described,) = engine.tool_definitions("mcp", [tool.name])
    return described


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_odd_definitions(revision: str) -> None:
    """M8: each is told the same, or what is lost is said."""
    usual = {"description": "Does it.", "parameters": [one()]}
    entry = {"entry": {"type": "builtin", "handler": "echo"}}
    sent = [
        ToolConfigLoader().from_mapping({"name": name, **usual, **odd, **entry})
        for name, odd in ODD.items()
    ]
    async with ToolEngine() as own, ToolEngine() as other:
        own.register_tools([(tool, None) for tool in sent])
        server = MCPServer(own)
        await other.add_source(
            MCPSource("own", in_memory=server, revision=revision, trust_annotations=True)
        )
        assert other.load_errors == []
        for tool in sent:
            back = other.get(tool.name)
            assert back is not None
            written = write_tool(back)
            again = ToolConfigLoader().load_text(written.text.encode())
            said = [*written.lost, *map(str, definition_findings("mcp", [tool]))]
            is_same = describe(tool) == describe(back) == describe(again)
            assert is_same is (tool.name not in SAID), tool.name
            assert SAID.get(tool.name, "") in str(said)
