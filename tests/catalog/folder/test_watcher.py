"""Does every change of a folder end with exactly the final content, until the watcher stops?"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.catalog.following import (
    BOUND,
    WAYS,
    Follower,
    definition,
    follow_folder,
    is_described,
    is_empty,
)
from tool_engine.catalog.folder import file_events
from tool_engine.catalog.folder.watcher import ToolWatcher
from tool_engine.catalog.index import ToolIndex


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir()
    return folder


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    """All ways of looking keep the same promises."""
    return WAYS[request.param]


async def test_each_kind_of_change(tools: Path, way: dict[str, Any]) -> None:
    """K49, U9: a new, an edited, an atomically replaced and a deleted file are all seen."""
    async with follow_folder(tools, **way) as follower:
        (tools / "a.yaml").write_text(definition("one"), encoding="utf-8")
        await follower.until(is_described("one"))
        (tools / "a.yaml").write_text(definition("two"), encoding="utf-8")
        await follower.until(is_described("two"))
        (tools / "a.yaml.tmp").write_text(definition("three"), encoding="utf-8")
        (tools / "a.yaml.tmp").replace(tools / "a.yaml")
        await follower.until(is_described("three"))
        (tools / "a.yaml").unlink()
        await follower.until(is_empty)
        assert follower.saw_only("one", "two", "three")


async def test_a_folder_that_comes_later_and_goes(tmp_path: Path, way: dict[str, Any]) -> None:
    """K49: the folder may be made, deleted, made again, renamed, and replaced."""
    folder = tmp_path / "later"
    async with follow_folder(folder, **way) as follower:
        for text in ["one", "two"]:
            folder.mkdir()
            (folder / "a.yaml").write_text(definition(text), encoding="utf-8")
            await follower.until(is_described(text))
            shutil.rmtree(folder)
            await follower.until(is_empty)
        folder.mkdir()
        (folder / "a.yaml").write_text(definition("three"), encoding="utf-8")
        await follower.until(is_described("three"))
        folder.rename(tmp_path / "aside")
        folder.mkdir()
        (folder / "a.yaml").write_text(definition("four"), encoding="utf-8")
        await follower.until(is_described("four"))
        (folder / "a.yaml").write_text(definition("five"), encoding="utf-8")
        await follower.until(is_described("five"))
        shutil.rmtree(folder)
        (tmp_path / "aside").rename(folder)
        await follower.until(is_described("three"))
        assert follower.saw_only("one", "two", "three", "four", "five")


async def test_a_folder_behind_a_link(tmp_path: Path, way: dict[str, Any]) -> None:
    """K49: the folder may be a link, which is changed to lead elsewhere."""
    for version in ["one", "two"]:
        (tmp_path / version).mkdir()
        (tmp_path / version / "a.yaml").write_text(definition(version), encoding="utf-8")
    link = tmp_path / "tools"
    link.symlink_to("one")
    async with follow_folder(link, **way) as follower:
        await follower.until(is_described("one"))
        (tmp_path / "new").symlink_to("two")
        (tmp_path / "new").replace(link)
        await follower.until(is_described("two"))
        (tmp_path / "two" / "a.yaml").write_text(definition("three"), encoding="utf-8")
        await follower.until(is_described("three"))
        assert follower.saw_only("one", "two", "three")


async def test_files_behind_links(tmp_path: Path, tools: Path, way: dict[str, Any]) -> None:
    """K49: what a link leads to may change, where no event tells of it, and so may the link."""
    (tmp_path / "one").write_text(definition("one"), encoding="utf-8")
    (tmp_path / "two").write_text(definition("two"), encoding="utf-8")
    (tools / "a.yaml").symlink_to(tmp_path / "one")
    async with follow_folder(tools, **way) as follower:
        await follower.until(is_described("one"))
        (tmp_path / "one").write_text(definition("edited"), encoding="utf-8")
        await follower.until(is_described("edited"))
        (tools / "new").symlink_to(tmp_path / "two")
        (tools / "new").replace(tools / "a.yaml")
        await follower.until(is_described("two"))
        (tmp_path / "two").unlink()
        await follower.until_error("cannot be read")
        assert is_described("two")(follower.index)


async def test_a_config_map_swap(tools: Path, way: dict[str, Any]) -> None:
    """K49: Kubernetes swaps a link to a folder; the files' names, sizes and times stay."""
    for version in ["one", "two"]:
        data = tools / f"..{version}"
        data.mkdir()
        (data / "a.yaml").write_text(definition(version), encoding="utf-8")
        os.utime(data / "a.yaml", (1, 1))
    (tools / "..data").symlink_to("..one")
    (tools / "a.yaml").symlink_to("..data/a.yaml")
    async with follow_folder(tools, **way) as follower:
        await follower.until(is_described("one"))
        (tools / "..data_tmp").symlink_to("..two")
        (tools / "..data_tmp").replace(tools / "..data")
        shutil.rmtree(tools / "..one")
        await follower.until(is_described("two"))
        assert follower.saw_only("one", "two")


async def test_sub_folders(tools: Path, way: dict[str, Any]) -> None:
    """U20: with recursive, sub-folders are followed: new, moved and deleted ones, no hidden one."""
    async with follow_folder(tools, recursive=True, **way) as follower:
        (tools / ".git").mkdir()
        (tools / ".git" / "a.yaml").write_text(definition("hidden"), encoding="utf-8")
        (tools / "sub").mkdir()
        (tools / "sub" / "a.yaml").write_text(definition("one"), encoding="utf-8")
        await follower.until(is_described("one"))
        (tools / ".git" / "b.yaml").write_text(definition("hidden"), encoding="utf-8")
        (tools / "sub" / "a.yaml").write_text(definition("two"), encoding="utf-8")
        await follower.until(is_described("two"))
        (tools / "sub").rename(tools / "other")
        place = str(tools / "other" / "a.yaml")
        await follower.until(lambda index: [tool.source for tool in index] == [place])
        shutil.rmtree(tools / "other")
        await follower.until(is_empty)
        assert follower.saw_only("one", "two")


async def test_what_takes_a_files_place(tools: Path, way: dict[str, Any]) -> None:
    """U12: a folder, a pipe or a loop of links under a definition's name, and the file again."""
    file = tools / "a.yaml"
    async with follow_folder(tools, **way) as follower:
        file.write_text(definition("one"), encoding="utf-8")
        await follower.until(is_described("one"))
        file.unlink()
        file.mkdir()
        await follower.until(is_empty)
        file.rmdir()
        file.write_text(definition("two"), encoding="utf-8")
        await follower.until(is_described("two"))
        file.unlink()
        os.mkfifo(file)
        await follower.until_error("not a regular file")
        file.unlink()
        file.symlink_to(file)
        await follower.until_error("cannot be read")
        assert is_described("two")(follower.index)
        file.unlink()
        file.write_text(definition("three"), encoding="utf-8")
        await follower.until(is_described("three"))


async def test_clocks_and_sizes_that_tell_nothing(tools: Path, way: dict[str, Any]) -> None:
    """U10: times that lie in the future or are set back, and sizes that stay, hide no change."""
    file = tools / "a.yaml"
    async with follow_folder(tools, **way) as follower:
        file.write_text(definition("one"), encoding="utf-8")
        os.utime(file, (2**33, 2**33))
        await follower.until(is_described("one"))
        file.write_text(definition("two"), encoding="utf-8")
        os.utime(file, (2**33, 2**33))
        await follower.until(is_described("two"))
        (tools / "new").write_text(definition("six"), encoding="utf-8")
        os.utime(tools / "new", (2**33, 2**33))
        (tools / "new").replace(file)
        await follower.until(is_described("six"))
        assert follower.saw_only("one", "two", "six")


async def test_a_file_of_several_tools(tools: Path, way: dict[str, Any]) -> None:
    """U20: tools of one file come and go with their part of the file."""
    file = tools / "a.yaml"
    one, two = definition("one", "a"), definition("two", "b")
    async with follow_folder(tools, **way) as follower:
        file.write_text(f"{one}---\n{two}", encoding="utf-8")
        await follower.until(lambda index: index.list_names() == ["a", "b"])
        file.write_text(two, encoding="utf-8")
        await follower.until(lambda index: index.list_names() == ["b"])
        assert follower.saw_only("one", "two")


async def test_thousands_at_once(tools: Path, way: dict[str, Any]) -> None:
    """K49: a checkout that deletes and writes very many files ends with all of them."""
    names = [f"t{number}" for number in range(400)]
    async with follow_folder(tools, **way) as follower:
        for version in ["one", "two"]:
            for name in names:
                file = tools / f"{name}.yaml"
                file.unlink(missing_ok=True)
                file.write_text(definition(version, name), encoding="utf-8")
                await asyncio.sleep(0)
            await follower.until(all_described(version))
        assert follower.saw_only("one", "two")


def all_described(text: str) -> Callable[[ToolIndex], bool]:
    return lambda index: [tool.description for tool in index] == [text] * 400


async def test_what_is_no_definition_is_not_looked_at(tools: Path) -> None:
    """K49: swap files, other files and reading cause no look; an edit, one at its own file."""
    (tools / "a.yaml").write_text(definition("one"), encoding="utf-8")
    (tools / "b.yaml").write_text(definition("x", "b"), encoding="utf-8")
    async with follow_folder(tools, watch=True) as follower:
        (tools / ".a.yaml.swp").write_text("x", encoding="utf-8")
        (tools / "4913").touch()
        (tools / "4913").unlink()
        (tools / "a.yaml").read_text(encoding="utf-8")
        (tools / "a.yaml").write_text(definition("two"), encoding="utf-8")
        await follower.until(is_described("two"))
        looks = {paths for paths in follower.looks if paths is not None}
        assert looks == {frozenset({str(tools / "a.yaml")})}


async def test_a_change_during_a_look_is_followed_by_one_more(tools: Path) -> None:
    """K49: looks never overlap, and the last change is never lost."""
    entered, go = asyncio.Semaphore(0), asyncio.Semaphore(0)
    running = 0
    seen: list[str] = []

    async def look(paths: frozenset[str] | None, settle: float) -> Collection[str]:
        nonlocal running
        running += 1
        assert running == 1
        seen.extend(Path(path).name for path in paths or ())
        entered.release()
        await go.acquire()
        running -= 1
        return []

    watcher = ToolWatcher(tools, look, watch=True)
    await watcher.start()
    try:
        async with asyncio.timeout(BOUND):
            (tools / "a.yaml").write_text("1", encoding="utf-8")
            await entered.acquire()
            (tools / "b.yaml").write_text("2", encoding="utf-8")
            while "b.yaml" not in seen:
                go.release()
                await entered.acquire()
            go.release()
    finally:
        await watcher.stop()


async def test_a_loop_that_is_busy_loses_nothing(tools: Path) -> None:
    """K49: what happens while the event loop does not turn is seen when it turns again."""
    async with follow_folder(tools, watch=True) as follower:
        for number in range(50):
            (tools / f"t{number}.yaml").write_text(definition("d", f"t{number}"), encoding="utf-8")
            time.sleep(0.005)  # noqa: ASYNC251 - the loop is to stand still
        await follower.until(lambda index: len(index) == 50)
        assert follower.saw_only("d")


async def test_a_failing_look_is_logged_and_made_again(tools: Path, way: dict[str, Any]) -> None:
    """K49: what a look raises is logged; what it was to see is seen a little later."""
    fails = 1

    class Failing(Follower):
        async def __call__(self, paths: frozenset[str] | None, settle: float) -> Collection[str]:
            nonlocal fails
            if fails == 0:
                return await super().__call__(paths, settle)
            fails -= 1
            raise ValueError("broken on purpose")

    follower = Failing(tools)
    watcher = ToolWatcher(tools, follower, **way)
    with structlog.testing.capture_logs() as logs:
        await watcher.start()
        try:
            (tools / "a.yaml").write_text(definition("one"), encoding="utf-8")
            await follower.until(is_described("one"))
        finally:
            await watcher.stop()
    assert {log["event"] for log in logs} == {"reload_failed"}
    assert "broken on purpose" in logs[0]["error"]


async def test_starting_and_stopping(tools: Path) -> None:
    """K49: both may be called again; a watcher with nothing to do does not start."""
    follower = Follower(tools)
    idle = ToolWatcher(tools, follower)
    await idle.start()
    assert not idle.is_running
    await idle.stop()
    watcher = ToolWatcher(tools, follower, interval=5.0, watch=True)
    await watcher.start()
    await watcher.start()
    assert repr(watcher).endswith("interval=5.0, watch=True, is_running=True)")
    await watcher.stop()
    await watcher.stop()
    await watcher.start()
    (tools / "a.yaml").write_text(definition("one"), encoding="utf-8")
    await follower.until(is_described("one"))
    await watcher.stop()


@pytest.mark.parametrize("is_told", [True, False], ids=["event", "poll"])
async def test_stopping_from_inside_a_look(
    tools: Path, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K49: a look may stop its own watcher without waiting for itself, and nothing follows."""
    stopped = asyncio.Event()
    follow, late = file_events.FolderEvents.follow, []

    def note_late(self: file_events.FolderEvents) -> bool:
        late.extend([self] if stopped.is_set() else [])
        return follow(self)

    async def look(paths: frozenset[str] | None, settle: float) -> Collection[str]:
        if (paths is not None) == is_told:
            watcher._next_follow = 0.0
            await watcher.stop()
            stopped.set()
        return []

    monkeypatch.setattr(file_events.FolderEvents, "follow", note_late)

    watcher = ToolWatcher(tools, look, interval=0.05, watch=is_told)
    await watcher.start()
    (tools / "a.yaml").write_text("x", encoding="utf-8")
    async with asyncio.timeout(BOUND):
        await stopped.wait()
        while any("tool-watcher" in each.get_name() for each in asyncio.all_tasks()):  # noqa: ASYNC110 - a task has no event
            await asyncio.sleep(0)
    assert not watcher.is_running
    assert late == []


async def test_stopping_during_start(tools: Path) -> None:
    """K49: a watcher that is stopped while it starts leaves nothing."""
    before = threading.active_count()
    watcher = ToolWatcher(tools, Follower(tools), watch=True)
    starting = asyncio.ensure_future(watcher.start())
    await asyncio.sleep(0)
    await watcher.stop()
    await starting
    assert not watcher.is_running
    left = [thread for thread in threading.enumerate() if "asyncio" not in thread.name]
    assert len(left) <= before


async def test_a_failing_start_leaves_nothing(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """K49: when the watch cannot be started, the error is the caller's and no thread is left."""

    def fail(self: file_events.FolderEvents) -> None:
        raise RuntimeError("no watch")

    monkeypatch.setattr(file_events.FolderEvents, "follow", fail)
    watcher = ToolWatcher(tools, Follower(tools), watch=True)
    with pytest.raises(RuntimeError, match="no watch"):
        await watcher.start()
    assert not watcher.is_running
    assert watcher._events is None


def test_events_after_the_loop_has_closed(tools: Path) -> None:
    """K49: an event that nobody can hear any more is dropped."""
    loop = asyncio.new_event_loop()
    watcher = ToolWatcher(tools, Follower(tools), watch=True)
    watcher._observe_folder(loop)
    loop.close()
    (tools / "a.yaml").write_text("x", encoding="utf-8")
    watcher._stop_observing()
    assert not watcher._wake.is_set()
