"""Why does the program of a server not start, and what is to be written instead?"""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from tool_engine.executors.mcp.faults import BadServerError
from tool_engine.model.checks.nearness import suggest_near

COMMAND: Final = ("command",)
CWD: Final = ("cwd",)
_MOST_OTHER_LETTERS: Final = 2


def explain_start(
    command: Sequence[str], env: Mapping[str, str], cwd: str | None, error: OSError | None = None
) -> BadServerError | None:
    """Return why a program does not start; None: nothing stands against it. Blocks.

    Args:
        command: The program and its arguments.
        env: Its variables, of which PATH counts.
        cwd: Where it is to run; None: here.
        error: What the system says; None: it was not tried.
    """
    program = command[0]
    if cwd is not None and not Path(cwd).is_dir():
        return _explain_folder(Path(cwd).absolute())
    place = Path(cwd or ".", program) if os.sep in program else None
    if shutil.which(str(place or program), path=env.get("PATH")) is not None:
        return None if error is None else _explain_refusal(program, error)
    if len(command) == 1 and (words := _split_line(program)) is not None:
        write = f"command {json.dumps(words[0])}, args {json.dumps(words[1:])}"
        return BadServerError(
            f"its program {program!r} is a whole command line; write its arguments as items of "
            f"their own: {write}",
            COMMAND,
        )
    if place is not None:
        return _explain_file(program, place)
    programs = _list_programs(env.get("PATH", os.defpath))
    if near := suggest_near(program, _choose_similar(program, programs)):
        return BadServerError(f"its program {program!r} is not on PATH{near}", COMMAND)
    return BadServerError(
        f"its program {program!r} is not on PATH; install it, or write its full path", COMMAND
    )


def _explain_refusal(program: str, error: OSError) -> BadServerError:
    if error.errno == errno.ENOEXEC:
        return BadServerError(
            f"its program {program!r} has no format that runs here; begin a script with a line "
            "such as #!/bin/sh",
            COMMAND,
        )
    reason = error.strerror or type(error).__name__
    return BadServerError(f"its program {program!r} cannot be started: {reason}", COMMAND)


def _explain_folder(folder: Path) -> BadServerError:
    what = "is no folder" if folder.exists() else "is not there"
    if near := suggest_near(folder.name, _list_names(folder.parent)):
        return BadServerError(f"the folder {str(folder)!r} that it is to run in {what}{near}", CWD)
    return BadServerError(
        f"the folder {str(folder)!r} that it is to run in {what}; make it, or correct its cwd", CWD
    )


def _explain_file(program: str, place: Path) -> BadServerError:
    if place.is_dir():
        return BadServerError(
            f"its program {program!r} is a folder; write the path of the program in it", COMMAND
        )
    if place.exists():
        return BadServerError(
            f"its program {program!r} may not be run; make it so: chmod +x "
            f"{shlex.quote(str(place))}",
            COMMAND,
        )
    if near := suggest_near(place.name, _list_names(place.parent)):
        return BadServerError(f"its program {program!r} is not there{near}", COMMAND)
    return BadServerError(f"its program {program!r} is not there; correct its command", COMMAND)


def _split_line(program: str) -> list[str] | None:
    """Return the words of a whole command line; None: it is one word."""
    try:
        words = shlex.split(program)
    except ValueError:
        return None
    return words if len(words) > 1 else None


@lru_cache(maxsize=4)
def _list_programs(path: str) -> frozenset[str]:
    """Return the names of all programs on a PATH; kept, as it is asked at each new try."""
    return frozenset(name for each in path.split(os.pathsep) for name in _list_names(Path(each)))


def _choose_similar(program: str, names: frozenset[str]) -> list[str]:
    """Return those with nearly the same letters: of thousands, not all are compared."""
    wanted = Counter(program.lower())
    return sorted(
        name
        for name in names
        if abs(len(name) - len(program)) <= _MOST_OTHER_LETTERS
        and (wanted - Counter(name.lower())).total() <= _MOST_OTHER_LETTERS
    )


def _list_names(folder: Path) -> list[str]:
    try:
        return [each.name for each in folder.iterdir()]
    except OSError:
        return []
