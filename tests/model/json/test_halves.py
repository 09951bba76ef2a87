"""Can every reader read a text with half of a surrogate pair in it?"""

from __future__ import annotations

import json

import pytest

from tool_engine.model.json.halves import escape_halves


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("caf\udce9", "caf\\udce9"),
        ("café \U0001f600", "café \U0001f600"),
        ([{"a": ["\ud83d"]}, 1, None], [{"a": ["\\ud83d"]}, 1, None]),
        # Two keys stay two, in either order.
        ({"\udce9": 1, "\\udce9": 2}, {"\\udce9'": 1, "\\udce9": 2}),
        ({"\\udce9": 2, "\udce9": 1}, {"\\udce9": 2, "\\udce9'": 1}),
    ],
)
def test_halves_become_six_letters(value: object, escaped: object) -> None:
    assert escape_halves(value) == escaped
    json.dumps(escape_halves(value), ensure_ascii=False).encode()
