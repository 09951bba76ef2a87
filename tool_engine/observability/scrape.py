"""How does another thread read an engine's figures of one moment?

A controller lives on one event loop and must not be read from elsewhere while that runs.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tool_engine.observability.calls import ObservedEngine

_TIMEOUT: Final = 1.0
"""Seconds for which a reader waits for the event loop."""


class Figures(NamedTuple):
    """The state of an engine at one moment."""

    metrics: Any
    """The controller's `ConcurrencyMetrics`."""
    buckets: dict[str, dict[str, Any]]
    """Its `get_bucket_metrics()`."""
    limits: Any
    """Its `ConcurrencyConfig`."""
    loaded: dict[str, int]
    """`tools` and `load_errors`: how many there are."""


class EngineReader:
    """Reads an engine from any thread.

    Args:
        engine: What is read.
    """

    def __init__(self, engine: ObservedEngine) -> None:
        self._engine = engine
        self._loop: asyncio.AbstractEventLoop | None = None
        self.meet_loop()

    def meet_loop(self) -> None:
        """Remember the engine's event loop, if it is unknown or was closed."""
        if self._loop is None or self._loop.is_closed():
            self._loop = _running_loop()

    def read(self) -> Figures | None:
        """Return the figures; None if the loop does not answer within a second."""
        loop = self._loop
        if loop is None or not loop.is_running() or loop is _running_loop():
            return self._read_figures()
        answer: concurrent.futures.Future[Figures] = concurrent.futures.Future()
        try:
            loop.call_soon_threadsafe(_fill_answer, answer, self._read_figures)
        except RuntimeError:  # the loop was closed just now
            return self._read_figures()
        try:
            return answer.result(_TIMEOUT)
        except concurrent.futures.TimeoutError:
            answer.cancel()
            return None

    def _read_figures(self) -> Figures:
        engine = self._engine
        controller = engine.controller
        loaded = {"tools": len(engine.index), "load_errors": len(engine.load_errors)}
        return Figures(
            controller.get_metrics(), controller.get_bucket_metrics(), controller.config, loaded
        )


def _fill_answer(
    answer: concurrent.futures.Future[Figures], figures: Callable[[], Figures]
) -> None:
    if not answer.set_running_or_notify_cancel():
        return  # the reader has stopped waiting
    try:
        answer.set_result(figures())
    except Exception as error:  # noqa: BLE001 - raised where it was asked for
        answer.set_exception(error)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
