"""Which tool files became wrong, right, new or gone?

`validate --watch`: a report first, then the result of each settled change. A terminal is cleared
and shows everything that is wrong now; a file or a pipe gets only the changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tool_engine.catalog.definition_files import FileStamp, FolderError
from tool_engine.catalog.folder.watcher import ToolWatcher
from tool_engine.cli.console import as_text, make_console, print_json_line
from tool_engine.cli.failures import EXIT_FAILED, EXIT_INTERRUPTED, CommandError
from tool_engine.cli.files.checking import Checked, Checker, print_checked, print_summary
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.stdout_reader import reader_watched
from tool_engine.visible import escape_hidden

_INTERVAL: Final = 2.0
"""Seconds between two looks where the file system reports nothing, such as a network share."""


def validate_and_watch(settings: Settings, paths: Sequence[str], *, as_json: bool) -> int:
    """Check files at every change, until Ctrl-C or no reader.

    The paths may come into being later; without any, the folder of the settings is watched.
    `as_json` prints one JSON document per line and file.
    """
    watched = _Watched(settings, paths or [settings.tools], as_json=as_json)
    try:
        return run_async(watched.run(), log_level=logging.ERROR)
    except CommandError as error:
        if error.exit_code != EXIT_INTERRUPTED:
            raise
        return EXIT_INTERRUPTED


class _News(NamedTuple):
    changed: Sequence[Checked]
    gone: Sequence[str]


class _Watched:
    def __init__(self, settings: Settings, paths: Sequence[str], *, as_json: bool) -> None:
        self._paths = list(paths)
        self._folders = _folders_of(paths)
        self._is_recursive = settings.is_recursive
        self._as_json = as_json
        self._checker = Checker()
        self._watchers: list[ToolWatcher] = []
        self._found: dict[str, Checked] = {}
        self._missing: list[str] = []
        self._is_first = True
        # Each folder has a watcher, and one report combines their changes.
        self._lock = asyncio.Lock()
        self._news: asyncio.Queue[_News | None] = asyncio.Queue()

    async def run(self) -> int:
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(reader_watched(lambda: self._news.put_nowait(None)))
            await self._look_again(None, 0.0)
            for folder in self._folders:
                watcher = ToolWatcher(
                    folder,
                    self._look_again,
                    interval=_INTERVAL,
                    watch=True,
                    recursive=self._is_recursive,
                )
                self._watchers.append(watcher)
                await watcher.start()
                stack.push_async_callback(watcher.stop)
            # Printed here: a look logs its errors, so a closed pipe would be logged too.
            while (news := await self._news.get()) is not None:
                self._print_changes(*news)
        return EXIT_FAILED

    async def _look_again(self, _: frozenset[str] | None, settle: float) -> Collection[str]:
        """Check changed files; one being written waits for `settle` quiet seconds."""
        async with self._lock:
            try:
                checked, missing = await asyncio.to_thread(self._check_changed, settle)
            except (CommandError, FolderError):
                # Gone between the two looks; its watcher reports that as well.
                return ()
            found = {each.file: each for each in checked}
            changed = [each for each in checked if _has_changed(self._found.get(each.file), each)]
            gone = [file for file in self._found if file not in found]
            is_news = bool(changed or gone) or missing != self._missing or not self._watchers
            self._found, self._missing = found, missing
            if is_news:
                self._news.put_nowait(_News(changed, gone))
            return self._checker.busy

    def _check_changed(self, settle: float) -> tuple[list[Checked], list[str]]:

        def is_busy(file: str, stamp: FileStamp) -> bool:
            is_open = any(watcher.is_open(file) for watcher in self._watchers)
            return is_open or abs(stamp.age()) < settle

        there = [path for path in self._paths if Path(path).exists()]
        missing = [path for path in self._paths if path not in there]
        found = self._checker.check(there, is_recursive=self._is_recursive, is_busy=is_busy)
        return found, missing

    def _print_changes(self, changed: Sequence[Checked], gone: Sequence[str]) -> None:
        is_first, self._is_first = self._is_first, False
        if self._as_json:
            for each in changed:
                print_json_line({"event": "checked", **each.to_dict()})
            for file in gone:
                print_json_line({"event": "removed", "file": file})
            return
        console = make_console()
        # Does nothing except on a terminal.
        console.clear()
        everything: list[Checked] = list(self._found.values())
        is_whole = console.is_terminal or is_first
        if not is_first:
            console.print(as_text(time.strftime("%H:%M:%S"), "dim"))
        for file in gone:
            console.print(as_text(escape_hidden(f"{file}: removed"), "yellow"), soft_wrap=True)
        if is_whole:
            print_checked([each for each in everything if each not in changed], verbose=False)
        print_checked(changed, verbose=not is_first)
        for path in self._missing:
            console.print(as_text(f"waiting for {path!r}, which is not there", "yellow"))
        print_summary(everything)
        console.file.flush()


def _folders_of(paths: Sequence[str]) -> list[str]:
    """Return the folders to watch; missing `*.yaml` paths are files."""
    folders = [
        str(path.parent) if path.is_file() or path.suffix in (".yaml", ".yml") else str(path)
        for path in map(Path, paths)
    ]
    return list(dict.fromkeys(folders))


def _has_changed(before: Checked | None, now: Checked) -> bool:
    return before is None or _list_facts(before) != _list_facts(now)


def _list_facts(checked: Checked) -> Any:
    """Return facts and hashes, so that a mere edit is shown too."""
    return checked.to_dict(), [each.definition_hash for each in checked.definitions]
