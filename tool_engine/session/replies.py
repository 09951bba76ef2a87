"""How are the calls in a model's reply run within a session? A40."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import Source, ToolCallingProtocol
from tool_engine.interfaces.protocol import is_for_text
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.tool import Tool
from tool_engine.protocols.allowed_call import Consenting
from tool_engine.protocols.cycle import ToolCallCycleResult, process_tool_calls
from tool_engine.protocols.cycle_options import (
    BY_EFFECT,
    BeforeExecute,
    CycleOptions,
    OnProgress,
    OnResult,
    accept_call_alone,
)
from tool_engine.protocols.native_calls import find_form
from tool_engine.protocols.registry import PROTOCOLS, get_protocol
from tool_engine.protocols.result_content import text_of
from tool_engine.session.config import ToolCallConfig, find_names_said
from tool_engine.session.narrowing import hold_reply, narrow_settings
from tool_engine.session.parts import SessionParts
from tool_engine.session.reading.result import as_session_result

_NO_APPROVER = "there is no approver to ask: pass on_before_execute"


class ReplyRunner:
    """Run the calls in the replies of one session's model.

    Args:
        session: What runs the calls.
        parts: What it consists of.
    """

    def __init__(self, session: Source, parts: SessionParts) -> None:
        self._session = session
        self._toolbox = parts.tools.toolbox
        self._gate = parts.gate
        self._meter = parts.meter
        self._policy = parts.policy
        self._protocols: dict[str, ToolCallingProtocol] = {}

    def find_protocol(self, protocol: ToolCallingProtocol | str | None) -> ToolCallingProtocol:
        """Return the protocol that shows the tools to a model; see `ToolSession.protocol`."""
        if protocol is not None and not isinstance(protocol, str):
            if isinstance(protocol, ToolCallingProtocol):
                return protocol
            raise ConfigurationError(
                f"protocol must be a name or a ToolCallingProtocol, got {protocol!r:.80}"
            )
        name = protocol or self._toolbox.config.protocol
        if name not in self._protocols:
            options = {"tools": self._session} if name in PROTOCOLS else {}
            self._protocols[name] = get_protocol(name, **options)
        return self._protocols[name]

    async def process(
        self,
        reply: Any,
        protocol: ToolCallingProtocol | str | None,
        on_before_execute: BeforeExecute | None,
        on_result: OnResult | None,
        on_progress: OnProgress | None,
    ) -> ToolCallCycleResult:
        """Parse a reply and run its calls; see `ToolSession.process`."""
        ask = self._count_consent(on_before_execute)
        if isinstance(reply, Iterator):
            # To see whose form its parts have is to take them.
            reply = list(reply)
        hear = {"on_result": _adapt_callback(on_result), "on_progress": on_progress}
        options = self._make_options(self._toolbox.config, ask, **hear)
        return await self._run_reply(reply, await self._choose_protocol(protocol, reply), options)

    async def process_with(
        self,
        text: str,
        config: ToolCallConfig | Mapping[str, Any],
        on_before_execute: BeforeExecute | None,
    ) -> ToolCallCycleResult:
        """Do the same under other settings; see `ToolSession.process_cycle`."""
        toolbox, own = self._toolbox, self._toolbox.config
        chosen = await _narrow_in_time(own, config)
        if chosen.asks_always and not own.asks_always:
            # The session's own word about consent is not a part of these settings.
            on_before_execute = on_before_execute or _refuse_call
        ask = self._count_consent(on_before_execute)
        timeout = chosen.timeout if "timeout" in find_names_said(config) else None
        names = {tool.name for tool in toolbox.under(chosen).tools()}
        options = self._make_options(chosen, ask, timeout=timeout, tools=names)
        protocol = await self._choose_protocol(None, text, chosen.protocol)
        with self._policy.also(chosen), self._meter.also(chosen), hold_reply(toolbox, chosen):
            return await self._run_reply(text, protocol, options)

    def format(
        self,
        results: ToolCallCycleResult | Sequence[ToolExecutionResult],
        protocol: ToolCallingProtocol | str | None,
        calls: Sequence[ToolCall] | None,
    ) -> str:
        """Format results as text; see `ToolSession.format_cycle_results`."""
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
        formatted = self.find_protocol(protocol).format_results(results, calls)
        if isinstance(formatted, str):
            return formatted
        return "\n".join(text_of(result) for result in results)

    async def _run_reply(
        self, reply: Any, protocol: ToolCallingProtocol, options: CycleOptions
    ) -> ToolCallCycleResult:
        try:
            cycle = await process_tool_calls(self._session, reply, protocol, options)
        finally:
            # For `prepare`: the calls of a reply belong to the turn that it answers.
            self._toolbox.turn += 1
        if not self._meter.is_in_turn:
            # The loop that runs a turn counts a reply when it comes.
            self._meter.add_tokens(cycle.reply.usage)
        # Those of calls that never came to the conversation are its results, too.
        cycle.execution_results[:] = map(as_session_result, cycle.execution_results)
        return cycle

    def _count_consent(self, ask: BeforeExecute | None) -> BeforeExecute | None:
        """Return `ask` such that its consent counts when there is no approver."""
        asks = accept_call_alone(ask)
        can_ask_others = not callable(ask) or self._gate.approver is not None
        return ask if can_ask_others else Consenting(asks)

    async def _choose_protocol(
        self, protocol: ToolCallingProtocol | str | None, reply: object, settings: str | None = None
    ) -> ToolCallingProtocol:
        """Return the protocol for a reply: the named, or the settings'."""
        name = protocol or settings or self._toolbox.config.protocol
        if isinstance(name, str) and name not in PROTOCOLS:
            # To look among the installed packages is to read files.
            chosen = await asyncio.to_thread(self.find_protocol, name)
        else:
            chosen = self.find_protocol(name)
        reads_text = protocol is None and is_for_text(chosen)
        form = find_form(reply) if reads_text else None
        return chosen if form is None else self.find_protocol(form)

    def _make_options(
        self, config: ToolCallConfig, ask: BeforeExecute | None, **fields: Any
    ) -> CycleOptions:
        # Within a turn the meter counts, since it knows the calls of earlier replies.
        is_counted = self._meter.is_in_turn
        return CycleOptions(
            max_parallel=None if config.parallel_execution else 1,
            order=BY_EFFECT,
            max_calls=sys.maxsize if is_counted else config.max_calls_per_turn,
            on_before_execute=ask,
            language=config.language,
            **fields,
        )


async def _narrow_in_time(
    own: ToolCallConfig, config: ToolCallConfig | Mapping[str, Any]
) -> ToolCallConfig:
    name = config.get("protocol") if isinstance(config, Mapping) else None
    if isinstance(name, str) and name not in PROTOCOLS:
        return await asyncio.to_thread(narrow_settings, own, config)
    return narrow_settings(own, config)


def _adapt_callback(on_result: OnResult | None) -> OnResult | None:
    """Return a callback that gets the results of the conversation."""
    if not callable(on_result):
        return on_result
    return lambda call, result: on_result(call, as_session_result(result))


def _refuse_call(call: ToolCall, tool: Tool) -> str:
    del call, tool
    return _NO_APPROVER
