"""Call ids: no two are the same, and none can be found by counting from another."""

from __future__ import annotations

import re
import threading
from itertools import pairwise

from tool_engine import ToolEngine
from tool_engine.calls.call import name_call, name_engine


def draw_mark() -> str:
    beginning, mark = name_call("call-").split("-")
    assert beginning == "call"
    return mark


def test_marks_are_drawn() -> None:
    """Each is new, over many supplies, and says nothing of the next one."""
    marks = [draw_mark() for _ in range(5_000)]
    assert len(set(marks)) == 5_000
    assert all(re.fullmatch("[0-9a-f]{20}", each) for each in marks)
    # Of 5,000 that are drawn, the first two digits take nearly all of their 256 values.
    assert len({each[:2] for each in marks}) > 250
    steps = {int(b, 16) - int(a, 16) for a, b in pairwise(marks)}
    assert len(steps) > 4_990


def test_threads_draw_no_mark_twice() -> None:
    """Engines of several threads share one supply."""
    drawn: list[list[str]] = [[] for _ in range(4)]

    def draw(into: list[str]) -> None:
        into.extend(draw_mark() for _ in range(5_000))

    threads = [threading.Thread(target=draw, args=(each,)) for each in drawn]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    marks = [mark for each in drawn for mark in each]
    assert len(set(marks)) == len(marks) == 20_000


async def test_ids_of_an_engine() -> None:
    """They have one beginning, and a mark; another engine has another beginning."""
    engine = ToolEngine()
    ids = [(await engine.execute("gone")).call_id or "" for _ in range(3)]
    await engine.close()
    assert all(re.fullmatch(r"call-[0-9a-f]{8}-[0-9a-f]{20}", each) for each in ids)
    assert len({each[:14] for each in ids}) == 1
    assert len({name_engine() for _ in range(10)}) == 10
