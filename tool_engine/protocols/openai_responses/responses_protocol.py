"""How does OpenAI's Responses API receive tools and the results of calls?

https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.reply import ParsedReply
from tool_engine.model.tool import Tool
from tool_engine.protocols.chunks import split_chunks
from tool_engine.protocols.object_arguments import make_sendable
from tool_engine.protocols.openai import OpenAIProtocol
from tool_engine.protocols.openai_responses.responses_decoder import OpenAIResponsesDecoder
from tool_engine.protocols.result_content import IMAGE_TYPES, parts_of, request_ids
from tool_engine.protocols.result_media import Carried, Media
from tool_engine.protocols.tool_names import ToolCatalog

_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_FILES: Final = {
    "application/pdf": ".pdf",
    f"{_OFFICE}.wordprocessingml.document": ".docx",
    f"{_OFFICE}.presentationml.presentation": ".pptx",
    f"{_OFFICE}.spreadsheetml.sheet": ".xlsx",
}
"""The files that the API reads, and how it knows them by their names:
https://developers.openai.com/api/docs/guides/file-inputs"""
_CARRIED: Final = Carried(image=IMAGE_TYPES, file=tuple(_FILES))


class OpenAIResponsesProtocol(OpenAIProtocol):
    """The protocol of OpenAI's Responses API.

    Tools are described as in Chat Completions, with the same options, but in another shape.

    Args:
        tools: Tools that are known before the first `definitions`, or a catalog such as the engine.
        repair: Whether finished but malformed arguments may be repaired.
        strict: Whether models are bound to the schema of a tool. It is always sent, as the API's
            own default is true, which refuses most schemas.
    """

    name: ClassVar[str] = "openai_responses"

    def __init__(
        self,
        *,
        tools: Iterable[Tool] | ToolCatalog | None = None,
        repair: bool = True,
        strict: bool = False,
    ) -> None:
        super().__init__(tools=tools, repair=repair, strict=strict)
        self.carried = _CARRIED

    def definitions(self, tools: Iterable[Tool]) -> list[dict[str, Any]]:
        """Return the `tools` of a request: one entry per tool, in order."""
        return [
            {"type": "function", "strict": False, **self._describe_tool(tool, "parameters")}
            for tool in self.known.learn(tools)
        ]

    def parse(self, reply: Any) -> ParsedReply:
        """Read a whole reply.

        Args:
            reply: A `Response` of the SDK, its mapping or its JSON, its list of output items, or a
                whole stream: its text, or a list of events.
        """
        return self._decode_all([reply] if isinstance(reply, list | tuple) else split_chunks(reply))

    def decoder(self) -> OpenAIResponsesDecoder:
        refine = self._refine_arguments if self.strict else None
        return OpenAIResponsesDecoder(self.known, self.name_rule, repair=self.repair, refine=refine)

    def format_results(
        self, results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None = None
    ) -> list[dict[str, Any]]:
        """Return one `function_call_output` for each result, in order."""
        ids = request_ids(results, calls)
        echoes = [call.echo for call in calls] if calls is not None else [{}] * len(ids)
        return [
            {
                "type": "function_call_output",
                "call_id": call_id,
                "output": _write_output(result),
                **make_sendable(echo),
            }
            for call_id, result, echo in zip(ids, results, echoes, strict=True)
        ]


def _write_output(result: ToolExecutionResult) -> str | list[dict[str, Any]]:
    parts = [_write_part(part) for part in _CARRIED.write_parts(parts_of(result))]
    if len(parts) == 1 and parts[0]["type"] == "input_text":
        return str(parts[0]["text"])
    return parts


def _write_part(part: str | Media) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "input_text", "text": make_sendable(part)}
    if part.kind == "image":
        return {"type": "input_image", "image_url": part.url, "detail": "auto"}
    ending = _FILES[part.mime_type]
    name = make_sendable(part.name)
    filename = name if name.endswith(ending) else f"{name}{ending}"
    return {"type": "input_file", "filename": filename, "file_data": part.url}
