"""Does `edit_file` replace what was meant, and nothing else?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.files import editing
from tool_engine.executors.files.diff import apply_changes
from tool_engine.executors.files.editing import _find_changes

if TYPE_CHECKING:
    from tests.executors.files.conftest import Desk


def test_one_place(desk: Desk) -> None:
    """R10: the one place is replaced; the answer shows the change as a unified diff."""
    file = desk.put("a.txt", "one\ntwo\nthree\n")
    file.chmod(0o640)
    changed = desk.edit("a.txt", "two", "2")
    assert file.read_text() == "one\n2\nthree\n"
    assert changed == {
        "path": "a.txt",
        "replacements": 1,
        "diff": "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
        "version": desk.read("a.txt")["version"],
    }
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ("x = 1", "occurs 2 times in 'a.py', at the lines 1, 3"),
        ("y = 1", "does not occur in 'a.py'; nothing was written"),
        ("x = 1\nz", "does not occur in 'a.py'; 'x = 1' stands at line 1, 3"),
        ("  \n ", "does not occur"),
        ("", "old_text is empty"),
    ],
)
def test_not_exactly_one_place(desk: Desk, old: str, message: str) -> None:
    """R10: a text that is not there, or at several places, is an error that says where."""
    file = desk.put("a.py", "x = 1\n\nx = 1\n")
    with pytest.raises(ToolExecutionError, match=message):
        desk.edit("a.py", old, "new")
    assert file.read_text() == "x = 1\n\nx = 1\n"


def test_places_that_overlap_are_several(desk: Desk) -> None:
    """In `aaa` the text `aa` can be meant in two ways."""
    desk.put("a.txt", "aaa")
    with pytest.raises(ToolExecutionError, match="occurs 2 times"):
        desk.edit("a.txt", "aa", "b")


def test_very_many_places(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Places are counted as far as a message needs it, and replaced up to a bound."""
    desk.put("a.txt", "ab\n" * 50)
    with pytest.raises(ToolExecutionError, match="occurs 10 or more times"):
        desk.edit("a.txt", "ab", "b")
    assert desk.edit("a.txt", "ab", "b", replace_all=True)["replacements"] == 50
    monkeypatch.setattr(editing, "_MOST_CHANGES", 20)
    with pytest.raises(ToolExecutionError, match="more than 20 times"):
        desk.edit("a.txt", "b", "c", replace_all=True)


def test_nothing_to_change(desk: Desk) -> None:
    """An edit that changes nothing is a mistake of the caller."""
    desk.put("a.txt", "same")
    with pytest.raises(ToolExecutionError, match="the same; nothing would change"):
        desk.edit("a.txt", "same", "same")


def test_windows_endings(desk: Desk) -> None:
    """CR LF stays CR LF, though the call writes LF; the byte order mark stays too."""
    file = desk.put("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    desk.edit("a.txt", "one\ntwo", "1\n1.5\n2")
    assert file.read_bytes() == b"\xef\xbb\xbf1\r\n1.5\r\n2\r\nthree\r\n"
    desk.edit("a.txt", "2\r\nthree", "end")
    assert file.read_bytes() == b"\xef\xbb\xbf1\r\n1.5\r\nend\r\n"


def test_stale_version(desk: Desk) -> None:
    """An edit with the version that was read refuses a file that has changed since."""
    file = desk.put("a.txt", "one two")
    version = desk.read("a.txt")["version"]
    file.write_text("one two three")
    with pytest.raises(ToolExecutionError, match="has changed since it was read"):
        desk.edit("a.txt", "two", "2", expected_version=version)
    current = desk.read("a.txt")["version"]
    desk.edit("a.txt", "two", "2", expected_version=current)
    assert file.read_text() == "one 2 three"


def test_result_that_would_be_too_large(desk: Desk) -> None:
    """A short call cannot make a huge file, nor hold one in memory."""
    file = desk.put("a.txt", "a" * 1000)
    tool = desk.tool("edit_file", config={"max_bytes": 5000})
    with pytest.raises(ToolExecutionError, match="more than 5000 bytes"):
        desk.run(tool, path="a.txt", old_text="a", new_text="b" * 1000, replace_all=True)
    with pytest.raises(ToolExecutionError, match="would have 6000 bytes"):
        desk.run(tool, path="a.txt", old_text="a" * 500, new_text="é" * 1500, replace_all=True)
    assert file.read_text() == "a" * 1000


def test_binary_is_not_edited(desk: Desk) -> None:
    """R10: only text is edited."""
    file = desk.put("a.bin", b"a\0b")
    with pytest.raises(ToolExecutionError, match="is binary"):
        desk.edit("a.bin", "a", "c")
    assert file.read_bytes() == b"a\0b"


@given(
    st.lists(st.sampled_from(["a", "b", "ab", "\n", "\r\n", "\r", "é"]), max_size=20),
    st.text(alphabet="ab\né", min_size=1, max_size=4),
    st.text(alphabet="ab\n", max_size=4),
)
def test_model(pieces: list[str], old: str, new: str) -> None:
    """Property: an edit is str.replace on the text with LF; what does not change keeps its CR."""
    before = "".join(pieces)
    plain = before.replace("\r\n", "\n")
    if old == new or old not in plain:
        with pytest.raises(ToolExecutionError):
            _find_changes(before, old, new, "a", replaces_all=True)
        return
    changes = _find_changes(before, old, new, "a", replaces_all=True)
    after = apply_changes(before, changes)
    kept = "".join(apply_changes(before, [each._replace(new="\0") for each in changes]).split("\0"))
    removed = [before[change.start : change.end].replace("\r\n", "\n") for change in changes]
    assert removed == [old] * plain.count(old)
    assert len(kept) == len(before) - sum(change.end - change.start for change in changes)
    if "\r" not in before:
        assert after == plain.replace(old, new)
    elif "\n" not in before.replace("\r\n", "") and "\r" not in plain and "\r\n" in before:
        assert after == plain.replace(old, new).replace("\n", "\r\n")
