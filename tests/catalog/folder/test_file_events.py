"""Are a folder's events reported, whatever becomes of the folder?"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from watchdog.events import FileModifiedEvent, FileOpenedEvent

from tool_engine.catalog.definition_files import list_definitions
from tool_engine.catalog.folder import file_events
from tool_engine.catalog.folder.file_events import TELLS_CLOSING, FolderEvents, Touched

BOUND = 20.0


class Watched:
    """A folder's events, and a way to wait for them."""

    def __init__(self, folder: Path | str, *, recursive: bool = False) -> None:
        self.woken = threading.Semaphore(0)
        self.events = FolderEvents(str(folder), self.woken.release, recursive=recursive)

    def until(self, condition: Callable[[Touched], bool]) -> None:
        """Takes what happened until it is so."""
        end = time.monotonic() + BOUND
        paths: set[str] = set()
        is_everything = False
        while not condition(Touched(frozenset(paths), is_everything)):
            assert self.woken.acquire(timeout=max(end - time.monotonic(), 0))
            touched = self.events.take()
            paths |= touched.paths
            is_everything = is_everything or touched.is_everything

    def until_touched(self, *files: Path, late: Path | None = None) -> None:
        """Waits until these files were touched, and asserts that no others were.

        Args:
            files: All of them.
            late: One of which more may still be told.
        """
        wanted = {str(file) for file in files}
        self.until(lambda touched: touched.paths - {str(late)} == wanted)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir()
    return folder


@pytest.fixture
def watched(tools: Path) -> Iterator[Watched]:
    made = Watched(tools)
    try:
        made.events.follow()
        yield made
    finally:
        made.events.stop()


def test_a_folder_that_comes_and_goes(tools: Path, watched: Watched) -> None:
    """K49: each folder of the name is followed, once."""
    follow = watched.events.follow
    assert not follow()
    (tools / "a.yaml").touch()
    watched.until_touched(tools / "a.yaml")
    tools.rename(tools.with_name("aside"))
    assert follow()
    assert not follow()
    tools.mkdir()
    assert follow()
    watched.events.take()
    (tools.with_name("aside") / "c.yaml").touch()
    (tools / "b.yaml").touch()
    # That the first file was closed may be told after all this.
    watched.until_touched(tools / "b.yaml", late=tools / "a.yaml")


def test_a_folder_that_gets_its_old_number(
    tools: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K49: a folder that is deleted and made again is watched again, even under its old inode."""
    monkeypatch.setattr(file_events, "_folder_identity", lambda directory: (1, 1))
    assert watched.events.follow()
    (emitter,) = watched.events._observer.emitters
    shutil.rmtree(tools)
    emitter.join(BOUND)
    tools.mkdir()
    assert watched.events.follow()
    (tools / "a.yaml").touch()
    watched.until(lambda touched: str(tools / "a.yaml") in touched.paths)


@pytest.mark.parametrize("spelling", ["{}", "{}/", "{}//", "{}/sub/.."])
def test_files_are_named_as_the_listing_names_them(
    tmp_path: Path, tools: Path, spelling: str
) -> None:
    """K49: behind a link, and in sub-folders, a file has the path that the folder's name gives."""
    link = tmp_path / "link"
    link.symlink_to(tools)
    (tools / "sub").mkdir()
    directory = spelling.format(link)
    watched = Watched(directory, recursive=True)
    try:
        watched.events.follow()
        (tools / "a.yaml").touch()
        (tools / "sub" / "b.yaml").touch()
        wanted = set(list_definitions(directory, recursive=True))
        watched.until(lambda touched: touched.paths == wanted)
    finally:
        watched.events.stop()


def test_reading_and_other_files_are_no_event(tools: Path) -> None:
    """K49: a reload never causes the next, and what is no definition causes none."""
    (tools / "a.yaml").touch()
    watched = Watched(tools)
    try:
        watched.events.follow()
        read_and_touch_others(tools)
        watched.until_touched(tools / "b.yaml")
    finally:
        watched.events.stop()


def read_and_touch_others(tools: Path) -> None:
    (tools / "a.yaml").read_bytes()
    (tools / "other.txt").touch()
    (tools / ".a.yaml.swp").touch()
    (tools / "sub").mkdir()
    (tools / "b.yaml").touch()


def test_moves(tools: Path, watched: Watched) -> None:
    """K49: a rename touches the file of the old name and of the new one."""
    (tools / "a.yaml").touch()
    watched.until_touched(tools / "a.yaml")
    (tools / "a.yaml").rename(tools / "b.yaml")
    watched.until_touched(tools / "a.yaml", tools / "b.yaml")


@pytest.mark.skipif(not TELLS_CLOSING, reason="this system does not tell of closing")
def test_an_open_file_waits_for_its_closing(
    tools: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U12: what is written to is not reported until it is closed, or forgotten."""
    events, file = watched.events, tools / "a.yaml"
    assert events.seconds_to_wait() is None
    with file.open("w", encoding="utf-8") as stream:
        stream.write("x")
        stream.flush()
        end = time.monotonic() + BOUND
        while not events.is_open(str(file)) and time.monotonic() < end:
            time.sleep(0.001)
        events.take()
        assert events.take() == Touched()
        seconds = events.seconds_to_wait()
        assert seconds is not None
        assert 0 < seconds <= 5
    watched.until_touched(file)
    assert not events.is_open(str(file))
    monkeypatch.setattr(file_events, "_OPEN_TIME", -1.0)
    events.note(FileModifiedEvent(str(file)))
    assert events.seconds_to_wait() == 0
    assert events.take().paths == {str(file)}


def test_one_waking_until_it_is_asked(tools: Path, watched: Watched) -> None:
    """K49: a burst of events wakes once."""
    watched.events.note(FileOpenedEvent(str(tools / "a.yaml")))
    (tools / "a.yaml").touch()
    assert watched.woken.acquire(timeout=BOUND)
    for number in range(10):
        (tools / f"{number}.yaml").touch()
    assert not watched.woken.acquire(timeout=0)
    os.utime(tools / "a.yaml")
    watched.events.take()
    os.utime(tools / "a.yaml")
    assert watched.woken.acquire(timeout=BOUND)


@pytest.mark.parametrize("is_recursive", [False, True])
def test_what_may_concern_every_file(tools: Path, is_recursive: bool) -> None:
    """K49: another link, and a folder among sub-folders, may mean other files everywhere."""
    watched = Watched(tools, recursive=is_recursive)
    try:
        watched.events.follow()
        if is_recursive:
            (tools / "sub").mkdir()
        else:
            (tools / "..data").symlink_to("elsewhere")
        watched.until(lambda touched: touched.is_everything)
    finally:
        watched.events.stop()
