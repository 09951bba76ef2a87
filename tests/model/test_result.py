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
