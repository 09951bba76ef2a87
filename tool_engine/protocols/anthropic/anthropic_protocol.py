"""How does Anthropic's Messages API receive tools and the results of calls?

https://docs.claude.com/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.reply import ParsedReply, ReplyFinding
from tool_engine.model.tool import Tool
from tool_engine.protocols.anthropic.anthropic_decoder import AnthropicDecoder
from tool_engine.protocols.anthropic.anthropic_strict import check_limits, make_strict
from tool_engine.protocols.chunks import dump_object, split_chunks
from tool_engine.protocols.object_arguments import make_sendable
from tool_engine.protocols.result_content import IMAGE_TYPES, parts_of, request_ids
from tool_engine.protocols.result_media import Carried, Media
from tool_engine.protocols.schemas.fitting import FittedSchema
from tool_engine.protocols.schemas.subsets import ANTHROPIC
from tool_engine.protocols.strict_protocol import StrictProtocol
from tool_engine.protocols.tool_names import NameRule, ToolCatalog

_CARRIED: Final = Carried(
    image=IMAGE_TYPES,
    file=("application/pdf",),
    # 5 MB as base64: https://docs.claude.com/en/docs/build-with-claude/vision
    most_image=5 * 2**20 * 3 // 4,
)


class AnthropicProtocol(StrictProtocol):
    """The protocol of Anthropic's Messages API.

    Args:
        tools: Tools that are known before the first `definitions`, or a catalog such as the engine.
        repair: Whether finished but malformed arguments may be repaired.
        cache_control: Added to the last definition, so that the provider caches all definitions for
            the next request; such as `{"type": "ephemeral"}`.
        strict: Whether models are bound to the schema of a tool. A tool with a schema that strict
            mode cannot express is sent without, and `definition_findings` says so.

    Raises:
        ConfigurationError: `cache_control` is no mapping with a `type`.
    """

    name = "anthropic"
    name_rule = NameRule(
        re.compile(r"[a-zA-Z0-9_-]{1,64}"), 64, "1 to 64 of the characters a-z, A-Z, 0-9, _ and -"
    )
    subset = ANTHROPIC
    carried = _CARRIED

    def __init__(
        self,
        *,
        tools: Iterable[Tool] | ToolCatalog | None = None,
        repair: bool = True,
        cache_control: Mapping[str, Any] | None = None,
        strict: bool = False,
    ) -> None:
        super().__init__(tools=tools, repair=repair, strict=strict)
        if cache_control is not None and (
            not isinstance(cache_control, Mapping) or "type" not in cache_control
        ):
            raise ConfigurationError(
                f"cache_control must be a mapping such as {{'type': 'ephemeral'}}, got "
                f"{cache_control!r}"
            )
        self.cache_control = cache_control

    def definitions(self, tools: Iterable[Tool]) -> list[dict[str, Any]]:
        """Return the `tools` of a request: one entry per tool, in order."""
        listed = [self._describe_tool(tool, "input_schema") for tool in self.known.learn(tools)]
        if listed and self.cache_control is not None:
            listed[-1]["cache_control"] = dump_object(self.cache_control)
        return listed

    def definition_findings(self, tools: Iterable[Tool]) -> list[ReplyFinding]:
        """Return what `definitions` changes or drops, and what the API would refuse."""
        listed = list(tools)
        strict = [
            fitted.schema for tool in listed if (fitted := self._find_strict(tool)) is not None
        ]
        return [*super().definition_findings(listed), *check_limits(strict)]

    def _make_strict(self, schema: Mapping[str, Any]) -> FittedSchema:
        return make_strict(schema)

    def parse(self, reply: Any) -> ParsedReply:
        """Read a whole reply.

        Args:
            reply: A `Message` of the SDK, its mapping or its JSON, the bare message of a
                conversation, its list of content blocks, or a whole stream: its text, or a list of
                events.
        """
        return self._decode_all([reply] if isinstance(reply, list | tuple) else split_chunks(reply))

    def decoder(self) -> AnthropicDecoder:
        return AnthropicDecoder(self.known, self.name_rule, repair=self.repair)

    def format_results(
        self, results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None = None
    ) -> list[dict[str, Any]]:
        """Return the user message that answers all calls, in a list.

        The API wants a result for every call of the message before it, all of them in one message
        and before any text.
        """
        ids = request_ids(results, calls)
        content = [_write_result(each, result) for each, result in zip(ids, results, strict=True)]
        return [{"role": "user", "content": content}] if content else []


def _write_result(call_id: str, result: ToolExecutionResult) -> dict[str, Any]:
    answer: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
    parts = _CARRIED.write_parts(parts_of(result))
    # The API refuses text blocks without a letter; a result may have no content at all.
    blocks = [_write_block(part) for part in parts if not isinstance(part, str) or part.strip()]
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        answer["content"] = blocks[0]["text"]
    elif blocks:
        answer["content"] = blocks
    if not result.is_success:
        answer["is_error"] = True
    return answer


def _write_block(part: str | Media) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": make_sendable(part)}
    source = {"type": "base64", "media_type": part.mime_type, "data": part.data}
    return {"type": "image" if part.kind == "image" else "document", "source": source}
