"""How much of what a tool returns do its caller and a model get to see?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.errors import ConfigurationError
from tool_engine.model.result import CutStrategy, ResultLimits


def test_limits_that_are_left_out_limit_nothing() -> None:
    """Nobody's output is cut unless its definition says so."""
    limits = ResultLimits()
    assert (limits.max_chars, limits.max_items, limits.select) == (None, None, None)
    assert limits.strategy is CutStrategy.HEAD_TAIL


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_chars": 99}, "max_chars must be a whole number from 100"),
        ({"max_chars": True}, "max_chars must be"),
        ({"max_items": 0}, "max_items must be a whole number from 1"),
        ({"strategy": "heads"}, "did you mean 'head'"),
        ({"select": " "}, "select must be a JMESPath expression"),
        ({"limit": -2}, "limit must be a whole number from -1"),
        ({"limit": 1.5}, "limit must be"),
        ({"show": "sumary"}, "did you mean 'summary'"),
        ({"select": 3}, "select must be a JMESPath expression"),
    ],
)
def test_wrong_limits_are_refused(fields: dict[str, Any], message: str) -> None:
    """A limit in code is checked as one in a definition: setting, value and what is allowed."""
    with pytest.raises(ConfigurationError, match=message):
        ResultLimits(**fields)


def test_a_strategy_may_be_written_as_a_word() -> None:
    """`head` and `CutStrategy.HEAD` are the same."""
    assert ResultLimits(strategy="tail") == ResultLimits(strategy=CutStrategy.TAIL)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "shapes"),
    [
        ({}, False),
        ({"limit": 5}, False),
        ({"show": "none"}, False),
        ({"limit": -1, "strategy": "head"}, False),
        ({"max_chars": 100}, True),
        ({"max_items": 1}, True),
        ({"select": "a"}, True),
    ],
)
def test_a_limit_of_sessions_leaves_the_output_alone(fields: dict[str, Any], shapes: bool) -> None:
    """S7: what only a session reads costs nothing in a call."""
    assert ResultLimits(**fields).shapes_output is shapes
