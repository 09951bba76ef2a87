"""How does a conversation at the command line go from turn to turn, and what breaks a turn off?

Each turn is a task of its own, so that Ctrl-C at a terminal ends the turn and not the conversation,
and so that a turn ends whose events nobody reads any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from tool_engine.agent.answer import AgentAnswer
from tool_engine.agent.events import AgentEvent
from tool_engine.agent.loop import AgentLoop
from tool_engine.cli.chat_input import Said
from tool_engine.cli.chat_view import ChatView
from tool_engine.cli.failures import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, CommandError
from tool_engine.errors import ToolEngineError

__all__ = ["ChatTurns"]

T = TypeVar("T")


class ChatTurns:
    """The turns of one conversation.

    Args:
        view: Shows them.
        said: What the user says.
        is_kept: Whether the conversation is saved after each turn.
    """

    def __init__(self, view: ChatView, said: Said, *, is_kept: bool) -> None:
        self._view = view
        self._said = said
        self._is_kept = is_kept
        self._step: asyncio.Task[Any] | None = None
        self._is_interrupted = False
        self._broken: OSError | None = None
        """Why nobody sees anything any more."""

    def hear(self, event: AgentEvent) -> None:
        """Shows one step of a turn; where that fails, the turn ends."""
        if self._broken is not None:
            return
        try:
            self._view.hear(event)
        except OSError as error:
            # Nobody reads it, so nobody should pay for more.
            self._broken = error
            if self._step is not None:
                self._step.cancel()

    async def lead(self, loop: AgentLoop) -> int:
        """Takes the turns one after the other; returns the exit code.

        Raises:
            asyncio.CancelledError: Ctrl-C was pressed, and nobody sits at a terminal.
            OSError: The output cannot be written any more.
            CommandError: There was nothing to say.
        """
        turns = failed = 0
        with self._ctrl_c():
            while True:
                text = await self._next()
                if text is None:
                    break
                turns += 1
                answer = await self._turn(loop, text)
                failed += answer is None or not answer.is_complete
                if answer is None and not self._said.is_terminal:
                    break
        if self._said.is_terminal:
            return EXIT_INTERRUPTED if self._is_interrupted else EXIT_OK
        if not turns:
            raise CommandError("nothing was said: stdin is empty; write a MESSAGE, or one per line")
        return EXIT_FAILED if failed else EXIT_OK

    async def _next(self) -> str | None:
        if not self._said.is_terminal:
            return await self._said.next()
        self._view.prompt()
        try:
            text = await self._as_step(self._said.next())
        except asyncio.CancelledError:
            if not self._is_only_the_step():
                raise
            text = None
        if text is None:
            self._view.left()
        return text

    async def _turn(self, loop: AgentLoop, text: str) -> AgentAnswer | None:
        """One turn; None: it broke off."""
        try:
            try:
                answer = await self._as_step(loop.run(text))
            finally:
                if self._is_kept:
                    await loop.session.save({"loop": loop.to_dict()})
        except asyncio.CancelledError:
            if self._broken is not None:
                raise self._broken from None
            if not self._is_only_the_step():
                raise
            self._view.cancelled()
            return None
        except ToolEngineError as error:
            if self._broken is not None:
                raise self._broken from error
            self._view.failed(str(error))
            return None
        if self._broken is not None:
            raise self._broken
        self._view.answered(answer)
        return answer

    async def _as_step(self, work: Coroutine[Any, Any, T]) -> T:
        """Does what Ctrl-C ends."""
        self._is_interrupted = False
        task: asyncio.Task[T] = asyncio.create_task(work)
        self._step = task
        try:
            return await task
        finally:
            self._step = None

    @contextlib.contextmanager
    def _ctrl_c(self) -> Iterator[None]:
        """At a terminal, Ctrl-C ends the step as long as this is entered; elsewhere, everything."""
        if not self._said.is_terminal:
            yield
            return
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    def _is_only_the_step(self) -> bool:
        """Whether what was cancelled is the step, and not the whole conversation."""
        task = asyncio.current_task()
        return self._is_interrupted and (task is None or not task.cancelling())

    def _interrupt(self) -> None:
        if self._step is None or self._is_interrupted:
            # What is slow to end is not waited for a second time.
            raise KeyboardInterrupt
        self._is_interrupted = True
        self._step.cancel()
