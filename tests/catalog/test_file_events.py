"""Are a folder's events reported, whatever becomes of the folder?"""

from __future__ import annotations

import os
import queue
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tool_engine.catalog import file_events
from tool_engine.catalog.file_events import FolderEvents

WAIT = 20.0


@pytest.fixture
def touched() -> queue.SimpleQueue[bool]:
    return queue.SimpleQueue()


@pytest.fixture
def events(tmp_path: Path, touched: queue.SimpleQueue[bool]) -> Iterator[FolderEvents]:
    made = FolderEvents(str(tmp_path / "tools"), touched.put)
    try:
        yield made
    finally:
        made.stop()


def drain(touched: queue.SimpleQueue[bool]) -> None:
    while not touched.empty():
        touched.get()


def test_a_folder_that_comes_and_goes(
    tmp_path: Path, events: FolderEvents, touched: queue.SimpleQueue[bool]
) -> None:
    """K49: each folder of the name is followed, once."""
    assert not events.follow()
    (tmp_path / "tools").mkdir()
    assert events.follow()
    assert not events.follow()
    (tmp_path / "tools" / "a.yaml").touch()
    assert touched.get(timeout=WAIT)
    (tmp_path / "tools").rename(tmp_path / "aside")
    (tmp_path / "tools").mkdir()
    assert events.follow()
    drain(touched)
    (tmp_path / "tools" / "b.yaml").touch()
    assert touched.get(timeout=WAIT)


def test_a_folder_that_gets_its_old_number(
    tmp_path: Path,
    events: FolderEvents,
    touched: queue.SimpleQueue[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """K49: a folder that is deleted and made again is watched again, even under its old inode."""
    monkeypatch.setattr(file_events, "_identity", lambda directory: (1, 1))
    (tmp_path / "tools").mkdir()
    assert events.follow()
    (emitter,) = events._observer.emitters
    shutil.rmtree(tmp_path / "tools")
    emitter.join(WAIT)
    (tmp_path / "tools").mkdir()
    assert events.follow()
    drain(touched)
    (tmp_path / "tools" / "a.yaml").touch()
    while not touched.get(timeout=WAIT):
        pass  # what was still on its way from the folder's making


def test_reading_is_no_event(
    tmp_path: Path, events: FolderEvents, touched: queue.SimpleQueue[bool]
) -> None:
    """K49: opening and closing a definition tells nothing, so a reload never causes the next."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "a.yaml").touch()
    events.follow()
    (tmp_path / "tools" / "a.yaml").read_bytes()
    (tmp_path / "tools" / "other.txt").touch()
    assert touched.get(timeout=WAIT) is False
    drain(touched)
    os.utime(tmp_path / "tools" / "a.yaml")
    while not touched.get(timeout=WAIT):
        pass
