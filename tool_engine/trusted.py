"""Which files does this process trust, so that no tool may write them?

An engine or a database registers here the definitions, approvals, code or records that it reads;
executors that write files for a model check here. The register covers the whole process: a file
that one engine trusts must not be written through another engine.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import cache
from importlib.machinery import all_suffixes
from threading import Lock
from typing import Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary


class Kind(Enum):
    """How much of a path is trusted."""

    FOLDER = "folder"
    """The folder and all below it."""
    FILE = "file"
    MODULE = "module"
    """Any file that Python would import under this name in this folder, whatever its ending."""


class TrustedPath(NamedTuple):
    """A path that no tool may write; it may or may not exist."""

    path: str
    """Absolute, as it was named or after its links are followed."""
    kind: Kind
    what: str
    """For messages: `the lock file`."""

    @property
    def place(self) -> tuple[str, str]:
        """The folder that contains it, and its name there."""
        folder, _, name = self.path.rpartition("/")
        return folder or "/", name

    def is_named(self, name: str) -> bool:
        """True if a file `name` in the same folder is this one."""
        name, own = fold_name(name), fold_name(self.place[1])
        if self.kind is not Kind.MODULE:
            return name == own
        return name.partition(".")[0] == own and name.endswith(_SUFFIXES)

    def meets(self, folder: str) -> bool:
        """True if it is in `folder`, or `folder` in it.

        Write access to one reaches the other.
        """
        inside = self.place[0] if self.kind is Kind.MODULE else self.path
        if is_below(inside, folder):
            return True
        return self.kind is Kind.FOLDER and is_below(folder, self.path)


class Trusting(Protocol):
    """An owner of trusted files; asked, in a thread, before each write."""

    def trusted_paths(self) -> Iterable[TrustedPath]:
        """Return the files, by absolute or relative paths."""


_SUFFIXES: Final = tuple(all_suffixes())
_lock: Final = Lock()
_all: Final[WeakKeyDictionary[Trusting, str]] = WeakKeyDictionary()
"""Owner -> working folder at registration, which keeps relative paths stable."""


def trust_paths(trusting: Trusting) -> None:
    """Keep tools from writing what `trusting` names, while that object lives."""
    began = folder_of_now()
    with _lock:
        _all[trusting] = began


def folder_of_now() -> str:
    """Return the working folder, in which relative paths begin."""
    try:
        return os.getcwd()  # noqa: PTH109 - pathlib is not loaded with the engine
    except FileNotFoundError:
        return "/"


def trusted_paths() -> list[TrustedPath]:
    """Return all trusted paths, as named and with links followed. Blocks."""
    with _lock:
        asked = list(_all.items())
    # Hundreds of paths stand in a few folders; in one look each folder leads to one place.
    follow = cache(os.path.realpath)
    return list(
        {path: None for each, began in asked for path in _find_both_places(each, began, follow)}
    )


def database_files(path: str, what: str) -> Iterator[TrustedPath]:
    """Yield a SQLite database's file and those kept beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        yield TrustedPath(f"{path}{suffix}", Kind.FILE, what)


def fold_name(name: str) -> str:
    """Fold a name as file systems do that ignore case.

    Some ignore invisible characters, too.
    """
    visible = (c for c in name if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", "".join(visible)).casefold().rstrip(". ")


def is_below(path: str, folder: str) -> bool:
    """True if an absolute path is the folder or inside it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _find_both_places(
    trusting: Trusting, began: str, follow: Callable[[str], str]
) -> Iterator[TrustedPath]:
    for each in trusting.trusted_paths():
        if "\0" in each.path:
            continue  # no file has such a name
        # The process may have changed its folder since, and may change back.
        now = os.path.abspath(each.path)  # noqa: PTH100 - pathlib is not loaded with the engine
        then = os.path.normpath(os.path.join(began, each.path))  # noqa: PTH118 - the same
        for path in {now, then}:
            yield from _as_it_leads(each, path, follow)


def _as_it_leads(
    each: TrustedPath, path: str, follow: Callable[[str], str]
) -> Iterator[TrustedPath]:
    folder, _, name = path.rpartition("/")
    own = f"{follow(folder or '/').rstrip('/')}/{name}"
    yield each._replace(path=own)
    if each.kind is not Kind.MODULE and os.path.islink(own):  # noqa: PTH114 - the same
        yield each._replace(path=os.path.realpath(own))
