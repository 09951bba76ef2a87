"""How does a command write a file, and make its folder, without losing other work?"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from tool_engine.cli.failures import CommandError
from tool_engine.named_file import find_folder, why_unwritten, write_named

_IN_PLACE: Final = frozenset((errno.EEXIST, errno.ENOTDIR))
"""Why a folder cannot be made: there is something else, or in place of a folder above it."""


def make_folder(folder: str | Path, another: str) -> Path:
    """Make a folder, and those above it; `another` says how to name another one.

    Raises:
        CommandError: It cannot be made; with the cure of the cause.
    """
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        cure = ""
        if error.errno in _IN_PLACE:
            cure = "move away what is in its place, or "
        elif error.errno == errno.EACCES:
            cure = f"allow it in {str(find_folder(path))!r} with chmod, or "
        raise CommandError(
            f"cannot make the folder {str(folder)!r}: {error.strerror or error}; {cure}{another}",
            error_type="cannot_write",
        ) from error
    return path


def write_output(file: str, text: str) -> None:
    """Replace the content of the file that an option names."""
    try:
        write_named(file, text.encode())
    except OSError as error:
        raise CommandError(
            f"cannot write {file}: {why_unwritten(error)}", error_type="cannot_write"
        ) from error


def write_file(path: Path, text: str, *, may_replace: bool) -> None:
    """Write `text` to `path` as a whole or not at all.

    Raises:
        CommandError: The file exists and may not be replaced, or it cannot be written.
    """
    # Hidden, so that no loader takes the draft for a definition.
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.unlink(missing_ok=True)
        with draft.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        _put_file(draft, path, may_replace=may_replace)
    except FileExistsError:
        raise CommandError(
            f"{str(path)!r} is there already; choose another name, or replace it with --force",
            error_type="file_exists",
        ) from None
    except OSError as error:
        raise CommandError(
            f"cannot write {str(path)!r}: {why_unwritten(error)}", error_type="cannot_write"
        ) from error
    finally:
        _remove_draft(draft)


def _put_file(draft: Path, path: Path, *, may_replace: bool) -> None:
    if may_replace:
        draft.replace(path)
        return
    try:
        # Unlike a look before the write, a link cannot lose a race against another writer.
        path.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:
        if os.path.lexists(path):
            raise FileExistsError from None
        draft.replace(path)


def _remove_draft(draft: Path) -> None:
    try:
        draft.unlink(missing_ok=True)
    except OSError:
        return
