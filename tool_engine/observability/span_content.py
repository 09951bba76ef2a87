"""How do a call's arguments and result get into its span, where that is wanted?"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from opentelemetry.trace import Span

from tool_engine.logger import get_logger
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.event import ToolEngineEvent
from tool_engine.model.foreign import ends_caller
from tool_engine.observability.call_follower import ObservedEngine

_log: Final = get_logger(__name__)
_MAX_TEXT: Final = 32_768
"""The most characters of arguments, and of a result, in a span."""


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
        task = loop.create_task(
            self._finish_span(span, event.call_id, now), name="tool_engine.spans"
        )
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def flush(self) -> None:
        """Wait until the spans of ended calls of this event loop have ended."""
        loop = asyncio.get_running_loop()
        while here := [task for task in self._reading if task.get_loop() is loop]:
            await asyncio.wait(here)

    async def _finish_span(self, span: Span, call_id: str | None, now: int) -> None:
        try:
            for record in await self._engine.query_call_records(call_id=call_id, limit=1):
                span.set_attribute("gen_ai.tool.call.arguments", _encode_text(record.params))
        except BaseException as error:  # a storage may fail in any way
            if ends_caller(error):
                raise
            _log.warning("arguments_not_captured", call_id=call_id, error=type(error).__name__)
        finally:
            span.end(now)


def _encode_text(value: Any) -> str:
    try:
        text = msgspec.json.encode(value, enc_hook=repr).decode()
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[:_MAX_TEXT]}… [{len(text):,} characters in all]"
