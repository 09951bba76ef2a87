"""What would the file tools change, before they do?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.files.diff import apply_changes
from tool_engine.executors.files.editing import FileEditExecutor
from tool_engine.executors.files.writing import FileWriteExecutor, _describe_change

if TYPE_CHECKING:
    from tests.executors.files.conftest import Desk

LINES = st.lists(st.sampled_from(["a\n", "b\n", "\r\n", "c"]), max_size=6).map("".join)


def write(desk: Desk, path: str, content: str, **params: Any) -> str:
    tool = desk.tool("write_file")
    return FileWriteExecutor().preview(tool, {"path": path, "content": content, **params})


def edit(desk: Desk, path: str, old: str, new: str, **params: Any) -> str:
    said = {"path": path, "old_text": old, "new_text": new, **params}
    return FileEditExecutor().preview(desk.tool("edit_file"), said)


def test_a_file_that_changes(desk: Desk) -> None:
    """D19: whoever is asked sees the lines that change, and nothing is written meanwhile."""
    file = desk.put("a.txt", "one\ntwo\nthree\n")
    diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    assert write(desk, "a.txt", "one\n2\nthree\n") == diff
    assert edit(desk, "a.txt", "two", "2") == diff
    assert write(desk, "a.txt", "one\ntwo\nthree\n") == "Nothing: the file holds this already."
    assert file.read_text() == "one\ntwo\nthree\n"
    assert desk.names() == {"a.txt"}


def test_a_new_file(desk: Desk) -> None:
    """It is said that there is none yet; no folder is made for the look."""
    shown = "A new file:\n--- a/b/c.txt\n+++ b/b/c.txt\n@@ -1,0 +1,1 @@\n+new\n"
    assert write(desk, "b/c.txt", "new\n", create_folders=True) == shown
    assert desk.names() == set()
    with pytest.raises(ToolExecutionError):
        write(desk, "b/c.txt", "new\n")
    assert write(desk, "c.txt", "new\n") == shown.replace("b/c.txt", "c.txt")


def test_what_would_fail(desk: Desk) -> None:
    """Nothing outside of the root is looked at, and what cannot be done is not shown as if."""
    desk.put("a.txt", "one\n")
    with pytest.raises(ToolExecutionError, match="does not occur"):
        edit(desk, "a.txt", "two", "2")
    with pytest.raises(ToolExecutionError):
        write(desk, "../outside/secret.txt", "new")
    with pytest.raises(ToolExecutionError):
        edit(desk, "../outside/secret.txt", "SECRET", "new")


@given(LINES, LINES)
def test_the_change_is_the_whole_change(before: str, after: str) -> None:
    """Whatever the two texts are, the shown change makes one of the other."""
    assert apply_changes(before, [_describe_change(before, after)]) == after
