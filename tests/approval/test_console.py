"""How does somebody at a terminal answer? A real terminal, with somebody at its other end."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from rich.console import Console

from tests.approval.people import TOOL, gate_of
from tool_engine.approval.answers import name_at_terminal
from tool_engine.approval.book import ApprovalBook
from tool_engine.approval.console import ConsoleApprover, _read_until_closed
from tool_engine.errors import ApprovalError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest

BOUND = 20.0
ASKS = "say why not: "
HERE = name_at_terminal()
YES = ApprovalDecision(is_approved=True, by=HERE)
NOTHING_SAID = ApprovalDecision(is_approved=False, is_remembered=False, by=HERE)


class Terminal:
    """Both ends of a terminal."""

    def __init__(self) -> None:
        self.keyboard, inner = pty.openpty()
        self.stdin = os.fdopen(inner)
        self.screen = io.StringIO()
        self.approver = ConsoleApprover(Console(file=self.screen, width=200), self.stdin)

    def type(self, text: str) -> None:
        os.write(self.keyboard, text.encode())

    async def shows(self, text: str, times: int = 1) -> None:
        """Waits until somebody can read `text`."""
        async with asyncio.timeout(BOUND):
            while self.screen.getvalue().count(text) < times:  # noqa: ASYNC110 - a file tells nobody
                await asyncio.sleep(0.001)

    def close(self) -> None:
        self.stdin.close()
        os.close(self.keyboard)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


def request_of(**params: Any) -> ApprovalRequest:
    return ApprovalBook("s").ask(TOOL, params)


@asynccontextmanager
async def asked(
    terminal: Terminal, request: ApprovalRequest
) -> AsyncIterator[asyncio.Task[ApprovalDecision | None]]:
    """A request that is on the screen; its answer must come inside."""
    task = asyncio.create_task(terminal.approver.approve(request))
    await terminal.shows(ASKS)
    yield task
    async with asyncio.timeout(BOUND):
        await asyncio.wait([task])


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        ("y", YES),
        (" YES ", YES),
        ("n", ApprovalDecision(is_approved=False, by=HERE)),
        ("No", ApprovalDecision(is_approved=False, by=HERE)),
        ("", NOTHING_SAID),
        ("t", ApprovalDecision(is_approved=True, is_remembered=False, by=HERE)),
        ("This time", ApprovalDecision(is_approved=True, is_remembered=False, by=HERE)),
        ("a", ApprovalDecision(is_approved=True, is_remembered=True, by=HERE)),
        ("yes please", ApprovalDecision(is_approved=False, reason="yes please", by=HERE)),
        (
            "nicht heute, größer\u202e",
            ApprovalDecision(is_approved=False, reason="nicht heute, größer\\u202e", by=HERE),
        ),
    ],
)
async def test_what_is_typed(terminal: Terminal, typed: str, decision: ApprovalDecision) -> None:
    """X3, S19: y, n, this time, or a reason; what is neither is no yes, and silence is for once."""
    request = msgspec.structs.replace(request_of(amount=5), is_once=True)
    async with asked(terminal, request) as answer:
        terminal.type(typed + "\n")
    assert answer.result() == decision
    shown = terminal.screen.getvalue()
    assert "pay 1.0.0 (changes something)" in shown
    assert "amount: 5" in shown
    assert "[y]es (now and later), [t]his time only, [n]o" in shown


async def test_nothing_is_offered_for_later_where_it_says_nothing(terminal: Terminal) -> None:
    """Under ask_always it is a yes for this time, and that is said."""
    async with asked(terminal, request_of()) as answer:
        terminal.type("always\n")
    decision = answer.result()
    assert decision is not None
    assert decision.is_approved
    shown = terminal.screen.getvalue()
    assert "Allow this call? [y]es, [n]o" in shown
    assert "Allowed this time: this tool asks each time." in shown


async def test_a_result(terminal: Terminal) -> None:
    """What the model would read is what the question is about."""
    request = ApprovalBook("s").ask(TOOL, {}, kind="result", result="[bold]secret plans")
    async with asked(terminal, request) as answer:
        terminal.type("y\n")
    assert answer.result() == YES
    assert "[bold]secret plans\nMay the model read this?" in terminal.screen.getvalue()


async def test_the_end_of_input_is_a_no(terminal: Terminal) -> None:
    """Ctrl-D, also after half a line: nobody has said yes."""
    async with asked(terminal, request_of()) as answer:
        terminal.type("\x04")
    assert answer.result() == NOTHING_SAID
    again = asyncio.create_task(terminal.approver.approve(request_of()))
    await terminal.shows(ASKS, 2)
    terminal.type("y\x04\x04")
    async with asyncio.timeout(BOUND):
        assert await again == NOTHING_SAID


async def test_a_terminal_that_goes_away() -> None:
    """A window that is closed says no."""
    terminal = Terminal()
    async with asked(terminal, request_of()) as answer:
        os.close(terminal.keyboard)
    assert answer.result() == NOTHING_SAID
    terminal.stdin.close()
    with pytest.raises(ApprovalError, match="no terminal"):
        await terminal.approver.approve(request_of())


async def test_ctrl_c_refuses_the_call_and_no_more(terminal: Terminal) -> None:
    """The program goes on, and the next Ctrl-C means what it meant before."""
    before = signal.getsignal(signal.SIGINT)
    async with asked(terminal, request_of()) as answer:
        assert signal.getsignal(signal.SIGINT) is not before
        os.kill(os.getpid(), signal.SIGINT)
    assert answer.result() == NOTHING_SAID
    assert signal.getsignal(signal.SIGINT) is before


async def test_a_program_that_hears_ctrl_c_on_its_loop_goes_first(terminal: Terminal) -> None:
    """It may cancel the call: that is no refusal, however quick the thread at the terminal is."""
    loop = asyncio.get_running_loop()
    for times in range(1, 6):
        answer = asyncio.create_task(terminal.approver.approve(request_of()))
        loop.add_signal_handler(signal.SIGINT, answer.cancel)
        try:
            await terminal.shows(ASKS, times)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)  # noqa: ASYNC251 - the loop stands still, the thread does not
            async with asyncio.timeout(BOUND):
                await asyncio.wait([answer])
        finally:
            loop.remove_signal_handler(signal.SIGINT)
        assert answer.cancelled()


async def test_what_was_typed_before_is_no_answer(terminal: Terminal) -> None:
    """A yes to something else that is not on the screen any more allows nothing."""
    terminal.type("y\n")
    async with asked(terminal, request_of()) as answer:
        terminal.type("n\n")
    assert answer.result() == ApprovalDecision(is_approved=False, by=HERE)


async def test_a_call_that_ends_meanwhile(terminal: Terminal) -> None:
    """Nobody reads the terminal any more, so that the next request gets the next line."""
    async with asked(terminal, request_of()) as answer:
        answer.cancel()
    assert answer.cancelled()
    again = asyncio.create_task(terminal.approver.approve(request_of()))
    await terminal.shows(ASKS, 2)
    terminal.type("y\n")
    async with asyncio.timeout(BOUND):
        assert await again == YES


async def test_one_after_the_other(terminal: Terminal) -> None:
    """Two calls at once: the second is shown when the first is answered; the loop goes on."""
    calls = [asyncio.create_task(terminal.approver.approve(request_of(n=n))) for n in (1, 2)]
    await terminal.shows(ASKS)
    assert "n: 2" not in terminal.screen.getvalue()
    terminal.type("y\n")
    await terminal.shows(ASKS, 2)
    assert "n: 2" in terminal.screen.getvalue()
    terminal.type("n\n")
    async with asyncio.timeout(BOUND):
        assert await asyncio.gather(*calls) == [YES, ApprovalDecision(is_approved=False, by=HERE)]


async def test_nobody_sits_there() -> None:
    """A pipe answers nothing: the call is refused, and says why."""
    reading, writing = os.pipe()
    os.write(writing, b"y\n")
    with os.fdopen(reading) as stdin, os.fdopen(writing, "w"):
        for each in (stdin, io.StringIO("y\n")):
            approver = ConsoleApprover(Console(file=io.StringIO()), each)
            refusal = await gate_of(approver, "ask_always").consent("c", TOOL, {})
            assert refusal is not None
            assert refusal.error_type == "execution_rejected"
            assert "the standard input is no terminal" in refusal.error


def test_in_another_thread(terminal: Terminal) -> None:
    """Where Ctrl-C is somebody else's, it stays so; an approver serves one loop after the other."""
    answers: list[Any] = []

    async def ask() -> None:
        async with asked(terminal, request_of()) as answer:
            terminal.type("y\n")
        answers.append(answer.result())

    for _ in range(2):
        terminal.screen.truncate(terminal.screen.seek(0))
        thread = threading.Thread(target=asyncio.run, args=[ask()])
        thread.start()
        thread.join(BOUND)
    assert answers == [YES, YES]


async def test_the_standard_streams(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default it is the standard input that is read, and the standard error that is written."""
    monkeypatch.setattr("sys.stdin", terminal.stdin)
    task = asyncio.create_task(ConsoleApprover().approve(request_of()))
    shown = ""
    async with asyncio.timeout(BOUND):
        while ASKS not in shown:
            shown += capsys.readouterr().err
            await asyncio.sleep(0.001)
        terminal.type("y\n")
        assert await task == YES


async def test_a_program_without_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nobody."""
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ApprovalError, match="no terminal"):
        await ConsoleApprover().approve(request_of())


def test_a_terminal_that_cannot_be_read() -> None:
    """Whatever the system says, nobody has said yes."""
    reading, writing = os.pipe()
    os.close(reading)
    listening, bell = os.pipe()
    assert _read_until_closed(writing, listening) is None
    os.close(writing)
    os.close(bell)
