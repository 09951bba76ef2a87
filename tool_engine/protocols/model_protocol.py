"""What do all protocols of this package share?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from tool_engine.interfaces import ReplyDecoder
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.reply import ParsedReply, ReplyFinding
from tool_engine.model.tool import Tool
from tool_engine.protocols.names import KnownTools, NameRule, ToolCatalog
from tool_engine.protocols.schemas.fitting import FittedSchema, SchemaSubset, fit_schema
from tool_engine.protocols.schemas.subsets import ANY_SCHEMA

__all__ = ["DefinitionLimits", "DefinitionWriter", "ModelProtocol"]


class DefinitionLimits(NamedTuple):
    """How much a provider takes of definitions; None: nothing is known of a limit."""

    description: int | None = None
    """The characters of a tool's description."""
    tools: int | None = None
    """The tools in one request."""


class DefinitionWriter(ABC):
    """Tells one provider of tools: under names that it takes, in the schema that it takes.

    Args:
        tools: Tools that are known before `definitions` tells of any, or a catalog to look them up
            in, such as the engine: for their names, and for what their parameters declare.
    """

    name: ClassVar[str]
    name_rule: ClassVar[NameRule]
    subset: SchemaSubset = ANY_SCHEMA
    """What of JSON Schema the definitions may use."""
    limits: ClassVar[DefinitionLimits] = DefinitionLimits()

    def __init__(self, *, tools: Iterable[Tool] | ToolCatalog | None = None) -> None:
        self.known = KnownTools(self.name_rule, tools)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.known!r})"

    @abstractmethod
    def definitions(self, tools: Iterable[Tool]) -> Any:
        """What tells the model of `tools`."""

    def fitted_schema(self, tool: Tool) -> FittedSchema:
        """The schema of a tool's arguments as the provider takes it, and what changed in it."""
        return fit_schema(tool.parameters_schema, self.subset)

    def definition_findings(self, tools: Iterable[Tool]) -> list[ReplyFinding]:
        """What `definitions` changes or leaves out of each tool, because the format cannot say it.

        Each is a `ReplyFinding` of `renamed`, `dropped` or `rewritten`; of `limit`, where a
        provider is known to refuse as much as is sent.
        """
        listed = self.known.learn(tools)
        found = [finding for tool in listed for finding in self._findings_of(tool)]
        most = self.limits.tools
        if most is not None and len(listed) > most:
            message = (
                f"{self.name} takes {most} tools in a request, these are {len(listed)}: tell of "
                "fewer, and let the model search for the others"
            )
            found.append(ReplyFinding(error_type="limit", level="error", message=message))
        return found

    def _findings_of(self, tool: Tool) -> Iterator[ReplyFinding]:
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
    """A protocol that knows which tools it told its model of.

    One object may serve any number of conversations with the same tools, one after the other or at
    once: a reply is read by a decoder of its own.

    Args:
        tools: Tools that are known before `definitions` tells of any, or a catalog to look them up
            in, such as the engine: for their names, and for what their parameters declare.
        repair: Whether finished but malformed arguments may be repaired.
    """

    writes_text: ClassVar[bool] = False
    """Whether the model writes calls as text: then `process_tool_calls` reads each argument by the
    tool's schema, and takes a tool and a command for the name of a tool."""

    def __init__(
        self, *, tools: Iterable[Tool] | ToolCatalog | None = None, repair: bool = True
    ) -> None:
        super().__init__(tools=tools)
        self.repair = repair

    def prompt(self, tools: Iterable[Tool]) -> str:
        """What the system prompt has to say about `tools`; empty where the request tells of them.

        Learns the tools, as `definitions` does.
        """
        self.known.learn(tools)
        return ""

    @abstractmethod
    def parse(self, reply: Any) -> ParsedReply:
        """Reads a whole reply."""

    @abstractmethod
    def decoder(self) -> ReplyDecoder:
        """Begins to read a reply that comes in parts."""

    @abstractmethod
    def format_results(
        self, results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None = None
    ) -> Any:
        """What tells the model how its calls ended."""
