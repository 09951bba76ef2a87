"""Is the map of the rooms what the files say?"""

from __future__ import annotations

import re

import pytest

from tests.meta.rooms import PAGE, page
from tests.meta.sources import PACKAGE, ROOT, project_files

MOST_FILES = 25
"""Of one folder, its own questions included."""


def test_the_map_is_true() -> None:
    """The page of rooms is what `python -m tests.meta.rooms` writes."""
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.meta.rooms"


def test_no_crowded_folder() -> None:
    """A folder of more files than a person can look over has rooms."""
    folders = {file.parent for file in PACKAGE.rglob("*.py")}
    counts = {
        str(folder.relative_to(PACKAGE)): len([*folder.glob("*.py")]) - 1 for folder in folders
    }
    assert {name: count for name, count in counts.items() if count > MOST_FILES} == {}


@pytest.mark.parametrize("name", ["architecture.md", "contributing.md"])
def test_files_that_a_page_names_are_there(name: str) -> None:
    """A file that was moved is found under its new name by who reads the page."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    there = {f"/{path.relative_to(ROOT).as_posix()}" for path in project_files()}
    # `validation.py` is what the first design had.
    named = {*re.findall(r"`([a-z_/]+\.py)`", text)} - {"validation.py"}
    assert {each for each in named if not any(path.endswith(f"/{each}") for path in there)} == set()
