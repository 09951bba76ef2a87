"""Which question does each module answer? `python -m tests.meta.rooms` writes docs/rooms.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.meta.sources import PACKAGE, ROOT, tree

__all__ = ["PAGE", "page"]

PAGE = ROOT / "docs" / "rooms.md"
_HEAD = """# Rooms

Which folder, and which file, answers which question: the first line of each file. A test compares
this page with the files; `python -m tests.meta.rooms` writes it anew. What stands above what is in
[Architecture](architecture.md), and what to touch for an addition in
[Contributing](contributing.md).
"""


def page() -> str:
    """The page as it has to be."""
    return "\n".join([_HEAD, *(line for folder in _folders(PACKAGE) for line in _room(folder))])


def _folders(folder: Path) -> Iterator[Path]:
    yield folder
    for inner in sorted(each for each in folder.iterdir() if (each / "__init__.py").is_file()):
        yield from _folders(inner)


def _room(folder: Path) -> Iterator[str]:
    name = folder.relative_to(PACKAGE.parent).as_posix()
    yield f"## {name}/"
    yield ""
    yield _question(folder / "__init__.py")
    files = sorted(each for each in folder.glob("*.py") if each.name != "__init__.py")
    if files:
        yield ""
        yield "| file | question |"
        yield "|---|---|"
        yield from (f"| `{each.name}` | {_question(each)} |" for each in files)
    yield ""


def _question(file: Path) -> str:
    """The first sentence of a file's docstring, which may take two lines."""
    said = ast.get_docstring(tree(file)) or ""
    return " ".join(said.partition("\n\n")[0].split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
