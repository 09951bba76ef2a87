"""How does a worker process run the calls of a fleet, and end one of them without ending others?

An async handler runs many at once, in one event loop. Any other handler runs one after the other,
in the main thread, where a signal can interrupt it.

This file imports nothing of the engine: a worker process loads it by its path.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

_CHUNK = 1 << 16


def serve_together(guest: Any, function: Callable[..., Any], requests: int, answers: int) -> None:
    """Answer requests for an async handler until there are no more, all at once.

    Args:
        guest: The module `guest`.
        function: The handler.
        requests: The file that requests come from.
        answers: The file that answers go to.
    """
    asyncio.run(_Together(guest, function, answers).serve(requests))


def serve_in_turn(guest: Any, function: Callable[..., Any], requests: int, answers: int) -> None:
    """Answer requests for any other handler, one after the other; see `serve_together`."""
    is_running = False

    def interrupt(*_: object) -> None:
        if is_running:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)

    def call(**arguments: Any) -> Any:
        nonlocal is_running
        try:
            is_running = True
            return function(**arguments)
        finally:
            is_running = False

    while (listed := guest.read_message(requests)) is not None:
        for request in listed:
            if "cancel" in request:
                continue  # it has ended
            answer = guest.answer_request(call, asyncio.Runner, request, None, answers)
            is_running = False  # an interrupt may have come just before
            guest.write_message(answers, answer)


class _Together:
    """The calls of an async handler, all in one event loop.

    Args:
        guest: The module `guest`.
        function: The handler.
        answers: The file that answers go to.
    """

    def __init__(self, guest: Any, function: Callable[..., Any], answers: int) -> None:
        self._guest = guest
        self._function = function
        self._answers = answers
        # Reports come from threads of their own.
        self._lock = threading.Lock()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ready: list[bytes] = []
        self._received = bytearray()
        self._ended = asyncio.Event()

    async def serve(self, requests: int) -> None:
        os.set_blocking(requests, False)
        loop = asyncio.get_running_loop()
        self._start, self._call_soon = loop.create_task, loop.call_soon
        loop.add_reader(requests, self._receive_bytes, requests)
        await self._ended.wait()
        os._exit(0)

    def _receive_bytes(self, requests: int) -> None:
        try:
            piece = os.read(requests, _CHUNK)
        except BlockingIOError:
            return
        if not piece:
            self._ended.set()
            return
        self._received += piece
        while len(self._received) >= 4:
            size = int.from_bytes(self._received[:4], "big") + 4
            if len(self._received) < size:
                return
            listed = json.loads(self._received[4:size])
            del self._received[:size]
            for request in listed:
                self._take_request(request)

    def _take_request(self, request: Any) -> None:
        if "cancel" in request:
            self._cancel_call(request["cancel"])
            return
        number = request["id"]
        self._tasks[number] = self._start(self._run_call(number, request))

    def _cancel_call(self, number: int) -> None:
        if (task := self._tasks.get(number)) is None:
            return
        task.cancel()
        run: Any = task.get_coro()
        if inspect.getcoroutinestate(run) == inspect.CORO_CREATED:
            # It never begins, so that it cannot say so itself.
            self._add_answer(number, self._guest.encode_fault(number, asyncio.CancelledError()))

    async def _run_call(self, number: int, request: Any) -> None:
        reports = None
        try:
            arguments, reports = self._guest.read_request(request, self._write_message)
            if trace := request.get("trace"):
                with self._guest.hold_trace(trace, is_alone=False):
                    value = await self._function(**arguments)
            else:
                value = await self._function(**arguments)
            answer = self._guest.encode_result(number, value)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything
            answer = self._guest.encode_fault(number, error)
        if reports is not None:
            reports.end()
        self._add_answer(number, answer)

    def _add_answer(self, number: int, answer: bytes) -> None:
        del self._tasks[number]
        self._ready.append(answer)
        if not self._tasks:
            self._write_ready()  # none comes with it
        elif len(self._ready) == 1:
            self._call_soon(self._write_ready)

    def _write_ready(self) -> None:
        ready, self._ready = self._ready, []
        if not ready:
            return
        self._guest.flush_words()
        if sum(map(len, ready)) <= _CHUNK:
            self._write_message(b"[%b]" % b",".join(ready))
            return
        for answer in ready:  # what reads them has a limit for each message
            self._write_message(answer)

    def _write_message(self, message: bytes) -> None:
        with self._lock:
            self._guest.write_message(self._answers, message)
