"""What may no file tool write, whatever its root is and however it was registered?

The files that this process trusts (see `tool_engine.trusted`), the folder of the tool's own
definition, and what `git` reads to run programs: a folder needs no special name for that, only a
repository's files. Folders are compared by identity, not by spelling, so that no link, mount or
case hides one; what does not exist yet is compared by its path.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tool_engine.errors import ToolExecutionError
from tool_engine.trusted import Kind, TrustedPath, fold_name, is_below, trusted_paths

_OWN: Final = "the folder of this tool's own definition"
_SETTINGS: Final = "the settings of git"
_OF_GIT: Final = frozenset({".gitattributes", ".gitmodules", ".gitconfig"})
# Their short names on some file systems.
_SHORT: Final = re.compile(r"(?:git|gitatt|gitmod|gitcon|gi[0-9a-f]{4})~\d+")

_REPOSITORIES: Final = (("HEAD", "objects", "refs"), ("HEAD", "commondir"))
"""Names that a folder must hold for git to treat it as a repository and follow its `config`."""

Identity = tuple[int, int]


class Guard(NamedTuple):
    paths: tuple[TrustedPath, ...]
    folders: dict[Identity, TrustedPath]
    places: dict[Identity, list[TrustedPath]]

    @classmethod
    def now(cls, definition_folder: str | None = None) -> Guard:
        """Return the guard of one write. Blocks; a tool of code has no folder."""
        paths = [*trusted_paths(), *_settings_of_git()]
        if definition_folder is not None:
            path = os.path.realpath(definition_folder)
            paths.insert(0, TrustedPath(path, Kind.FOLDER, _OWN))
        folders: dict[Identity, TrustedPath] = {}
        places: dict[Identity, list[TrustedPath]] = {}
        find = cache(_find_identity)  # hundreds of paths stand in a few folders
        for each in paths:
            if each.kind is Kind.FOLDER and (known := find(each.path)):
                folders.setdefault(known, each)
            if known := find(each.place[0]):
                places.setdefault(known, []).append(each)
        return cls(tuple(paths), folders, places)

    def check_root(self, root: str) -> None:
        real = Path(os.path.realpath(root))
        for folder in (real, *real.parents):
            found = self.folders.get(_find_identity(str(folder)) or (-1, -1))
            if found is not None:
                raise ToolExecutionError(
                    f"the tool's folder is in or below {found.what}, where nothing may be written; "
                    "correct entry.root in the definition"
                )

    def check_folder(self, folder: int, shown: str) -> None:
        found = self.folders.get(_identity_of(os.fstat(folder)))
        if found is not None:
            raise _refusal_error(shown, found)

    def check_name(self, folder: int, path: str, name: str, shown: str) -> None:
        """Raise `ToolExecutionError` for an entry that is trusted or would become it.

        Args:
            folder: The descriptor of its folder.
            path: The real path of that folder, as far as it is known.
            name: The entry's name.
            shown: The path of the call.
        """
        same = fold_name(name).partition(":")[0]
        if same == ".git":
            raise ToolExecutionError(
                f"{shown!r} is in a .git folder, which no tool may change: what is written there "
                "is run by git"
            )
        if same in _OF_GIT or _SHORT.fullmatch(same):
            raise ToolExecutionError(
                f"{shown!r} is read by git, which runs what it says; no tool may change it"
            )
        check_no_repository(folder, shown, same)
        for each in self.places.get(_identity_of(os.fstat(folder)), ()):
            if each.is_named(name):
                raise _refusal_error(shown, each)
        whole = f"{path.rstrip('/')}/{name}"
        for each in self.paths:
            if each.kind is Kind.FOLDER and is_below(whole, each.path):
                raise _refusal_error(shown, each)
            if each.place[0] == path and each.is_named(name):
                raise _refusal_error(shown, each)


def _settings_of_git() -> Iterator[TrustedPath]:
    home = os.path.expanduser("~")  # noqa: PTH111 - without a home this is no error
    folder = f"{os.environ.get('XDG_CONFIG_HOME') or f'{home}/.config'}/git"
    yield TrustedPath(os.path.realpath(folder), Kind.FOLDER, _SETTINGS)
    for path in (f"{folder}/config", f"{home}/.gitconfig", "/etc/gitconfig"):
        yield TrustedPath(os.path.realpath(path), Kind.FILE, _SETTINGS)


def check_no_repository(folder: int, shown: str, added: str = "") -> None:
    """Raise if git would treat the folder with the `added` entry as a repository."""
    if any(
        all(fold_name(name) == added or _holds_name(folder, name) for name in needed)
        for needed in _REPOSITORIES
    ):
        raise ToolExecutionError(
            f"{shown!r} would be part of a git repository, for its folder holds HEAD beside "
            "objects and refs, or beside commondir, and git runs what a repository says; no tool "
            "may change it: choose another name or folder"
        )


def _holds_name(folder: int, name: str) -> bool:
    try:
        # A link counts as well, wherever it leads.
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _refusal_error(shown: str, found: TrustedPath) -> ToolExecutionError:
    return ToolExecutionError(
        f"{shown!r} is {'in ' if found.kind is Kind.FOLDER else ''}{found.what}, which no tool may "
        "change; choose another place"
    )


def _find_identity(path: str) -> Identity | None:
    with contextlib.suppress(OSError, ValueError):
        return _identity_of(Path(path).stat())
    return None


def _identity_of(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino
