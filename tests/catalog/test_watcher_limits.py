"""Is every change seen where the system gives no watches, or loses their events?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import structlog
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, EventEmitter

from tests.catalog.following import definition, follow_folder, is_described
from tool_engine.catalog.folder import file_events

_QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
MOST_EVENTS = int(_QUEUE.read_text(encoding="utf-8")) if _QUEUE.exists() else 0


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir()
    return folder


class _NoFolder(BaseObserver):
    def __init__(self) -> None:
        super().__init__(EventEmitter)

    def schedule(self, *args: Any, **keywords: Any) -> Any:
        raise OSError(28, "inotify watch limit reached")


def _no_observer() -> None:
    raise OSError(24, "inotify instance limit reached")


@pytest.mark.parametrize("observer", [_NoFolder, _no_observer], ids=["watches", "instances"])
async def test_no_watch_to_be_had(
    tools: Path, monkeypatch: pytest.MonkeyPatch, observer: Any
) -> None:
    """K49: when the system gives no watch, looking goes on at intervals; the fault is logged."""
    monkeypatch.setattr(file_events, "Observer", observer)
    with structlog.testing.capture_logs() as logs:
        async with follow_folder(tools, watch=True) as follower:
            (tools / "a.yaml").write_text(definition("one"), encoding="utf-8")
            await follower.until(is_described("one"))
    assert {log["event"] for log in logs} == {"watch_failed"}


@pytest.mark.skipif(MOST_EVENTS == 0, reason="this system has no such queue")
async def test_more_events_than_the_system_keeps(
    tools: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K49: when events are lost because their queue is full, the change is seen all the same."""
    for name in ("a.txt", "b.txt"):
        (tools / name).touch()
    emitters: set[Any] = set()

    def observer() -> BaseObserver:
        made = Observer()
        nonlocal emitters
        emitters = made.emitters
        return made

    monkeypatch.setattr(file_events, "Observer", observer)
    async with follow_folder(tools, watch=True) as follower:
        (emitter,) = emitters
        # While this lock is held, the system's queue is read once at most, a few thousand events.
        with emitter._inotify._lock:
            for _ in range(MOST_EVENTS):
                os.utime(tools / "a.txt")
                os.utime(tools / "b.txt")
            (tools / "a.yaml").write_text(definition("one"), encoding="utf-8")
        await follower.until(is_described("one"))
        # The first look was the one of those that come without an event.
        assert follower.looks[1] is None
        while "overflow" not in caplog.text:
            await follower.until_looked()
