"""Is every change of a folder reported, once at a time, until the watcher is stopped?"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from watchdog.observers.api import BaseObserver, EventEmitter

from tool_engine.catalog import file_events
from tool_engine.catalog.folder import FileStamp
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.reload import Catalog
from tool_engine.catalog.watcher import ToolWatcher

TEXT = "name: t\ndescription: {}\n"


class Reloads:
    """Counts calls of `on_change` and lets a test wait for what the folder then holds."""

    def __init__(self, directory: Path) -> None:
        self.count = 0
        self.running = 0
        self.index = ToolIndex()
        self._catalog = Catalog(directory)
        self._again = asyncio.Condition()

    async def __call__(self) -> None:
        self.running += 1
        assert self.running == 1
        outcome = await asyncio.to_thread(self._catalog.scan, self.index)
        self.index = outcome.index
        self.running -= 1
        async with self._again:
            self.count += 1
            self._again.notify_all()

    async def until(self, condition: Callable[[ToolIndex], bool]) -> None:
        async with asyncio.timeout(20), self._again:
            await self._again.wait_for(lambda: condition(self.index))


def described(text: str) -> Callable[[ToolIndex], bool]:
    return lambda index: (tool := index.get("t")) is not None and tool.description == text


def is_empty(index: ToolIndex) -> bool:
    return len(index) == 0


@asynccontextmanager
async def watching(
    directory: Path, *, interval: float | None = None, watch: bool = False, recursive: bool = False
) -> AsyncIterator[Reloads]:
    reloads = Reloads(directory)
    watcher = ToolWatcher(directory, reloads, interval=interval, watch=watch, recursive=recursive)
    threads, tasks = threading.active_count(), len(asyncio.all_tasks())
    await watcher.start()
    try:
        yield reloads
    finally:
        await watcher.stop()
    assert not watcher.is_running
    assert len(asyncio.all_tasks()) <= tasks
    left = [thread for thread in threading.enumerate() if "asyncio" not in thread.name]
    assert len(left) <= threads


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir()
    return folder


@pytest.fixture(params=["polling", "watching"])
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Both ways of looking keep the same promises."""
    return {"interval": 0.02} if request.param == "polling" else {"watch": True}


async def test_each_kind_of_change(tools: Path, way: dict[str, Any]) -> None:
    """K49, U9: a new, an edited, an atomically replaced and a deleted file are all seen."""
    async with watching(tools, **way) as reloads:
        (tools / "a.yaml").write_text(TEXT.format("one"), encoding="utf-8")
        await reloads.until(described("one"))
        (tools / "a.yaml").write_text(TEXT.format("two"), encoding="utf-8")
        await reloads.until(described("two"))
        (tools / "a.yaml.tmp").write_text(TEXT.format("three"), encoding="utf-8")
        (tools / "a.yaml.tmp").replace(tools / "a.yaml")
        await reloads.until(described("three"))
        (tools / "a.yaml").unlink()
        await reloads.until(is_empty)


async def test_a_folder_that_comes_later_and_goes(tmp_path: Path, way: dict[str, Any]) -> None:
    """K49: the folder may be made, deleted, made again and replaced."""
    folder = tmp_path / "later"
    async with watching(folder, **way) as reloads:
        for text in ["one", "two"]:
            folder.mkdir()
            (folder / "a.yaml").write_text(TEXT.format(text), encoding="utf-8")
            await reloads.until(described(text))
            shutil.rmtree(folder)
            await reloads.until(is_empty)
        folder.mkdir()
        (folder / "a.yaml").write_text(TEXT.format("three"), encoding="utf-8")
        await reloads.until(described("three"))
        folder.rename(tmp_path / "aside")
        folder.mkdir()
        (folder / "a.yaml").write_text(TEXT.format("four"), encoding="utf-8")
        await reloads.until(described("four"))
        (folder / "a.yaml").write_text(TEXT.format("five"), encoding="utf-8")
        await reloads.until(described("five"))


async def test_a_config_map_swap(tools: Path, way: dict[str, Any]) -> None:
    """K49: Kubernetes swaps a link to a folder; the files' names and times stay."""
    for version in ["one", "two"]:
        data = tools / f"..{version}"
        data.mkdir()
        (data / "a.yaml").write_text(TEXT.format(version), encoding="utf-8")
        os.utime(data / "a.yaml", (1, 1))
    (tools / "..data").symlink_to("..one")
    (tools / "a.yaml").symlink_to("..data/a.yaml")
    async with watching(tools, **way) as reloads:
        await reloads()
        await reloads.until(described("one"))
        (tools / "..data_tmp").symlink_to("..two")
        (tools / "..data_tmp").replace(tools / "..data")
        await reloads.until(described("two"))


async def test_sub_folders(tools: Path, way: dict[str, Any]) -> None:
    """U20: with recursive, a change in a sub-folder is seen, also in a new one."""
    reloads: list[int] = []
    again = asyncio.Event()

    async def on_change() -> None:
        reloads.append(1)
        again.set()

    watcher = ToolWatcher(tools, on_change, recursive=True, **way)
    await watcher.start()
    try:
        (tools / "sub").mkdir()
        (tools / "sub" / "a.yaml").write_text(TEXT.format("x"), encoding="utf-8")
        async with asyncio.timeout(20):
            await again.wait()
    finally:
        await watcher.stop()


async def test_what_is_no_definition_is_no_change(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K49: swap files, other files and reading are no reason to reload."""
    (tools / "a.yaml").write_text(TEXT.format("one"), encoding="utf-8")
    looks = asyncio.Semaphore(0)
    async with watching(tools, watch=True) as reloads:
        original = ToolWatcher._has_changed

        async def counted(self: ToolWatcher) -> bool:
            has_changed = await original(self)
            looks.release()
            return has_changed

        monkeypatch.setattr(ToolWatcher, "_has_changed", counted)
        (tools / ".a.yaml.swp").write_text("x", encoding="utf-8")
        (tools / "a.yaml").read_text(encoding="utf-8")
        async with asyncio.timeout(20):
            await looks.acquire()
        assert reloads.count == 0
        (tools / "a.yaml").write_text(TEXT.format("two"), encoding="utf-8")
        await reloads.until(described("two"))


async def test_a_change_during_a_reload_is_followed_by_one_more(tools: Path) -> None:
    """K49: reloads never overlap, and the last change is never lost."""
    entered, go = asyncio.Semaphore(0), asyncio.Semaphore(0)
    running = 0

    async def on_change() -> None:
        nonlocal running
        running += 1
        assert running == 1
        entered.release()
        await go.acquire()
        running -= 1

    watcher = ToolWatcher(tools, on_change, watch=True)
    await watcher.start()
    try:
        async with asyncio.timeout(20):
            (tools / "a.yaml").write_text("1", encoding="utf-8")
            await entered.acquire()
            (tools / "b.yaml").write_text("2", encoding="utf-8")
            go.release()
            await entered.acquire()
            go.release()
    finally:
        await watcher.stop()


async def test_a_failing_reload_is_logged(tools: Path, way: dict[str, Any]) -> None:
    """K49: what on_change raises is logged, and the next change is still seen."""
    calls = asyncio.Semaphore(0)

    async def on_change() -> None:
        calls.release()
        raise ValueError("broken on purpose")

    with structlog.testing.capture_logs() as logs:
        watcher = ToolWatcher(tools, on_change, **way)
        await watcher.start()
        try:
            async with asyncio.timeout(20):
                for number in range(2):
                    (tools / f"{number}.yaml").write_text("x", encoding="utf-8")
                    await calls.acquire()
        finally:
            await watcher.stop()
    assert {log["event"] for log in logs} == {"reload_failed"}
    assert "broken on purpose" in logs[0]["error"]


async def test_starting_and_stopping(tools: Path) -> None:
    """K49: both may be called again; a watcher with nothing to do does not start."""
    reloads = Reloads(tools)
    idle = ToolWatcher(tools, reloads)
    await idle.start()
    assert not idle.is_running
    await idle.stop()
    watcher = ToolWatcher(tools, reloads, interval=5.0, watch=True)
    await watcher.start()
    await watcher.start()
    assert repr(watcher).endswith("interval=5.0, watch=True, is_running=True)")
    await watcher.stop()
    await watcher.stop()
    await watcher.start()
    (tools / "a.yaml").write_text(TEXT.format("one"), encoding="utf-8")
    await reloads.until(described("one"))
    await watcher.stop()


async def test_stopping_from_inside_a_reload(tools: Path) -> None:
    """K49: a reload may close its own watcher without waiting for itself."""
    stopped = asyncio.Event()

    async def on_change() -> None:
        await watcher.stop()
        stopped.set()

    watcher = ToolWatcher(tools, on_change, interval=0.01)
    await watcher.start()
    (tools / "a.yaml").write_text("x", encoding="utf-8")
    async with asyncio.timeout(20):
        await stopped.wait()
    assert not watcher.is_running


async def test_stopping_during_start(tools: Path) -> None:
    """K49: a watcher that is stopped while it starts leaves nothing."""
    before = threading.active_count()
    watcher = ToolWatcher(tools, Reloads(tools), watch=True)
    starting = asyncio.ensure_future(watcher.start())
    await asyncio.sleep(0)
    await watcher.stop()
    await starting
    assert not watcher.is_running
    left = [thread for thread in threading.enumerate() if "asyncio" not in thread.name]
    assert len(left) <= before


async def test_a_failing_start_leaves_nothing(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """K49: when the first look fails, the error is the caller's and no thread is left."""

    def fail(self: ToolWatcher) -> None:
        raise RuntimeError("no look")

    monkeypatch.setattr(ToolWatcher, "_look", fail)
    watcher = ToolWatcher(tools, Reloads(tools), watch=True)
    with pytest.raises(RuntimeError, match="no look"):
        await watcher.start()
    assert not watcher.is_running
    assert watcher._events is None


async def test_no_watch_to_be_had(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """K49: when the system gives no watch, polling goes on and the fault is logged."""

    class Refusing(BaseObserver):
        def __init__(self) -> None:
            super().__init__(EventEmitter)

        def schedule(self, *args: Any, **keywords: Any) -> Any:
            raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(file_events, "Observer", Refusing)
    with structlog.testing.capture_logs() as logs:
        async with watching(tools, interval=0.02, watch=True) as reloads:
            (tools / "a.yaml").write_text(TEXT.format("one"), encoding="utf-8")
            await reloads.until(described("one"))
    assert logs[0]["event"] == "watch_failed"


async def test_bursts_end_in_bounded_time(tools: Path) -> None:
    """K49: a folder that is never quiet is still reloaded."""
    async with watching(tools, watch=True) as reloads:
        done = asyncio.Event()

        async def write() -> None:
            number = 0
            while not done.is_set():
                number += 1
                (tools / "a.yaml").write_text(TEXT.format(f"n{number}"), encoding="utf-8")
                await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            await reloads.until(lambda index: len(index) == 1)
            done.set()


async def test_files_that_never_settle_are_taken_as_they_are(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K49: a look is bounded although a file is written to all the time."""
    monkeypatch.setattr(FileStamp, "is_recent", lambda self: True)
    (tools / "a.yaml").write_text("x", encoding="utf-8")
    looked = await asyncio.to_thread(ToolWatcher(tools, Reloads(tools))._look)
    assert list(looked) == [str(tools / "a.yaml")]


def test_events_after_the_loop_has_closed(tools: Path) -> None:
    """K49: an event that nobody can hear any more is dropped."""
    loop = asyncio.new_event_loop()
    watcher = ToolWatcher(tools, Reloads(tools), watch=True)
    watcher._observe(loop)
    loop.close()
    (tools / "a.yaml").write_text("x", encoding="utf-8")
    watcher._stop_observing()
    assert not watcher._is_touched
