"""Which outputs are dealt with at once, and which in a thread?"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from tool_engine.output.shaping import is_quick

LONG = "x" * 40_000


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({}, True),
        ({"result": 3}, True),
        ({"result": "x" * 500, "more": None, "share": 0.5, "is_on": True}, True),
        ({"result": "x" * 20_000}, True),
        ({"rows": [[1, 2]] * 10}, True),
        ({"result": LONG}, False),
        ({LONG: 1}, False),
        ({f"key_{number}": 1 for number in range(5_000)}, False),
        ({"rows": [LONG]}, False),
        ({"rows": [[1]] * 5_000}, False),
    ],
)
def test_what_is_dealt_with_at_once(output: dict[str, Any], expected: bool) -> None:
    """D20: what would hold up the event loop goes to a thread; nothing else pays for one."""
    assert is_quick(output) is expected


def test_a_table_is_measured_without_a_look_at_each_value() -> None:
    """Budget: to find out whether a thread pays must cost less than the thread."""
    table = {"rows": [{"id": each, "name": f"name {each}", "is_on": True} for each in range(300)]}
    called: list[str] = []

    def note(_: FrameType, event: str, __: Any) -> None:
        called.append(event)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        is_at_once = is_quick(table)
    finally:
        sys.setprofile(before)
    assert (is_at_once, called.count("call") < 50) == (True, True)
