"""What may a tool say of its progress, and what is kept of it?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tool_engine.errors import ConfigurationError
from tool_engine.model.progress import ToolLogLine, ToolProgress


class Shouted(str):
    """A text whose own methods say something else."""

    __slots__ = ()

    def __str__(self) -> str:
        raise LookupError("never asked")

    def __getitem__(self, key: Any) -> str:
        raise LookupError("never asked")


class Wide(float):
    """A number such as NumPy has."""

    __slots__ = ()


class Untold:
    def __repr__(self) -> str:
        raise LookupError("no words")


@pytest.mark.parametrize(
    ("done", "total", "fraction"),
    [
        (0, 0, 1.0),
        (0, None, None),
        (3, 2, 1.0),
        (1, 10**100, 1e-100),
        (5e-324, 1e308, 0.0),
        (10**300, 2e300, 0.5),
        (Wide(1.5), Wide(3), 0.5),
        (2**63, 2**64, 0.5),
    ],
    ids=range(8),
)
def test_amounts_of_any_size(done: Any, total: Any, fraction: float | None) -> None:
    """Each is a number that every reader of JSON takes, and that a bar can be drawn of."""
    progress = ToolProgress(done, total)
    assert progress.fraction == fraction
    for each in (progress.done, progress.total):
        assert type(each) in (int, float, type(None))
        assert type(each) is not int or each <= 2**53
    read = json.loads(json.dumps(progress.to_dict()), parse_int=float)
    assert read["done"] == float(done)
    assert read["total"] == (None if total is None else float(total))


@pytest.mark.parametrize("made", [ToolProgress, ToolLogLine], ids=["progress", "line"])
@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("x" * 1_000_000, "x" * 8_192),
        (Shouted("loud"), "loud"),
        ("half \ud800 of a pair", "half \\ud800 of a pair"),
        ("é\x1b[31m", "é\x1b[31m"),
    ],
    ids=["long", "own class", "surrogate", "control"],
)
def test_messages_of_any_kind(made: Any, message: str, kept: str) -> None:
    """Each is a plain text of bounded length, which can be written as JSON."""
    found = made(message=message) if made is ToolLogLine else made(1, message=message)
    assert type(found.message) is str
    assert found.message == kept
    assert json.loads(json.dumps(found.message).encode()) == kept


@pytest.mark.parametrize(
    "value", [Untold(), [Untold()], b"1", 1j, 10**5_000, None], ids=lambda each: type(each).__name__
)
def test_what_is_none(value: Any) -> None:
    """It is refused in words, whatever its own words are."""
    with pytest.raises(ConfigurationError, match="done must be a finite number from 0 on"):
        ToolProgress(value)
    with pytest.raises(ConfigurationError, match="message must be a text, got"):
        ToolLogLine(value)
    with pytest.raises(ConfigurationError, match="level must be one of debug"):
        ToolLogLine("a", value)
