"""Progress is bars on a terminal and lines elsewhere."""

import io

from rich.console import Console

from tool_engine.cli.demo.steps import open_progress


def show(*, is_terminal: bool) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=is_terminal, width=80)
    with open_progress(console, slots=2, queue_size=5, calls=8) as update:
        update(2, 5, 1)
        update(2, 5, 1)
        update(0, 0, 8)
    return stream.getvalue()


def test_lines_are_printed_when_the_numbers_change() -> None:
    """A log file gets each state once, and no control characters."""
    assert show(is_terminal=False).splitlines() == [
        "  running 2 of 2   waiting 5 of 5   finished 1 of 8",
        "  running 0 of 2   waiting 0 of 5   finished 8 of 8",
    ]


def test_a_terminal_gets_bars() -> None:
    """Three bars, drawn over one another."""
    text = show(is_terminal=True)
    assert "\x1b[2K" in text
    for word in ("running", "waiting", "finished", "8 of 8"):
        assert word in text
