"""Does each check let through what is allowed, and name what is not?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.bounds import check_choice, check_count, check_share


@pytest.mark.parametrize(
    ("value", "beyond", "bounds"),
    [
        (0, -1, {}),
        (1, 0, {"minimum": 1}),
        (-3, -4, {"minimum": -3, "maximum": 3}),
        (3, 4, {"minimum": -3, "maximum": 3}),
    ],
)
def test_counts(value: int, beyond: int, bounds: dict[str, int]) -> None:
    """U4: both bounds are allowed values, and the next number is none."""
    check_count("n", value, **bounds)
    with pytest.raises(ConfigurationError, match=f"got {beyond}$"):
        check_count("n", beyond, **bounds)


@pytest.mark.parametrize(
    ("value", "bounds", "message"),
    [
        (-1, {}, "^n must be a whole number >= 0, got -1$"),
        (4, {"maximum": 3}, "^n must be a whole number from 0 to 3, got 4$"),
        (True, {}, "got True"),
        (1.0, {}, "got 1.0"),
        ("1", {}, "got '1'"),
        (None, {}, "got None"),
    ],
)
def test_wrong_counts(value: Any, bounds: dict[str, int], message: str) -> None:
    """U4: what is no whole number, or too small or large, is named with the bounds."""
    with pytest.raises(ConfigurationError, match=message):
        check_count("n", value, **bounds)


def test_shares() -> None:
    """C15: a share may be any positive number."""
    check_share("n", 1)
    check_share("n", 0.001)
    for value in (0, -1, True, float("nan"), float("inf"), "1", None):
        with pytest.raises(ConfigurationError, match="n must be a positive, finite number, got"):
            check_share("n", value)


def test_choices() -> None:
    """U4: a word that is no choice is told all of them, and the nearest."""
    check_choice("n", "fifo", ("fifo", "fair"))
    with pytest.raises(ConfigurationError, match=r"^n must be one of a, b, got 'zz'$"):
        check_choice("n", "zz", ["a", "b"])
    with pytest.raises(ConfigurationError, match=r"got 'fifa'; did you mean 'fifo'\?$"):
        check_choice("n", "fifa", ("fifo", "fair"))
