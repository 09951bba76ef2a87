"""Pictures made of characters."""

import io

import pytest
from rich.console import Console

from tool_engine.cli.records.record_line import draw_bars, fit_encoding


def test_sparkline_has_a_bar_per_value() -> None:
    """The largest value has the highest bar, 0 has none, and the least is still seen."""
    assert draw_bars([0, 1, 4, 8]) == " ▁▄█"
    assert draw_bars([0, 0.001, 1000]) == " ▁█"
    assert draw_bars([5, 5]) == "██"
    assert draw_bars([0, 0]) == "  "
    assert draw_bars([]) == ""


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "└─ ▁█ µs"), ("ascii", "`- .# us")])
def test_drawn_as_the_terminal_can(encoding: str, shown: str) -> None:
    """A terminal that knows only ASCII gets other characters, not escapes."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    assert fit_encoding("└─ ▁█ µs", Console(file=stream)) == shown
