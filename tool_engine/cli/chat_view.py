"""What does somebody see of a conversation while it goes on?"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Self

import msgspec
from rich.live import Live
from rich.table import Table

from tool_engine.agent.answer import AgentAnswer
from tool_engine.agent.events import AgentEvent, AgentEventType
from tool_engine.approval.describe import shown_params
from tool_engine.cli.console import make_console, plain, print_json_line, visible
from tool_engine.model.tool import Tool
from tool_engine.redaction import redact_text
from tool_engine.session.compression import compressed_args, compressed_result
from tool_engine.session.result import SessionResult

__all__ = ["ChatView", "JSONView", "PlainView", "TerminalView"]

_SHOWN: Final = 100
"""Characters of a call's arguments and of its result on a line."""
_PER_SECOND: Final = 4
_OVER: Final = (AgentEventType.FINISHED, AgentEventType.ERROR)
_CANCELLED: Final = "the turn was cancelled"


class ChatView(ABC):
    """Shows a conversation."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return

    @abstractmethod
    def hear(self, event: AgentEvent) -> None:
        """One step of a turn."""

    def prompt(self) -> None:
        """Somebody may type now."""
        return

    def left(self) -> None:
        """Somebody has nothing more to say."""
        return

    @abstractmethod
    def answered(self, answer: AgentAnswer) -> None:
        """A turn is over."""

    @abstractmethod
    def failed(self, message: str) -> None:
        """A turn broke off, or could not be kept."""

    def cancelled(self) -> None:
        """A turn was broken off."""
        self.failed(_CANCELLED)


class JSONView(ChatView):
    """Each step as a line of JSON; the last one of a turn is `finished` or `error`."""

    def __init__(self) -> None:
        self._is_told = False

    def hear(self, event: AgentEvent) -> None:
        """Prints the event; what a tool calls secret is hidden in what somebody is asked."""
        told = event.to_dict()
        if event.request is not None:
            told["request"]["params"] = shown_params(event.request)
        self._is_told = event.type is AgentEventType.ERROR
        print_json_line(told)

    def answered(self, answer: AgentAnswer) -> None:
        """Nothing: the event has said it."""

    def failed(self, message: str) -> None:
        """Prints an `error`, unless an event has said it."""
        if not self._is_told:
            print_json_line({"type": AgentEventType.ERROR.value, "error": redact_text(message)})
        self._is_told = False


class PlainView(ChatView):
    """The answers on stdout, and what happens on the way on stderr.

    Args:
        find: The tool of a name, for what must not be shown of its arguments.
    """

    def __init__(self, find: Callable[[str], Tool | None]) -> None:
        self._find = find
        self._is_in_line = False
        self._asked: set[str] = set()
        self._held: list[tuple[str, str]] = []
        """What is shown when nobody is asked anything any more."""

    def hear(self, event: AgentEvent) -> None:
        """Prints text as it comes, and a line for each call and each result."""
        if event.request is not None:
            self._note_question(event, event.request.token)
        elif event.type is AgentEventType.CONTENT_CHUNK and event.parent_call_id is None:
            self._write(event.content or "")
        elif event.type is AgentEventType.TOOL_CALL_END:
            self.note(self._call(event))
        elif event.type is AgentEventType.TOOL_RESULT:
            self._note_result(event)

    def answered(self, answer: AgentAnswer) -> None:
        """Ends the line, and says why the model did not come to an end by itself."""
        self._close()
        if not answer.is_complete:
            self.note(f"the turn ended: {answer.stop_reason.value}", "yellow")

    def failed(self, message: str) -> None:
        """Says why."""
        self._close()
        self.note(f"error: {redact_text(message)}", "red")

    def cancelled(self) -> None:
        """Says so."""
        self._close()
        self.note(_CANCELLED, "yellow")

    def note(self, text: str, style: str = "dim") -> None:
        """A line beside the answer."""
        if self._asked:
            self._held.append((text, style))
            return
        self._end_line()
        make_console(stderr=True).print(plain(text, style), soft_wrap=True)

    def _note_question(self, event: AgentEvent, token: str) -> None:
        if event.type is AgentEventType.APPROVAL_REQUESTED:
            self._end_line()
            self._asked.add(token)
            return
        self._asked.discard(token)
        if not self._asked:
            self._show_held()

    def _show_held(self) -> None:
        held, self._held = self._held, []
        for text, style in held:
            self.note(text, style)

    def _close(self) -> None:
        self._asked.clear()
        self._show_held()
        self._end_line()

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(visible(text))
            sys.stdout.flush()
            self._is_in_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._is_in_line:
            self._write("\n")

    def _call(self, event: AgentEvent) -> str:
        name, written = event.tool_call_name or "", event.tool_call_arguments_complete or ""
        try:
            arguments: Any = msgspec.json.decode(written)
        except (msgspec.DecodeError, ValueError):
            arguments = None
        shown = redact_text(written)
        if isinstance(arguments, dict):
            shown = compressed_args(arguments, None, self._find(name))
        return f"{_indent(event)}→ {_short(name)}({_short(shown)})"

    def _note_result(self, event: AgentEvent) -> None:
        result, indent = event.result, _indent(event)
        if result is None:
            return
        text = f"{_short(event.tool_call_name or '')}: {_short(compressed_result(result))}"
        style = "dim" if result.is_success else "red"
        self.note(f"{indent}← {text} ({result.execution_time:.2f} s)", style)
        token = result.approval_token if isinstance(result, SessionResult) else None
        if token is not None:
            self.note(f"{indent}  to allow it: tool-engine sessions approve {token}", "yellow")


class TerminalView(PlainView):
    """For people: as plain, with a live panel of the calls that run."""

    def __init__(self, find: Callable[[str], Tool | None]) -> None:
        super().__init__(find)
        self._running: dict[str, tuple[str, float]] = {}
        self._live: Live | None = None
        self._is_speaking = False
        """Whether the model is being asked: what it writes must not be torn apart."""

    def __exit__(self, *exc_info: object) -> None:
        self._hide()

    def prompt(self) -> None:
        """Shows that it is somebody's turn."""
        sys.stdout.write("> ")
        sys.stdout.flush()

    def left(self) -> None:
        """Leaves the line of the prompt to the shell."""
        sys.stdout.write("\n")
        sys.stdout.flush()

    def hear(self, event: AgentEvent) -> None:
        """Prints the step, and keeps the panel of running calls up to date."""
        key = f"{event.parent_call_id} {event.tool_call_id}"
        if event.parent_call_id is None and event.type in _SPEAKS:
            self._is_speaking = _SPEAKS[event.type]
        if event.type is AgentEventType.TOOL_CALL_END:
            self._running[key] = (self._call(event), time.monotonic())
        elif _is_shown(event):
            self._hide()
            if event.type is AgentEventType.TOOL_RESULT:
                self._note_begun(key)
            super().hear(event)
        self._show()

    def _note_begun(self, key: str) -> None:
        call, _ = self._running.pop(key, ("", 0.0))
        if call:
            self.note(call)

    def _close(self) -> None:
        self._running.clear()
        self._hide()
        super()._close()

    def _hide(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show(self) -> None:
        # Whoever is asked must not have the question painted over.
        if not self._running or self._asked or self._is_speaking or self._live is not None:
            return
        self._end_line()
        self._live = Live(
            get_renderable=self._panel,
            console=make_console(stderr=True),
            refresh_per_second=_PER_SECOND,
            transient=True,
            redirect_stdout=False,
        )
        self._live.start()

    def _panel(self) -> Table:
        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        for shown, began in tuple(self._running.values()):
            table.add_row(plain(shown, "cyan"), plain(f"{now - began:.1f} s", "dim"))
        return table


_SPEAKS: Final = {
    AgentEventType.ROUND_STARTED: True,
    AgentEventType.USAGE: False,
    AgentEventType.FINISHED: False,
    AgentEventType.ERROR: False,
}


def _is_shown(event: AgentEvent) -> bool:
    """Whether something is printed for it, or somebody is asked."""
    is_content = event.type is AgentEventType.CONTENT_CHUNK and event.parent_call_id is None
    is_end = event.type in _OVER and event.parent_call_id is None
    return is_content or is_end or event.request is not None or event.result is not None


def _indent(event: AgentEvent) -> str:
    return "" if event.parent_call_id is None else "  "


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
