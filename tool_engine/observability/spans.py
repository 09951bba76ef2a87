"""Which span does a call get, with which attributes and content, and who receives its trace?

One span per call, by OpenTelemetry's semantic conventions for generative AI (`execute_tool NAME`),
with a child for the time that it waited for a slot. While a tool runs, its span is the current one,
for whatever the tool calls.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from opentelemetry import context as current
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace import set_span_in_context as with_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tool_engine.errors import ConfigurationError
from tool_engine.logger import get_logger
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.event import ToolEngineEvent
from tool_engine.model.foreign import ends_caller
from tool_engine.model.settings.concurrency import CollisionPolicy
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.model.trace import TraceCarrier, trace_carrier
from tool_engine.observability.call_follower import FollowedCall, ObservedEngine

_MAX_LEADERS: Final = 1_000
_MAX_TEXT: Final = 1_000
_TYPES: Final = {ToolCategory.HTTP: "extension", ToolCategory.DATABASE: "datastore"}
"""`gen_ai.tool.type` by the category of a tool; other tools are functions."""
_DATA: Final = {
    "bucket": "tool_engine.bucket",
    "caller_id": "tool_engine.caller.id",
    "caller_type": "tool_engine.caller.type",
    "parent_call_id": "tool_engine.parent_call.id",
    "conversation_id": "gen_ai.conversation.id",
}
"""Attributes whose values are in the event's data."""
EndSpan = Callable[[Span, ToolEngineEvent, ToolExecutionResult, int], None]
_log: Final = get_logger(__name__)
_MAX_CONTENT: Final = 32_768
"""The most characters of arguments, and of a result, in a span."""


class _OpenSpan(msgspec.Struct, eq=False):
    """The span of a call that has not ended."""

    span: Span
    wait: Span | None = None
    started: int = 0
    """When its tool was first run, in nanoseconds of the wall clock."""
    inside: Context | None = None
    """The context in which the tool runs."""
    outside: Context | None = None
    """The caller's context, restored at the end."""
    carrier: TraceCarrier | None = None
    """The tracer of the caller."""


class CallSpans:
    """Makes the spans; see `CallListener`.

    Args:
        tracer: Makes and exports them.
        carrier: What outgoing requests of the tools ask for headers.
        end: Ends a span later in place of its `end`, after it has added more to it.
    """

    def __init__(self, tracer: Tracer, carrier: TraceCarrier, end: EndSpan | None = None) -> None:
        self._tracer = tracer
        self._carrier = carrier
        self._end = end
        self._leaders: OrderedDict[str | None, SpanContext] = OrderedDict()
        """The newest calls whose run others may have shared."""

    def queued(self, call: FollowedCall, event: ToolEngineEvent) -> None:
        """Begin the span of the call and, in it, that of its wait."""
        opened = self._begin_span(call, event)
        opened.wait = self._tracer.start_span(
            _name_span("queue", event.tool),
            context=with_span(opened.span),
            attributes={
                "tool_engine.bucket": call.bucket,
                "gen_ai.tool.call.id": str(event.call_id),
            },
        )

    def started(self, call: FollowedCall, event: ToolEngineEvent, was_queued: bool) -> None:
        """End the wait, and make the span the current one for the tool."""
        started = call.read_time() if was_queued else call.began
        opened: _OpenSpan = self._begin_span(call, event) if call.span is None else call.span
        if opened.wait is not None:
            opened.wait.end(started)
        opened.started = started
        opened.outside = current.get_current()
        opened.inside = with_span(opened.span, opened.outside)
        opened.carrier = trace_carrier.get()
        # The caller's own context: the tool runs in a copy of it that is made right after this.
        current.attach(opened.inside)
        trace_carrier.set(self._carrier)

    def retried(self, call: FollowedCall, event: ToolEngineEvent) -> None:
        """Note a failed attempt that is followed by another."""
        opened: _OpenSpan = call.span
        facts = event.data
        opened.span.add_event(
            "tool_engine.retry",
            {
                "tool_engine.attempt": facts["attempt"] - 1,
                "tool_engine.execution_time": facts["execution_time"],
                "tool_engine.delay": facts["delay"],
                "error.type": facts["error_type"],
            },
            timestamp=call.read_time() - int(facts["delay"] * 1e9),
        )

    def ended(
        self,
        call: FollowedCall,
        event: ToolEngineEvent,
        result: ToolExecutionResult,
        now: int,
    ) -> None:
        opened: _OpenSpan = call.span or _OpenSpan(self._span_at_end(call, event, result))
        self._leave_span(opened)
        span = opened.span
        if opened.wait is not None and not opened.started:
            _mark_failure(opened.wait, result)
            opened.wait.end(now)
        if span.is_recording():
            _describe_end(span, result)
            if self._end is not None:
                self._end(span, event, result, now)
                return
        span.end(now)

    def _begin_span(self, call: FollowedCall, event: ToolEngineEvent) -> _OpenSpan:
        span = self._start_span(call, event)
        call.span = _OpenSpan(span)
        tool = event.tool
        if tool is not None and tool.concurrency.collision is CollisionPolicy.SINGLE_FLIGHT:
            self._leaders[event.call_id] = span.get_span_context()
            if len(self._leaders) > _MAX_LEADERS:
                self._leaders.popitem(last=False)
        return call.span  # type: ignore[no-any-return]

    def _start_span(self, call: FollowedCall, event: ToolEngineEvent, **where: Any) -> Span:
        return self._tracer.start_span(
            _name_span("execute_tool", event.tool),
            kind=SpanKind.INTERNAL,
            attributes=_list_attributes(event),
            start_time=call.began,
            **where,
        )

    def _span_at_end(
        self, call: FollowedCall, event: ToolEngineEvent, result: ToolExecutionResult
    ) -> Span:
        """Return the span of a call whose start was not seen."""
        if not call.is_shared:
            return self._start_span(call, event)
        leader = self._leaders.get(result.metadata["shared_with"])
        return self._start_span(call, event, links=None if leader is None else [Link(leader)])

    def _leave_span(self, opened: _OpenSpan) -> None:
        """Restore the caller's context, unless another one is current by now."""
        outside = opened.outside
        if outside is not None and current.get_current() is opened.inside:
            current.attach(outside)
            trace_carrier.set(opened.carrier)


def _name_span(operation: str, tool: Tool | None) -> str:
    """Return the name of a span; unknown tools share one, to bound the names."""
    return operation if tool is None else f"{operation} {tool.name}"


def _list_attributes(event: ToolEngineEvent) -> dict[str, str | int]:
    """Return what is known from the beginning, so that samplers can use it."""
    tool = event.tool
    attributes: dict[str, str | int] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": (event.tool_name or "")[:_MAX_TEXT],
        "gen_ai.tool.call.id": event.call_id or "",
    }
    if tool is not None:
        attributes["gen_ai.tool.type"] = _TYPES.get(tool.category, "function")
        attributes["gen_ai.tool.description"] = tool.description[:_MAX_TEXT]
        attributes["tool_engine.tool.version"] = tool.version
    for key, name in _DATA.items():
        value = event.data.get(key)
        if value is not None:
            attributes[name] = value if type(value) is int else str(value)[:_MAX_TEXT]
    return attributes


def _describe_end(span: Span, result: ToolExecutionResult) -> None:
    metadata = result.metadata
    span.set_attributes(
        {
            "tool_engine.outcome": result.outcome.value,
            "tool_engine.attempts": metadata["attempts"],
            "tool_engine.queue_wait": metadata["queue_wait"],
            "tool_engine.execution_time": result.execution_time,
        }
    )
    for key in ("generation", "shared_with"):
        if metadata.get(key) is not None:
            span.set_attribute(f"tool_engine.{key}", metadata[key])
    _mark_failure(span, result)


def _mark_failure(span: Span, result: ToolExecutionResult) -> None:
    """Record how a call failed, by the conventions for errors."""
    if not result.is_success:
        span.set_attribute("error.type", result.error_type or "_OTHER")
        span.set_status(Status(StatusCode.ERROR, (result.error or "")[:_MAX_TEXT]))


class CallContent:
    """Ends spans with the call's arguments and result, secrets hidden.

    Events have no arguments: they are read from the record of the call, shortly after its end.

    Args:
        engine: Has the records.
    """

    def __init__(self, engine: ObservedEngine) -> None:
        self._engine = engine
        self._reading: set[asyncio.Task[None]] = set()

    def end(
        self, span: Span, event: ToolEngineEvent, result: ToolExecutionResult, now: int
    ) -> None:
        """End the span as of `now`, as soon as its contents are known."""
        if result.is_success:
            span.set_attribute("gen_ai.tool.call.result", _encode_text(result.output))
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # a call that was left behind by a loop which is no more
            span.end(now)
            return
        task = loop.create_task(self._add_arguments(span, event.call_id), name="tool_engine.spans")
        self._reading.add(task)

        def end_span(_: object) -> None:
            # Not by the task: one that its loop's end cancels before its first step does nothing.
            self._reading.discard(task)
            span.end(now)

        task.add_done_callback(end_span)

    async def flush(self) -> None:
        """Wait until the spans of ended calls of this event loop have ended."""
        loop = asyncio.get_running_loop()
        while here := [task for task in self._reading if task.get_loop() is loop]:
            await asyncio.wait(here)

    async def _add_arguments(self, span: Span, call_id: str | None) -> None:
        try:
            for record in await self._engine.query_call_records(call_id=call_id, limit=1):
                span.set_attribute("gen_ai.tool.call.arguments", _encode_text(record.params))
        except BaseException as error:  # a storage may fail in any way
            if ends_caller(error):
                raise
            _log.warning("arguments_not_captured", call_id=call_id, error=type(error).__name__)


def _encode_text(value: Any) -> str:
    try:
        text = msgspec.json.encode(value, enc_hook=repr).decode()
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    if len(text) <= _MAX_CONTENT:
        return text
    return f"{text[:_MAX_CONTENT]}… [{len(text):,} characters in all]"


class TraceHeaders:
    """Trace headers for the allowed hosts; see `TraceCarrier`.

    Args:
        hosts: Names of hosts; `*.example.com` stands for all below that, `*` for all there are.

    Raises:
        ConfigurationError: A host is not a text of that form.
    """

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        names = [hosts] if isinstance(hosts, str) else list(hosts)
        for name in names:
            if not isinstance(name, str) or not _is_pattern(name):
                raise ConfigurationError(
                    f"propagate_to: {name!r} is not a host; write api.example.com, *.example.com "
                    "or *, without scheme, port and path"
                )
        self._all = "*" in names
        self._hosts = frozenset(name.lower() for name in names)
        self._propagator = TraceContextTextMapPropagator()

    def headers_for(self, host: str | None) -> dict[str, str]:
        """Return `traceparent` and `tracestate` of the current span; none for other hosts."""
        headers: dict[str, str] = {}
        if host is None or self._all or self._is_named(host.lower().rstrip(".")):
            self._propagator.inject(headers)
        return headers

    def _is_named(self, host: str) -> bool:
        above = host.split(".")[1:]
        parents = (".".join(above[start:]) for start in range(len(above)))
        return host in self._hosts or any(f"*.{parent}" in self._hosts for parent in parents)


def _is_pattern(name: str) -> bool:
    rest = name.removeprefix("*.") if name != "*" else "all"
    return bool(rest) and not any(mark in rest for mark in "*/:@? ")
