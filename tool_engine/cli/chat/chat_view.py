"""What does a person see of a conversation while it goes on?"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

import msgspec
from rich.console import ConsoleDimensions
from rich.live import Live
from rich.table import Table

from tool_engine.agent.answer import AgentAnswer, StopReason
from tool_engine.agent.events import AgentEvent, AgentEventType
from tool_engine.cli.calls.progress_line import describe_progress
from tool_engine.cli.console import as_text, make_console, print_json_line, safe_text
from tool_engine.model.progress import ToolProgress
from tool_engine.model.tool import Tool
from tool_engine.redaction import redact_text
from tool_engine.session.reading.compression import compressed_args, compressed_result
from tool_engine.session.reading.result import SessionResult

_SHOWN: Final = 100
"""Characters of a call's arguments and of its result on a line."""
_PER_SECOND: Final = 4
_WIDTH_OF_TIME: Final = 12
"""Columns of the panel beside the calls."""
_OVER: Final = (AgentEventType.FINISHED, AgentEventType.ERROR)
_CANCELLED: Final = "the turn was cancelled"
_BOUND: Final = "the conversation has used up what it may; begin another one"
_BROKEN_OFF: Final[Mapping[StopReason, str]] = {
    StopReason.TRUNCATED: "the reply was cut off, twice; ask for less at once",
    StopReason.REFUSED: "the model or its provider refuses to answer; say it in other words",
    StopReason.EMPTY: "the reply had no text; say how it is to go on",
    StopReason.UNREADABLE: (
        "two replies could not be read; say it anew, or take another --model or --protocol"
    ),
    StopReason.REPEATING: "the model repeats the same calls; say what else it may try",
    StopReason.MAX_ROUNDS: "the turn took all its rounds; say `go on`, or raise --max-rounds",
    StopReason.MAX_CALLS: _BOUND,
    StopReason.MAX_TOKENS: _BOUND,
    StopReason.MAX_SECONDS: _BOUND,
}
"""What helps where the model did not come to an end by itself."""


class ChatView(ABC):
    """Shows a conversation."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return

    @abstractmethod
    def hear(self, event: AgentEvent) -> None:
        """Show one step of a turn."""

    @abstractmethod
    def show_text(self, text: str) -> None:
        """Show the answer to a command of the user, in which no secret is."""

    @abstractmethod
    def answered(self, answer: AgentAnswer) -> None:
        """Show the end of a turn."""

    @abstractmethod
    def failed(self, message: str) -> None:
        """Show that a turn failed, or could not be kept."""

    def cancelled(self) -> None:
        """Show that a turn was cancelled."""
        self.failed(_CANCELLED)


class JSONView(ChatView):
    """Each step as a JSON line; `finished` or `error` ends a turn."""

    def __init__(self) -> None:
        self._is_reported = False

    def hear(self, event: AgentEvent) -> None:
        self._is_reported = event.type is AgentEventType.ERROR
        print_json_line(event.to_dict())

    def show_text(self, text: str) -> None:
        print_json_line({"type": "told", "text": text})

    def answered(self, answer: AgentAnswer) -> None:
        """Print nothing: the event has said it."""

    def failed(self, message: str) -> None:
        """Print an `error`, unless an event has said it."""
        if not self._is_reported:
            print_json_line({"type": AgentEventType.ERROR.value, "error": redact_text(message)})
        self._is_reported = False


class PlainView(ChatView):
    """The answers on stdout, and other steps on stderr.

    `find` returns the tool of a name, whose secret arguments are hidden; `explain` returns how a
    tool that is off is turned on, and nothing for others.
    """

    def __init__(
        self, find: Callable[[str], Tool | None], explain: Callable[[str], str] = lambda _: ""
    ) -> None:
        self._find = find
        self._explain = explain
        self._is_in_line = False
        self._asked: set[str] = set()
        self._held: list[tuple[str, str]] = []
        """Notes that wait until no question is open."""

    def hear(self, event: AgentEvent) -> None:
        """Print text as it comes, and each call and result."""
        if event.request is not None:
            self._note_question(event, event.request.token)
        elif event.type is AgentEventType.CONTENT_CHUNK and event.parent_call_id is None:
            self._write_text(event.content or "")
        elif event.type is AgentEventType.TOOL_CALL_END:
            self.note(self._describe_call(event))
        elif event.type is AgentEventType.TOOL_RESULT:
            self._note_result(event)
        elif _is_new_round(event):
            self._end_line()

    def answered(self, answer: AgentAnswer) -> None:
        """End the line, and say why the model did not finish."""
        self._clear_state()
        if not answer.is_complete:
            reason = answer.stop_reason
            self.note(f"the turn ended ({reason.value}): {_BROKEN_OFF[reason]}", "yellow")

    def failed(self, message: str) -> None:
        self._clear_state()
        self.note(f"error: {redact_text(message)}", "red")

    def show_text(self, text: str) -> None:
        self.note(text, "")

    def cancelled(self) -> None:
        self._clear_state()
        self.note(_CANCELLED, "yellow")

    def note(self, text: str, style: str = "dim") -> None:
        """Print a line beside the answer."""
        if self._asked:
            self._held.append((text, style))
            return
        self._end_line()
        make_console(stderr=True).print(as_text(text, style), soft_wrap=True)

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

    def _clear_state(self) -> None:
        self._asked.clear()
        self._show_held()
        self._end_line()

    def _write_text(self, text: str) -> None:
        if text:
            sys.stdout.write(safe_text(text))
            sys.stdout.flush()
            self._is_in_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._is_in_line:
            self._write_text("\n")

    def _describe_call(self, event: AgentEvent) -> str:
        name, written = event.tool_call_name or "", event.tool_call_arguments_complete or ""
        try:
            arguments: Any = msgspec.json.decode(written)
        except (msgspec.DecodeError, ValueError):
            arguments = None
        shown = redact_text(written)
        if isinstance(arguments, dict):
            shown = compressed_args(arguments, None, self._find(name))
        return f"{_indent_of(event)}→ {_shorten_text(name)}({_shorten_text(shown)})"

    def _note_result(self, event: AgentEvent) -> None:
        result, indent = event.shown_result, _indent_of(event)
        if result is None:
            return
        name = _shorten_text(event.tool_call_name or "")
        text = f"{name}: {_shorten_text(compressed_result(result))}"
        style = "dim" if result.is_success else "red"
        # A call that never ran, or that its turn did not wait for, has no known time.
        is_timed = result.is_success or result.execution_time > 0
        time_text = f" ({result.execution_time:.2f} s)" if is_timed else ""
        self.note(f"{indent}← {text}{time_text}", style)
        token = result.approval_token if isinstance(result, SessionResult) else None
        if token is not None:
            self.note(f"{indent}  to allow it: tool-engine sessions approve {token}", "yellow")
        if not result.is_success and (cure := self._explain(event.tool_call_name or "")):
            self.note(f"{indent}  {cure}", "yellow")


class TerminalView(PlainView):
    """Like `PlainView`, with a live panel of the running calls."""

    def __init__(
        self, find: Callable[[str], Tool | None], explain: Callable[[str], str] = lambda _: ""
    ) -> None:
        super().__init__(find, explain)
        self._running: dict[str, tuple[str, float]] = {}
        self._progress: dict[str, ToolProgress] = {}
        self._noted: set[str] = set()
        """The running calls that are printed already, as calls of theirs are."""
        self._live: Live | None = None
        self._is_speaking = False
        """Whether the model is answering: its text must not be torn apart."""

    def __exit__(self, *exc_info: object) -> None:
        self._hide_panel()

    def hear(self, event: AgentEvent) -> None:
        """Print the step, and update the panel of running calls."""
        key = _call_key(event)
        if event.parent_call_id is None and event.type in _SPEAKS:
            self._is_speaking = _SPEAKS[event.type]
        if event.type is AgentEventType.TOOL_CALL_END:
            self._running[key] = (self._describe_call(event), time.monotonic())
        elif event.progress is not None and key in self._running:
            self._progress[key] = event.progress
        elif _is_shown(event):
            self._hide_panel()
            if event.type is AgentEventType.TOOL_RESULT:
                self._note_begun(key)
                self._forget_call(key)
            super().hear(event)
        self._show_panel()

    def _note_begun(self, key: str) -> None:
        """Print a call that is not printed yet, below the one that it is a part of."""
        if key not in self._running or key in self._noted:
            return
        self._noted.add(key)
        parent = key.partition(" ")[0]
        for each in [each for each in self._running if each.endswith(f" {parent}")]:
            self._note_begun(each)
        self.note(self._running[key][0])

    def _forget_call(self, key: str) -> None:
        self._running.pop(key, None)
        self._progress.pop(key, None)
        self._noted.discard(key)

    def _clear_state(self) -> None:
        self._running.clear()
        self._progress.clear()
        self._noted.clear()
        self._hide_panel()
        super()._clear_state()

    def _hide_panel(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show_panel(self) -> None:
        # The panel must not be painted over an open question.
        if not self._running or self._asked or self._is_speaking or self._live is not None:
            return
        self._end_line()
        console = make_console(stderr=True)
        self._live = Live(
            get_renderable=lambda: self._make_panel(console.size),
            console=console,
            refresh_per_second=_PER_SECOND,
            transient=True,
            redirect_stdout=False,
        )
        self._live.start()

    def _make_panel(self, size: ConsoleDimensions) -> Table:
        """Return a line per call, as many as the terminal can erase."""
        table = Table.grid(padding=(0, 2))
        now, running = time.monotonic(), tuple(self._running.items())
        rows = len(running) if len(running) < size.height else max(1, size.height - 2)
        for key, (shown, began) in running[:rows]:
            progress = self._progress.get(key)
            begun = "" if progress is None else f"  {describe_progress(progress)}"
            call = as_text(f"{shown}{begun}", "cyan")
            call.truncate(max(1, size.width - _WIDTH_OF_TIME), overflow="ellipsis")
            table.add_row(call, as_text(f"{now - began:.1f} s", "dim"))
        if rows < len(running):
            table.add_row(as_text(f"… and {len(running) - rows} more", "dim"), "")
        return table


_SPEAKS: Final = {
    AgentEventType.ROUND_STARTED: True,
    AgentEventType.USAGE: False,
    AgentEventType.FINISHED: False,
    AgentEventType.ERROR: False,
}


def _is_shown(event: AgentEvent) -> bool:
    """Return True if the event prints something, or asks a question."""
    is_content = event.type is AgentEventType.CONTENT_CHUNK and event.parent_call_id is None
    is_end = event.type in _OVER and event.parent_call_id is None
    is_printed = is_content or is_end or _is_new_round(event)
    return is_printed or event.request is not None or event.result is not None


def _call_key(event: AgentEvent) -> str:
    return f"{event.parent_call_id} {event.tool_call_id}"


def _is_new_round(event: AgentEvent) -> bool:
    """Return True if the model begins another text."""
    return event.type is AgentEventType.ROUND_STARTED and event.parent_call_id is None


def _indent_of(event: AgentEvent) -> str:
    return "" if event.parent_call_id is None else "  "


def _shorten_text(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
