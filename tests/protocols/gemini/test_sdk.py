"""Google's own SDK as the client, against a server that speaks generateContent."""

from __future__ import annotations

from typing import Any

import pytest
from google import genai
from google.genai import types
from msgspec.structs import replace

from tests.protocols.gemini.test_gemini_protocol import SIGNATURE, TOOL, result
from tests.protocols.wire_gemini import chunk, gemini_server
from tool_engine.model.parameter import ToolParameter
from tool_engine.protocols.gemini import GeminiProtocol

# The SDK's own way to make its session.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class Aiohttp:DeprecationWarning")

ODD = replace(
    TOOL,
    name="时间.in city",
    parameters=[
        ToolParameter("city", "string", validation={"min_length": 1, "pattern": "^[A-Z]"}),
        ToolParameter("days", "integer", default=1, schema={"exclusiveMinimum": 0}),
        ToolParameter("kinds", "array", validation={"items": {"type": "string", "enum": ["a"]}}),
    ],
)
PARTS: list[dict[str, Any]] = [
    {"text": "I have to look.", "thought": True},
    {"functionCall": {"name": "getTime", "args": {"offset_ms": -86400000}}},
    {"functionCall": {"id": "id-2", "name": "", "args": {"city": "Oslo", "days": 2.0}}},
]


def replies(sent: str) -> list[list[dict[str, Any]]]:
    parts = [dict(part) for part in PARTS]
    parts[1]["thoughtSignature"] = SIGNATURE
    parts[2]["functionCall"] = {**PARTS[2]["functionCall"], "name": sent}
    usage = {"totalTokenCount": 7}
    return [[chunk(parts, "STOP", usageMetadata=usage)], [chunk([{"text": "Noon."}], "STOP")]]


def client(address: str) -> genai.Client:
    options = types.HttpOptions(base_url=address, timeout=10_000)
    return genai.Client(api_key="made-up", vertexai=False, http_options=options)


def config(tools: Any) -> types.GenerateContentConfig:
    off = types.AutomaticFunctionCallingConfig(disable=True)
    return types.GenerateContentConfig(tools=tools, automatic_function_calling=off)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_two_turns(is_stream: bool) -> None:
    """Definitions are taken, calls come back, their results and the history go out again."""
    gemini = GeminiProtocol(tools={TOOL.name: TOOL, ODD.name: ODD})
    tools = gemini.definitions([TOOL, ODD])
    sent = tools[0]["functionDeclarations"][1]["name"]
    contents: list[Any] = [{"role": "user", "parts": [{"text": "What was the time?"}]}]
    async with gemini_server(replies(sent)) as (server, address), client(address).aio as asking:
        ask = asking.models
        for _ in range(2):
            arguments: Any = {"model": "gemini-3", "contents": contents, "config": config(tools)}
            if is_stream:
                decoder = gemini.decoder()
                async for each in await ask.generate_content_stream(**arguments):
                    decoder.feed(each)
                reply = decoder.close()
            else:
                reply = gemini.parse(await ask.generate_content(**arguments))
            contents += reply.message
            done = [result(1684713600000), result("no such city", "execution_error")]
            contents += gemini.format_results(done[: len(reply.calls)], reply.calls)
            if reply.calls:
                first = reply
    assert server.problems == []
    assert first.findings == []
    assert first.reasoning == "I have to look."
    assert [(call.call_id, call.tool_name, call.arguments) for call in first.calls] == [
        ("call_1", "getTime", {"offset_ms": -86400000}),
        ("id-2", ODD.name, {"city": "Oslo", "days": 2.0}),
    ]
    assert (reply.text, reply.calls) == ("Noon.", [])
    second = server.requests[1]["contents"]
    assert [content["role"] for content in second] == ["user", "model", "user"]
    assert second[1]["parts"][1]["thoughtSignature"].rstrip("=").translate(
        str.maketrans("-_", "+/")
    ) == SIGNATURE.rstrip("=")
    answers = [part["functionResponse"] for part in second[2]["parts"]]
    assert answers == [
        {"name": "getTime", "response": {"output": 1684713600000}},
        {
            "id": "id-2",
            "name": sent,
            "response": {"error": "Error (execution_error): no such city"},
        },
    ]


async def test_a_stream_without_events() -> None:
    """The SDK's raw bytes are read, too: the array of a stream that was not asked for events."""
    gemini = GeminiProtocol(tools=[TOOL, ODD])
    async with gemini_server(replies("getTime")) as (_, address), client(address).aio as asking:
        ask = asking.models
        options = types.GenerateContentConfig(should_return_http_response=True)
        answer = await ask.generate_content(model="gemini-3", contents="Hi", config=options)
        raw = answer.sdk_http_response
    assert raw is not None
    assert raw.body is not None
    assert len(gemini.parse(raw.body).calls) == 2
    assert len(gemini.parse(f"[{raw.body}\n,\r\n{raw.body}]").calls) == 3
