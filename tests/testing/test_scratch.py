"""Is the folder of a test new, all its own, and gone afterwards?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tool_engine import ToolExecutionError
from tool_engine.executors.files.root import FileRoot
from tool_engine.testing.scratch import ScratchFolder, UntouchedRoot


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


@pytest.fixture
def folder() -> Iterator[ScratchFolder]:
    made = ScratchFolder({"a.txt": "hello\n", "b/c/d.txt": "你好"})
    yield made
    made.remove()


def test_it_holds_exactly_the_files(folder: ScratchFolder, temporary: Path) -> None:
    """The texts are there byte by byte; nobody else on the machine may look in."""
    assert not folder.is_used
    root = Path(folder.root.path)
    assert folder.is_used
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert found == {"a.txt", "b/c/d.txt"}
    assert (root / "b/c/d.txt").read_bytes() == "你好".encode()
    (outer,) = temporary.iterdir()
    assert outer.stat().st_mode & 0o777 == 0o700
    folder.remove()
    folder.remove()
    assert list(temporary.iterdir()) == []


def test_differences_are_told(folder: ScratchFolder) -> None:
    """A file that differs, is missing, or is there although it should not be."""
    assert folder.problems({"a.txt": "hello\n", "x.txt": None}) == []
    assert folder.problems({"a.txt": "bye", "x.txt": "x", "b/c/d.txt": None}) == [
        'expect_files.a.txt: expected "bye", got "hello\\n"',
        'expect_files.x.txt: expected "x", there is no such file',
        'expect_files.b/c/d.txt: expected no file, got "你好"',
    ]


def test_what_is_no_text_is_told(folder: ScratchFolder) -> None:
    """A folder or a pipe in the place of a file ends no test in a wait or a crash."""
    root = Path(folder.root.path)
    os.mkfifo(root / "pipe")
    (root / "bytes").write_bytes(b"\xff")
    told = folder.problems({"b": "x", "pipe": "x", "bytes": "x"})
    assert "[no text, but d" in told[0]
    assert "[no text, but p" in told[1]
    assert "\\xff" in told[2]


def test_a_link_leads_nowhere(folder: ScratchFolder, tmp_path: Path) -> None:
    """What a tool links to is not read: a test tells nothing of the files of its machine."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (Path(folder.root.path) / "link.txt").symlink_to(secret)
    (told,) = folder.problems({"link.txt": "x"})
    assert told == 'expect_files.link.txt: expected "x", there is no such file'


@pytest.mark.parametrize(
    "path", ["/etc/x", "../x", "a/../../x", "", "a//b", "./a", "a\0b", "{absolute}"]
)
def test_no_path_leads_out(path: str, temporary: Path, tmp_path: Path) -> None:
    """A tool made in code has its tests refused too, and nothing is left."""
    path = path.replace("{absolute}", str(tmp_path / "x"))
    with pytest.raises(ToolExecutionError, match="no path below the test's own folder"):
        ScratchFolder({"first.txt": "x", path: "evil"})
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / "x").exists()


def test_nothing_is_left_when_a_file_cannot_be_made(temporary: Path) -> None:
    """A name that is too long for the system is an error, and the folder is gone."""
    with pytest.raises(OSError, match="too long"):
        ScratchFolder({"x" * 300: "x"})
    assert list(temporary.iterdir()) == []


def test_the_real_folder_is_read_and_not_written(tmp_path: Path) -> None:
    """Reading is as ever; where a file could be written, or a folder made, is an error."""
    root = UntouchedRoot(*FileRoot(str(tmp_path)))
    (tmp_path / "a.txt").write_text("x")
    with root.place("a.txt") as place:
        assert place.name == "a.txt"
    with root.folder(".") as (_, shown):
        assert shown == "."
    for path, makes in (("a.txt", None), ("b.txt", False), ("c/d.txt", True)):
        with (
            pytest.raises(ToolExecutionError, match="give the test a folder of its own: files"),
            root.place(path, writes=True, makes=makes),
        ):
            pass
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.txt", "temporary"]


def test_mistakes_in_the_path_are_told_first(tmp_path: Path) -> None:
    """What is wrong with the path anyway, a test without files can show as well."""
    root = UntouchedRoot(*FileRoot(str(tmp_path)))
    for path, makes, message in (
        ("../x", True, "has '..' in it"),
        ("c/d.txt", None, "does not exist"),
        ("c/d.txt", False, "set create_folders"),
    ):
        with (
            pytest.raises(ToolExecutionError, match=message),
            root.place(path, writes=True, makes=makes),
        ):
            pass
