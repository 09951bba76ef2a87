"""Which functions of the package does one call pass, in which files?"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import tool_engine

_PACKAGE = Path(tool_engine.__file__).parent
_DATE = (
    "calls/ending.py: CallEnding.read_date",
    "calls/ending.py: CallEnding._both_clocks",
    "calls/ending.py: _to_the_millisecond",
)


async def list_passed(call: Callable[[], Awaitable[Any]]) -> list[str]:
    """Return the shortest of several ways of a warm call, in order, as `file.py: function`.

    To wait for a time would say less, and something else on each machine. A second that begins, or
    a timer, adds some functions now and then; a millisecond that begins, those of `_DATE`, which
    are left out: on a busy machine each call meets one.
    """
    for _ in range(3):
        await call()
    return min([await _follow(call) for _ in range(5)], key=len)


async def _follow(call: Callable[[], Awaitable[Any]]) -> list[str]:
    passed: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(_PACKAGE)):
            file = Path(code.co_filename).relative_to(_PACKAGE).as_posix()
            passed.append(f"{file}: {code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        await call()
    finally:
        sys.setprofile(before)
    return [each for each in passed if each not in _DATE]


def list_files(passed: list[str]) -> list[str]:
    """Return the files of a way, each once, in the order of the first visit."""
    return list(dict.fromkeys(each.partition(":")[0] for each in passed))
