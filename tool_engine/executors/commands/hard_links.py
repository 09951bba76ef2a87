"""Does what this process trusts have another name in a folder that a script may write?

A hard link is the file itself: who may write in one folder that has a name of it writes the file,
whichever folder its other names are in. Only where a trusted file has several names are the folders
looked through, for package installers make hard links of what they install.
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

__all__ = ["check_hard_links"]

MAX_ENTRIES: Final = 200_000
"""The most that is looked at below one folder, so that a run begins in time."""

Identity = tuple[int, int]


def check_hard_links(folders: Iterable[str], trusted: Iterable[TrustedPath]) -> None:
    """Looks below the folders for names of trusted files. Blocks.

    Args:
        folders: What scripts may write, by absolute paths; files as well.
        trusted: What no tool may change.

    Raises:
        ToolExecutionError: There is such a name, or it cannot be known whether there is.
    """
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
    """The trusted files that are there, each with what it is."""
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
    """The files below a folder, or the one that is there; links are not followed."""
    pending, seen = [path], 0
    while pending:
        entries = _entries_of(pending.pop(), path)
        seen += len(entries)
        if seen > MAX_ENTRIES:
            raise _unknown(path, f"are more than {MAX_ENTRIES} files")
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
        raise _unknown(path, f"{folder!r} cannot be listed ({error.strerror})") from None


def _is_closed(folder: str) -> bool:
    """Whether scripts cannot enter the folder either, nor change that."""
    try:
        return Path(folder).stat().st_uid != os.geteuid() and not os.access(folder, os.X_OK)
    except OSError:
        return True


def _unknown(path: str, why: str) -> ToolExecutionError:
    return ToolExecutionError(
        "whether scripts of this tool may write what no tool may change, by a hard link, is not "
        f"known: below {path!r} {why}; name folders with less in entry.config.write, and keep "
        "definitions in a folder of their own"
    )
