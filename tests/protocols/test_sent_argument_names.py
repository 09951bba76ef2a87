"""Does a refusal tell a model of its arguments under the names, and at the places, that it sent?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.calls.samples import bare
from tool_engine import ToolEngine, ToolEngineConfig, ToolSession, ToolSubAgent
from tool_engine.protocols import get_protocol, process_tool_calls

PARAMETERS: list[dict[str, Any]] = [
    {"name": "image_size", "type": "integer", "required": True, "description": "x"},
    {"name": "note", "type": "string", "description": "x", "max_length": 3},
    {
        "name": "filter",
        "type": "object",
        "description": "x",
        "properties": {"sizes": {"type": "array", "items": "integer"}},
    },
]


def block(**fields: str) -> str:
    lines = [f"{key.replace('__', '-')}:「始」{value}「末」," for key, value in fields.items()]
    return "\n".join(["<<<[TOOL_REQUEST]>>>", *lines, "<<<[END_TOOL_REQUEST]>>>"])


async def made() -> ToolEngine:
    engine = ToolEngine(ToolEngineConfig("none", auto_reload=False))
    engine.register_tool(bare("draw", parameters=PARAMETERS), lambda **sent: sent)
    return engine


@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize(
    ("sent", "call", "paths"),
    [
        ({"IMAGE__SIZE": "big"}, 0, {"image_size": "IMAGE-SIZE"}),
        ({"image_size1": "1", "image_size2": "big"}, 1, {"image_size": "image_size2"}),
        (
            {"image_size1": "1", "note1": "long", "image_size2": "2"},
            0,
            {"note": "note1"},
        ),
        ({"image_size": "1", "FILTER": '{"sizes": [1, "x"]}'}, 0, {"filter.sizes[1]": "FILTER"}),
    ],
)
async def test_names_of_a_text_protocol(
    in_session: bool, sent: dict[str, str], call: int, paths: dict[str, str]
) -> None:
    """What was read under another name is told of under the name that the model wrote as well."""
    async with await made() as engine:
        protocol = get_protocol("vcp", fuzzy=True)
        protocol.definitions(engine.list_all())
        runs = ToolSession(engine, "s") if in_session else engine
        cycle = await process_tool_calls(runs, block(tool_name="draw", **sent), protocol)
    result = cycle.execution_results[call]
    assert result.error_type == "validation_error"
    assert {each["path"]: each["sent_as"] for each in result.validation_errors} == paths
    for name, key in paths.items():
        told = f"you sent '{name.partition('.')[0]}' as '{key}'"
        assert told in str(result.error)
        assert told in json.dumps(cycle.formatted, ensure_ascii=False)


async def test_names_that_are_the_tool_s_own() -> None:
    """Nothing is added where the model wrote the tool's own name."""
    async with await made() as engine:
        protocol = get_protocol("vcp", fuzzy=True)
        protocol.definitions(engine.list_all())
        text = block(tool_name="draw", image_size="big")
        cycle = await process_tool_calls(engine, text, protocol)
    (result,) = cycle.execution_results
    assert "sent_as" not in result.validation_errors[0]
    assert "you sent" not in str(result.error)


@pytest.mark.parametrize("name", ["openai", "openai_responses", "anthropic", "gemini", "vcp"])
async def test_all_protocols_keep_the_findings(name: str) -> None:
    """A refusal keeps its place in every model's language: in the text, and as fields beside it."""
    async with await made() as engine:
        sent = {"image_size": 1, "filter": {"sizes": [1, "x"]}}
        result = await engine.execute("draw", sent)
    (finding,) = result.validation_errors
    assert (finding["path"], finding["expected"], finding["actual"]) == (
        *("filter.sizes[1]", "integer", "x"),
    )
    result.metadata["request_id"] = "1"
    formatted = get_protocol(name).format_results([result])
    assert "'filter.sizes[1]' must be an integer" in json.dumps(formatted, ensure_ascii=False)


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ({"image_size": 1, "note": "$VAR_REF{{none}}"}, "note"),
        ({"image_size": 1, "filter": {"sizes": [1, "$VAR_REF{{x y}}"]}}, "filter.sizes[1]"),
        ({"image_size": 1, "filter": {"$VAR_REF{{x}}": 1}}, "filter"),
    ],
)
async def test_references_have_their_place(sent: dict[str, Any], path: str) -> None:
    """What a session refuses has the fields of what the validation refuses."""
    async with await made() as engine:
        result = await ToolSession(engine, "s").execute("draw", sent)
    assert result.error_type == "validation_error"
    (finding,) = result.validation_errors
    assert (finding["path"], finding["level"]) == (path, "error")
    assert finding["message"] == result.error


@pytest.mark.parametrize("arguments", ['{"image_size": ', "[1]", 5])
async def test_every_refusal_of_arguments_has_a_finding(arguments: Any) -> None:
    """Arguments that could not be read are told of as a finding as well, with no place."""
    function = {"name": "draw", "arguments": arguments}
    call = {"id": "1", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reply = {"choices": [{"finish_reason": "tool_calls", "message": message}]}
    async with await made() as engine:
        for runs in (engine, ToolSession(engine, "s"), ToolSubAgent("a", engine)):
            cycle = await process_tool_calls(runs, reply, get_protocol("openai"))
            (result,) = cycle.execution_results
            assert result.error_type == "validation_error"
            (finding,) = result.validation_errors
            assert (finding["path"], finding["message"]) == ("", result.error)
        (result,) = await ToolSubAgent("a", engine).execute_batch([("draw", 5)])  # type: ignore[list-item]
        assert result.validation_errors[0]["message"] == result.error
