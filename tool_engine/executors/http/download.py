"""How does an answer's body become a file without being in memory as a whole?

It is written to a hidden file beside its place, and renamed when it is complete. A body that is
cut off, too large, refused or cancelled leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Self, TypeVar

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.files.file_errors import explain_failure
from tool_engine.executors.files.replacing import (
    check_writable,
    lock_folder,
    put_file,
    temporary_name,
)
from tool_engine.executors.files.root import Place
from tool_engine.executors.http.response_entry import SavePlan
from tool_engine.executors.secrets import SecretScope

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
_BLOCK: Final = 256 * 1024
"""Bytes that are collected for one write in a thread."""
_OVERLAP: Final = 4096
"""Bytes of overlap: a secret of at most this length is found where two pieces meet."""

ResultT = TypeVar("ResultT")


class Download:
    """One file that is being written; used with `async with`.

    Args:
        plan: The root, and how far the file system may be changed.
        path: The file, below the root of `plan`.
        secrets: Must not get into the file: a server could echo them, for others to read.
    """

    def __init__(self, plan: SavePlan, path: str, secrets: SecretScope) -> None:
        self._plan, self._path, self._secrets = plan, path, secrets
        self._held = contextlib.ExitStack()
        self._file = -1
        self._replaced: os.stat_result | None = None
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._tail = b""
        self._hash = hashlib.sha256()
        self._size = 0

    async def __aenter__(self) -> Self:
        try:
            await _to_its_end(self._open_file)
        except BaseException:
            await _to_its_end(self._held.close)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await _to_its_end(self._held.close)

    async def write(self, piece: bytes) -> None:
        """Append `piece`; raise for a full disk, or a secret of the call."""
        self._pending.append(piece)
        self._pending_size += len(piece)
        if self._pending_size >= _BLOCK:
            await self._flush_pending()

    async def finish(self, deadline: float | None) -> dict[str, Any]:
        """Name the complete file; return `path`, `size` and `sha256` (hexadecimal).

        Nothing is changed after `deadline`, on the monotonic clock. `ToolExecutionError` where the
        existing file has changed, or the system refuses.
        """
        await self._flush_pending()
        return await _to_its_end(self._finish_file, deadline)

    async def _flush_pending(self) -> None:
        data, self._pending, self._pending_size = b"".join(self._pending), [], 0
        await _to_its_end(self._append_data, data)

    def _open_file(self) -> None:
        place = self._held.enter_context(
            self._plan.open().place(self._path, writes=True, makes=self._plan.create_folders)
        )
        self._place: Place = place
        self._replaced = check_writable(place)
        if self._replaced is not None and self._plan.create_only:
            raise ToolExecutionError(
                f"{place.path!r} exists already, and this tool replaces no file; choose another "
                "name"
            )
        self._name = temporary_name()
        # The new file must not be readable for users who could not read the old one.
        mode = 0o666 if self._replaced is None else 0o600
        try:
            self._file = os.open(self._name, _FLAGS, mode, dir_fd=place.folder)
        except OSError as error:
            raise explain_failure(error, place.path) from None
        self._held.callback(self._remove_draft)
        self._held.callback(os.close, self._file)

    def _remove_draft(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._name, dir_fd=self._place.folder)

    def _append_data(self, data: bytes) -> None:
        seen = self._tail + data
        if self._secrets.holds(seen.decode("latin-1")):
            raise ToolExecutionError(
                "the answer repeats a secret of the request, which must not get into a file; "
                "nothing was written"
            )
        self._tail = seen[-_OVERLAP:]
        self._hash.update(data)
        self._size += len(data)
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            raise explain_failure(error, self._place.path) from None

    def _finish_file(self, deadline: float | None) -> dict[str, Any]:
        place = self._place
        try:
            if self._replaced is not None:
                with contextlib.suppress(PermissionError):
                    os.fchown(self._file, -1, self._replaced.st_gid)
                os.fchmod(self._file, self._replaced.st_mode & 0o777)
            os.fsync(self._file)
            with lock_folder(place, deadline):
                put_file(place, self._name, self._replaced, deadline)
        except OSError as error:
            raise explain_failure(error, place.path) from None
        return {"path": place.path, "size": self._size, "sha256": self._hash.hexdigest()}


async def _to_its_end(function: Callable[..., ResultT], *args: Any) -> ResultT:
    """Run `function` in a thread and wait for its end, even when cancelled.

    A thread cannot be stopped: what it uses must stay open while it runs.
    """
    # No task: those are all cancelled when the loop ends, and the thread would run on.
    work = asyncio.get_running_loop().run_in_executor(None, partial(function, *args))
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        work.exception()  # the error is consumed: it does not matter any more
        raise cancelled
    return work.result()
