"""How does an app start and end that is mounted in another one, which does not start it?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final

from tool_engine.access.problem import Problem, send_problem
from tool_engine.engine import ToolEngine
from tool_engine.errors import ToolEngineError

_LONGEST_END: Final = 2.0
"""Seconds that the end of an engine waits for the end of an app."""


class LivingApp:
    """An ASGI app that starts by itself, where no server starts it.

    A server says to the app that it serves when it starts and ends (the lifespan of ASGI), which
    what is mounted in another app does not hear. It starts at its first request then, in a task of
    its own, and ends when the engine closes, or its event loop.

    Args:
        make: Makes the app that is started: one that has ended cannot start again.
        engine: The engine that it serves.
        cure: What to do about a second event loop.
    """

    def __init__(self, make: Callable[[], Any], engine: ToolEngine, cure: str) -> None:
        self._make = make
        self._engine = engine
        self._cure = cure
        self._app: Any = None
        """What answers; None: it has not started, or has ended."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_managed = False
        """Whether a server says when it starts and ends."""
        self._starting: asyncio.Task[None] | None = None
        self._life: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            self._is_managed = True
            await self._live_once(receive, send)
            return
        try:
            app = await self._find_app()
        except Problem as problem:
            await send_problem(problem, send)
            return
        await app(scope, receive, send)

    async def _find_app(self) -> Any:
        """Return what answers requests.

        Raises:
            Problem: It cannot answer here and now.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop and not self._loop.is_closed():
            what = "this app is served on another event loop"
            raise Problem(500, "other-loop", f"{what}; {self._cure}")
        if self._app is None or self._loop is not loop:
            if self._is_managed:
                raise Problem(503, "not-started", "the server starts or ends; try again later")
            await self._start_app(loop)
        if self._app is None:
            raise Problem(503, "not-started", "the engine closes; try again later")
        return self._app

    async def _start_app(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start, unless another request does already."""
        starting = self._starting
        if starting is None or starting.done() or self._loop is not loop:
            self._loop, self._app = loop, None
            # Not in the context of a request, whose caller and trace are none of the others'.
            self._starting = starting = loop.create_task(self._begin_life(loop), context=Context())
        try:
            await asyncio.shield(starting)
        except ToolEngineError as error:
            self._loop = None
            raise Problem(503, "not-started", str(error)) from None

    async def _begin_life(self, loop: asyncio.AbstractEventLoop) -> None:
        forget = self._engine.add_closer(self._end_life)
        self._ended = asyncio.Event()
        started: asyncio.Future[None] = loop.create_future()
        stages = ["lifespan.startup"]

        async def receive() -> Any:
            if not stages:
                await self._ended.wait()
            return {"type": stages.pop() if stages else "lifespan.shutdown"}

        async def send(message: Any) -> None:
            if message["type"] == "lifespan.startup.complete":
                started.set_result(None)

        async def live() -> None:
            try:
                await self._live_once(receive, send)
            finally:
                forget()

        self._life = life = loop.create_task(live(), name="tool-engine-app")
        await asyncio.wait([life, started], return_when=asyncio.FIRST_COMPLETED)
        if life.done():
            await life

    async def _end_life(self) -> None:
        """End what has started by itself: the engine closes."""
        life, loop = self._life, self._loop
        if life is None or loop is None or life.done() or loop.is_closed():
            return
        if loop is asyncio.get_running_loop():
            self._ended.set()
            await asyncio.wait([life], timeout=_LONGEST_END)
            return
        over = asyncio.Event()
        here = asyncio.get_running_loop()

        def end_there() -> None:
            self._ended.set()
            life.add_done_callback(lambda _: here.call_soon_threadsafe(over.set))

        with contextlib.suppress(RuntimeError, TimeoutError):
            loop.call_soon_threadsafe(end_there)
            async with asyncio.timeout(_LONGEST_END):
                await over.wait()

    async def _live_once(self, receive: Any, send: Any) -> None:
        """Live from one start to its end."""
        app = self._make()

        async def note_stage(message: Any) -> None:
            if message["type"] == "lifespan.startup.complete":
                self._app, self._loop = app, asyncio.get_running_loop()
            await send(message)

        async def note_end() -> Any:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                self._forget_app(app)
            return message

        try:
            await app({"type": "lifespan", "asgi": {"version": "3.0"}}, note_end, note_stage)
        finally:
            self._forget_app(app)

    def _forget_app(self, app: Any) -> None:
        """Send no more requests to an app that ends."""
        if self._app is app:
            self._app = self._loop = None
