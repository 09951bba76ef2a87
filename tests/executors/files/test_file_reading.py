"""What does `read_file` show of a file?"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.files import file_reading as reading
from tool_engine.executors.files.file_reading import _Lines

if TYPE_CHECKING:
    from tests.executors.files.conftest import Desk

FIVE = "one\ntwo\nthree\nfour\nfive\n"


def test_whole_file(desk: Desk) -> None:
    """R8: a text file is returned whole, with where it is and no `next`."""
    desk.put("a.txt", FIVE)
    found = desk.read("a.txt")
    version = found.pop("version")
    assert found == {
        "path": "a.txt",
        "content": FIVE,
        "first_line": 1,
        "last_line": 5,
        "total_lines": 5,
    }
    assert len(version) == 16


@pytest.mark.parametrize(
    ("params", "content", "lines", "following"),
    [
        ({"offset": 2, "limit": 2}, "two\nthree\n", (2, 3), {"offset": 4, "column": 1}),
        ({"offset": 4}, "four\nfive\n", (4, 5), None),
        ({"offset": -1}, "five\n", (5, 5), None),
        ({"offset": -2, "limit": 1}, "four\n", (4, 4), {"offset": 5, "column": 1}),
        ({"offset": -99, "limit": 1}, "one\n", (1, 1), {"offset": 2, "column": 1}),
        ({"offset": 3, "column": 3, "limit": 1}, "ree\n", (3, 3), {"offset": 4, "column": 1}),
        ({"offset": 4, "numbered": True}, "4\tfour\n5\tfive\n", (4, 5), None),
    ],
)
def test_part(
    desk: Desk,
    params: dict[str, int],
    content: str,
    lines: tuple[int, int],
    following: dict[str, int] | None,
) -> None:
    """An offset counts lines from the beginning or the end; what follows is told."""
    desk.put("a.txt", FIVE)
    found = desk.read("a.txt", **params)
    assert found["content"] == content
    assert (found["first_line"], found["last_line"]) == lines
    assert found.get("next") == following


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"offset": 0}, "offset counts from 1"),
        ({"offset": 6}, "has 5 lines, so none at 6"),
        ({"offset": 1, "column": 5}, "line 1 of 'a.txt' has no column 5"),
        ({"offset": 1.5}, "offset must be a whole number"),
        ({"limit": 0}, "limit must be between 1"),
        ({"limit": True}, "limit must be a whole number"),
        ({"numbered": "yes"}, "numbered must be true or false"),
        ({"path": 3}, "path must be a text"),
    ],
)
def test_part_that_is_not_there(desk: Desk, params: dict[str, object], message: str) -> None:
    """A place that the file does not have is an error, not an empty answer."""
    desk.put("a.txt", FIVE)
    with pytest.raises(ToolExecutionError, match=message):
        desk.run(desk.tool("read_file"), **{"path": "a.txt", **params})


def test_empty_file(desk: Desk) -> None:
    """An empty file has no line, and is no error."""
    desk.put("a.txt")
    found = desk.read("a.txt", numbered=True)
    assert (found["content"], found["total_lines"], found["last_line"]) == ("", 0, 0)


def test_windows_text(desk: Desk) -> None:
    """A byte order mark and CR LF are not shown; edits keep them."""
    desk.put("a.txt", b"\xef\xbb\xbfone\r\ntwo")
    found = desk.read("a.txt", numbered=True)
    assert found["content"] == "1\tone\n2\ttwo"
    assert found["total_lines"] == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", r"is binary \(10 bytes, a zero byte at 8\)"),
        (b"caf\xe9", r"is binary \(4 bytes, no UTF-8 at byte 3\)"),
        (b"a" * 9000 + b"\xe9", "is not UTF-8 text throughout"),
        ("text".encode("utf-16"), "is UTF-16 text"),
        (b"\xed\xa0\x80", "is binary"),
    ],
)
def test_binary(desk: Desk, data: bytes, message: str) -> None:
    """R8: text only; what is no text is told, with its size."""
    desk.put("a.bin", data)
    with pytest.raises(ToolExecutionError, match=message):
        desk.read("a.bin")


def test_too_large(desk: Desk) -> None:
    """A file above the limit is refused with both numbers, before it is read."""
    desk.put("a.txt", "x" * 11)
    tool = desk.tool("read_file", config={"max_bytes": 10})
    with pytest.raises(ToolExecutionError, match=r"has 11 bytes or more; .* at most 10 bytes"):
        desk.run(tool, path="a.txt")


def test_size_that_was_a_lie(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that has more bytes than it says is not read beyond the limit."""
    desk.put("a.txt", "x" * 30)
    tool = desk.tool("read_file", config={"max_bytes": 10})
    real = os.fstat

    def lying(file: int) -> os.stat_result:
        status = list(real(file))
        status[6] = 0
        return os.stat_result(status)

    monkeypatch.setattr(os, "fstat", lying)
    with pytest.raises(ToolExecutionError, match="at most 10 bytes"):
        desk.run(tool, path="a.txt")


def test_file_that_is_written_to(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that changes while it is read is read again, and given up at last."""
    file = desk.put("a.txt", "first\n")
    real = os.pread
    rounds: list[int] = []

    def reading_while_written(*args: int) -> bytes:
        data = real(*args)
        if not data and len(rounds) < most:
            rounds.append(1)
            with file.open("a") as more:
                more.write("more\n")
        return data

    most = 1
    monkeypatch.setattr(os, "pread", reading_while_written)
    assert desk.read("a.txt")["content"] == "first\nmore\n"
    most = 99
    with pytest.raises(ToolExecutionError, match="was written to each of the 3 times"):
        desk.read("a.txt")


def test_long_file_is_read_in_parts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """R8: following `next` gives every character once, however long the lines are."""
    monkeypatch.setattr(reading, "MAX_CHARACTERS", 100)
    text = "x" * 250 + "\n" + "short\n" * 30 + "é" * 100 + "\n\n" + "y" * 101
    desk.put("a.txt", text)
    params: dict[str, int] | None = {"offset": 1, "column": 1}
    parts = []
    while params is not None:
        found = desk.read("a.txt", **params)
        assert 0 < len(found["content"]) <= 101
        parts.append(found["content"])
        params = found.get("next")
    assert "".join(parts) == text


@given(
    st.text(alphabet="ab\n\r\u2028é", max_size=60),
    st.integers(1, 12),
    st.integers(1, 4),
)
def test_parts_model(text: str, most: int, limit: int) -> None:
    """Property: the parts put together are the text with LF, under every limit."""
    plain = text.replace("\r\n", "\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "MAX_CHARACTERS", most)
        patched.setattr(reading, "_STEP", 3)
        lines = _Lines(text)
        place, parts = (1, 1), []
        while True:
            shown = lines.part(*place, limit, "a")
            parts.append(shown["content"])
            if "next" not in shown:
                break
            assert shown["content"]
            place = (shown["next"]["offset"], shown["next"]["column"])
    assert "".join(parts) == plain
    assert lines.total == plain.count("\n") + (plain != "" and not plain.endswith("\n"))


def test_no_permission(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system refuses is told in words, without a path of the system."""
    desk.put("a.txt", "x")
    real = os.open

    def refusing(path: str, *args: object, **kwargs: object) -> int:
        if path == "a.txt":
            raise PermissionError(13, "Permission denied", str(desk.root / path))
        return real(path, *args, **kwargs)  # type: ignore[arg-type] # passed on as it came

    monkeypatch.setattr(os, "open", refusing)
    monkeypatch.setattr(os, "supports_dir_fd", {refusing})
    with pytest.raises(ToolExecutionError, match="permission denied") as refused:
        desk.read("a.txt")
    assert str(desk.root) not in str(refused.value)


def test_file_that_becomes_something_else(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was opened is looked at again: it may not be what was there before."""
    desk.put("a.txt", "x")
    os.mkfifo(desk.root / "pipe")
    real = os.open

    def opening(path: str, *args: Any, **kwargs: Any) -> int:
        return real("pipe" if path == "a.txt" else path, *args, **kwargs)

    tool = desk.tool("read_file")
    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(os, "supports_dir_fd", {opening})
    with pytest.raises(ToolExecutionError, match="is a named pipe"):
        desk.run(tool, path="a.txt")
    monkeypatch.undo()
    for path in ("pipe", "."):
        with pytest.raises(ToolExecutionError, match=r"folder|pipe"):
            desk.read(path)
