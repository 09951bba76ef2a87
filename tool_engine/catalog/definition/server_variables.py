"""Which `${...}` may stand in the settings of a server, and what do they mean?

`${env:NAME}` and `${env:NAME:-default}` stand for variables of the environment, and, where secrets
go, `${file:/path}` for what a file holds. What other programs write is brought into this form.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

MARK: Final = re.compile(r"\$\{(?P<inner>[^{}]*)\}")
_NAME: Final = r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
VARIABLE: Final = re.compile(rf"env:{_NAME}(?::-(?P<default>.*))?", re.DOTALL)
FILE: Final = re.compile(r"file:/.+")
_BARE: Final = re.compile(rf"{_NAME}(?::-.*)?", re.DOTALL)
_INPUT: Final = "input:"


def find_strange(text: str, *, may_be_file: bool) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with each `${...}` of a text, and the cure."""
    for found in MARK.finditer(text):
        inner = found["inner"]
        if VARIABLE.fullmatch(inner) or (may_be_file and FILE.fullmatch(inner)):
            continue
        shown = f"${{{inner[:60]}}}"
        if inner.startswith(_INPUT):
            cure = "set a variable, and write ${env:NAME}"
            yield f"{shown} asks a person, and there may be none", cure
        elif FILE.fullmatch(inner):
            yield f"{shown} would show the secret here", "put it into env or headers"
        else:
            bare = _BARE.fullmatch(inner)
            meant = f"${{env:{inner}}}" if bare else "${env:NAME}"
            yield f"{shown} stands for nothing", f"write {meant}"


def spell_variables(text: str, folder: str) -> str:
    """Return a text of another program's settings with its `${...}` as we write them.

    Args:
        text: It may hold `${NAME}`, `${NAME:-default}`, `${workspaceFolder}` and the like.
        folder: The folder of the project.
    """
    fixed = _list_places(folder)

    def spell(found: re.Match[str]) -> str:
        inner = found["inner"]
        if inner in fixed:
            return fixed[inner]
        bare = _BARE.fullmatch(inner)
        return f"${{env:{inner}}}" if bare else found[0]

    return MARK.sub(spell, text)


def _list_places(folder: str) -> Mapping[str, str]:
    return {
        "workspaceFolder": folder,
        "workspaceFolderBasename": Path(folder).name,
        "userHome": str(Path("~").expanduser()),
        "pathSeparator": os.sep,
        "/": os.sep,
    }
