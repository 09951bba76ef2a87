"""Which tools does a model of another framework see, and how does a call of it run?

The framework asks the model and carries messages. A call goes the way of every model's call: names,
arguments, consent, limits, deadline and record are the engine's, whatever the framework does.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from tool_engine.calls.blocking import BlockingCalls
from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import CallsTools
from tool_engine.knowledge.past_calls import AGENT_CALLER
from tool_engine.model.call import ToolCall, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.model.context_check import check_context
from tool_engine.model.json.plain import copy_json
from tool_engine.model.json.returned_value import safe_repr
from tool_engine.model.tool import Tool
from tool_engine.protocols.arguments.argument_text import read_arguments
from tool_engine.protocols.call_runner import CallRunner
from tool_engine.protocols.cycle_options import CycleOptions
from tool_engine.protocols.result_content import parts_of
from tool_engine.protocols.result_media import Carried, Media
from tool_engine.protocols.tool_names import KnownTools, NameRule
from tool_engine.session.session import ToolSession
from tool_engine.sources.foreign import check_caller_of_tools
from tool_engine.subagent import ToolSubAgent

_T = TypeVar("_T")
_NAMES: Final = NameRule(
    re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}"),
    64,
    "a letter or _, then at most 63 of the characters a-z, A-Z, 0-9, _ and -",
)
"""The names that every provider takes: a framework does not say which one it asks."""


class OfferedTool(NamedTuple):
    """A tool as a framework describes it to its model."""

    name: str
    """The name for the model, which may stand in for one that providers refuse."""
    description: str
    schema: dict[str, Any]
    """The JSON Schema of the arguments, as the definition has it; a copy."""
    tool: Tool


class OfferedTools:
    """The tools of an engine or conversation, for the model of a framework.

    Args:
        source: A `ToolSession`, `ToolSubAgent`, `ToolEngine` or a view of one.
        framework: Who calls, in records, where neither the source nor the context says so.
        context: Who calls, and within which limits; None: as the source says.
        tools: The names of the tools that are offered; None: all that are enabled.

    Raises:
        ConfigurationError: The source lists or runs no tools, or makes its contexts itself and got
            one; the context is none; or one of `tools` is the name of no tool.
    """

    def __init__(
        self,
        source: CallsTools,
        framework: str,
        context: ToolExecutionContext | None,
        tools: Collection[str] | None,
    ) -> None:
        self.source = source
        self._catalog = check_caller_of_tools(source)
        if not isinstance(source, ToolSubAgent) and not callable(getattr(source, "list_all", None)):
            raise ConfigurationError(
                f"source must be a ToolEngine, a ToolSession or something else with list_all(), "
                f"got {type(source).__name__}"
            )
        if context is not None:
            check_context(context)
        elif not isinstance(source, ToolSession) and not self._catalog.makes_contexts:
            context = ToolExecutionContext(caller_id=framework, caller_type=AGENT_CALLER)
        self._known = KnownTools(_NAMES, self._catalog)
        language = source.config.language if isinstance(source, ToolSession) else "en"
        options = CycleOptions(context=context, language=language, tools=tools)
        self._names = None if tools is None else frozenset(tools)
        for name in self._names or ():
            self._check_name(name)
        # Refuses what cannot be right before there is a call.
        self._make_runner: Callable[[], CallRunner] = partial(CallRunner, source, options)
        self._make_runner()

    def list_offered(self) -> list[OfferedTool]:
        """Return what the model may call now, in the order of the source."""
        tools = (each for each in self._list_tools() if each.is_enabled)
        wanted = [each for each in tools if self._names is None or each.name in self._names]
        return [self._describe_tool(each) for each in self._known.learn(wanted)]

    def find_offered(self, sent_name: str) -> OfferedTool | None:
        """Return the tool behind a name for the model as it is now; None: it is not offered."""
        name = self._known.meant_name(sent_name)
        if self._names is not None and name not in self._names:
            return None
        if isinstance(self.source, ToolSubAgent) and name not in self.source.enabled_tools:
            return None
        tool = self._catalog.get(name)
        is_offered = tool is not None and tool.is_offered and tool.is_enabled
        return self._describe_tool(tool) if tool is not None and is_offered else None

    async def run(
        self, sent_name: str, arguments: Mapping[str, Any] | str, call_id: str | None = None
    ) -> ToolExecutionResult:
        """Run a call of the model; a fault of it is a result too.

        Args:
            sent_name: The tool, by its name for the model.
            arguments: Its arguments, or the JSON that the model wrote.
            call_id: The framework's id of the call; None: it has none.

        Raises:
            asyncio.CancelledError: The caller was cancelled; so was the call.
        """
        call = _read_call(self._known.meant_name(sent_name), arguments, call_id or "call")
        (result,) = await self._make_runner().run([call])
        return result

    def block(self, work: Callable[[], Awaitable[_T]], *, cure: str) -> _T:
        """Run `work` on the engine's loop, and block this thread until it has ended.

        Raises:
            ConfigurationError: No engine is behind the source; `cure` says what to call instead.
            ToolEngineError: The engine lives on this thread's loop.
        """
        catalog = self.source.source if isinstance(self.source, ToolSession) else self._catalog
        found = catalog.list_origins()[0]
        if not isinstance(found, BlockingCalls):
            raise ConfigurationError(f"there is no engine to run a blocking call on: {cure}")
        return found.sync().run(work)

    def _check_name(self, name: str) -> None:
        """Refuse the name of no tool: the model would miss one, and nothing would say so."""
        if self._catalog.get(name) is None:
            near = find_nearest(name, (each.name for each in self._catalog.list_unambiguous()[0]))
            cure = f"did you mean {near!r}?" if near else "register it before it is offered"
            raise ConfigurationError(f"tools: there is no tool {safe_repr(name)[:80]}; {cure}")

    def _list_tools(self) -> list[Tool]:
        if isinstance(self.source, ToolSubAgent):
            found = (self.source.get(name) for name in self.source.enabled_tools)
            return [each for each in found if each is not None]
        return self._catalog.list_unambiguous()[0]

    def _describe_tool(self, tool: Tool) -> OfferedTool:
        schema = copy_json(tool.parameters_schema)
        # Frameworks look it up where a raw schema need not have it.
        schema.setdefault("properties", {})
        return OfferedTool(self._known.sent_name(tool.name), tool.description, schema, tool)


def _read_call(name: str, arguments: Mapping[str, Any] | str, call_id: str) -> ToolCall:
    if not isinstance(arguments, str):
        return ToolCall(call_id=call_id, tool_name=name, arguments=dict(arguments))
    read = read_arguments(arguments)
    return ToolCall(
        call_id=call_id,
        tool_name=name,
        arguments=read.value or {},
        raw=arguments,
        complete=not read.is_truncated,
        repairs=read.repairs,
        error=read.error,
    )


def write_parts(result: ToolExecutionResult, carried: Carried) -> list[str | Media]:
    """Return what a model reads of a result: texts, and the bytes that its messages carry."""
    parts = list(carried.write_parts(parts_of(result)))
    if all(isinstance(each, str) for each in parts):
        return ["\n".join(map(str, parts))]
    return parts
