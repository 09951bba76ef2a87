"""How does a command write a file without losing other work?"""

from __future__ import annotations

import os
from pathlib import Path

from tool_engine.cli.failures import CommandError
from tool_engine.named_file import why_unwritten, write_named


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
