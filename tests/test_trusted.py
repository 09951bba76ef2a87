"""What is trusted is found under whatever name it has, as long as it is there."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tool_engine.trusted import Kind, TrustedPath, database_files, trust_paths, trusted_paths


class Trusting:
    def __init__(self, *paths: TrustedPath) -> None:
        self.paths = paths

    def trusted_paths(self) -> Iterable[TrustedPath]:
        return self.paths


def found_below(folder: Path) -> dict[str, Kind]:
    return {each.path: each.kind for each in trusted_paths() if each.path.startswith(str(folder))}


def test_both_names(tmp_path: Path) -> None:
    """A link is trusted, and so is what it leads to: either is another file tomorrow."""
    (tmp_path / "defs").mkdir()
    (tmp_path / "tools").symlink_to("defs")
    engine = Trusting(TrustedPath(str(tmp_path / "tools"), Kind.FOLDER, "x"))
    trust_paths(engine)
    assert found_below(tmp_path) == {
        str(tmp_path / "tools"): Kind.FOLDER,
        str(tmp_path / "defs"): Kind.FOLDER,
    }


def test_each_folder_is_followed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write looks at all that is trusted: hundreds of files cost little more than their folder.

    Looked at: files, folders and modules that are there, that are not, and that are links.
    """
    (tmp_path / "link").symlink_to("there")
    (tmp_path / "there").touch()
    names = ["link", "there", *(f"absent{number}" for number in range(100))]
    engine = Trusting(
        *(TrustedPath(str(tmp_path / name), kind, "x") for name in names for kind in Kind)
    )
    trust_paths(engine)
    followed: list[str] = []
    real = os.path.realpath

    def follow(path: str) -> str:
        followed.append(path)
        return real(path)

    monkeypatch.setattr(os.path, "realpath", follow)
    assert found_below(tmp_path).keys() == {str(tmp_path / name) for name in names}
    here = [path for path in followed if path.startswith(str(tmp_path))]
    assert sorted(set(here)) == [str(tmp_path), str(tmp_path / "link")]
    assert here.count(str(tmp_path)) == 1


def test_no_longer_than_it_is_there(tmp_path: Path) -> None:
    """What trusted is not kept alive by it, and takes its trust along."""
    engine = Trusting(TrustedPath(str(tmp_path / "a"), Kind.FILE, "x"))
    trust_paths(engine)
    assert found_below(tmp_path)
    del engine
    gc.collect()
    assert not found_below(tmp_path)


def test_a_name_that_no_file_has(tmp_path: Path) -> None:
    """A slip in one definition keeps no other tool of the process from writing."""
    place = str(tmp_path / "a")
    engine = Trusting(
        TrustedPath(f"{place}\0", Kind.MODULE, "x"), TrustedPath(place, Kind.FILE, "x")
    )
    trust_paths(engine)
    assert found_below(tmp_path) == {place: Kind.FILE}


def test_a_database_has_files_beside_it() -> None:
    """SQLite believes what stands in its journals."""
    names = [each.place[1] for each in database_files("/d/calls.db", "x")]
    assert names == ["calls.db", "calls.db-wal", "calls.db-shm", "calls.db-journal"]


@pytest.mark.parametrize(
    ("kind", "name", "is_it"),
    [
        (Kind.FILE, "tools.lock", True),
        (Kind.FILE, "TOOLS.LOCK", True),
        (Kind.FILE, "tools.lock.", True),
        (Kind.FILE, "tools\u200b.lock", True),
        (Kind.FILE, "tools.lock.txt", False),
        (Kind.MODULE, "tools.lock.py", False),
    ],
)
def test_names(kind: Kind, name: str, is_it: bool) -> None:
    """A name is taken as a file system might take it."""
    assert TrustedPath("/p/tools.lock", kind, "x").is_named(name) is is_it


@pytest.mark.parametrize(
    ("name", "is_it"),
    [
        ("hands.py", True),
        ("hands.pyc", True),
        ("hands.cpython-311-x86_64-linux-gnu.so", True),
        ("Hands.PY", True),
        ("hands.txt", False),
        ("hands", False),
        ("hands_too.py", False),
    ],
)
def test_modules(name: str, is_it: bool) -> None:
    """Of a module, every file counts that Python would import under its name."""
    assert TrustedPath("/p/hands", Kind.MODULE, "x").is_named(name) is is_it


@pytest.mark.parametrize(
    ("kind", "folder", "meets"),
    [
        (Kind.FOLDER, "/p", True),
        (Kind.FOLDER, "/p/tools", True),
        (Kind.FOLDER, "/p/tools/deep", True),
        (Kind.FOLDER, "/p/toolset", False),
        (Kind.FOLDER, "/", True),
        (Kind.FILE, "/p", True),
        (Kind.FILE, "/p/tools", True),
        (Kind.FILE, "/p/notes", False),
        (Kind.MODULE, "/p", True),
        (Kind.MODULE, "/p/notes", False),
        (Kind.MODULE, "/p/tools", False),
    ],
)
def test_folders_that_meet(kind: Kind, folder: str, meets: bool) -> None:
    """Who may write a folder may write what is in it, and what it is in is no matter for a file."""
    assert TrustedPath("/p/tools", kind, "x").meets(folder) is meets


def test_a_folder_that_was_named_from_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path stays trusted where it was named, wherever the process goes."""
    (tmp_path / "home").mkdir()
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    engine = Trusting(TrustedPath("tools", Kind.FOLDER, "x"))
    trust_paths(engine)
    monkeypatch.chdir(tmp_path / "away")
    assert set(found_below(tmp_path)) == {
        str(tmp_path / "home/tools"),
        str(tmp_path / "away/tools"),
    }
