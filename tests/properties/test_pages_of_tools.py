"""Is each page of the list of tools one that the protocol allows? The SDK does not check ours."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import ListToolsResult
from mcp_types.methods import serialize_server_result

from tests.effort import share_of
from tool_engine import DefinitionError, ToolEngine, ToolEngineConfig
from tool_engine.mcp_server import MCPServer

VERSION = "2026-07-28"
MOST = 5
"""Tools of one page."""
TEXTS = st.text(max_size=20)
VALUES = st.none() | st.booleans() | st.integers(-3, 3) | TEXTS
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "number", "boolean", "null"])},
        optional={"description": TEXTS, "title": TEXTS, "default": VALUES, "examples": st.just([])},
    ),
    st.fixed_dictionaries({"enum": st.lists(VALUES, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"const": VALUES}),
    st.just({"type": ["object", "null"]}),
    st.booleans(),
    st.just({}),
)


def make_object(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from(["a", "b_c", "title", "type"]), inner, max_size=3)
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": named},
        optional={"additionalProperties": inner, "$defs": named, "description": TEXTS},
    )


def nest(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}),
        make_object(inner),
    )


SCHEMAS = st.recursive(SCALARS, nest, max_leaves=5)
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
DEFINITIONS = st.fixed_dictionaries(
    {"description": st.just("Does it."), "parameters": make_object(SCHEMAS)},
    optional={
        "title": TEXTS,
        "effect": st.sampled_from(["read", "write", "unknown"]),
        "idempotent": st.booleans(),
        "annotations": st.dictionaries(st.sampled_from(HINTS), st.booleans(), max_size=3)
        | st.dictionaries(st.just("title"), TEXTS | VALUES, max_size=1),
        "output": SCHEMAS,
        "tags": st.just(["one"]),
    },
)


@settings(max_examples=share_of(100), deadline=None)
@given(st.lists(DEFINITIONS, min_size=1, max_size=MOST))
def test_each_page_is_as_the_protocol_has_it(definitions: list[dict[str, Any]]) -> None:
    """The SDK's types read it, and write it as it stands: they drop nothing of it."""
    engine = ToolEngine(ToolEngineConfig())
    taken = []
    for number, each in enumerate(definitions):
        with contextlib.suppress(DefinitionError):
            engine.register_tool({**each, "name": f"tool_{number}"}, lambda **_: None)
            taken.append(f"tool_{number}")
    page = MCPServer(engine)._write_page(None)
    assert [each["name"] for each in page["tools"]] == sorted(taken)
    assert json.loads(json.dumps(page, allow_nan=False).encode()) == page
    assert serialize_server_result("tools/list", VERSION, page) == page
    ListToolsResult.model_validate(page, by_name=False)
