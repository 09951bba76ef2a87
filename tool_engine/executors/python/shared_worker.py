"""How does one worker process run many calls at once, watched by an event loop?"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterable

from tool_engine.executors.commands.captured import Captured
from tool_engine.executors.commands.supervisor import MAX_FLOOD
from tool_engine.executors.python import guest
from tool_engine.executors.python.children import list_children
from tool_engine.executors.python.worker import Worker

_CHUNK = 1 << 18


class SharedWorker(Worker):
    """A worker process whose calls are numbered by those who send them.

    It is started and prepared as any other, which blocks; then `watch` it.
    """

    is_shared = True
    _words_behind = ("behind",)

    def watch(self, hear: Callable[[bytes], object], end: Callable[[str], object]) -> None:
        """Pass on each message, and once why there will be no more, on the running loop."""
        self._loop = loop = asyncio.get_running_loop()
        self._hear, self._say_end = hear, end
        self._left = bytearray()
        self._is_watched, self._is_writing = True, False
        self._received.clear()
        loop.add_reader(self._answers, self._read_answers)
        loop.add_reader(self._out, self._read_out)
        loop.add_reader(self._handle, self._note_death)
        if self._guest_handle >= 0:
            loop.add_reader(self._guest_handle, self._note_death)

    def send(self, messages: Iterable[bytes]) -> None:
        """Send messages, now or as soon as the process reads."""
        for each in messages:
            self._left += len(each).to_bytes(4, "big") + each
        self._write_left()

    def interrupt(self) -> None:
        """Raise `KeyboardInterrupt` in a handler that runs alone."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._guest_handle, signal.SIGINT)

    def forget_words(self, *, is_alone: bool = True) -> None:
        """Count what is written from now on; keep it only where one call can have written it.

        Of several nothing says which: the words of one may be a secret to another.
        """
        super().forget_words()
        if not is_alone:
            self.words = Captured(0)

    def leave(self) -> None:
        """Watch it no more; `end` ends it."""
        if not self._is_watched:
            return
        self._is_watched = False
        for file in (self._answers, self._out, self._handle, self._guest_handle):
            if file >= 0:
                self._loop.remove_reader(file)
        self._loop.remove_writer(self._requests)

    def _find_guardian(self) -> int:
        """Return the process behind what was started; 0: it has ended."""
        found = super()._find_guardian()
        for _ in range(2):  # see `guardian.step_back`
            found = next(iter(list_children(found)), 0)
        return found

    def _write_left(self) -> None:
        try:
            while self._left:
                del self._left[: os.write(self._requests, self._left[:_CHUNK])]
        except BlockingIOError:
            self._loop.add_writer(self._requests, self._write_left)
            self._is_writing = True
            return
        except OSError:
            self._left.clear()  # its end is noticed elsewhere
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._requests)

    def _read_answers(self) -> None:
        try:
            piece = os.read(self._answers, _CHUNK)
        except BlockingIOError:
            return
        if not piece:
            self._loop.remove_reader(self._answers)
            return
        self._received += piece
        start, received = 0, self._received
        while len(received) - start >= 4:
            size = int.from_bytes(received[start : start + 4], "big")
            if size > guest.MAX_MESSAGE + 1024:
                self._stop_process("sent something that is no answer, and was stopped")
                return
            if len(received) - start - 4 < size:
                break
            start += 4 + size
            self._hear(bytes(received[start - size : start]))
            if not self._is_watched:
                return
        del received[:start]

    def _read_out(self) -> None:
        try:
            piece = os.read(self._out, _CHUNK)
        except BlockingIOError:
            return
        if not piece:
            self._loop.remove_reader(self._out)
        self.words.feed(piece)
        if self.words.size > MAX_FLOOD:
            self._stop_process(f"wrote more than {MAX_FLOOD // 2**20} MiB and was stopped")

    def _note_death(self) -> None:
        # What it said last is in the pipes still.
        for read in (self._read_answers, self._read_out):
            for _ in range(64):
                if not self._is_watched:
                    return
                read()
        self._stop_process("")

    def _stop_process(self, words: str) -> None:
        self.leave()
        self._say_end(words)
