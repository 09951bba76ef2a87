"""Does an argument fit a pattern, or may it be meant to be something that does?"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from tool_engine.approval.matching import Argument, is_match, is_pattern, spelled_in


def nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def test_patterns() -> None:
    """X3: `*`, `?` and `[...]` stand for letters, and a bracket that is never closed for itself."""
    assert [is_pattern(each) for each in ("a*", "a?", "a[b-d]", "a[b", "a]", "")] == [True] * 3 + [
        False
    ] * 3
    assert (spelled_in("a[b-d]*c"), spelled_in("a[b")) == (2, 3)
    assert is_match("ac\nd", "a[b-d]*d")
    assert not is_match("aC", "a[b-d]")
    assert is_match("a[b", "a[b")


@pytest.mark.parametrize(
    ("value", "glob"),
    [
        ([["x", "b"]], '*"b"]'),
        ([{"path": "/etc/x"}], '{"path": "/etc*'),
        ({"a": ("x", {"b": " ./secrets/c"})}, "secrets/*"),
        (MappingProxyType({"a": ["secrets\\c"]}), "secrets/*"),
        (["re\u0301sume\u0301"], "résumé"),
        (["résumé"], "re\u0301sume\u0301"),
        (["\ud800", "re\u0301sume\u0301"], "r?sum*"),
        (["\ud800"], "?ud800"),
        ([""], "."),
        ([10**5000, 12], "1?"),
        ([True, None], "True"),
        ([True, None], "null"),
        ([0.5, 3.0], "3"),
        ([0.5, 3.0], "0.?"),
        ([2**70], str(2**70)),
    ],
)
def test_what_is_hidden_in_a_list(value: Any, glob: str) -> None:
    """A strict rule holds for whatever a list or a mapping has in it, in any spelling."""
    argument = Argument(value)
    assert argument.is_like(glob)
    assert not argument.fits(glob)
    assert not argument.is_like("another*")
    assert not argument.is_like("another")
    assert not argument.is_like("{another*")


@pytest.mark.parametrize("path", [" ./secrets/a", "secrets/./a ", "\tx/..\\secrets/a"])
def test_two_disguises_at_once(path: str) -> None:
    """Blanks around a path do not hide its other disguise, alone or in a list."""
    assert Argument(path).is_like("secrets/*")
    assert Argument([path]).is_like("secrets/*")


UNSEEN = (
    *("\u200b", "\u00ad", "\u202e", "\ufeff", "\u3164", "\u2060", "\u034f", "\ufe0f", "\u180b"),
    *("\U000e0041", "\U000e0100", "\x00", "\x1b", "\x7f"),
)


@pytest.mark.parametrize("mark", UNSEEN, ids=ascii)
@pytest.mark.parametrize(
    "text",
    [
        *("{}secrets/a", "sec{}rets/a", "secrets{}/a", "secrets/{0}.{0}./secrets/a"),
        *("x/.{}./secrets/a", "{} secrets/a", " {}./secrets/a", "secrets/{0}/{0}/a", "secrets/a{}"),
    ],
)
def test_what_is_not_seen_hides_nothing(mark: str, text: str) -> None:
    """Characters that nobody sees, before, inside or behind, do not get a value round a rule.

    Looked at: texts alone, in lists and in mappings, under a blank and in a path that has another
    form; a value that is spelled out; a rule that has such a character itself.
    """
    value = text.format(mark)
    for sent in (value, [value], {"deep": [{"in": value}]}):
        assert Argument(sent).is_like("secrets/*")
        assert Argument(sent).is_like("secrets/a")
        assert not Argument(sent).is_like("another*")
        assert not Argument(sent).is_like("")


@pytest.mark.parametrize("lists", [False, True])
def test_rules_that_have_what_is_not_seen(lists: bool) -> None:
    """A rule with an emoji is not dodged either, and one about such characters is about no more."""

    def is_like(text: str, glob: str) -> bool:
        return Argument([text] if lists else text).is_like(glob)

    assert is_like("\u200bre\u0301d \u2764\ufe0f", "réd \u2764\ufe0f")
    assert is_like("re\u200b\u0301d", "réd")
    assert is_like("a\u200bb", "*\u200b*")
    assert not is_like("ab", "*\u200b*")
    assert not is_like("a\ufe0fb", "*\u200b*")


@pytest.mark.parametrize("text", ["foo\nbar", "foo\tbar", "foo bar"])
def test_what_is_seen_stays_another_text(text: str) -> None:
    """Lines and columns of a text are seen: its words are not one word."""
    assert not Argument(text).is_like("foobar")
    assert not Argument([text]).is_like("foobar")


def test_what_nests_deep_or_holds_itself() -> None:
    """However deep it is, everything in it is looked at, once."""
    assert Argument(nested("secret", 5_000)).is_like("secret")
    assert not Argument(nested("secret", 5_000)).is_like("other")
    circle: list[Any] = ["secret"]
    circle.append({"again": circle})
    assert Argument(circle).is_like("sec*")
    assert not Argument(circle).is_like("other")


def test_what_is_too_long_to_be_written_out() -> None:
    """Lists in a list that come to more than is written, each, count as alike."""
    wide = nested(["x" * 1_000], 300)
    assert not Argument(wide).is_like("other*")
    assert Argument(wide).is_like('*other"]')


def test_a_list_is_its_json_where_a_pattern_may_fit_that() -> None:
    """X3: a glob sees what a model sees."""
    value = [{"to": "a@evil"}]
    assert [Argument(value).fits(each) for each in ("*evil*", "[[]*", "*}]", "a*", "*l")] == [
        True,
        True,
        True,
        False,
        False,
    ]
