"""Does a trusted file have another name in a folder that a script may write?

Writing through any hard link writes the file itself. The folders are searched only where a trusted
file has several names, as package installers make hard links.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tool_engine.errors import ToolExecutionError
from tool_engine.trusted import Kind, TrustedPath, plain

MAX_ENTRIES: Final = 200_000
"""The most entries examined below one folder, so that a run begins in time."""

Identity = tuple[int, int]


def check_hard_links(folders: Iterable[str], trusted: Iterable[TrustedPath]) -> None:
    """Raise if a trusted file may have a name below the folders. Blocks."""
    several: dict[Identity, tuple[str, str]] = {}
    for path, status, what in _files_of(trusted):
        if status.st_nlink > 1:
            several.setdefault((status.st_dev, status.st_ino), (path, what))
    for folder in folders if several else ():
        for path, status in _files_below(folder):
            known = several.get((status.st_dev, status.st_ino))
            if known is not None:
                raise ToolExecutionError(
                    f"scripts of this tool may write {path!r}, which is a hard link of "
                    f"{known[0]!r} ({known[1]}), and that no tool may change; remove the link, or "
                    "put a copy in its place"
                )


def _files_of(trusted: Iterable[TrustedPath]) -> Iterator[tuple[str, os.stat_result, str]]:
    folders: dict[str, str] = {}
    modules: defaultdict[str, dict[str, TrustedPath]] = defaultdict(dict)
    for each in trusted:
        folder, name = each.place
        if each.kind is Kind.FOLDER:
            folders[each.path] = each.what
        elif each.kind is Kind.MODULE:
            modules[folder][plain(name)] = each
        else:
            with suppress(OSError):
                yield each.path, os.stat(each.path), each.what  # noqa: PTH116 - thousands of files
    for folder, what in folders.items():
        for path, status in _files_below(folder):
            yield path, status, what
    for folder, names in modules.items():
        for path in _entries_of(folder, folder):
            name = path.rpartition("/")[2]
            module = names.get(plain(name).partition(".")[0])
            if module is not None and module.is_named(name):
                with suppress(OSError):
                    yield path, os.stat(path), module.what  # noqa: PTH116 - many files


def _files_below(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files below a path; follow no links."""
    pending, seen = [path], 0
    while pending:
        entries = _entries_of(pending.pop(), path)
        seen += len(entries)
        if seen > MAX_ENTRIES:
            raise _unknown_error(path, f"are more than {MAX_ENTRIES} files")
        for each in entries:
            with suppress(FileNotFoundError):  # it has gone meanwhile
                status = os.lstat(each)
                if stat.S_ISDIR(status.st_mode):
                    pending.append(each)
                elif stat.S_ISREG(status.st_mode):
                    yield each, status


def _entries_of(folder: str, path: str) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]  # noqa: PTH208 - many files
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        return [folder]
    except OSError as error:
        if _is_closed(folder):
            return []
        raise _unknown_error(path, f"{folder!r} cannot be listed ({error.strerror})") from None


def _is_closed(folder: str) -> bool:
    """Return True if scripts can neither enter the folder nor change its mode."""
    try:
        return Path(folder).stat().st_uid != os.geteuid() and not os.access(folder, os.X_OK)
    except OSError:
        return True


def _unknown_error(path: str, why: str) -> ToolExecutionError:
    return ToolExecutionError(
        "whether scripts of this tool may write what no tool may change, by a hard link, is not "
        f"known: below {path!r} {why}; name folders with less in entry.config.write, and keep "
        "definitions in a folder of their own"
    )
