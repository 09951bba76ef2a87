"""How does Chat Completions, at OpenAI or a compatible server, receive tools and results?

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import ReplyDecoder
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.reply import ParsedReply
from tool_engine.model.tool import Tool
from tool_engine.protocols.arguments.argument_text import ReadArguments
from tool_engine.protocols.chunks import read_field, split_chunks
from tool_engine.protocols.model_protocol import DefinitionLimits
from tool_engine.protocols.openai.openai_decoder import OpenAIDecoder
from tool_engine.protocols.openai.openai_messages import AUDIO_TYPES, write_results
from tool_engine.protocols.openai.openai_strict import drop_nulls, make_strict
from tool_engine.protocols.result_content import IMAGE_TYPES, request_ids
from tool_engine.protocols.result_media import Carried
from tool_engine.protocols.schemas.fitting import FittedSchema
from tool_engine.protocols.schemas.subsets import OPENAI
from tool_engine.protocols.strict_protocol import StrictProtocol
from tool_engine.protocols.tool_names import NameRule, ToolCatalog

_IMAGES: Final = ("after", "inside")
_MEDIA: Final[dict[str, tuple[str, ...]]] = {
    "image": IMAGE_TYPES,
    "audio": tuple(AUDIO_TYPES),
    "file": ("application/pdf",),
}
OPENAI_NAMES: Final = NameRule(
    re.compile(r"[A-Za-z0-9_-]{1,64}"), 64, "1 to 64 of the characters a-z, A-Z, 0-9, _ and -"
)
"""The names of tools that OpenAI takes."""


class OpenAIProtocol(StrictProtocol):
    """The protocol of Chat Completions.

    Args:
        tools: Tools that are known before the first `definitions`, or where to look them up.
        repair: Whether finished but malformed arguments may be repaired.
        strict: Whether models are bound to the schema of a tool ("structured outputs"). A tool with
            a schema that strict mode cannot express is sent without, and `definition_findings` says
            so.
        images: `after` shows the images of results in a message of the user behind them, with a
            line of the model's between; `inside` leaves them in the result, for servers that take
            them there: OpenAI does not.
        media: What the server's models take beside text: `image`, `audio` (WAV and MP3), `file`
            (PDF). What else results hold is named, and `result_findings` says so.

    Raises:
        ConfigurationError: An option has another value.
    """

    name: ClassVar[str] = "openai"
    name_rule: ClassVar[NameRule] = OPENAI_NAMES
    subset = OPENAI
    # 1,024 characters: "string too long" of older models; servers in front of them keep the limit.
    limits: ClassVar[DefinitionLimits] = DefinitionLimits(description=1024, tools=128)

    def __init__(
        self,
        *,
        tools: Iterable[Tool] | ToolCatalog | None = None,
        repair: bool = True,
        strict: bool = False,
        images: str = "after",
        media: Sequence[str] = ("image",),
    ) -> None:
        super().__init__(tools=tools, repair=repair, strict=strict)
        check_choice("images", images, _IMAGES)
        if isinstance(media, str):
            raise ConfigurationError(f"media must be a list such as ['image'], got {media!r}")
        for each in media:
            check_choice("media", each, tuple(_MEDIA))
        image, audio, file = (_MEDIA[each] if each in media else () for each in _MEDIA)
        self.carried = Carried(image, audio, file)
        self._are_images_inside = images == "inside"

    def definitions(self, tools: Iterable[Tool]) -> list[dict[str, Any]]:
        """Return the `tools` of a request."""
        return [
            {"type": "function", "function": self._describe_tool(tool, "parameters")}
            for tool in self.known.learn(tools)
        ]

    def _make_strict(self, schema: Mapping[str, Any]) -> FittedSchema:
        return make_strict(schema)

    def _refine_arguments(self, name: str, read: ReadArguments) -> ReadArguments:
        """Remove the nulls from a strict tool's arguments that mean "left out"."""
        tool = self.known.get(name)
        if tool is None or read.value is None or self._find_strict(tool) is None:
            return read
        value, count = drop_nulls(read.value, tool.parameters_schema)
        note = (f"null stood for {count} optional parameters: they were left out",) if count else ()
        return read._replace(value=value, repairs=(*read.repairs, *note))

    def parse(self, reply: Any) -> ParsedReply:
        """Read a whole reply.

        Args:
            reply: A `ChatCompletion`, its mapping, JSON as text or bytes, or its message alone; a
                stream as text, or as a list of chunks.
        """
        return self._decode_all([reply] if _is_history(reply) else split_chunks(reply))

    def decoder(self) -> ReplyDecoder:
        return OpenAIDecoder(
            self.known, repair=self.repair, refine=self._refine_arguments if self.strict else None
        )

    def format_results(
        self, results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None = None
    ) -> list[dict[str, Any]]:
        """Return one `tool` message for each result, then all images, audio and files."""
        pairs = zip(request_ids(results, calls), results, strict=True)
        return write_results(pairs, self.carried, is_inside=self._are_images_inside)


def _is_history(reply: Any) -> bool:
    """Return True for a list of messages, which are no chunks."""
    return isinstance(reply, list | tuple) and any(read_field(each, "role") for each in reply)
