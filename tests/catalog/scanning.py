"""A folder of definitions that is looked at when the test says so."""

from __future__ import annotations

from pathlib import Path

from tool_engine.catalog.folder.folder_reading import Catalog
from tool_engine.catalog.folder.merging import ScanOutcome, merge_folder
from tool_engine.catalog.index import ToolIndex

__all__ = ["Folder", "changes"]


class Folder:
    """A folder of definitions, the catalog that looks at it, and the snapshot so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.catalog = Catalog(path)
        self.index = ToolIndex()

    def write(self, file: str, name: str, description: str = "d") -> None:
        """Writes a definition into a file."""
        self.put(file, f"name: {name}\ndescription: {description}\n")

    def put(self, file: str, text: str) -> None:
        """Writes a text into a file."""
        (self.path / file).write_text(text, encoding="utf-8")

    def scan(self) -> ScanOutcome:
        """Looks, and goes on with the snapshot that comes of it."""
        outcome = merge_folder(self.index, self.catalog.look())
        self.index = outcome.index
        return outcome


def changes(outcome: ScanOutcome) -> tuple[list[str], list[str], list[str]]:
    """The names that were added, modified and removed."""
    return outcome.added, outcome.modified, outcome.removed
