"""Does a quick look at a text find every oddity that a look at each of its events finds?"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tool_engine.catalog.yaml import strict_yaml
from tool_engine.catalog.yaml.oddities import Oddities
from tool_engine.errors import DefinitionError

PARTS = st.sampled_from(
    [
        *("a", "b: ", "?", "? ", "#", " #", "'", '"', "[", "]", "{", "}", ",", ", ", "-", "- "),
        *("&x", "&x ", "*x", "*x ", ":", ": ", "\n", "\n  ", "|\n  ", ">+\n  ", " ", "\\", "\\x41"),
        *("key: value\n", "k: 'a'", 'k: "why?b"', "---\n", "é", "!t ", "!!str ", "“q”", "‘"),
    ]
)
TEXTS = st.lists(PARTS, max_size=14).map("".join)


def look_closely(text: str, *, allow_aliases: bool) -> object:
    oddities = Oddities(text, has_anchors=True)
    reader = strict_yaml._Reader(
        text, "x", oddities, is_odd=oddities.may_be_there, allow_aliases=allow_aliases
    )
    documents, problems = reader.read()
    return [each.value for each in documents], problems


@pytest.mark.parametrize("allow_aliases", [False, True])
@given(text=TEXTS)
@example(text="[?a]")
@example(text="{?}")
@example(text="{a: ?}")
@example(text='"a"#b')
@example(text="k: '#b'")
@example(text="k: [a]#b")
@example(text="a: &x? 1\nb: 2")
@example(text="a: !!str “q”")
@example(text="&x “q”")
@example(text="“q”: “")
@example(text="a: |\n  x\n ")
def test_a_quick_look_finds_the_same(*, text: str, allow_aliases: bool) -> None:
    """A text is read anew with a look at each event exactly where that finds something."""
    documents, problems = strict_yaml.parse_yaml(text, "x", allow_aliases=allow_aliases)
    found = [each.value for each in documents], problems
    assert found == look_closely(text, allow_aliases=allow_aliases)


def test_only_what_may_be_odd_is_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern or an address with a question mark, and a # in quotes, cost no second reading."""
    made: list[bool] = []
    original = strict_yaml._Reader

    def count(*args: object, is_odd: bool, **values: object) -> object:
        made.append(is_odd)
        return original(*args, is_odd=is_odd, **values)  # type: ignore[arg-type]

    monkeypatch.setattr(strict_yaml, "_Reader", count)
    strict_yaml.load_documents('a: "^https?://"\nb: https://h/?q=1\nc: "#channel"\nd: R&D, C#', "x")
    assert made == [False]
    with pytest.raises(DefinitionError):
        strict_yaml.load_documents("[?a]", "x")
    assert made == [False, False, True]
