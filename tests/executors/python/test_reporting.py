"""How much of what a handler reports crosses, and in which order?"""

from __future__ import annotations

import threading
from typing import Any

from tool_engine.executors.python.reporting import MOST_LINES, HandlerReports
from tool_engine.model.progress import ToolLogLine, ToolProgress

LONG = 30.0


class Listener:
    """Keeps what is sent, with the moments."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.wanted = 0
        self.is_there = threading.Event()
        self.reports = HandlerReports(self.take)

    def take(self, report: dict[str, Any]) -> None:
        self.sent.append(report)
        if len(self.sent) == self.wanted:
            self.is_there.set()

    def lines(self) -> list[str]:
        return [each["message"] for each in self.sent if "level" in each]

    def wait_for(self, number: int) -> None:
        self.is_there.clear()
        self.wanted = number
        assert len(self.sent) >= number or self.is_there.wait(LONG)


def test_lines_go_at_once() -> None:
    """A handler that ends its process with the next step has said them."""
    listener = Listener()
    for number in range(MOST_LINES):
        listener.reports.take(ToolLogLine(f"{number}"))
        assert listener.lines()[-1] == f"{number}"
    listener.reports.end()
    assert len(listener.sent) == MOST_LINES


def test_of_too_many_lines_the_newest_go_in_order() -> None:
    """What is left out is counted at its place; the last one always goes."""
    listener = Listener()
    for number in range(10_000):
        listener.reports.take(ToolLogLine(f"{number}"))
    listener.reports.end()
    said = listener.lines()
    numbers = [int(line) for line in said if line.isdecimal()]
    notes = [int(line.partition(" ")[0]) for line in said if not line.isdecimal()]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 9_999
    assert len(numbers) + sum(notes) == 10_000
    assert notes
    assert len(numbers) < 10_000


def test_the_newest_progress_goes_within_the_time() -> None:
    """The first goes at once; of those that follow only the newest, though nothing else comes."""
    listener = Listener()
    for number in range(1_000):
        listener.reports.take(ToolProgress(number))
    listener.wait_for(2)
    done = [each["done"] for each in listener.sent]
    assert done[0] == 0
    assert done == sorted(done)
    listener.reports.end()
    assert listener.sent[-1]["done"] == 999


def test_what_goes_back_is_left_out() -> None:
    """A thread that is behind another one hides nothing of how far that has come."""
    listener = Listener()
    for done in (1, 5, 2):
        listener.reports.take(ToolProgress(done))
    listener.reports.end()
    assert [each["done"] for each in listener.sent] == [1, 5]


def test_one_that_comes_after_a_report_waits_its_time() -> None:
    """Between two reports of progress there is always `REPORT_SECONDS`."""
    listener = Listener()
    listener.reports.take(ToolProgress(1))
    listener.reports.take(ToolProgress(2))
    listener.wait_for(2)
    listener.reports.take(ToolProgress(3))
    assert [each["done"] for each in listener.sent] == [1, 2]
    listener.wait_for(3)
    assert listener.sent[-1]["done"] == 3
    listener.reports.end()


def test_after_the_end_nothing_goes() -> None:
    """What a thread that was left behind reports is part of no call."""
    listener = Listener()
    listener.reports.take(ToolProgress(1))
    listener.reports.end()
    listener.reports.take(ToolProgress(2))
    listener.reports.take(ToolLogLine("late"))
    assert [each["done"] for each in listener.sent] == [1]


def test_a_quiet_handler_has_no_timer() -> None:
    """Once a handler says nothing more, no thread of its reports is left."""
    listener = Listener()
    listener.reports.take(ToolProgress(1))
    timers = [each for each in threading.enumerate() if isinstance(each, threading.Timer)]
    for timer in timers:
        timer.join(LONG)
    listener.reports.take(ToolLogLine("again"))
    assert listener.lines() == ["again"]
    listener.reports.end()
