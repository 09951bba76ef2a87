"""How do file tools, and HTTP tools that save files, stay in a test's folder?

The executors are the real ones; they only open another root than the definition names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.files.editing import FileEditExecutor
from tool_engine.executors.files.file_entry import FileEntry, compile_entry
from tool_engine.executors.files.file_reading import FileReadExecutor
from tool_engine.executors.files.listing import FolderReadExecutor
from tool_engine.executors.files.root import FileRoot
from tool_engine.executors.files.searching import FileSearchExecutor
from tool_engine.executors.files.writing import FileWriteExecutor
from tool_engine.executors.http.response_entry import SavePlan
from tool_engine.model.tool import Tool
from tool_engine.testing.scratch import ScratchFolder, UntouchedRoot

Scratch = Callable[[], ScratchFolder | None]
"""Returns the folder of the running test; None: it has none."""


class _Entries(CompiledEntries[FileEntry]):
    """The entries of file tools, with the root of the running test."""

    def __init__(self, scratch: Scratch) -> None:
        super().__init__(compile_entry)
        self._scratch = scratch

    def of(self, tool: Tool) -> FileEntry:
        entry = super().of(tool)
        fields = {name: getattr(entry, name) for name in FileEntry.__struct_fields__}
        return _ScratchEntry(**fields, scratch=self._scratch())


class _ScratchEntry(FileEntry, frozen=True, kw_only=True):
    scratch: ScratchFolder | None

    def open(self) -> FileRoot:
        return _choose_root(self.scratch, super().open)


class _ScratchPlan(SavePlan, frozen=True, kw_only=True):
    scratch: ScratchFolder | None

    def open(self) -> FileRoot:
        return _choose_root(self.scratch, super().open)


def _choose_root(scratch: ScratchFolder | None, real: Callable[[], FileRoot]) -> FileRoot:
    return UntouchedRoot(*real()) if scratch is None else scratch.root


def scratch_plan(plan: SavePlan, scratch: ScratchFolder | None) -> SavePlan:
    """Return the plan of a download into a test's folder, or nowhere."""
    return _ScratchPlan(**msgspec.structs.asdict(plan), scratch=scratch)


class _Reader(FileReadExecutor):
    def __init__(self, scratch: Scratch) -> None:
        super().__init__()
        self._entries = _Entries(scratch)


class _Writer(FileWriteExecutor):
    def __init__(self, scratch: Scratch) -> None:
        super().__init__()
        self._entries = _Entries(scratch)


class _Editor(FileEditExecutor):
    def __init__(self, scratch: Scratch) -> None:
        super().__init__()
        self._entries = _Entries(scratch)


class _FolderReader(FolderReadExecutor):
    def __init__(self, scratch: Scratch) -> None:
        super().__init__()
        self._entries = _Entries(scratch)


class _Searcher(FileSearchExecutor):
    def __init__(self, scratch: Scratch) -> None:
        super().__init__()
        self._entries = _Entries(scratch)


FILE_EXECUTORS: Final[Mapping[str, tuple[type[Any], Callable[[Scratch], Any]]]] = {
    "read_file": (FileReadExecutor, _Reader),
    "write_file": (FileWriteExecutor, _Writer),
    "edit_file": (FileEditExecutor, _Editor),
    "read_folder": (FolderReadExecutor, _FolderReader),
    "search_files": (FileSearchExecutor, _Searcher),
}
"""Handler -> the executor that runs it, and its replacement in tests."""
