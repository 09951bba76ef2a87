"""Which OpenTelemetry metrics do calls feed?

Each measurement costs as much as several calls of the engine, so none repeats another: how many
calls ended, and how, is the count of their durations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from opentelemetry.metrics import Histogram, Meter

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.event import ToolEngineEvent
from tool_engine.model.outcome import Outcome
from tool_engine.observability.call_follower import FollowedCall

_DURATIONS: Final = tuple(0.01 * 2**step for step in range(14))
"""Boundaries, in seconds, that the conventions advise for `gen_ai.execute_tool.duration`."""
_EXECUTIONS: Final = (0.001, 0.005, *_DURATIONS)
_WAITS: Final = (0.0, *_EXECUTIONS)
_CALLS: Final = "tool_engine.calls"
_TOOL: Final = "gen_ai.tool.name"
_BUCKET: Final = "tool_engine.bucket"


class CallInstruments:
    """Counts and measures calls; see `CallListener`.

    Args:
        meter: Makes the instruments and exports what they hold.
    """

    def __init__(self, meter: Meter) -> None:
        self._duration = _make_histogram(
            meter,
            "gen_ai.execute_tool.duration",
            "The duration of a single tool execution, waiting for a slot included.",
            _DURATIONS,
        )
        self._execution = _make_histogram(
            meter,
            "tool_engine.execution.duration",
            "How long tools ran, without the time of waiting.",
            _EXECUTIONS,
        )
        self._wait = _make_histogram(
            meter,
            "tool_engine.queue.wait",
            "How long calls waited for a slot, those that did not have to included.",
            _WAITS,
        )
        count, track = meter.create_counter, meter.create_up_down_counter
        self._rejected = count(f"{_CALLS}.rejected", "{call}", "Calls that may not run.")
        self._retries = count("tool_engine.retries", "{attempt}", "Attempts after the first.")
        self._events = count("tool_engine.events", "{event}", "Events that are not about a call.")
        self._running = track(f"{_CALLS}.running", "{call}", "Calls that have a slot now.")
        self._queued = track(f"{_CALLS}.queued", "{call}", "Calls that wait for a slot now.")

    def heard(self, event: ToolEngineEvent) -> None:
        """Count an event that is not about a call, under its name in the logs."""
        self._events.add(1, {"event.name": event.event_type.value})

    def queued(self, call: FollowedCall, event: ToolEngineEvent) -> None:
        del event
        self._queued.add(1, _label_call(call))

    def started(self, call: FollowedCall, event: ToolEngineEvent, was_queued: bool) -> None:
        del event
        place = _label_call(call)
        if was_queued:
            self._queued.add(-1, place)
        self._running.add(1, place)

    def retried(self, call: FollowedCall, event: ToolEngineEvent) -> None:
        del event
        self._retries.add(1, _label_call(call))

    def ended(
        self,
        call: FollowedCall,
        event: ToolEngineEvent,
        result: ToolExecutionResult,
        now: int,
    ) -> None:
        del event
        place = _label_call(call)
        if call.is_queued:
            self._queued.add(-1, place)
        if call.is_running:
            self._running.add(-1, place)
        outcome = result.outcome
        error = {} if call.error is None else {"error.type": call.error}
        ended = {**place, **error, "tool_engine.outcome": outcome.value}
        self._duration.record((now - call.began) / 1e9, ended)
        if outcome is Outcome.REJECTED:
            self._rejected.add(1, {**place, **error})
        attempts: int = result.metadata["attempts"]
        if attempts:
            self._execution.record(result.execution_time, {**place, **error})
        if attempts or call.is_queued:
            self._wait.record(result.metadata["queue_wait"], place)


def _label_call(call: FollowedCall) -> dict[str, str]:
    return {_TOOL: call.tool, _BUCKET: call.bucket}


def _make_histogram(meter: Meter, name: str, text: str, bounds: Sequence[float]) -> Histogram:
    return meter.create_histogram(name, "s", text, explicit_bucket_boundaries_advisory=bounds)
