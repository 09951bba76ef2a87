"""What does a worker of a fleet do on its node?

It runs no tool itself: a process below it does, behind the guardian that `isolation: process` has,
too. So what a tool does to its process does not reach Ray's, and when the actor, its node or its
engine ends, nothing of the tool is left.

What it is sent and what it answers is JSON. It never sees a pickle of a tool's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands.supervisor import Bell
from tool_engine.executors.fleet.frames import (
    frame_message,
    join_items,
    split_messages,
    write_bundle,
)
from tool_engine.executors.fleet.versions import are_same, own_versions
from tool_engine.executors.lost_work import WorkerLostError
from tool_engine.executors.python.python_entry import PythonEntry
from tool_engine.executors.python.shared_worker import SharedWorker
from tool_engine.executors.python.worker import UnreadError, WorkerStoppedError

SECONDS_TO_PREPARE: Final = 600.0
"""The most that an import of a handler may take: models are loaded there."""
_TRIES: Final = 3
"""How often a process is started that dies before it can take a call."""
GRACE: Final = 1.0
"""Seconds that a cancelled handler has to end by itself: what its process has loaded may be large,
and no caller waits for it."""
REPORT_SECONDS: Final = 0.05
"""The least seconds between two messages with nothing but reports."""
_GATHER: Final = 0.001
"""Seconds for which answers wait for others, where several calls run."""
_MOST_REPORTS: Final = 2_000
"""Reports that wait to be fetched; of more the oldest are left out."""
_MOST_ALONE: Final = 32 * 1024
"""Bytes of requests that find room in a pipe which is empty."""
_MOST_TOGETHER: Final = 4 * 1024 * 1024
"""Bytes of messages that go together, if there are several."""


class Settings(msgspec.Struct):
    """What a worker runs."""

    entry: PythonEntry
    paths: list[str]
    """Where the engine finds modules, for nodes that have the same folders."""
    version: str
    python: str


class Item(msgspec.Struct):
    """What an engine sends: a request for a call, or its end."""

    id: int = 0
    cancel: int = 0


class _Message(msgspec.Struct):
    id: int
    report: msgspec.Raw = msgspec.Raw()


class _KilledError(WorkerLostError):
    """A signal has ended a process before it took a call."""


_read_item: Final = msgspec.json.Decoder(Item).decode
_read_message: Final = msgspec.json.Decoder(_Message).decode
_read_raws: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def encode_fault(number: int, kind: str, message: str) -> bytes:
    """Return the answer to a call that ended apart from its handler."""
    error = {"type": "FleetError", "kind": kind, "message": message}
    return msgspec.json.encode({"id": number, "error": error})


class FleetHost:
    """One worker of one tool, on an event loop; see `FleetActor` for who calls it.

    Args:
        settings: `Settings` as JSON.
    """

    def __init__(self, settings: bytes) -> None:
        self._settings = msgspec.json.decode(settings, type=Settings)
        self.lock = threading.RLock()
        """Held while anything of this changes: `begin_alone` comes from other threads."""
        self._worker: SharedWorker | None = None
        self._is_shared = False
        self._is_preparing = False
        self._waiting: deque[tuple[int, bytes]] = deque()
        """Calls for which there is no process yet, or which wait until it is free."""
        self._running: set[int] = set()
        self._ending: dict[int, asyncio.TimerHandle] = {}
        """The calls that were cancelled and run on, with what ends their grace."""
        self._stubborn: set[int] = set()
        """Those of them whose grace is over."""
        self._answers: deque[bytes] = deque()
        self._reports: list[tuple[int, bytes]] = []
        self._asked: Callable[[bytes], object] | None = None
        """Takes the next reply: one is waited for."""
        self._number = 0
        self._reported_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_gathering = False
        self._tasks: set[asyncio.Future[Any]] = set()

    async def prepare(self) -> bytes:
        """Start the process; return what it says of the handler, and where this is, as JSON."""
        own = await asyncio.to_thread(own_versions)
        said: dict[str, Any] = {
            **own,
            "node": socket.gethostname(),
            "pid": os.getpid(),
        }
        wanted = self._settings
        if are_same(own, {"version": wanted.version, "python": wanted.python}):
            for folder in wanted.paths:
                if folder not in sys.path and await asyncio.to_thread(os.path.isdir, folder):
                    sys.path.append(folder)
            said["answer"] = msgspec.Raw(await self._start_process())
        return msgspec.json.encode(said)

    def begin_alone(self, bundle: bytes, reply: Callable[[bytes], object]) -> bool:
        """Do as `exchange` in any thread, where calls come that nothing else is beside.

        To wake the loop takes as long as all of the rest. False: nothing was done.
        """
        is_small = len(bundle) <= _MOST_ALONE and b'"cancel"' not in bundle
        with self.lock:
            worker = self._worker
            is_busy = self._asked or self._running or self._waiting or self._answers
            if worker is None or is_busy or self._reports or not is_small:
                return False
            items = [bytes(item) for each in split_messages(bundle) for item in _read_raws(each)]
            if not items or (len(items) > 1 and not self._is_shared):
                return False
            self._running.update(_read_item(item).id for item in items)
            self._asked = reply
            worker.forget_words(is_alone=len(items) == 1)
            worker.send([join_items(items)])
            return True

    def exchange(self, bundle: bytes, reply: Callable[[bytes], object]) -> None:
        """Take requests, and reply once with what there is to say, as soon as there is something.

        The reply is a bundle with its number, and how many of its messages are answers.

        Of two that wait the older one is answered: its asker has asked again. Replies are numbered,
        since they can overtake one another.
        """
        with self.lock:
            for message in split_messages(bundle):
                for item in _read_raws(message):
                    self._take_item(bytes(item))
            self._begin_waiting()
            self._end_wait()
            if self._answers or self._can_report():
                self._send_reply(reply)
            else:
                self._asked = reply

    async def stop(self) -> None:
        """End the process, and all that it has started."""
        await self._end_process()

    # What comes in.

    def _take_item(self, item: bytes) -> None:
        read = _read_item(item)
        if read.cancel:
            self._begin_waiting()  # so that an earlier request is there before its end
            self._cancel_call(read.cancel)
        else:
            self._waiting.append((read.id, item))

    def _begin_waiting(self) -> None:
        """Send the process what waits, as far as it may have it."""
        with self.lock:
            self._send_waiting()

    def _send_waiting(self) -> None:
        if not self._waiting or (self._running and not self._is_shared):
            return
        if self._worker is None:
            if not self._is_preparing:
                self._is_preparing = True
                self._begin_work(self._start_again())
            return
        taken = [*self._waiting] if self._is_shared else [self._waiting[0]]
        for number, _ in taken:
            self._waiting.popleft()
            self._running.add(number)
        self._worker.forget_words(is_alone=len(self._running) == 1)
        self._worker.send([join_items(item for _, item in taken)])

    def _cancel_call(self, number: int) -> None:
        for place, (waiting, _) in enumerate(self._waiting):
            if waiting == number:
                del self._waiting[place]
                self._add_answer(number, encode_fault(number, "cancelled", "it had not begun"))
                return
        if number not in self._running or number in self._ending or self._worker is None:
            return
        if self._is_shared:
            self._worker.send([b'[{"cancel":%d}]' % number])
        else:
            self._worker.interrupt()
        loop = asyncio.get_running_loop()
        self._ending[number] = loop.call_later(GRACE, self._end_grace, number)

    def _end_grace(self, number: int) -> None:
        with self.lock:
            self._stubborn.add(number)
            self._end_stubborn()

    def _end_stubborn(self) -> None:
        """End the process, if nothing but cancelled calls is left in it, and one does not end."""
        if self._stubborn and not self._running - self._ending.keys():
            self._drop_process("cancelled", "it went on after its cancellation, and was ended")

    # What goes out.

    def _hear_process(self, message: bytes) -> None:
        """Take one message, or a list of them."""
        with self.lock:
            self._take_said(message)

    def _take_said(self, message: bytes) -> None:
        try:
            messages = _read_raws(message) if message.startswith(b"[") else [message]
            read = [(_read_message(each), bytes(each)) for each in messages]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            read = [(_Message(0), b"")]
        for each, data in read:
            if each.id not in self._running:
                words = "the worker process sent something that is no answer, and was stopped"
                self._drop_process("execution", words)
                return
            if bytes(each.report):
                self._add_report(each.id, data)
                continue
            self._running.remove(each.id)
            if not self._running and self._worker is not None and not self._worker.is_alive:
                # It has left something running, which is gone when the answer comes.
                self._drop_process("", "", (each.id, data))
                return
            self._keep_answer(each.id, data)
            if self._running and self._worker is not None:
                # What one has printed that has ended is no flood of the others.
                self._worker.forget_words(is_alone=False)
        self._ring_for_answers()
        self._begin_waiting()
        self._end_stubborn()

    def _add_report(self, number: int, report: bytes) -> None:
        self._reports.append((number, report))
        if len(self._reports) > _MOST_REPORTS:
            del self._reports[: _MOST_REPORTS // 2]
        self._ring_for_reports()

    def _add_answer(self, number: int, answer: bytes) -> None:
        with self.lock:
            self._keep_answer(number, answer)
            self._ring_for_answers()

    def _keep_answer(self, number: int, answer: bytes) -> None:
        if self._ending and (timer := self._ending.pop(number, None)) is not None:
            timer.cancel()
            self._stubborn.discard(number)
        self._answers.append(answer)

    def _ring_for_answers(self) -> None:
        if self._asked is None or not self._answers:
            return
        if not self._running:
            self._end_wait()
        elif not self._is_gathering:
            self._is_gathering = True
            asyncio.get_running_loop().call_later(_GATHER, self._end_gathering)

    def _end_gathering(self) -> None:
        self._is_gathering = False
        with self.lock:
            if self._answers:
                self._end_wait()

    def _end_wait(self) -> None:
        asked, self._asked = self._asked, None
        if asked is not None:
            self._send_reply(asked)

    def _send_reply(self, reply: Callable[[bytes], object]) -> None:
        self._number += 1
        reply(write_bundle(self._number, *self._take_messages()))

    def _can_report(self) -> bool:
        if not self._reports:
            return False
        if time.monotonic() >= self._reported_at + REPORT_SECONDS:
            return True
        self._ring_for_reports()
        return False

    def _ring_for_reports(self) -> None:
        if self._timer is None:
            wait = self._reported_at + REPORT_SECONDS - time.monotonic()
            self._timer = asyncio.get_running_loop().call_later(max(0.0, wait), self._end_pause)

    def _end_pause(self) -> None:
        self._timer = None
        with self.lock:
            if self._reports:
                self._end_wait()

    def _take_messages(self) -> tuple[int, bytes]:
        """Return reports before answers, for a call's answer is its last message."""
        taken: list[bytes] = []
        if self._reports and (self._answers or self._can_report()):
            taken += [message for _, message in self._reports]
            self._reports.clear()
            self._reported_at = time.monotonic()
        reports, size = len(taken), 0
        while self._answers and (not size or size + len(self._answers[0]) <= _MOST_TOGETHER):
            size += len(self._answers[0])
            taken.append(self._answers.popleft())
        return len(taken) - reports, frame_message(join_items(taken)) if taken else b""

    # The process.

    async def _start_process(self) -> bytes:
        """Start a process that imports the handler; return its answer."""
        for attempt in range(_TRIES):
            try:
                return await self._try_start()
            except (WorkerLostError, UnreadError) as error:
                # Killed by others, perhaps: nothing of a call has run there.
                if attempt == _TRIES - 1:
                    kind = "lost" if isinstance(error, _KilledError) else "execution"
                    return encode_fault(0, kind, str(error))
            except (ToolExecutionError, WorkerStoppedError) as error:
                return encode_fault(0, "execution", str(error))
        raise AssertionError("unreachable")

    async def _try_start(self) -> bytes:
        """Start a process and prepare it, once."""
        bell = Bell()
        bell.open()
        worker = None
        try:
            worker = await asyncio.to_thread(SharedWorker, self._settings.entry)
            deadline = time.monotonic() + SECONDS_TO_PREPARE
            answer = await asyncio.to_thread(worker.prepare, deadline, bell)
        except BaseException as error:
            bell.ring()
            if worker is not None:
                has_died = isinstance(error, (WorkerLostError, UnreadError))
                await asyncio.to_thread(worker.end)
                if has_died and worker.was_killed:
                    raise _KilledError(str(error)) from error
            raise
        finally:
            bell.close()
        if answer.error is not None:
            await asyncio.to_thread(worker.end)
            return msgspec.json.encode(answer)
        self._is_shared = answer.value["is_async"]
        worker.watch(self._hear_process, self._note_end)
        self._worker = worker
        return msgspec.json.encode(answer)

    async def _start_again(self) -> None:
        """Start another process for the calls that wait for one."""
        answer = b""
        try:
            answer = await self._start_process()
        finally:
            self._is_preparing = False
            if self._worker is None:
                waiting, self._waiting = self._waiting, deque()
                for number, _ in waiting:
                    self._add_answer(number, _as_answer(number, answer))
        self._begin_waiting()

    def _note_end(self, words: str) -> None:
        """Say how the process died."""
        with self.lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            self._begin_work(self._word_death(worker, words))

    async def _word_death(self, worker: SharedWorker, words: str) -> None:
        with self.lock:
            running, self._running = self._running, set()
        kind, message = "execution", f"{worker.entry.place} {words}"
        if not words:
            error = await asyncio.to_thread(worker.ended)
            kind, message = ("lost" if error.error_type == "worker_lost" else kind), str(error)
        else:
            await asyncio.to_thread(worker.end)
        for number in running:
            self._add_answer(number, encode_fault(number, kind, message))
        self._begin_waiting()

    def _drop_process(
        self, kind: str, words: str, answered: tuple[int, bytes] | None = None
    ) -> None:
        """End the process, and the calls in it when it has ended."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.leave()
        running, self._running = self._running, set()

        async def end() -> None:
            await asyncio.to_thread(worker.end)
            for number in running:
                self._add_answer(number, encode_fault(number, kind, words))
            if answered is not None:
                self._add_answer(*answered)
            self._begin_waiting()

        self._begin_work(end())

    def _begin_work(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end_process(self) -> None:
        with self.lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.leave()
            await asyncio.to_thread(worker.end)


def _as_answer(number: int, prepared: bytes) -> bytes:
    """Return the answer to a call whose process could not be started."""
    with contextlib.suppress(msgspec.DecodeError):
        read = msgspec.json.decode(prepared)
        return msgspec.json.encode({**read, "id": number})
    return encode_fault(number, "execution", "its worker process cannot be started")
