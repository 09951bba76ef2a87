"""What stands for the code that somebody consents to?"""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any

from tool_engine.approval.subject import code_of
from tool_engine.executors.handler import executor_for

BOUND = 20.0


async def first() -> str:
    return "first"


async def ninth() -> str:
    return "wipes all"


class Called:
    """A handler that is an object."""

    def __init__(self, number: int) -> None:
        self.number = number

    async def __call__(self) -> int:
        return self.number


class Other(Called):
    async def __call__(self) -> int:
        return -self.number


def sends(to: str = "ada") -> str:
    return to


def sends_elsewhere(to: str = "mallory") -> str:
    return to


def test_what_can_be_told_of_code() -> None:
    """Instructions and defaults count; what code closes over or holds does not, as is written."""

    def told(handler: Any) -> str:
        return code_of(executor_for(handler))

    alike = (first, Called(1), functools.partial(sends, to="bob"))
    assert len({*map(told, (first, ninth, Called(1), Other(1), sends, sends_elsewhere))}) == 6
    assert [told(each) for each in alike] == [told(each) for each in alike]
    assert told(Called(1)) == told(Called(2))
    assert told(functools.partial(sends, to="bob")) != told(functools.partial(sends, to="eve"))
    assert told(first) != ""
    assert code_of(None) == ""


def test_code_is_told_alike_in_every_process() -> None:
    """Whatever order its sets have there."""
    program = (
        "from tool_engine.approval.subject import code_of\n"
        "def f(a):\n    return a in {'x', 'y', 'z', 'longer', 'words', 'than', 'these'}\n"
        "print(code_of(f))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed},
            timeout=BOUND,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(told) == 1
