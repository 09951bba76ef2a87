"""How does a front end run the calls in a model's reply? A40.

The six methods of the founding document, under Python names, and `process`, on which they stand.
"""

from __future__ import annotations

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tool_engine.approval.gate import ApprovalGate
from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import ToolCallingProtocol
from tool_engine.model.call import ToolCall, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.tool import Tool
from tool_engine.protocols.allowed_call import Consenting
from tool_engine.protocols.cycle import ToolCallCycleResult, process_tool_calls
from tool_engine.protocols.cycle_options import (
    BY_EFFECT,
    BeforeExecute,
    CycleOptions,
    OnResult,
    accept_call_alone,
)
from tool_engine.protocols.native_calls import find_form
from tool_engine.protocols.registry import PROTOCOLS
from tool_engine.protocols.result_content import text_of
from tool_engine.session.bounds import Meter
from tool_engine.session.config import ToolCallConfig, names_said
from tool_engine.session.discovery import (
    DiscoveredTool,
    MethodFilter,
    ToolDiscoveryService,
)
from tool_engine.session.narrowing import in_reply, narrowed
from tool_engine.session.policy import SessionPolicy
from tool_engine.session.reading.result import SessionResult, as_session_result
from tool_engine.session.toolbox.toolbox import Toolbox

_NOBODY = "there is no approver to ask: pass on_before_execute"


class CycleFacade(ABC):
    """The methods with which a session handles its model's replies; a part of `ToolSession`."""

    toolbox: Toolbox
    gate: ApprovalGate
    meter: Meter
    policy: SessionPolicy
    _discovery: ToolDiscoveryService | None = None

    @abstractmethod
    def get(self, tool_name: str) -> Tool | None:
        """Return the enabled tool of this name, or None."""

    @abstractmethod
    async def execute(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
    ) -> SessionResult:
        """Run one tool for the conversation."""

    @abstractmethod
    def protocol(self, protocol: ToolCallingProtocol | str | None = None) -> ToolCallingProtocol:
        """Return the protocol that shows these tools to a model."""

    async def process(
        self,
        reply: Any,
        protocol: ToolCallingProtocol | str | None = None,
        on_before_execute: BeforeExecute | None = None,
        *,
        on_result: OnResult | None = None,
    ) -> ToolCallCycleResult:
        """Parse a reply, run its calls and format their results for the model.

        Calls that only read run at the same time, unless `config.parallel_execution` is off; each
        other one runs alone, in its place.

        Args:
            reply: A whole reply in any form that the protocol parses, or a `ParsedReply`.
            protocol: The one that showed the tools to the model; None: that of the settings. Where
                that is a text protocol, and the reply holds calls in the form of a provider, as
                `{"choices": ...}` does, it is the provider's.
            on_before_execute: Asked before each call, besides what the settings say of consent.
                Without an approver, its True is the consent that the settings ask for.
            on_result: Called with each call and its result, as soon as there is one.

        Returns:
            The calls and their results, and the messages with which the conversation goes on.

        Raises:
            ConfigurationError: There is no such protocol.
            asyncio.CancelledError: The caller was cancelled; so were the calls that ran.
        """
        on_before_execute = self._consenting(on_before_execute)
        if isinstance(reply, Iterator):
            # To see whose form its parts have is to take them.
            reply = list(reply)
        config = self.toolbox.config
        # Within a turn the meter counts, since it knows the calls of earlier replies.
        most = sys.maxsize if self.meter.is_in_turn else None
        tell = _telling(on_result)
        options = _options(config, on_before_execute, on_result=tell, max_calls=most)
        return await self._taken(reply, await self._speaking(protocol, reply), options)

    async def _taken(
        self, reply: Any, protocol: ToolCallingProtocol, options: CycleOptions
    ) -> ToolCallCycleResult:
        try:
            cycle = await process_tool_calls(self, reply, protocol, options)
        finally:
            # For `prepare`: the calls of a reply belong to the turn that it answers.
            self.toolbox.turn += 1
        if not self.meter.is_in_turn:
            # The loop that runs a turn counts a reply when it comes.
            self.meter.add_tokens(cycle.reply.usage)
        # Those of calls that never came to the conversation are its results, too.
        cycle.execution_results[:] = map(as_session_result, cycle.execution_results)
        return cycle

    async def process_cycle(
        self,
        text: str,
        config: ToolCallConfig | Mapping[str, Any] | None = None,
        on_before_execute: BeforeExecute | None = None,
    ) -> ToolCallCycleResult:
        """Parse one reply of the model, run its calls and format the results. A38.

        Args:
            text: The reply, whole.
            config: Other settings for this reply. What they leave out is as the conversation has
                it, and of what both say the stricter word holds: a tool must be on in both, and
                the smaller bound counts. Bounds of whole turns and of the conversation's state,
                such as `max_iterations` and `capacity`, stay its own.
            on_before_execute: Asked before each call: True, or None, lets it run. A29. Without an
                approver, its True is the consent that the settings ask for.

        Returns:
            The calls and their results; `has_tool_requests` is False for a reply without calls.

        Raises:
            ConfigurationError: The settings are none, or name no protocol.
            asyncio.CancelledError: The caller was cancelled; so were the calls that ran.
        """
        if config is None:
            return await self.process(text, None, on_before_execute)
        own = self.toolbox.config
        chosen = await _settings_of(own, config)
        if chosen.asks_always and not own.asks_always:
            # The session's own word about consent is not a part of these settings.
            on_before_execute = on_before_execute or _refuse
        on_before_execute = self._consenting(on_before_execute)
        timeout = chosen.timeout if "timeout" in names_said(config) else None
        names = {tool.name for tool in self.toolbox.under(chosen).tools()}
        most = sys.maxsize if self.meter.is_in_turn else None
        options = _options(chosen, on_before_execute, timeout=timeout, tools=names, max_calls=most)
        speaking = await self._speaking(None, text, chosen.protocol)
        with self.policy.also(chosen), self.meter.also(chosen), in_reply(self, chosen):
            return await self._taken(text, speaking, options)

    def _consenting(self, ask: BeforeExecute | None) -> BeforeExecute | None:
        """Return `ask` such that its consent counts when there is no approver."""
        asks = accept_call_alone(ask)
        can_ask_others = not callable(ask) or self.gate.approver is not None
        return ask if can_ask_others else Consenting(asks)

    async def _speaking(
        self, protocol: ToolCallingProtocol | str | None, reply: object, settings: str | None = None
    ) -> ToolCallingProtocol:
        """Return the named protocol for a reply, or else that of the settings."""
        name = protocol or settings or self.toolbox.config.protocol
        if isinstance(name, str) and name not in PROTOCOLS:
            # To look among the installed packages is to read files.
            speaking = await asyncio.to_thread(self.protocol, name)
        else:
            speaking = self.protocol(name)
        reads_text = protocol is None and getattr(speaking, "writes_text", False)
        form = find_form(reply) if reads_text else None
        return speaking if form is None else self.protocol(form)

    def format_cycle_results(
        self,
        results: ToolCallCycleResult | Sequence[ToolExecutionResult],
        protocol_id: ToolCallingProtocol | str | None = None,
        calls: Sequence[ToolCall] | None = None,
    ) -> str:
        """Format results as the text that the model reads next. A39.

        Args:
            results: A cycle, or the results of one.
            protocol_id: Whose form they take; None: that of the settings.
            calls: Of results that do not say which call they belong to.

        Raises:
            ConfigurationError: There is no such protocol, these are no results, or a call is
                missing.
        """
        if isinstance(results, ToolCallCycleResult):
            calls = results.parsed_requests if calls is None else calls
            results = results.execution_results
        if not results:
            return ""
        if not isinstance(results, Sequence) or not all(
            isinstance(each, ToolExecutionResult) for each in results
        ):
            raise ConfigurationError(
                f"results must be those of a cycle, or the cycle itself, got {results!r:.80}"
            )
        formatted = self.protocol(protocol_id).format_results(results, calls)
        if isinstance(formatted, str):
            return formatted
        return "\n".join(text_of(result) for result in results)

    def generate_tools_prompt(
        self,
        config: ToolCallConfig | Mapping[str, Any] | None = None,
        agent_id: str | None = None,
    ) -> str:
        """Return the part of the system prompt about the enabled tools. A25.

        Empty when tools are switched off. Kept for as long as the tools and settings are the same.

        Args:
            config: Other settings, for this prompt.
            agent_id: Whose prompt it is.

        Raises:
            ConfigurationError: The settings are none, or name no protocol.
            ToolConflictError: Two tools have one name.
        """
        return self._discovers().generate_prompt(config, agent_id)

    def get_discovered_methods(self, filter: MethodFilter | None = None) -> list[DiscoveredTool]:  # noqa: A002 - the founding document's word
        """Return the enabled tools, or those that `filter` accepts, with their methods. A24.

        Raises:
            ToolConflictError: Two tools have one name.
        """
        return self._discovers().get_discovered_methods(filter)

    def invalidate_discovery_cache(self) -> None:
        """Forget the cached prompts; not needed, since a change of the tools is noticed. A26."""
        self._discovers().invalidate_cache()

    def has_tool_calling_enabled(
        self, config: ToolCallConfig | Mapping[str, Any] | None = None
    ) -> bool:
        """Return True if the model may call any tool. A5.

        Raises:
            ConfigurationError: The settings are none.
        """
        own = self.toolbox.config
        return own.enabled if config is None else narrowed(own, config).enabled

    def _discovers(self) -> ToolDiscoveryService:
        if self._discovery is None:
            self._discovery = ToolDiscoveryService(self.toolbox, self.protocol)
        return self._discovery


async def _settings_of(
    own: ToolCallConfig, config: ToolCallConfig | Mapping[str, Any]
) -> ToolCallConfig:
    name = config.get("protocol") if isinstance(config, Mapping) else None
    if isinstance(name, str) and name not in PROTOCOLS:
        return await asyncio.to_thread(narrowed, own, config)
    return narrowed(own, config)


def _options(
    config: ToolCallConfig,
    on_before_execute: BeforeExecute | None,
    *,
    max_calls: int | None = None,
    **fields: Any,
) -> CycleOptions:
    return CycleOptions(
        max_parallel=None if config.parallel_execution else 1,
        order=BY_EFFECT,
        max_calls=max_calls or config.max_calls_per_turn,
        on_before_execute=on_before_execute,
        language=config.language,
        **fields,
    )


def _telling(tell: OnResult | None) -> OnResult | None:
    if not callable(tell):
        return tell
    return lambda call, result: tell(call, as_session_result(result))


def _refuse(call: ToolCall, tool: Tool) -> str:
    del call, tool
    return _NOBODY
