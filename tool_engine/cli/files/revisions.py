"""Which tool files did a git revision hold, such as `origin/main:tools`?"""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path, PurePosixPath

from tool_engine.catalog.definition_files import is_definition
from tool_engine.cli.failures import CommandError

_TIMEOUT = 60.0


def is_revision(word: str) -> bool:
    """Return True for `REVISION:PATH`, unless the word is a path itself."""
    revision, colon, path = word.partition(":")
    # One letter before the colon is a drive, and a dash would be an option of git's.
    is_named = len(revision) > 1 and not revision.startswith("-")
    return bool(colon and path) and is_named and not Path(word).exists()


def files_in_revision(word: str, *, is_recursive: bool = False) -> dict[str, bytes]:
    """Return the definitions at `REVISION:PATH`, relative to the present folder.

    Raises:
        CommandError: git does not know it, or is not installed.
    """
    revision, _, path = word.partition(":")
    # An archive holds files and folders alike, and links as links.
    archive = _run_git("archive", "--format=tar", revision, "--", path)
    root = PurePosixPath(path)
    files: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for member in members:
            name = PurePosixPath(member.name)
            content = members.extractfile(member) if member.isreg() else None
            is_wanted = name == root or (
                is_definition(name.name) and (is_recursive or name.parent == root)
            )
            if content is not None and is_wanted:
                files[f"{revision}:{name}"] = content.read()
    return dict(sorted(files.items()))


def _run_git(*words: str) -> bytes:
    try:
        ended = subprocess.run(  # noqa: S603 - a list of words, and no shell
            ["git", *words],  # noqa: S607 - the person's own git
            capture_output=True,
            check=True,
            timeout=_TIMEOUT,
        )
    except FileNotFoundError:
        raise CommandError(
            "git is not installed; compare two folders", error_type="no_git"
        ) from None
    except subprocess.TimeoutExpired:
        raise CommandError(
            f"git took longer than {_TIMEOUT:g} s; compare two folders", error_type="no_git"
        ) from None
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode("utf-8", "replace").strip()
        raise CommandError(f"git cannot read that: {reason}", error_type="no_revision") from error
    return ended.stdout
