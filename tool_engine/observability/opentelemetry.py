"""How are an engine's calls reported to OpenTelemetry?

Importing this module sets nothing up: the providers that the program configures decide where spans
and metrics go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Self
from weakref import WeakSet

from tool_engine.errors import ConfigurationError, MissingExtraError
from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.model.event import PASSING, ToolEngineEventType
from tool_engine.observability.call_follower import (
    CALL_EVENTS,
    CallFollower,
    CallListener,
    ObservedEngine,
)
from tool_engine.observability.labels import LabelLimit

try:
    from opentelemetry.metrics import MeterProvider, get_meter
    from opentelemetry.trace import TracerProvider, get_tracer

    from tool_engine.observability.instruments import CallInstruments
    from tool_engine.observability.spans import CallContent, CallSpans, TraceHeaders
except ImportError as error:
    raise MissingExtraError(
        f"OpenTelemetry is not installed ({error.name}): pip install 'tool-engine[otel]'"
    ) from error

_SCOPE: Final = "tool_engine"
_OTHER_EVENTS: Final = tuple(
    kind for kind in ToolEngineEventType if kind not in CALL_EVENTS and kind not in PASSING
)
_instrumented: Final[WeakSet[Any]] = WeakSet()


class OpenTelemetryInstrumentation:
    """Returned by `instrument`: active until `close()` or the end of its `with` block."""

    def __init__(
        self,
        engine: ObservedEngine,
        follower: CallFollower,
        unsubscribe: Callable[[], None],
        content: CallContent | None,
    ) -> None:
        self._engine = engine
        self._follower = follower
        self._unsubscribe = unsubscribe
        self._content = content

    def __repr__(self) -> str:
        return f"<OpenTelemetryInstrumentation, {self._follower.open_calls} calls under way>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Make no new spans and metrics, complete those of open calls; idempotent."""
        self._unsubscribe()
        self._follower.close()
        _instrumented.discard(self._engine)

    async def flush(self) -> None:
        """Wait until the spans of all ended calls are complete.

        Call it before a provider's `force_flush`. It returns at once unless a provider was slow,
        so that it is called in a thread, or contents are captured.
        """
        await self._follower.drain()
        if self._content is not None:
            await self._content.flush()


def instrument(
    engine: ObservedEngine,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    *,
    capture_content: bool = False,
    propagate_to: Iterable[str] = (),
    max_tools: int = 200,
    max_buckets: int = 50,
) -> OpenTelemetryInstrumentation:
    """Make spans and metrics of the calls of an engine, from now on.

    Args:
        engine: A `ToolEngine`.
        tracer_provider: Where spans go; None: the program's global one.
        meter_provider: Where metrics go; None: the program's global one.
        capture_content: Writes the arguments and the result of each call into its span, with
            secrets hidden. Arguments come from the record of the call, so that it needs one.
        propagate_to: The hosts to which requests of HTTP tools carry `traceparent`, such as
            `["api.example.com", "*.internal"]`; a header that the tool itself sends stays.
        max_tools: The most tools that have a name of their own in metrics; others are `other`.
        max_buckets: The same for buckets.

    Returns:
        The instrumentation; `close()` or the end of `with` ends it.

    Raises:
        ConfigurationError: The engine is instrumented already, or an argument is wrong.
        EngineClosedError: The engine is closed.

    Example:
        >>> with instrument(engine, tracer_provider):
        ...     await engine.execute("calculator", {"expression": "1+2"})
    """
    check_switch("capture_content", capture_content)
    if engine in _instrumented:
        raise ConfigurationError(
            f"{engine!r} is instrumented already; close() the first instrumentation before"
        )
    content = CallContent(engine) if capture_content else None
    instruments = CallInstruments(get_meter(_SCOPE, meter_provider=meter_provider))
    listeners: list[CallListener] = [
        instruments,
        # The last one: it leaves the span, which metrics refer to in their exemplars.
        CallSpans(
            get_tracer(_SCOPE, tracer_provider=tracer_provider),
            TraceHeaders(propagate_to),
            None if content is None else content.end,
        ),
    ]
    tools, buckets = LabelLimit("max_tools", max_tools), LabelLimit("max_buckets", max_buckets)
    follower = CallFollower(engine, listeners, tools, buckets)
    unsubscribe = engine.subscribe(instruments.heard, _OTHER_EVENTS)
    _instrumented.add(engine)
    return OpenTelemetryInstrumentation(engine, follower, unsubscribe, content)
