"""How does a conversation go on, and what cancels a turn?

Each turn is a task of its own, so that Ctrl-C at a terminal ends the turn and not the conversation,
and so that a turn ends when its output has no reader.
"""

from __future__ import annotations

import asyncio
import re
import signal
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

from tool_engine.agent.answer import AgentAnswer
from tool_engine.agent.events import AgentEvent
from tool_engine.agent.loop import AgentLoop
from tool_engine.cli.chat.chat_options import ChatOptions
from tool_engine.cli.chat.chat_view import ChatView
from tool_engine.cli.chat.input import Said
from tool_engine.cli.failures import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, CommandError
from tool_engine.cli.signals import hurry_after_signal
from tool_engine.cli.tables import count_text
from tool_engine.errors import RecordsUnavailableError, SessionConflictError, ToolEngineError
from tool_engine.knowledge.memory_sessions import MemorySessionStorage
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.session import LONGEST_SESSION_ID
from tool_engine.redaction import redact_text
from tool_engine.session.session import ToolSession

T = TypeVar("T")
_LONGEST_NAME: Final = LONGEST_SESSION_ID - 9


class ChatTurns:
    """The turns of one conversation, saved after each one where `is_kept`.

    `options` are those with which another command goes on with what `/save` keeps.
    """

    def __init__(
        self, view: ChatView, said: Said, *, is_kept: bool, options: ChatOptions | None = None
    ) -> None:
        self._options = options or ChatOptions()
        self._view = view
        self._said = said
        self._is_kept = is_kept
        self._step: asyncio.Task[Any] | None = None
        self._is_interrupted = False
        self._moved: str | None = None
        """A sentence with the new name, if another process saved under the old one."""
        self._broken: OSError | None = None
        """Why output cannot be written any more."""

    def hear(self, event: AgentEvent) -> None:
        """Show one step of a turn; where that fails, the turn ends."""
        if self._broken is not None:
            return
        try:
            self._view.hear(event)
        except OSError as error:
            # Without a reader, no more paid steps.
            self._broken = error
            if self._step is not None:
                self._step.cancel()

    async def lead(
        self, loop: AgentLoop, again: Callable[[], Awaitable[AgentLoop]] | None = None
    ) -> int:
        """Lead all turns one after the other; return the exit code.

        Args:
            loop: The conversation.
            again: Gives the conversation as it is kept now; None: no other process continues it.

        Raises:
            asyncio.CancelledError: Ctrl-C was pressed, and the input is no terminal.
            OSError: The output cannot be written any more.
            CommandError: There was nothing to say.
        """
        turns = failed = 0
        if self._said.is_terminal:
            # The handler stays: closing must not be interrupted either.
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt_turn)
        while True:
            text = await self._next_words()
            if text is None:
                break
            if not text or await self._is_command(loop, text):
                continue
            turns += 1
            if again is not None and await _is_behind(loop):
                loop = await again()
            answer = await self._run_kept_turn(loop, text)
            if self._moved is not None:
                return EXIT_FAILED
            failed += answer is None or not answer.is_complete
            if answer is None and not self._said.is_terminal:
                break
        if self._said.is_terminal:
            return EXIT_INTERRUPTED if self._is_interrupted else EXIT_OK
        if not turns:
            raise CommandError("nothing was said: stdin is empty; write a MESSAGE, or one per line")
        return EXIT_FAILED if failed else EXIT_OK

    async def _next_words(self) -> str | None:
        if not self._said.is_terminal:
            return await self._said.next()
        try:
            text = await self._as_step(self._said.next())
        except asyncio.CancelledError:
            if not self._is_only_the_step():
                raise
            return None
        return None if text == QUIT else text

    async def _is_command(self, loop: AgentLoop, text: str) -> bool:
        """Answer a command at the terminal; return True if it was one."""
        if not self._said.is_terminal:
            return False
        saving = _SAVE.fullmatch(text)
        if saving is not None:
            self._view.show_text(await save_copy(loop, saving[1], self._options))
        elif is_command(text):
            self._view.show_text(redact_text(answer_command(loop.session, text)))
        return saving is not None or is_command(text)

    async def _keep_conversation(self, loop: AgentLoop) -> None:
        self._moved = await _save_conversation(loop)

    async def _run_kept_turn(self, loop: AgentLoop, text: str) -> AgentAnswer | None:
        """Run one turn, and note where it is kept."""
        try:
            return await self._run_turn(loop, text)
        finally:
            if self._moved is not None:
                self._view.failed(self._moved)

    async def _run_turn(self, loop: AgentLoop, text: str) -> AgentAnswer | None:
        """Run one turn; return None if it was cancelled or failed."""
        try:
            try:
                answer = await self._as_step(loop.run(text))
            finally:
                if self._is_kept:
                    await _finish_work(self._keep_conversation(loop))
        except asyncio.CancelledError:
            if self._broken is not None and not _is_ending():
                raise self._broken from None
            if not self._is_only_the_step():
                raise
            self._view.cancelled()
            return None
        except ToolEngineError as error:
            if self._broken is not None:
                raise self._broken from error
            self._view.failed(str(error))
            if _is_ending():
                # A failed save must not keep the process from ending.
                raise asyncio.CancelledError from error
            return None
        if self._broken is not None:
            raise self._broken
        self._view.answered(answer)
        return answer

    async def _as_step(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work that Ctrl-C cancels alone."""
        self._is_interrupted = False
        task: asyncio.Task[T] = asyncio.create_task(work)
        self._step = task
        try:
            return await task
        finally:
            self._step = None

    def _is_only_the_step(self) -> bool:
        """Return True if only the step was cancelled, not the conversation."""
        return self._is_interrupted and not _is_ending()

    def _interrupt_turn(self) -> None:
        if self._is_interrupted:
            # A step that is slow to end is not waited for a second time, or not for long.
            hurry_after_signal(asyncio.get_running_loop(), self._interrupt_turn)
            raise KeyboardInterrupt
        self._is_interrupted = True
        # Between two steps there is nothing to end: a turn that is over is kept.
        if self._step is not None:
            self._step.cancel()


def _is_ending() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _finish_work(work: Coroutine[Any, Any, T]) -> T:
    """Finish some work even when Ctrl-C comes meanwhile; raise afterwards."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error from None
        raise


async def _is_behind(loop: AgentLoop) -> bool:
    """Return True if another process went on; False also if unknown."""
    try:
        return await loop.session.is_behind()
    except RecordsUnavailableError:
        # After the turn, a message says whether it can be kept.
        return False


async def _save_conversation(loop: AgentLoop) -> str | None:
    """Save the conversation, under another name if another process saved it.

    Returns:
        Under which name it is kept now, in a sentence; None: under its own.
    """
    session, more = loop.session, {"loop": loop.to_dict()}
    try:
        await session.save(more)
    except SessionConflictError:
        name = session.session_id
        other = f"{name[:_LONGEST_NAME]}-{uuid.uuid4().hex[:8]}"
        await session.save(more, as_id=other)
        return (
            f"another process has saved the session {name!r} meanwhile, and that stays: what was "
            f"said here is kept as {other!r}; go on under that name"
        )
    return None


QUIT: Final = "/quit"
"""Ends the conversation, as Ctrl-D does."""
_SAVE: Final = re.compile(r"/save(?:\s+(\S+))?")
_COMMAND: Final = re.compile(r"/[A-Za-z_-]*")


async def save_copy(loop: AgentLoop, name: str | None, options: ChatOptions) -> str:
    """Keep the conversation under a name of its own; return what became of it.

    Args:
        loop: The conversation, which itself stays what it is.
        name: The name, of which nothing may be kept yet; None: none was given.
        options: What was said of the conversation, with which a later one goes on.
    """
    if name is None:
        return "say under which name, such as: /save notes-1"
    if isinstance(loop.session.storage, MemorySessionStorage):
        return "there is no database to keep it in; begin with --records sqlite:///calls.db"
    try:
        await loop.session.save({"loop": loop.to_dict()}, as_id=name)
    except SessionConflictError:
        return f"a session {name!r} is kept already; choose another name"
    except ToolEngineError as error:
        return redact_text(str(error))
    return f"kept as {name!r}, as it is now; to go on from here: {options.write_command(name)}"


def is_command(text: str) -> bool:
    return _COMMAND.fullmatch(text) is not None


def answer_command(session: ToolSession, text: str) -> str:
    known = _COMMANDS.get(text)
    if known is None:
        hint = suggest_near(text, (*_COMMANDS, "/save", QUIT)) or "; /help lists those that are"
        return f"there is no command {text!r}{hint}"
    return known[1](session)


def _list_commands(session: ToolSession) -> str:
    del session
    said = {name: meaning for name, (meaning, _) in _COMMANDS.items()}
    said["/save NAME"] = "keeps it as a session, as it is now"
    said[QUIT] = "ends the conversation, as Ctrl-D does"
    width = max(map(len, said))
    return "\n".join(f"{name:<{width}}  {meaning}" for name, meaning in said.items())


def _list_tools(session: ToolSession) -> str:
    names = [tool.name for tool in session.toolbox.tools()]
    return ", ".join(names) or "no tool is on"


def _list_groups(session: ToolSession) -> str:
    groups = session.toolbox.groups()
    lines = [
        f"{'on ' if each.is_enabled else 'off'}  {each.name}: {', '.join(each.tools) or 'no tools'}"
        for each in groups
    ]
    return "\n".join(lines) or "there are no groups"


def _describe_usage(session: ToolSession) -> str:
    usage = session.usage()
    tokens = f"tokens: {usage.input_tokens:,} read, {usage.output_tokens:,} written"
    return f"{count_text(usage.turns, 'turn')}, {count_text(usage.calls, 'call')}, {tokens}"


_COMMANDS: Final[Mapping[str, tuple[str, Callable[[ToolSession], str]]]] = {
    "/help": ("lists these commands", _list_commands),
    "/tools": ("lists the tools that are on", _list_tools),
    "/groups": ("lists the groups, on and off, with their tools", _list_groups),
    "/usage": ("says what was spent so far", _describe_usage),
}
"""Each command, what it does, and what answers it; a new one is a line here."""
