"""How many calls can run in parallel without one being refused because of the others?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from tool_engine.config import ConcurrencyConfig
from tool_engine.interfaces.source import Source
from tool_engine.model.tool import Tool


def count_workers(
    source: Source, names: Sequence[object], most: int | None, *, may_wait: bool = False
) -> int:
    """Return how many calls of a list may run in parallel.

    `most` is the upper bound, or None for as many as the limits let run; with `may_wait`, calls
    that would wait for a slot count, too.
    """
    config = None if source.controller is None else source.controller.config
    if most is None and isinstance(config, ConcurrencyConfig):
        # Each queue that a call joins must have room for all of the others.
        most = min(
            running + queue for running, queue in _list_limits(config, _find_tools(source, names))
        )
        most = max(1, most if may_wait else min(most, config.max_concurrent))
    return min(len(names), len(names) if most is None else most)


def _find_tools(source: Source, names: Iterable[object]) -> Iterator[Tool]:
    for name in {name for name in names if isinstance(name, str)}:
        # An unknown name is reported where its call is made.
        with suppress(Exception):
            tool = source.get(name)
            if isinstance(tool, Tool):
                yield tool


def _list_limits(config: ConcurrencyConfig, tools: Iterable[Tool]) -> Iterator[tuple[int, int]]:
    """Yield (running, waiting) limits: global, per caller, per tool."""
    most, keys = config.max_concurrent, config.key_limits
    queue = 0 if config.strategy == "reject" else config.queue_size
    yield most, queue
    if keys is not None and keys.limit is not None:
        yield keys.limit, queue if keys.queue_size is None else min(queue, keys.queue_size)
    for tool in tools:
        running = min(most, config.bucket_limits.get(tool.bucket, most))
        waiting = config.bucket_queue_sizes.get(tool.bucket, queue)
        yield running // tool.concurrency.weight, min(queue, waiting)
