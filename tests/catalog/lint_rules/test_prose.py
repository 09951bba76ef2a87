"""Are the words of a description read right, in English and in Chinese?"""

from __future__ import annotations

import pytest

from tool_engine.catalog.lint_rules.prose import (
    repeats_name,
    says_when,
    says_when_not,
    word_count,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("The user's name", 3), ("发送 HTTP 请求", 1 + 4 / 1.5), ("a-b_c", 3)],
)
def test_word_count(text: str, count: float) -> None:
    """R5: a Chinese text is not short because it has no blanks."""
    assert word_count(text) == pytest.approx(count)


@pytest.mark.parametrize(
    ("text", "name", "is_repeated"),
    [
        ("The weather", "weather", True),
        ("Gets weather", "getWeather", True),
        ("Get the weather of a city", "get_weather", False),
        ("天气", "weather", False),
        ("", "weather", True),
    ],
)
def test_repeats_name(text: str, name: str, is_repeated: bool) -> None:
    """R5: a description that only has the words of the name says nothing."""
    assert repeats_name(text, name) is is_repeated


@pytest.mark.parametrize("text", ["请求超时", "发送请求", "Returns the weather of a city", "时间"])
def test_what_says_nothing_of_when(text: str) -> None:
    """R5: a word that only looks like one about time is none."""
    assert not says_when(text)
    assert not says_when_not(text)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("part", ["不", "a", "' ", "rather ", "a_", "超时", "# "])
def test_a_long_text_is_read_at_once(part: str) -> None:
    """Nothing that a file contains hangs the linter: it reads a text in the time of its length."""
    text = part * 100_000
    assert word_count(text) >= 0
    assert not says_when(text)
    says_when_not(text)
    assert not repeats_name(text, "b") or part in ("' ", "# ", "a_")
