"""Whatever way a file is saved in, is it ever seen half, and does it end with what was saved?"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.following import BOUND, WAYS, definition, follow_folder, is_described
from tool_engine import ToolConfigLoader, ToolEngine, ToolEngineConfig
from tool_engine.catalog.folder import file_events, watcher
from tool_engine.catalog.index import ToolIndex

PAUSE = 0.1
"""Seconds that a slow writer thinks: longer than the rest of a file that was closed."""
STORM = 1.5
"""Seconds of writing, deleting and renaming without end."""

Save = Callable[[Path, str], Iterator[None]]
"""Writes a text into a file, and yields where it pauses."""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir()
    return folder


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    """All ways of looking keep the same promises."""
    return WAYS[request.param]


def write_slowly(file: Path, text: str) -> Iterator[None]:
    """Opens, empties, and writes piece by piece, as a slow network copy does."""
    with file.open("w", encoding="utf-8") as stream:
        cut = text.index("tags")
        for piece in (text[: cut // 2], text[cut // 2 : cut], text[cut:]):
            stream.write(piece)
            stream.flush()
            yield


def save_like_vim(file: Path, text: str) -> Iterator[None]:
    """Probes the folder, sets the old file aside, writes a new one, deletes the old."""
    swap, probe, backup = (
        file.with_name(name) for name in (f".{file.name}.swp", "4913", f"{file.name}~")
    )
    swap.write_text("b0VIM", encoding="utf-8")
    probe.touch()
    probe.unlink()
    if file.exists():
        file.rename(backup)
    file.write_text(text, encoding="utf-8")
    yield
    backup.unlink(missing_ok=True)
    swap.unlink()


def save_like_emacs(file: Path, text: str) -> Iterator[None]:
    """Locks by a link that leads nowhere, copies a backup, then writes in place."""
    lock = file.with_name(f".#{file.name}")
    lock.symlink_to("somebody@somewhere.1:2")
    file.with_name(f"#{file.name}#").write_text("autosaved", encoding="utf-8")
    if file.exists():
        shutil.copy2(file, file.with_name(f"{file.name}~"))
    file.write_text(text, encoding="utf-8")
    yield
    file.with_name(f"#{file.name}#").unlink()
    lock.unlink()


def save_like_vs_code(file: Path, text: str) -> Iterator[None]:
    """Empties the file, then writes it in place through the same handle."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    yield
    os.write(descriptor, text.encode())
    os.fsync(descriptor)
    os.close(descriptor)


def save_by_renaming(file: Path, text: str) -> Iterator[None]:
    """Writes a temporary file beside it and renames it, as most tools do."""
    temporary = file.with_name(f".{file.name}.tmp")
    yield from write_slowly(temporary, text)
    temporary.replace(file)


def save_like_rsync(file: Path, text: str) -> Iterator[None]:
    """Renames a temporary file that was given an old time."""
    temporary = file.with_name(f".{file.name}.Xy12ab")
    temporary.write_text(text, encoding="utf-8")
    os.utime(temporary, (1, 1))
    yield
    temporary.replace(file)


def save_like_git(file: Path, text: str) -> Iterator[None]:
    """Deletes the file and makes a new one."""
    file.unlink(missing_ok=True)
    with file.open("x", encoding="utf-8") as stream:
        yield
        stream.write(text)


def save_keeping_the_time(file: Path, text: str) -> Iterator[None]:
    """Writes in place and sets the time back to what it was."""
    stamp = file.stat() if file.exists() else None
    file.write_text(text, encoding="utf-8")
    yield
    if stamp is not None:
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


async def run(saving: Iterator[None]) -> None:
    for _ in saving:
        await asyncio.sleep(PAUSE)


SAVES = [
    save_like_vim,
    save_like_emacs,
    save_like_vs_code,
    save_by_renaming,
    save_like_rsync,
    save_like_git,
    save_keeping_the_time,
    write_slowly,
]


async def test_saving(tools: Path, way: dict[str, Any]) -> None:
    """K49: each editor's way of saving ends with what was saved, and shows nothing in between."""
    names = [save.__name__ for save in SAVES]
    async with follow_folder(tools, **way, settle=(0.05, 0.2)) as follower:
        for text in ["one", "two"]:
            async with asyncio.TaskGroup() as group:
                for name, save in zip(names, SAVES, strict=True):
                    saving = save(tools / f"{name}.yaml", definition(f"{text} {name}", name))
                    group.create_task(run(saving))
            wanted = [f"{text} {name}" for name in sorted(names)]
            await follower.until(all_described(wanted))
        assert follower.saw_only(*(f"{text} {name}" for text in ["one", "two"] for name in names))
        assert follower.errors == []
        assert follower.vanished == set()


def all_described(wanted: list[str]) -> Callable[[ToolIndex], bool]:
    return lambda index: [tool.description for tool in index] == wanted


async def test_a_writer_that_pauses_while_it_has_the_file_open(tools: Path) -> None:
    """U12: while events tell that a file is open for writing, it is not read, however long."""
    file = tools / "a.yaml"
    text = definition("one")
    async with follow_folder(tools, watch=True, interval=0.02, settle=(0.2, 0.2)) as follower:
        with file.open("w", encoding="utf-8") as stream:
            stream.write(text[: text.index("tags")])
            stream.flush()
            (tools / "b.yaml").write_text(definition("other", "b"), encoding="utf-8")
            await follower.until(is_described("other", "b"))
            await follower.until_looked(10)
            assert follower.index.get("t") is None
            stream.write(text[text.index("tags") :])
        await follower.until(is_described("one"))
        assert follower.saw_only("one", "other")


async def test_a_writer_that_never_closes(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """U12: a file that somebody forgot to close is read at last."""
    monkeypatch.setattr(file_events, "_OPEN_TIME", 0.1)
    async with follow_folder(tools, watch=True) as follower:
        with (tools / "a.yaml").open("w", encoding="utf-8") as stream:
            stream.write(definition("one"))
            stream.flush()
            await follower.until(is_described("one"))


async def test_an_empty_file(tools: Path, way: dict[str, Any]) -> None:
    """U12: a file that is emptied keeps its tool; only when it stays empty it is an error."""
    file = tools / "a.yaml"
    async with follow_folder(tools, **way) as follower:
        file.write_text(definition("one"), encoding="utf-8")
        await follower.until(is_described("one"))
        emptied = time.monotonic()
        file.write_text("", encoding="utf-8")
        await follower.until_error("is empty")
        assert time.monotonic() - emptied > 0.4
        assert is_described("one")(follower.index)
        file.write_text(definition("two"), encoding="utf-8")
        await follower.until(is_described("two"))


async def test_a_file_that_is_never_left_alone_holds_up_no_other(
    tools: Path, way: dict[str, Any]
) -> None:
    """K49: what changes all the time is not read and not waited for."""
    async with follow_folder(tools, **way) as follower:
        is_done = False

        async def write() -> None:
            number = 0
            while not is_done:
                number += 1
                (tools / "a.yaml").write_text(definition(f"n{number}"), encoding="utf-8")
                await asyncio.sleep(0.005)

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            for text in ["one", "two"]:
                (tools / "b.yaml").write_text(definition(text, "b"), encoding="utf-8")
                await follower.until(is_described(text, "b"))
            is_done = True
        (tools / "a.yaml").write_text(definition("last"), encoding="utf-8")
        await follower.until(is_described("last"))


@pytest.mark.parametrize("save", [save_by_renaming, write_slowly])
async def test_a_file_that_is_written_while_the_engine_starts(tools: Path, save: Save) -> None:
    """U12: the first load waits for what is being written as well."""
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        group.create_task(run(save(tools / "a.yaml", definition("one"))))
        config = ToolEngineConfig(str(tools), reload_interval=0.02, watch_for_changes=True)
        async with ToolEngine(config) as engine:
            while not is_described("one")(engine.index):
                assert len(engine.index) == 0
                await asyncio.sleep(0.001)


class Storm:
    """Writers of files, each at its own, that write, rename, break and delete at random.

    Args:
        folder: The folder of definitions.
        seed: What the chances are drawn from.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._serial = 0
        self.written: set[str] = set()
        """What every tool that was ever written said."""

    def text(self, slot: int) -> str:
        """A definition that was never written before, sometimes of two tools."""
        self._serial += 1
        said = f"v{self._serial} " + "x" * self._random.randrange(60)
        parts = [definition(f"{said} {part}", f"t{slot}{part}") for part in "ab"]
        chosen = parts[: self._random.choice([1, 1, 2])]
        self.written |= {f"{said} {part} ['whole']" for part, _ in zip("ab", chosen, strict=False)}
        return "---\n".join(chosen)

    async def blow(self, slot: int, seconds: float) -> None:
        """Writes to one file for a while; leaves it with a good definition."""
        file = self._folder / f"f{slot}.yaml"
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            harm: list[Callable[[Path, int], Iterator[None]]] = [
                self._break,
                self._delete,
                self._touch,
            ]
            await run(self._random.choice([*harm, *[self._save] * 5])(file, slot))
            await asyncio.sleep(self._random.choice([0, 0.001, 0.01, 0.1, 0.3]))
        file.write_text(self.text(slot), encoding="utf-8")

    def _save(self, file: Path, slot: int) -> Iterator[None]:
        yield from self._random.choice(SAVES)(file, self.text(slot))

    def _break(self, file: Path, slot: int) -> Iterator[None]:
        file.write_text(f"name: t{slot}a\ndescription: [never", encoding="utf-8")
        yield

    def _delete(self, file: Path, slot: int) -> Iterator[None]:
        file.unlink(missing_ok=True)
        yield

    def _touch(self, file: Path, slot: int) -> Iterator[None]:
        file.with_name(f"n{slot}.txt").write_text("noise", encoding="utf-8")
        if file.exists():
            file.chmod(self._random.choice([0o600, 0o644]))
            os.utime(file)
        yield


@pytest.mark.parametrize(
    "keys",
    [
        {"reload_interval": 0.05},
        {"auto_reload": False, "watch_for_changes": True},
        {"reload_interval": 0.05, "watch_for_changes": True},
    ],
    ids=["polling", "events", "both"],
)
async def test_storm(tools: Path, keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """K49, U12: whatever is done to the files, no tool is ever there that was not written whole,
    and in the end the tools are those of an independent load of the folder."""
    # Where the machine is busy, events come late.
    monkeypatch.setattr(watcher, "SETTLE_TIME", PAUSE / 2)
    storm = Storm(tools, seed=4)
    shown: set[str] = set()
    again = asyncio.Event()
    async with ToolEngine(ToolEngineConfig(str(tools), **keys)) as engine:

        def remember(_: object) -> None:
            shown.update(f"{tool.description} {tool.tags}" for tool in engine.index)
            again.set()

        engine.subscribe(remember, "reload_completed")
        async with asyncio.timeout(BOUND):
            async with asyncio.TaskGroup() as group:
                for slot in range(6):
                    group.create_task(storm.blow(slot, STORM))
            wanted = await asyncio.to_thread(ToolConfigLoader().load_directory, tools)
            while engine.list_all() != wanted or engine.load_errors:
                again.clear()
                await again.wait()
        remember(None)
    assert shown <= storm.written
    assert len(shown) > 12
