"""How does Gemini's generateContent receive tools, calls and results?

https://ai.google.dev/gemini-api/docs/function-calling
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from tool_engine.interfaces import ReplyDecoder
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.json.returned_value import to_text
from tool_engine.model.reply import ParsedReply
from tool_engine.model.tool import Tool
from tool_engine.protocols.chunks import split_chunks
from tool_engine.protocols.gemini.gemini_decoder import GeminiDecoder
from tool_engine.protocols.model_protocol import ModelProtocol
from tool_engine.protocols.object_arguments import make_sendable
from tool_engine.protocols.result_content import parts_of, request_ids, unwrap_output
from tool_engine.protocols.result_media import Carried, Media
from tool_engine.protocols.schemas.subsets import GEMINI, GEMINI_OPENAPI
from tool_engine.protocols.tool_names import NameRule, ToolCatalog

_SCHEMAS: Final = {"json": GEMINI, "openapi": GEMINI_OPENAPI}
_IMAGES: Final = ("inside", "after")
# https://ai.google.dev/gemini-api/docs/image-understanding, .../audio and .../document-processing
_CARRIED: Final = Carried(
    image=("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"),
    audio=(
        *("audio/wav", "audio/x-wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac"),
        *("audio/ogg", "audio/flac"),
    ),
    file=("application/pdf",),
)


class GeminiProtocol(ModelProtocol):
    """The `tools` and `contents` of generateContent and streamGenerateContent.

    Args:
        tools: Tools that are known before the first `definitions`, or a catalog such as the engine.
        repair: Whether finished but malformed arguments may be repaired.
        schema: `json` describes arguments under `parametersJsonSchema`; `openapi` under the older
            `parameters`, for servers that know no other.
        images: `inside` puts the images and PDFs of a result into its functionResponse, which
            models before Gemini 3 do not read; `after` puts them behind it as parts of their own.
            Audio always stands there.

    Raises:
        ConfigurationError: An option has another value.
    """

    name = "gemini"
    carried = _CARRIED
    # https://ai.google.dev/api/caching#FunctionDeclaration: 64 characters at first, later 63, and
    # 128 today; 64 are taken by all that is still served.
    name_rule = NameRule(
        re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"),
        64,
        "a letter or _ first, then up to 63 of the characters a-z, A-Z, 0-9, _ . : and -",
    )

    def __init__(
        self,
        *,
        tools: Iterable[Tool] | ToolCatalog | None = None,
        repair: bool = True,
        schema: str = "json",
        images: str = "inside",
    ) -> None:
        super().__init__(tools=tools, repair=repair)
        check_choice("schema", schema, _SCHEMAS)
        check_choice("images", images, _IMAGES)
        self.subset = _SCHEMAS[schema]
        self._key = "parametersJsonSchema" if schema == "json" else "parameters"
        self._images = images

    def definitions(self, tools: Iterable[Tool]) -> list[dict[str, Any]]:
        """Return a request's `tools`: one entry with all functions, or none."""
        declared = [self._declare_tool(tool) for tool in self.known.learn(tools)]
        return [{"functionDeclarations": declared}] if declared else []

    def _declare_tool(self, tool: Tool) -> dict[str, Any]:
        declared = self._describe_tool(tool, self._key)
        # The older reader refuses an object without properties: "should be non-empty".
        if self._key == "parameters" and not declared[self._key]["properties"]:
            del declared[self._key]
        return declared

    def parse(self, reply: Any) -> ParsedReply:
        """Read a whole reply.

        Args:
            reply: An SDK's response, a mapping, a JSON document as text or bytes, the whole text of
                a stream, a list of chunks, or a content such as `{"role": "model", "parts": []}`.
        """
        return self._decode_all(split_chunks(reply))

    def decoder(self) -> ReplyDecoder:
        return GeminiDecoder(self.known, repair=self.repair)

    def format_results(
        self, results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None = None
    ) -> list[dict[str, Any]]:
        """Return one content with all results, in the order of their calls.

        Raises:
            ConfigurationError: A result names no call that it belongs to.
        """
        ids = request_ids(results, calls)
        known = {call.call_id: call for call in calls or ()}
        places = {call_id: place for place, call_id in enumerate(known)}
        ordered = sorted(
            zip(ids, results, strict=True), key=lambda pair: places.get(pair[0], len(places))
        )
        parts = [
            part
            for call_id, result in ordered
            for part in self._write_result(call_id, known.get(call_id), result)
        ]
        return [{"role": "user", "parts": parts}] if parts else []

    def _write_result(
        self, call_id: str, call: ToolCall | None, result: ToolExecutionResult
    ) -> list[dict[str, Any]]:
        answer: dict[str, Any] = {"id": call_id}
        if call is not None and call.has_own_id:
            del answer["id"]
        answer["name"] = self.known.sent_name(result.tool_name if call is None else call.tool_name)
        parts = list(self.carried.write_parts(parts_of(result)))
        answer["response"] = _write_response(result, parts)
        # Without the bytes, which can be sent as they are: copying megabytes of them takes long.
        answer = make_sendable(answer)
        inside: list[dict[str, Any]] = []
        behind: list[dict[str, Any]] = []
        for part in parts:
            if isinstance(part, Media):
                is_inside = self._images == "inside" and part.kind != "audio"
                blob = {"inlineData": {"mimeType": part.mime_type, "data": part.data}}
                (inside if is_inside else behind).append(blob)
        if inside:
            answer["parts"] = inside
        return [{"functionResponse": answer}, *behind]


def _write_response(result: ToolExecutionResult, parts: list[str | Media]) -> dict[str, Any]:
    """Return the object that the API requires, with output as data. X9."""
    written = [part for part in parts if isinstance(part, str)]
    if not result.is_success:
        return {"error": "\n".join(written)}
    if not written:
        kinds = {part.kind for part in parts if isinstance(part, Media)}
        return {"output": f"{len(parts)} {kinds.pop() if len(kinds) == 1 else 'file'}(s), attached"}
    output = unwrap_output(result)
    if len(parts) > 1 or isinstance(output, str) or written != [text := to_text(output)]:
        return {"output": "\n".join(written)}
    return {"output": json.loads(text)}
