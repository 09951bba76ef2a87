"""Which outputs are dealt with at once, and which in a thread?"""

from __future__ import annotations

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
