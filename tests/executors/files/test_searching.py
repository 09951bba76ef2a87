"""Does `search_files` find every line that matches, and no other?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.files import searching
from tool_engine.executors.files.searching import _Search
from tool_engine.executors.files.tree import Budget

if TYPE_CHECKING:
    from tests.executors.files.conftest import Desk


def places(found: dict[str, list[dict[str, object]]]) -> list[tuple[object, object]]:
    return [(match["path"], match["line"]) for match in found["matches"]]


@pytest.fixture
def project(desk: Desk) -> Desk:
    desk.put("src/a.py", "import os\n\ndef first():\n    pass\n")
    desk.put("src/b.py", "def second():\r\n    return first()\r\n")
    desk.put("notes.md", "First of all\n")
    desk.put(".git/config", "first\n")
    return desk


def test_matches(project: Desk) -> None:
    """Each line that matches, with its place, in the order of paths and lines."""
    assert project.search(r"first\(\)", glob="*.py") == {
        "matches": [
            {"path": "src/a.py", "line": 3, "text": "def first():"},
            {"path": "src/b.py", "line": 2, "text": "    return first()"},
        ],
        "files_searched": 2,
    }


def test_lines_around(project: Desk) -> None:
    """Context shows the lines before and after, as far as there are some."""
    (match,) = project.search("^def first", context=2)["matches"]
    assert (match["before"], match["after"]) == (["import os", ""], ["    pass"])
    (match,) = project.search("^import", context=1)["matches"]
    assert (match["before"], match["after"]) == ([], [""])


@pytest.mark.parametrize(
    ("pattern", "params", "found"),
    [
        ("first", {"path": "notes.md"}, []),
        ("first", {"path": "notes.md", "ignore_case": True}, [("notes.md", 1)]),
        ("FIRST()", {"literal": True}, []),
        ("FIRST()", {"literal": True, "ignore_case": True}, [("src/a.py", 3), ("src/b.py", 2)]),
        ("first()", {"literal": True, "path": "src"}, [("src/a.py", 3), ("src/b.py", 2)]),
        ("first$", {"include_ignored": True}, [(".git/config", 1)]),
        (r"\Afirst\z", {"include_ignored": True}, [(".git/config", 1)]),
        ("(?i)^FIRST OF", {}, [("notes.md", 1)]),
        (r"^$", {}, [("src/a.py", 2)]),
        (r"\)$", {}, [("src/b.py", 2)]),
    ],
)
def test_ways_to_search(
    project: Desk, pattern: str, params: dict[str, object], found: list[tuple[str, int]]
) -> None:
    """Patterns and literal texts, with and without case, in a folder or one file."""
    assert places(project.search(pattern, **params)) == found


@pytest.mark.parametrize(
    ("pattern", "params", "message"),
    [
        ("", {}, "pattern is empty"),
        ("a\nb", {"literal": True}, "has a line feed in it"),
        (r"a\nb", {}, "has a line feed in it"),
        (r"(a)\1", {}, "back-reference"),
        ("a", {"path": "missing"}, "does not exist"),
        ("a", {"path": "src/"}, None),
    ],
)
def test_search_that_is_refused(
    project: Desk, pattern: str, params: dict[str, object], message: str | None
) -> None:
    """What could never be found is an error, not an empty answer."""
    if message is None:
        assert project.search(pattern, **params)["files_searched"] == 2
        return
    with pytest.raises(ToolExecutionError, match=message):
        project.search(pattern, **params)


def test_backslash_before_an_n(desk: Desk) -> None:
    """An escaped backslash before an `n` is no line feed."""
    desk.put("a.txt", "a\\nb\n")
    assert places(desk.search(r"a\\nb")) == [("a.txt", 1)]


def test_what_is_not_searched(desk: Desk) -> None:
    """Binary and too large files are left out, and counted."""
    desk.put("a.bin", b"x\0x")
    desk.put("b.txt", "x")
    desk.put("c.txt", "x" * 100)
    tool = desk.tool("search_files", config={"max_bytes": 50})
    found = desk.run(tool, pattern="x")
    assert places(found) == [("b.txt", 1)]
    assert found["cut"] == [
        "2 files were left out: binary, not UTF-8, not to be read, or larger than 50 bytes"
    ]


def test_most_matches(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that ends early says so, and only then."""
    desk.put("a.txt", "x\n" * 10)
    cut = desk.search("x", limit=9)
    assert len(cut["matches"]) == 9
    assert cut["cut"][0].startswith("stopped after 9 matches")
    assert "cut" not in desk.search("x", limit=10)
    monkeypatch.setattr(searching, "_MOST_SHOWN", 4)
    assert len(desk.search("x")["matches"]) == 5


def test_long_lines(desk: Desk) -> None:
    """A long line is searched in its beginning, which is told; a literal text in all of it."""
    desk.put("a.txt", "a" * 5_000 + "b\nb" + "c" * 600)
    found = desk.search("b")
    assert [(m["line"], len(m["text"])) for m in found["matches"]] == [(2, 523)]
    assert found["matches"][0]["text"].endswith("… (101 characters more)")
    assert "1 lines are longer than 4096 characters" in found["cut"][0]
    found = desk.search("b", literal=True)
    assert places(found) == [("a.txt", 1), ("a.txt", 2)]
    assert "cut" not in found


@given(
    st.text(alphabet="ab\n\r", max_size=80),
    st.sampled_from(
        ["a", "^a", "b$", "^$", "a.b", "[^a]", "^(a|b)+$", r"(?:ab)+", r"\Aa", "(?i)B"]
    ),
)
def test_model(text: str, pattern: str) -> None:
    """Property: the lines are those that match one by one, however the text falls into blocks."""
    lines = text.replace("\r\n", "\n").split("\n")
    lines = lines if lines[-1] else lines[:-1]
    expected = [
        number
        for number, line in enumerate(lines, 1)
        if re.search(pattern.replace("$", r"\Z"), line, re.ASCII)
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(searching, "_BLOCK", 8)
        search = _Search({"pattern": pattern, "limit": 1000}, 1000, Budget(None))
        search._search_text(text.replace("\r\n", "\n"), "a")
    assert [match["line"] for match in search.result()["matches"]] == expected
