"""What do patterns and globs match, and at which price?"""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.files.pattern import LinearPattern, glob_pattern, literal_pattern


@pytest.mark.parametrize(
    ("glob", "fits", "fits_not"),
    [
        ("*.py", ["a.py", "x/y/a.py", ".py"], ["a.pyc", "py", "a.py/b"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "lib/src/a.py"]),
        ("./src/*.py", ["src/a.py"], ["a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py"]),
        ("docs/**", ["docs/a", "docs/x/y"], ["docs", "a/docs/b"]),
        ("*.{ts,tsx}", ["a.ts", "x/a.tsx"], ["a.tsxx", "a.t"]),
        ("{a,b*}/c", ["a/c", "bb/c"], ["ab/c"]),
        ("a?c", ["abc", "x/a.c"], ["a/c", "ac", "abbc"]),
        ("[a-c]x", ["bx"], ["dx", "-x"]),
        ("[!a-c]x", ["dx"], ["bx", "/x"]),
        ("[.^$]x", [".x", "^x", "$x"], ["ax"]),
        ("a+b(1).txt", ["a+b(1).txt"], ["aab1.txt"]),
        ("build/", ["build", "x/build"], ["builds"]),
        ("été", ["été"], ["ete"]),
    ],
)
def test_glob(glob: str, fits: list[str], fits_not: list[str]) -> None:
    """A glob fits a whole path, and the name in every folder when it has no `/`."""
    pattern = LinearPattern(glob_pattern(glob))
    assert [path for path in fits if not pattern.matches(path)] == []
    assert [path for path in fits_not if pattern.matches(path)] == []


@pytest.mark.parametrize(
    ("glob", "message"),
    [("[a", "without its ']'"), ("{a", "without its '}'"), ("{a{b}}", "nests"), ("[]", "without")],
)
def test_glob_that_is_none(glob: str, message: str) -> None:
    """A bracket that is not closed is an error, not a character."""
    with pytest.raises(ToolExecutionError, match=message):
        glob_pattern(glob)


@given(
    st.text(alphabet="ab*?.", min_size=1, max_size=8).filter(lambda glob: "**" not in glob),
    st.text(alphabet="ab.", max_size=8),
)
def test_glob_model(glob: str, name: str) -> None:
    """Property: within one name, a glob means what it means in the standard library."""
    assert LinearPattern(glob_pattern(glob)).matches(name) == fnmatch.fnmatchcase(name, glob)


@given(st.text(max_size=20), st.text(max_size=5))
def test_literal_model(text: str, part: str) -> None:
    """Property: a literal pattern finds exactly its text, whatever characters it has."""
    assert LinearPattern(literal_pattern(part)).matches(text) == (part in text)


@pytest.mark.parametrize(
    "pattern",
    ["(", "a{1000}{1000}", "(?=a)", "(?<!a)b", r"(a)\1", "a" * 501, "(?:a{9}){9}{9}{9}"],
)
def test_pattern_that_is_refused(pattern: str) -> None:
    """What is no pattern, too long, too large or more than linear is refused before it runs."""
    with pytest.raises(ToolExecutionError, match="pattern"):
        LinearPattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+$", "(.*a){20}$", "^([a-z]+)*$", "(a?){30}a{30}$"]
)
def test_pattern_that_others_choke_on(pattern: str) -> None:
    """ReDoS: what takes a backtracking engine hours ends at once."""
    assert not LinearPattern(pattern).matches("a" * 4000 + "!")


def test_only_the_beginning_of_a_long_text() -> None:
    """One step has an upper bound, so that no other work of the process waits for long."""
    assert LinearPattern("b").matches("a" * 4095 + "b")
    assert not LinearPattern("b").matches("a" * 4096 + "b")
