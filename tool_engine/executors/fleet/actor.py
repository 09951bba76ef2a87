"""How do Ray's threads reach what a worker of a fleet does, and wait for what it says?

An actor with coroutines would change its thread four times for each of their calls, twice of them
to read the arguments: that is half of what Ray itself takes for one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from tool_engine.executors.fleet.frames import read_bundle
from tool_engine.executors.fleet.host import FleetHost

_Value = TypeVar("_Value")
THREADS: Final = 4
"""One that prepares, one that stops, and two that exchange bundles."""


class FleetActor:
    """What Ray makes of a worker, and calls in some of its threads at once.

    Args:
        settings: `host.Settings` as JSON.
    """

    def __init__(self, settings: bytes) -> None:
        self._host = FleetHost(settings)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._next = 1
        self._early: dict[int, tuple[bytes, Callable[[bytes | Exception], object]]] = {}
        """Bundles that have overtaken others, whose number is not the next one."""

    def take_place(self) -> None:
        """Answer as soon as there is this actor, before it prepares anything."""

    def prepare(self) -> bytes:
        """Prepare the host; see `FleetHost.prepare`."""
        return self._wait_for(self._host.prepare())

    def exchange(self, numbered: bytes) -> bytes:
        """Bring the host a bundle with its number; return its reply."""
        number, _, bundle = read_bundle(numbered)
        replies: SimpleQueue[bytes | Exception] = SimpleQueue()
        if not self._begin_alone(number, bundle, replies.put):
            self._loop.call_soon_threadsafe(self._take_bundle, number, bundle, replies.put)
        if isinstance(reply := replies.get(), Exception):
            raise reply
        return reply

    def stop(self) -> None:
        """End the host's process, and all that it has started."""
        self._wait_for(self._host.stop())

    def _take_bundle(
        self, number: int, bundle: bytes, reply: Callable[[bytes | Exception], object]
    ) -> None:
        with self._host.lock:
            self._early[number] = (bundle, reply)
            while (ready := self._early.pop(self._next, None)) is not None:
                self._next += 1
                try:
                    self._host.exchange(*ready)
                except Exception as error:  # noqa: BLE001 - else its asker would wait for ever
                    ready[1](error)

    def _begin_alone(
        self, number: int, bundle: bytes, reply: Callable[[bytes | Exception], object]
    ) -> bool:
        """Spare the way over the loop, if nothing has come before it that is not there yet."""
        with self._host.lock:
            is_next = number == self._next and not self._early
            is_begun = is_next and self._host.begin_alone(bundle, reply)
            self._next += is_begun
            return is_begun

    def _wait_for(self, work: Coroutine[Any, Any, _Value]) -> _Value:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
