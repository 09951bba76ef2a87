"""In which folder does a tool under test read and write, and how does it stay there?

The executors are the real ones; they only open another root than the definition names.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.files.editing import FileEditExecutor
from tool_engine.executors.files.file_entry import FileEntry, compile_entry
from tool_engine.executors.files.file_reading import FileReadExecutor
from tool_engine.executors.files.listing import FolderReadExecutor
from tool_engine.executors.files.root import FileRoot, Place
from tool_engine.executors.files.searching import FileSearchExecutor
from tool_engine.executors.files.writing import FileWriteExecutor
from tool_engine.executors.http.response_entry import SavePlan
from tool_engine.model.tool import Tool
from tool_engine.testing.comparison import json_line

_MOST_BYTES: Final = 16 * 1024 * 1024
"""The largest file that is compared."""
_CURE_FOR_MISSING: Final = "create_folders"
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0)


class ScratchFolder:
    """A new folder with the files of one test. Its methods block.

    Args:
        files: Maps relative paths to texts.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        self.is_used = False
        # It goes with its last reference too, and at the end of the program.
        self._held = tempfile.TemporaryDirectory(
            prefix="tool-engine-test-", ignore_cleanup_errors=True
        )
        try:
            base = Path(self._held.name).resolve()
            self._root = base / "files"
            self._guarded = base / "definitions"
            self._root.mkdir()
            self._guarded.mkdir()
            for path, text in files.items():
                self._make_file(path, text)
        except BaseException:
            self.remove()
            raise

    @property
    def root(self) -> FileRoot:
        """Return the folder as file tools see it, outside that of their definition."""
        self.is_used = True
        return FileRoot(str(self._root), str(self._guarded))

    def remove(self) -> None:
        """Remove the folder with all that is in it; idempotent."""
        self._held.cleanup()

    def problems(self, expected: Mapping[str, str | None]) -> list[str]:
        """Return where the folder is not as expected.

        Args:
            expected: Maps relative paths to texts; None for a file that must not be there.
        """
        problems = []
        for path, text in expected.items():
            found = self._read_file(path)
            if found != text:
                wanted = "no file" if text is None else json_line(text)
                got = "there is no such file" if found is None else f"got {json_line(found)}"
                problems.append(f"expect_files.{path}: expected {wanted}, {got}")
        return problems

    def _make_file(self, path: str, text: str) -> None:
        target = self._root.joinpath(*path.split("/"))
        # The form is checked when a definition is loaded; not that of a tool that is made in code.
        is_below = target.parts[: len(self._root.parts)] == self._root.parts
        if not is_below or {".", "..", ""} & set(path.split("/")) or "\0" in path:
            raise ToolExecutionError(f"files.{path}: is no path below the test's own folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())

    def _read_file(self, path: str) -> str | None:
        """Return a file's content, read as file tools do.

        No link leads out.
        """
        try:
            with FileRoot(str(self._root)).place(path) as place:
                file = os.open(place.name, _FLAGS, dir_fd=place.folder)
        except (OSError, ToolExecutionError):
            return None
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
                return f"[no text, but {stat.filemode(status.st_mode)} of {status.st_size} bytes]"
            with open(file, "rb", closefd=False) as opened:
                return opened.read(_MOST_BYTES).decode("utf-8", "backslashreplace")
        finally:
            os.close(file)


Scratch = Callable[[], ScratchFolder | None]
"""Returns the folder of the running test; None: it has none."""


class UntouchedRoot(FileRoot):
    """A real folder in which tests write nothing, without a scratch."""

    @contextlib.contextmanager
    def place(
        self, path: str, *, writes: bool = False, makes: bool | None = None
    ) -> Iterator[Place]:
        """As in `FileRoot`; raise `ToolExecutionError` where a file could be written."""
        with contextlib.ExitStack() as held:
            try:
                # Folders that are missing must not be made either.
                walked = super().place(path, writes=writes, makes=None if makes is None else False)
                place = held.enter_context(walked)
            except ToolExecutionError as error:
                if makes and _CURE_FOR_MISSING in str(error):
                    raise _make_untouched_error(path) from None
                raise
            if writes:
                raise _make_untouched_error(place.path)
            yield place


def _make_untouched_error(path: str) -> ToolExecutionError:
    return ToolExecutionError(
        f"{path!r} would be written to the real folder of the tool, which a test leaves alone; "
        "give the test a folder of its own: files: {}, or the files that it is to have"
    )


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
