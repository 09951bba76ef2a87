"""Is the map of the rooms what the files say?"""

from __future__ import annotations

from tests.meta.rooms import PAGE, page
from tests.meta.sources import PACKAGE

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
