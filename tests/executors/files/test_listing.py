"""What does `read_folder` show?"""

from __future__ import annotations

import heapq
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.files import tree
from tool_engine.executors.files.tree import Budget

if TYPE_CHECKING:
    from tests.executors.files.conftest import Desk


@pytest.fixture
def project(desk: Desk) -> Desk:
    for path in ("b.txt", "a/z.py", "a/b/deep.py", "node_modules/x.js", ".git/config", "m.pyc"):
        desk.put(path, "text")
    return desk


def test_one_level(project: Desk) -> None:
    """The folder alone, sorted by name, with kinds and sizes; the usual rest is left out."""
    assert project.listing() == {
        "path": ".",
        "entries": [
            {"path": "a", "type": "folder"},
            {"path": "b.txt", "type": "file", "size": 4},
        ],
    }


def test_deeper(project: Desk) -> None:
    """Each folder stands before what is in it, and paths count from the tool's folder."""
    everything = ["a", "a/b", "a/b/deep.py", "a/z.py", "b.txt"]
    assert project.paths(depth=3) == everything
    assert project.paths(depth=2) == ["a", "a/b", "a/z.py", "b.txt"]
    assert project.paths(path="a", depth=2) == ["a/b", "a/b/deep.py", "a/z.py"]


def test_glob(project: Desk) -> None:
    """A glob picks among the entries, folders included, from the listed folder on."""
    assert project.paths(depth=9, glob="*.py") == ["a/b/deep.py", "a/z.py"]
    assert project.paths(depth=9, glob="a/*.py") == ["a/z.py"]
    assert project.paths(path="a", depth=9, glob="b/*") == ["a/b/deep.py"]


def test_ignored(project: Desk) -> None:
    """What is ignored can be asked for, and a definition can say what it is."""
    assert ".git/config" in project.paths(depth=2, include_ignored=True)
    tool = project.tool("read_folder", config={"ignore": ["*.txt", "a/b"]})
    shown = [entry["path"] for entry in project.run(tool, depth=3)["entries"]]
    assert "node_modules/x.js" in shown
    assert not {"b.txt", "a/b", "a/b/deep.py"} & set(shown)


def test_limit(project: Desk) -> None:
    """A listing that is cut says so, and only then."""
    cut = project.listing(depth=3, limit=4)
    assert len(cut["entries"]) == 4
    assert cut["cut"] == ["there are more than 4 entries; give a glob or a limit"]
    assert "cut" not in project.listing(depth=3, limit=5)


def test_what_is_no_file(desk: Desk) -> None:
    """Links are shown and not followed; pipes are shown and not opened."""
    (desk.root / "link").symlink_to(desk.outside)
    os.mkfifo(desk.root / "pipe")
    shown = [(entry["path"], entry["type"]) for entry in desk.listing(depth=5)["entries"]]
    assert shown == [("link", "link"), ("pipe", "other")]


def test_names_that_are_no_text(desk: Desk) -> None:
    """A name in another encoding cannot be told, and does not break the answer."""
    desk.put("a.txt")
    os.close(os.open(os.fsencode(desk.root) + b"/caf\xe9", os.O_CREAT))
    desk.put(".tool-engine-0123.tmp")
    assert desk.paths() == ["a.txt"]


@pytest.mark.parametrize(("path", "message"), [("a.txt", "no folder"), ("none", "does not exist")])
def test_no_folder(desk: Desk, path: str, message: str) -> None:
    """What is no folder is an error, not an empty list."""
    desk.put("a.txt")
    with pytest.raises(ToolExecutionError, match=message):
        desk.listing(path=path)


def test_very_many_entries(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a huge folder the first names are held, always the same ones, and the rest is told."""
    monkeypatch.setattr(tree, "MOST_NAMES", 3)
    for number in (5, 2, 9, 1, 7):
        desk.put(f"{number}.txt")
    found = desk.listing()
    assert [entry["path"] for entry in found["entries"]] == ["1.txt", "2.txt", "5.txt"]
    assert found["cut"] == ["'.' has 5 entries; only the first 3 were looked at"]


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 9, 10, 11, 50])
def test_names_are_sorted_in_small_steps(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """However many names there are, no more than a few are sorted at a time, or held too many."""
    monkeypatch.setattr(tree, "MOST_NAMES", 5)
    monkeypatch.setattr(tree, "_RUN", 2)
    real, held = heapq.merge, []

    def merging(*runs: list[str]) -> Any:
        held.append(sum(map(len, runs)))
        return real(*runs)

    monkeypatch.setattr(heapq, "merge", merging)
    names = [f"{number * 37 % 101:03}.txt" for number in range(count)]
    for name in names:
        desk.put(name)
    assert desk.paths() == sorted(names)[:5]
    assert max(held) <= 2 * 5 + 2


def test_most_entries(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk ends after so many entries, also when none of them is shown."""
    monkeypatch.setattr(tree, "MOST_ENTRIES", 10)
    for number in range(30):
        desk.put(f"{number}/x.txt")
    found = desk.listing(depth=3, glob="*.py")
    assert found["entries"] == []
    assert found["cut"] == ["stopped after 10 entries; choose a folder further down"]


def test_time_is_used_up(desk: Desk) -> None:
    """Long before the deadline a walk ends with what it has, and says so."""
    for number in range(30):
        desk.put(f"{number}.txt")
    budget = Budget(time.monotonic() - 1)
    assert not budget.spend()
    assert list(budget.notes) == [
        "stopped because the time was used up; choose a folder further down"
    ]


def test_time_is_used_up_in_one_huge_folder(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the names of one folder ends in time, too."""
    for number in range(1_200):
        desk.put(f"{number}.txt")
    monkeypatch.setattr(tree, "_MOST_SECONDS", -1.0)
    found = desk.listing()
    assert found["entries"] == []
    assert "time was used up" in found["cut"][0]


def test_folder_that_may_not_be_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder below that is closed is told; the others are shown."""
    desk.put("a/x.txt")
    desk.put("b/x.txt")
    real_open, real_stat = os.open, os.stat

    def opening(path: str, *args: object, **kwargs: object) -> int:
        if path == "a":
            raise PermissionError(13, "Permission denied")
        return real_open(path, *args, **kwargs)  # type: ignore[arg-type] # passed on as it came

    def looking(path: str, *args: object, **kwargs: object) -> os.stat_result:
        if path == "c.txt":
            raise PermissionError(13, "Permission denied")
        return real_stat(path, *args, **kwargs)  # type: ignore[arg-type] # passed on as it came

    desk.put("c.txt")
    tool = desk.tool("read_folder")
    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(os, "stat", looking)
    monkeypatch.setattr(os, "supports_dir_fd", {opening})
    found = desk.run(tool, depth=2)
    assert [entry["path"] for entry in found["entries"]] == ["a", "b", "b/x.txt"]
    assert found["cut"] == [
        "'a' was left out: Permission denied",
        "left out: 'c.txt' may not be opened by this process (permission denied)",
    ]


def test_folder_that_goes_while_it_is_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is removed during the walk is left out, and the walk goes on."""
    gone = desk.put("a.txt")
    desk.put("b.txt")
    real = heapq.merge

    def sorting(*args: Any) -> Any:
        gone.unlink(missing_ok=True)
        return real(*args)

    monkeypatch.setattr(heapq, "merge", sorting)
    assert desk.paths() == ["b.txt"]


def test_folder_that_fails_while_it_is_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that cannot be listed is told."""

    def failing(_folder: int) -> None:
        raise OSError(5, "Input/output error")

    tool = desk.tool("read_folder")
    monkeypatch.setattr(os, "scandir", failing)
    assert desk.run(tool) == {
        "path": ".",
        "entries": [],
        "cut": ["'.' was left out: Input/output error"],
    }


def test_few_notes_of_many() -> None:
    """A thousand things that were left out do not fill the answer."""
    budget = Budget(None)
    for number in range(1_000):
        budget.note(str(number))
    assert len(budget.notes) == 10
