"""How do values become text on a page?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tool_engine.studio.rendering import show_json


class Counted(list[Any]):
    """A list that knows how many of its values were looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[Any]:
        for each in super().__iter__():
            self.looked_at += 1
            yield each


def test_what_is_not_shown_is_not_written() -> None:
    """A value of any size costs what its part on the page does."""
    rows = Counted([{"n": each} for each in range(100_000)])
    shown = show_json({"rows": rows})
    assert 100 < rows.looked_at < 5_000
    assert "characters" not in shown
    assert shown.endswith("\n…</bdi>")
    assert "99999" not in shown


def test_one_long_text() -> None:
    """Of a text both ends are shown, and how much is left out."""
    shown = show_json({"text": "a" * 10_000_000 + "z"})
    assert len(shown) < 25_000
    assert "z" in shown
    assert "characters" in shown


def test_what_is_short_is_whole() -> None:
    assert show_json({"a": [1, "<b>\u202e"]}) == (
        "<bdi>{\n  &#34;a&#34;: [\n    1,\n    &#34;&lt;b&gt;\\u202e&#34;\n  ]\n}</bdi>"
    )
