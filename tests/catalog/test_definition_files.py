"""Are a folder's definitions found and read whole, whatever lies beside them?"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rights import without_root
from tool_engine.catalog.definition_files import (
    FileStamp,
    FolderError,
    MissingFolderError,
    find_definitions,
    is_definition,
    list_definitions,
    read_definition,
    stamp_of,
)
from tool_engine.catalog.limits import MAX_BYTES
from tool_engine.errors import DefinitionError


@pytest.mark.parametrize("name", ["a.yaml", "a.yml", "A.YAML", "a.b.yml"])
def test_definitions(name: str) -> None:
    """U20: .yaml and .yml are definitions, in any case."""
    assert is_definition(name)


@pytest.mark.parametrize(
    "name",
    [".a.yaml", "a.yaml~", "#a.yaml#", ".a.yaml.swp", "a.yaml.bak", "~a.yaml", "4913", "yaml"],
)
def test_what_editors_leave_is_passed_over(name: str) -> None:
    """U20: hidden, swap and backup files are no definitions."""
    assert not is_definition(name)


def test_listing(tmp_path: Path) -> None:
    """U20: files are sorted; links to files count, links to folders and hidden folders do not."""
    for name in ["b.yaml", "a.yaml", "n.txt", "sub/c.yaml", ".git/d.yaml", "x.yaml/e.yaml"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x", encoding="utf-8")
    (tmp_path / "l.yaml").symlink_to(tmp_path / "n.txt")
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path)
    flat = list_definitions(str(tmp_path), recursive=False)
    assert [Path(path).name for path in flat] == ["a.yaml", "b.yaml", "gone.yaml", "l.yaml"]
    assert flat[str(tmp_path / "gone.yaml")] is None
    deep = list_definitions(str(tmp_path), recursive=True)
    assert {Path(path).name for path in deep} - {Path(path).name for path in flat} == {
        "c.yaml",
        "e.yaml",
    }


def test_missing_folder(tmp_path: Path) -> None:
    """U11: no folder, or a file in its place, is told from a folder that cannot be read."""
    (tmp_path / "file").touch()
    for name in ["no", "file"]:
        with pytest.raises(MissingFolderError, match="create it"):
            list_definitions(str(tmp_path / name), recursive=False)
    with pytest.raises(FolderError, match="stay as they were") as caught:
        list_definitions("x" * 5000, recursive=False)
    assert not isinstance(caught.value, MissingFolderError)


def _refusing(
    refused: str, error: OSError, scandir: Callable[[str], object]
) -> Callable[[str], object]:
    def refuse(path: str) -> object:
        if path == refused:
            raise error
        return scandir(path)

    return refuse


def test_a_sub_folder_that_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """U11: a sub-folder may go while it is listed; one that cannot be read stops the listing."""
    (tmp_path / "a.yaml").touch()
    (tmp_path / "sub").mkdir()
    sub = str(tmp_path / "sub")
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", _refusing(sub, FileNotFoundError(2, "x"), scandir))
    assert len(list_definitions(str(tmp_path), recursive=True)) == 1
    monkeypatch.setattr(os, "scandir", _refusing(sub, PermissionError(13, "no"), scandir))
    with pytest.raises(FolderError, match="sub"):
        list_definitions(str(tmp_path), recursive=True)


def test_what_may_not_be_read(tmp_path: Path) -> None:
    """The cure stands with the reason, and reading goes on once it is done."""
    file = tmp_path / "a.yaml"
    file.write_text("1", encoding="utf-8")
    file.chmod(0)
    tmp_path.chmod(0o100)
    with without_root():
        with pytest.raises(DefinitionError, match="Permission denied; allow it with chmod"):
            read_definition(str(file))
        with pytest.raises(FolderError, match="Permission denied; allow it with chmod"):
            list_definitions(str(tmp_path), recursive=False)
        tmp_path.chmod(0o700)
        file.chmod(0o600)
        assert list(list_definitions(str(tmp_path), recursive=False)) == [str(file)]
        assert read_definition(str(file)).data == b"1"
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    with pytest.raises(DefinitionError, match="the link leads back to itself: make it anew"):
        read_definition(str(loop))


def test_stamps(tmp_path: Path) -> None:
    """U10: a stamp changes with the file, and is None for what is no file."""
    file = tmp_path / "a.yaml"
    file.write_text("1", encoding="utf-8")
    first = stamp_of(str(file))
    file.write_text("22", encoding="utf-8")
    assert first is not None
    assert stamp_of(str(file)) != first
    assert stamp_of(str(tmp_path)) is None
    assert stamp_of(str(tmp_path / "no")) is None


def test_age() -> None:
    """U10: the age counts from the last change of any kind, also by a clock that is ahead."""
    second = 10**9
    now = time.time_ns()
    assert 99 < FileStamp(1, 1, 1, 0, now - 100 * second).age() < 160
    assert FileStamp(1, 1, 1, now + 100 * second, now).age() < 0


def test_what_may_hide_a_change() -> None:
    """U10: only a fresh file on a file system that counts whole seconds."""
    second = 10**9
    now = time.time_ns() // second * second
    assert FileStamp(1, 1, 1, now, now).may_hide_a_change()
    assert not FileStamp(1, 1, 1, now, now + 1).may_hide_a_change()
    assert not FileStamp(1, 1, 1, now + 1, now).may_hide_a_change()
    assert not FileStamp(1, 1, 1, now - 10 * second, now - 10 * second).may_hide_a_change()


def test_finding(tmp_path: Path) -> None:
    """K49: files that are asked for one by one are found as a listing finds them."""
    (tmp_path / "a.yaml").write_text("x", encoding="utf-8")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "gone.yaml").symlink_to("nowhere")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    names = ["pipe", "loop", "gone", "folder", "a", "never", "a.yaml/below"]
    paths = [str(tmp_path / f"{name}.yaml") for name in names]
    found = find_definitions(paths)
    assert found == list_definitions(str(tmp_path), recursive=False)
    assert [Path(path).stem for path in found] == ["a", "gone", "loop", "pipe"]
    assert list(find_definitions(["x" * 5000])) == ["x" * 5000]


def test_reading(tmp_path: Path) -> None:
    """U12: contents belong to one state of the file."""
    file = tmp_path / "a.yaml"
    file.write_bytes(b"abc")
    contents = read_definition(str(file))
    assert contents.data == b"abc"
    assert contents.stamp == stamp_of(str(file))
    file.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(DefinitionError, match=str(MAX_BYTES + 1)):
        read_definition(str(file))


def test_a_file_that_changes_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U12: a read that a write came between is made again, and given up when that never ends."""
    file = tmp_path / "a.yaml"
    file.write_bytes(b"abc")
    read, writes = os.read, iter([b"longer", b"done"])

    def interrupted(descriptor: int, size: int) -> bytes:
        data = read(descriptor, size)
        if (text := next(writes, None)) is not None:
            file.write_bytes(text)
        return data

    monkeypatch.setattr(os, "read", interrupted)
    assert read_definition(str(file)).data == b"done"
    writes = iter(b"x" * size for size in range(1, 99))
    with pytest.raises(DefinitionError, match="is being written"):
        read_definition(str(file))
