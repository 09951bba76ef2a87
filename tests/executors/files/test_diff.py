"""Is the diff of an edit one that another program could apply?"""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from tool_engine.executors.files.diff import Change, apply_changes, unified_diff

HEADER = re.compile(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@\n")


def lines_of(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def apply(text: str, diff: str) -> str:
    """What `patch` makes of `text`; checks each line and each number of the diff."""
    old, out, position = lines_of(text), list[str](), 0
    rows = lines_of(diff)[2:]
    while rows:
        header = HEADER.fullmatch(rows.pop(0))
        assert header
        first, count, new_first, new_count = map(int, header.groups())
        out += old[position : first - 1]
        position = first - 1
        assert len(out) == new_first - (new_count > 0)
        before, after = list[str](), list[str]()
        while rows and not rows[0].startswith("@@"):
            row = rows.pop(0)
            line = row[1:]
            if rows and rows[0].startswith("\\"):
                rows.pop(0)
                line = line.removesuffix("\n")
            before += [line] if row[0] in " -" else []
            after += [line] if row[0] in " +" else []
        assert (len(before), len(after)) == (count, new_count)
        assert old[position : position + count] == before
        out += after
        position += count
    out += old[position:]
    assert all(line.endswith("\n") for line in out[:-1])
    return "".join(out)


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, list[Change]]:
    text = draw(st.text(alphabet="ab\n", min_size=1, max_size=60))
    cuts = draw(st.lists(st.integers(0, len(text)), max_size=8, unique=True))
    places = sorted(cuts)
    pairs = zip(places[::2], places[1::2], strict=False)
    return text, [
        Change(start, end, draw(st.text(alphabet="x\n", max_size=4))) for start, end in pairs
    ]


@given(edits())
@example(("a\nb\nc", [Change(2, 4, "")]))
@example(("a\nb\nc", [Change(2, 4, "x")]))
@example(("a", [Change(0, 1, "")]))
@example(("ab\ncd\n", [Change(1, 3, "")]))
def test_applies(edit: tuple[str, list[Change]]) -> None:
    """Property: applied to the old text, the diff gives the new one, for any changes."""
    text, changes = edit
    if changes:
        assert apply(text, unified_diff(text, changes, "a")) == apply_changes(text, changes)


def test_places_far_apart() -> None:
    """Places that are far apart have a hunk each, with three lines around."""
    text = "".join(f"{n}\n" for n in range(1, 31))
    changes = [Change(text.index(f"{n}\n"), text.index(f"{n}\n") + 2, "x") for n in (10, 25)]
    diff = unified_diff(text, changes, "a")
    assert re.findall(r"@@.*@@", diff) == ["@@ -7,7 +7,7 @@", "@@ -22,7 +22,7 @@"]
    assert apply(text, diff) == apply_changes(text, changes)


def test_size_is_bounded() -> None:
    """What would be too much to show is counted, and costs nothing."""
    text = "x" * 30_000 + "\n" + "y\n" * 10
    changes = [Change(n, n + 1, "z") for n in range(0, 30_000, 3)]
    assert unified_diff(text, changes, "a") == ("--- a/a\n+++ b/a\n(1 places more have changed)\n")
