"""What Gemini's generateContent puts on the wire, and a server that speaks it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tool_engine.model.call import ToolCall

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
_KEYWORDS = frozenset(
    {
        *("$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum"),
        *("items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf"),
        *("properties", "additionalProperties", "required", "propertyOrdering"),
    }
)


def call_part(call: ToolCall, *, has_id: bool = True) -> dict[str, Any]:
    """A part of a content that asks for one call."""
    named: dict[str, Any] = {"id": call.call_id} if has_id else {}
    return {"functionCall": {**named, "name": call.tool_name, "args": call.arguments}}


def chunk(parts: Sequence[Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """One GenerateContentResponse, as a stream has many."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-3", **fields}


def render_reply(
    calls: Sequence[ToolCall], text: str = "", finish: str = "STOP", *, has_ids: bool = True
) -> dict[str, Any]:
    """A whole reply, as generateContent answers."""
    parts: list[Any] = [{"text": text}] if text else []
    parts += [call_part(call, has_id=has_ids) for call in calls]
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
    return chunk(parts, finish, usageMetadata=usage)


def render_stream(
    calls: Sequence[ToolCall], text: str = "", finish: str = "STOP", *, has_ids: bool = True
) -> list[dict[str, Any]]:
    """The same reply in chunks."""
    chunks = [chunk([{"text": text[at : at + 5]}]) for at in range(0, len(text), 5)]
    chunks += [chunk([call_part(call, has_id=has_ids)]) for call in calls]
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
    return [*chunks, chunk([{"text": ""}], finish, usageMetadata=usage)]


def streamed_text(name: str, texts: Sequence[str]) -> list[dict[str, Any]]:
    """A call with one argument, `text`, that comes in pieces, as Vertex AI streams it."""
    path, last = "$.text", len(texts) - 1
    pieces = [
        {"jsonPath": path, "stringValue": text, "willContinue": place < last}
        for place, text in enumerate(texts)
    ]
    calls = [
        {"name": name, "willContinue": True},
        *({"partialArgs": [piece], "willContinue": True} for piece in pieces),
        {},
    ]
    return [*(chunk([{"functionCall": call}]) for call in calls), chunk([], "STOP")]


def as_events(chunks: Sequence[Any]) -> bytes:
    """A stream of `alt=sse`."""
    return "".join(f"data: {json.dumps(each)}\r\n\r\n" for each in chunks).encode()


def as_array(chunks: Sequence[Any]) -> bytes:
    """A stream without `alt=sse`: one JSON array."""
    return f"[{','.join(json.dumps(each, indent=1) for each in chunks)}\r\n]".encode()


class GeminiServer:
    """Answers each request with the next of its replies, after it has checked the request.

    Attributes:
        requests: The bodies that came.
        problems: What Gemini would have refused them for.
    """

    def __init__(self, replies: Sequence[Sequence[dict[str, Any]]]) -> None:
        self._replies = iter(replies)
        self.requests: list[dict[str, Any]] = []
        self.problems: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        self.problems += faults_of(body)
        if self.problems:
            error = {"code": 400, "message": "; ".join(self.problems), "status": "INVALID_ARGUMENT"}
            return web.json_response({"error": error}, status=400)
        chunks = next(self._replies)
        if request.path.endswith(":generateContent"):
            return web.json_response(chunks[0])
        return web.Response(body=as_events(chunks), content_type="text/event-stream")


@asynccontextmanager
async def gemini_server(
    replies: Sequence[Sequence[dict[str, Any]]],
) -> AsyncIterator[tuple[GeminiServer, str]]:
    """A server on a free port of loopback, and its address."""
    server = GeminiServer(replies)
    app = web.Application()
    app.router.add_post("/{tail:.*}", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield server, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def faults_of(body: dict[str, Any]) -> list[str]:
    """What Gemini would refuse in a request, in words."""
    return [*_of_definitions(body), *_of_history(body["contents"])]


def _of_definitions(body: dict[str, Any]) -> Iterator[str]:
    names: set[str] = set()
    for entry in body.get("tools", ()):
        if not entry.get("functionDeclarations"):
            yield "a tool without function declarations"
        for each in entry["functionDeclarations"]:
            if not _NAME.fullmatch(each["name"]) or each["name"] in names:
                yield f"Invalid function name {each['name']!r}"
            names.add(each["name"])
            # The SDK sends this one name in snake case, which the API reads as well.
            schema = each.get("parametersJsonSchema") or each["parameters_json_schema"]
            yield from _of_schema(schema)


def _of_schema(schema: Any) -> Iterator[str]:
    for keyword in schema:
        if keyword not in _KEYWORDS:
            yield f"Unknown name {keyword!r}"
    for part in schema.get("properties", {}).values():
        yield from _of_schema(part)
    if "items" in schema:
        yield from _of_schema(schema["items"])


def _of_history(contents: list[dict[str, Any]]) -> Iterator[str]:
    """Each call is answered in the content right behind it, and each part has one kind of data."""
    waiting: list[dict[str, Any]] = []
    for content in contents:
        if content["role"] not in ("user", "model") or not content["parts"]:
            yield "Please use a valid role, and at least one part"
        answers = [part["functionResponse"] for part in content["parts"] if _answers(part)]
        if [each["name"] for each in answers] != [each["name"] for each in waiting]:
            yield "the number of function response parts must equal that of function call parts"
        if [each.get("id") for each in answers] != [each.get("id") for each in waiting]:
            yield "a function response has another id than its function call"
        for each in answers:
            if not isinstance(each["response"], dict):
                yield "Proto field is not repeating: response must be an object"
        waiting = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        for part in content["parts"]:
            if (
                "functionCall" in part
                and "thoughtSignature" not in part
                and part is _first(content)
            ):
                yield "Function call is missing a thought_signature in functionCall parts"


def _answers(part: dict[str, Any]) -> bool:
    return "functionResponse" in part


def _first(content: dict[str, Any]) -> Any:
    """The first call of a content, which is the one that is signed."""
    return next(part for part in content["parts"] if "functionCall" in part)
