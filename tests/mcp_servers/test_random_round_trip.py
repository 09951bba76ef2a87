"""Is any tool that goes out over MCP, and comes back into a file, what it was?"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tests.mcp_server.test_transports import serving
from tests.properties.test_one_truth_about_arguments import definitions
from tool_engine import (
    MCPSource,
    Tool,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineError,
)
from tool_engine.cli.mcp.import_word import write_tool
from tool_engine.model.json.secret_schema import mark_secrets
from tool_engine.protocols import definition_findings
from tool_engine.visible import without_unseen

CARRIED = ("description", "title", "output", "effect", "idempotent", "secret_names")
TEXTS = st.text(max_size=40).map(without_unseen).map(str.strip).filter(bool)
"""What cannot be seen is left out of the descriptions of others."""
OUTPUTS: list[dict[str, Any]] = [
    {},
    {"output": {"type": "object", "properties": {"r": "string"}}},
    {"output": {"type": "object", "properties": {"r": {"type": "integer"}}, "required": ["r"]}},
    {"output": {"type": "array", "items": {"type": "integer"}}},
    {"output": {"type": "string"}},
]


@st.composite
def tools(draw: st.DrawFn) -> dict[str, Any]:
    """A definition of anything that MCP carries, and some of what it does not."""
    definition = draw(definitions())
    for each in definition["parameters"]:
        each["description"] = draw(TEXTS)
        each["secret"] = draw(st.booleans())
        if not each.get("required") and each["type"] == "string" and draw(st.booleans()):
            each["default"] = "a"
    return {
        **definition,
        "description": draw(TEXTS),
        **draw(st.sampled_from([{}, {"title": "A title"}, {"timeout": 3, "tags": ["one"]}])),
        **draw(st.sampled_from([{"effect": each} for each in ("read", "write", "unknown")])),
        **draw(st.sampled_from([{}, {"idempotent": True}])),
        **draw(st.sampled_from(OUTPUTS)),
        "entry": {"type": "builtin", "handler": "echo"},
    }


@pytest.mark.timeout(900)
@settings(
    max_examples=share_of(60),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(tools(), min_size=1, max_size=8))
def test_any_tool_comes_back_as_it_went_out(made: list[dict[str, Any]]) -> None:
    """M8 over a socket, in both eras; what is lost is said."""
    loaded = []
    for number, each in enumerate(made):
        with suppress(ToolEngineError):  # a default that its schema does not take
            loaded.append(ToolConfigLoader().from_mapping({**each, "name": f"t{number}"}))
    for revision in ("2026-07-28", "2025-11-25"):
        asyncio.run(compare(loaded, revision))


async def compare(sent: list[Tool], revision: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for each in ("own", "other"):
            (Path(folder) / each).mkdir()
        own_config = ToolEngineConfig(str(Path(folder) / "own"))
        other_config = ToolEngineConfig(str(Path(folder) / "other"))
        async with ToolEngine(own_config) as own:
            own.register_tools([(each, None) for each in sent])
            async with serving(own) as url, ToolEngine(other_config) as other:
                source = MCPSource(
                    "own", url=url, trust_annotations=True, revision=revision, prefix=""
                )
                await other.add_source(source)
                for tool in sent:
                    back = other.get(tool.name)
                    assert back is not None, other.load_errors
                    compare_tools(tool, back)
                    written = write_tool(back)
                    assert written.lost == []
                    compare_tools(tool, ToolConfigLoader().load_text(written.text.encode()))


def compare_tools(sent: Tool, back: Tool) -> None:
    said = [each.message for each in definition_findings("mcp", [sent])]
    for field in CARRIED:
        if field == "output" and back.output != sent.output:
            # An older client is told of objects alone.
            assert any("output: " in message for message in said)
            assert (back.output or {})["properties"] == {"result": sent.output}
        else:
            assert getattr(back, field) == getattr(sent, field), field
    assert back.parameters_schema == mark_secrets(sent.parameters_schema, sent.secret_names)
    kept = {each.name: each for each in back.parameters}
    for each in sent.parameters:
        found = kept[each.name]
        assert (found.required, found.description) == (each.required, each.description)
        if each.has_default and each.secret:
            assert any(f"parameters.{each.name}.default" in message for message in said)
        else:
            assert (found.has_default, found.default) == (each.has_default, each.default)
