"""How does a person at a terminal answer?

One request is shown at a time, and other calls go on meanwhile. What was typed before a request was
shown is no answer to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from typing import Final, TextIO

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from tool_engine.approval.answers import name_at_terminal
from tool_engine.approval.describe import describe
from tool_engine.approval.thread import in_own_thread
from tool_engine.errors import ApprovalError, ConfigurationError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.checks.known_fields import KnownArguments
from tool_engine.model.checks.setting_kinds import check_object
from tool_engine.visible import escape_hidden

_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}
_LONGEST_LINE: Final = 65_536
_AT_ONCE: Final = 4_096
_YES: Final = ApprovalDecision(is_approved=True)
_NO: Final = ApprovalDecision(is_approved=False)
_ALWAYS: Final = ApprovalDecision(is_approved=True, is_remembered=True)
_THIS_TIME: Final = ApprovalDecision(is_approved=True, is_remembered=False)
_NOTHING_SAID: Final = ApprovalDecision(is_approved=False, is_remembered=False)
_WORDS: Final = {
    **dict.fromkeys(("y", "yes"), _YES),
    **dict.fromkeys(("n", "no"), _NO),
    **dict.fromkeys(("a", "always"), _ALWAYS),
    **dict.fromkeys(("t", "this time"), _THIS_TIME),
    "": _NOTHING_SAID,
}
_ROUNDS_OF_A_SIGNAL: Final = 3


class ConsoleApprover(KnownArguments):
    """Asks on the terminal: y, n, this time, or why not.

    An empty line is a no to this call, whatever is remembered of other answers; so are the end of
    input and Ctrl-C. Without a terminal, the call is refused with that reason.

    Args:
        console: What the request is printed on; None: the standard error output.
        stdin: The terminal that is read; None: the standard input.

    Raises:
        ConfigurationError: One of them is something else.
    """

    def __init__(self, console: Console | None = None, stdin: TextIO | None = None) -> None:
        if console is not None:
            check_object("console", console, Console, "rich.console.Console(), or leave it out")
        if stdin is not None and not hasattr(stdin, "isatty"):
            raise ConfigurationError(
                f"stdin must be a stream of text, got {stdin!r:.80}; write sys.stdin, or leave it "
                "out"
            )
        self._console = console
        self._stdin = stdin
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """Return what the person types.

        Raises:
            ApprovalError: There is no terminal to type on.
        """
        terminal = _find_terminal(sys.stdin if self._stdin is None else self._stdin, request.kind)
        async with self._own_turn():
            console = self._console or Console(stderr=True)
            self._show_request(console, request)
            # Earlier typing was an answer to something else.
            termios.tcflush(terminal, termios.TCIFLUSH)
            self._print_prompt(console, request)
            line = await _read_line(terminal)
            if line is None:
                console.print()
            decision = replace(_parse_decision(line), by=name_at_terminal())
            if decision.is_remembered and not request.is_once:
                console.print(Text("Allowed this time: this tool asks each time."))
            return decision

    def _own_turn(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._turn = loop, asyncio.Lock()
        return self._turn

    def _show_request(self, console: Console, request: ApprovalRequest) -> None:
        console.print()
        is_diff = False
        for line in describe(request).split("\n"):
            is_diff = is_diff or line.startswith("What would change")
            style = _STYLES.get(line.lstrip()[:1], "") if is_diff else ""
            console.print(Text(line, style), soft_wrap=True)

    def _print_prompt(self, console: Console, request: ApprovalRequest) -> None:
        asks = "Allow this call?" if request.kind == "execution" else "May the model read this?"
        yes = "[y]es (now and later), [t]his time only" if request.is_once else "[y]es"
        text = Text(f"{asks} {yes}, [n]o, or say why not: ", "bold")
        console.print(text, end="", soft_wrap=True)


def _find_terminal(stdin: TextIO | None, kind: str) -> int:
    # What is closed is no terminal either.
    with contextlib.suppress(OSError, ValueError):
        if stdin is not None and stdin.isatty():
            return stdin.fileno()
    loosest = "auto" if kind == "execution" else "{result: never}"
    raise ApprovalError(
        "the standard input is no terminal, so there is no person to ask; run it in a terminal, "
        f"write `permission: {loosest}` in the tool's definition, or let a program answer with "
        "ToolEngine(approver=...)"
    )


async def _read_line(terminal: int) -> str | None:
    """Return the next line; None at the end of input and after Ctrl-C."""
    listening, signalling = os.pipe()
    closing = contextlib.ExitStack()
    closing.callback(os.close, signalling)
    with closing, _interrupted_by(closing.close):
        line = await in_own_thread(_read_until_closed, terminal, listening)
    if line is None:
        # A program that hears Ctrl-C on its event loop may cancel the call: that goes before a no.
        for _ in range(_ROUNDS_OF_A_SIGNAL):
            await asyncio.sleep(0)
    return line


@contextlib.contextmanager
def _interrupted_by(action: Callable[[], None]) -> Iterator[None]:
    """Let Ctrl-C refuse one call, instead of ending the program, inside this block."""
    previous = signal.getsignal(signal.SIGINT)
    if previous is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: action())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _read_until_closed(terminal: int, listening: int) -> str | None:
    """Read a line, unless the other end of `listening` is closed first."""
    data = b""
    with os.fdopen(listening), selectors.DefaultSelector() as selector:
        selector.register(terminal, selectors.EVENT_READ)
        selector.register(listening, selectors.EVENT_READ)
        while not data.endswith(b"\n") and len(data) < _LONGEST_LINE:
            if any(key.fd == listening for key, _ in selector.select()):
                return None
            try:
                part = os.read(terminal, _AT_ONCE)
            except OSError:
                # The terminal was closed.
                part = b""
            if not part:
                return None
            data += part
    return data.decode("utf-8", "backslashreplace")


def _parse_decision(line: str | None) -> ApprovalDecision:
    """Return the decision that a line means; None: end of input or Ctrl-C."""
    said = "" if line is None else escape_hidden(line.strip())
    return _WORDS.get(said.casefold(), ApprovalDecision(is_approved=False, reason=said))
