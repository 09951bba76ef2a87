"""What do all protocols of this package share?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from tool_engine.interfaces import ReplyDecoder
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.model.reply import ParsedReply, ReplyFinding
from tool_engine.model.tool import Tool
from tool_engine.protocols.result_content import parts_of
from tool_engine.protocols.result_media import TEXTS_ONLY, Carried
from tool_engine.protocols.schemas.fitting import FittedSchema, SchemaSubset, fit_schema
from tool_engine.protocols.schemas.subsets import ANY_SCHEMA
from tool_engine.protocols.tool_names import KnownTools, NameRule, ToolCatalog


class DefinitionLimits(NamedTuple):
    """A provider's limits on definitions; None: no known limit."""

    description: int | None = None
    tools: int | None = None


class DefinitionWriter(ABC):
    """A writer of definitions with the names and schemas one provider takes.

    Args:
        tools: Tools that are known before the first `definitions`, or a catalog such as the engine:
            for their names, and for their parameters.
    """

    name: ClassVar[str]
    name_rule: ClassVar[NameRule]
    subset: SchemaSubset = ANY_SCHEMA
    """The part of JSON Schema that definitions may use."""
    limits: ClassVar[DefinitionLimits] = DefinitionLimits()

    def __init__(self, *, tools: Iterable[Tool] | ToolCatalog | None = None) -> None:
        self.known = KnownTools(self.name_rule, tools)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.known!r})"

    @abstractmethod
    def definitions(self, tools: Iterable[Tool]) -> Any:
        """Return the definitions of `tools`, in the provider's form."""

    def fitted_schema(self, tool: Tool) -> FittedSchema:
        """Return the arguments' schema as the provider takes it, with its changes."""
        return fit_schema(tool.parameters_schema, self.subset)

    def _describe_tool(self, tool: Tool, schema_key: str) -> dict[str, Any]:
        """Return a tool's definition, with its schema under the given key."""
        return {
            "name": self.known.sent_name(tool.name),
            "description": tool.description,
            schema_key: self.fitted_schema(tool).schema,
        }

    def definition_findings(self, tools: Iterable[Tool]) -> list[ReplyFinding]:
        """Return what `definitions` changes or drops because the format cannot express it.

        Each is a `ReplyFinding` of `renamed`, `dropped` or `rewritten`; or of `limit`, where a
        provider is known to refuse so much.
        """
        listed = self.known.learn(tools)
        found = [finding for tool in listed for finding in self._find_changes(tool)]
        most = self.limits.tools
        if most is not None and len(listed) > most:
            message = (
                f"{self.name} takes {most} tools in a request, these are {len(listed)}: tell of "
                "fewer, and let the model search for the others"
            )
            found.append(ReplyFinding(error_type="limit", level="error", message=message))
        return found

    def _find_changes(self, tool: Tool) -> Iterator[ReplyFinding]:
        sent = self.known.sent_name(tool.name)
        if sent != tool.name:
            yield ReplyFinding(
                error_type="renamed",
                tool_name=tool.name,
                message=f"{self.name} takes no tool named {tool.name!r} ({self.name_rule.words}): "
                f"it is told of {sent!r}",
            )
        most = self.limits.description
        if most is not None and len(tool.description) > most:
            yield ReplyFinding(
                error_type="limit",
                tool_name=tool.name,
                message=f"{self.name} refuses descriptions of more than {most} characters with "
                f"some models, this one has {len(tool.description)}: it is sent as it is",
            )
        for change in self.fitted_schema(tool).changes:
            yield ReplyFinding(
                error_type=change.kind,
                tool_name=tool.name,
                message=f"parameters{change.path}: {change.message}",
            )


class ModelProtocol(DefinitionWriter):
    """A protocol that remembers which tools its model knows.

    One object may serve any number of conversations with the same tools, one after the other or at
    once: a reply is read by a decoder of its own.

    Args:
        tools: Tools that are known before the first `definitions`, or a catalog such as the engine:
            for their names, and for their parameters.
        repair: Whether finished but malformed arguments may be repaired.
    """

    writes_text: ClassVar[bool] = False
    """True if the model writes calls as text: then `process_tool_calls` converts each argument by
    the tool's schema, and accepts a tool and a command as the name of a tool.
    """

    carried: Carried = TEXTS_ONLY
    """The images, audio and files that a result may hold; the rest is named."""

    def __init__(
        self, *, tools: Iterable[Tool] | ToolCatalog | None = None, repair: bool = True
    ) -> None:
        super().__init__(tools=tools)
        check_switch("repair", repair)
        self.repair = repair

    def prompt(self, tools: Iterable[Tool]) -> str:
        """Return the system prompt's part about `tools`; empty where requests declare them.

        Remembers the tools, as `definitions` does.
        """
        self.known.learn(tools)
        return ""

    @abstractmethod
    def parse(self, reply: Any) -> ParsedReply:
        """Read a whole reply."""

    @abstractmethod
    def decoder(self) -> ReplyDecoder:
        """Return a decoder for a reply that comes in parts."""

    def _decode_all(self, chunks: Iterable[Any]) -> ParsedReply:
        """Read a whole reply from its chunks."""
        decoder = self.decoder()
        for chunk in chunks:
            decoder.feed(chunk)
        return decoder.close()

    @abstractmethod
    def format_results(
        self, results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None = None
    ) -> Any:
        """Return the results of calls in the model's form."""

    def result_findings(self, results: Sequence[ToolExecutionResult]) -> list[ReplyFinding]:
        """Return what `format_results` only names because the format cannot carry it.

        Each is a `ReplyFinding` of `dropped`, about one image, sound or file of one result.
        """
        return [
            ReplyFinding(
                error_type="dropped",
                tool_name=result.tool_name,
                call_id=result.call_id,
                message=f"{part.describe()} in the result of {result.tool_name!r} is not shown to "
                f"the model, only named: {reason}",
            )
            for result in results
            for part in parts_of(result)
            if (reason := self.carried.find_reason(part)) is not None
        ]
