"""Which worker process takes a call, and what becomes of it afterwards?

A tool has at most `workers` of them. They are started when they are needed and used again; one that
died, had to be stopped, or left something running is replaced. A call that finds none free waits,
in its own thread, at most until its deadline.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic
from typing import Any, Final

from tool_engine.errors import InvalidArgumentsError, ToolExecutionError
from tool_engine.executors.commands.supervisor import Bell
from tool_engine.executors.python.python_entry import PythonEntry
from tool_engine.executors.python.worker import (
    Answer,
    Fault,
    Finding,
    Report,
    UnreadError,
    Worker,
    WorkerStoppedError,
)
from tool_engine.model.call import ValidationError
from tool_engine.redaction import redact_text

_LONGEST_PLACE: Final = 2_000


class WorkerPool:
    """The worker processes of one tool.

    Args:
        entry: What they run.
    """

    def __init__(self, entry: PythonEntry) -> None:
        self.entry = entry
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._is_open = True
        # Counts the workers that may be had; a thread can wait for it and for its bell at once.
        self._free = -1
        flags = os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC
        self._free = os.eventfd(entry.workers, flags)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._free)

    def __repr__(self) -> str:
        return f"WorkerPool({self.entry.place}, idle={self._idle})"

    def run(
        self,
        params: dict[str, Any],
        context: dict[str, Any],
        deadline: float | None,
        bell: Bell,
        trace: dict[str, str] | None = None,
        hear: Callable[[Report], object] | None = None,
    ) -> Any:
        """What the handler returns. Blocks.

        Args:
            params: The arguments of the call.
            context: Its context, as JSON values; sent only to a handler that wants it.
            deadline: When all must be over, on the monotonic clock; None: no limit.
            bell: Ends the call early.
            trace: The headers that name the trace it is part of, see `model.trace`.
            hear: Takes what the handler reports meanwhile, in this thread.

        Raises:
            ToolExecutionError: The handler failed, or its worker process died.
            TimeoutError: The deadline passed; nothing of the call is left.
        """
        try:
            with self._hold_turn(deadline, bell):
                call = partial(Worker.call, params=params, context=context, trace=trace, hear=hear)
                while (answer := self._try_worker(call, deadline, bell)) is None:
                    pass
        except WorkerStoppedError as stopped:
            if stopped.reason == "deadline":
                raise TimeoutError(
                    f"{self.entry.place} did not end in time, and its worker process was stopped, "
                    "with all that it had started; raise its timeout or ask for less"
                ) from None
            raise ToolExecutionError("the call ended early, and its worker was stopped") from None
        if answer.error is not None:
            raise make_exception(answer.error, self.entry)
        return answer.value

    def describe(self, deadline: float | None, bell: Bell) -> Answer:
        """What a worker says of the handler after importing it, see `guest`; raises as `run`."""
        with self._hold_turn(deadline, bell):
            worker = self._take_worker()
            is_kept = False
            try:
                answer = worker.prepare(deadline, bell)
                is_kept = answer.error is None
            finally:
                self._give_back(worker, is_kept=is_kept)
        return answer

    def close(self) -> None:
        """Ends the idle workers, and each busy one after its call. Blocks; idempotent."""
        with self._lock:
            self._is_open = False
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()

    def _try_worker(
        self, call: Callable[..., Answer], deadline: float | None, bell: Bell
    ) -> Answer | None:
        """The answer of one worker; None: it was idle, and died before it knew of the call."""
        worker = self._take_worker()
        was_idle, is_kept = worker.is_ready, False
        try:
            self._make_ready(worker, deadline, bell)
            answer = call(worker, deadline=deadline, bell=bell)
            is_kept = _may_go_on(answer) and worker.is_alive
        except UnreadError:
            # Of a new one the handler's module is at fault, and would end the next one as well.
            if was_idle:
                return None
            raise
        finally:
            self._give_back(worker, is_kept=is_kept)
        return answer

    @contextlib.contextmanager
    def _hold_turn(self, deadline: float | None, bell: Bell) -> Iterator[None]:
        waiting = select.poll()
        waiting.register(self._free, select.POLLIN)
        waiting.register(bell.fileno(), select.POLLIN)
        while True:
            if bell.listen():
                raise WorkerStoppedError("bell")
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._free)
                break
            seconds = None if deadline is None else deadline - monotonic()
            if seconds is not None and seconds <= 0:
                raise WorkerStoppedError("deadline")
            waiting.poll(None if seconds is None else seconds * 1000)
        try:
            yield
        finally:
            os.eventfd_write(self._free, 1)

    def _take_worker(self) -> Worker:
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None:
                return Worker(self.entry)
            if worker.is_alive:
                return worker
            worker.end()

    def _make_ready(self, worker: Worker, deadline: float | None, bell: Bell) -> None:
        if not worker.is_ready:
            answer = worker.prepare(deadline, bell)
            if answer.error is not None:
                raise ToolExecutionError(word_import_fault(answer.error, self.entry))

    def _give_back(self, worker: Worker, *, is_kept: bool) -> None:
        with self._lock:
            if is_kept and self._is_open:
                self._idle.append(worker)
                return
        worker.end()


def _may_go_on(answer: Answer) -> bool:
    """What ran out of memory, or wanted to end, is not used again."""
    return answer.error is None or answer.error.kind not in ("memory", "exit")


def word_import_fault(fault: Fault, entry: PythonEntry) -> str:
    """Say why a handler cannot be called."""
    if fault.kind == "definition":
        return f"the handler {entry.name} cannot be called: {fault.message}"
    if fault.kind == "lost":
        return fault.message
    kind = fault.words.partition(":")[0]
    return f"{entry.place} cannot be imported: {fault.words}{word_import_cure(kind)}"


def word_import_cure(kind: str) -> str:
    """Return what to do about a module whose import ended with an exception of this class."""
    if kind == "ModuleNotFoundError":
        return "; install what it imports, or correct the import"
    return "; correct the module: what stands in it outside of functions runs at its import"


def make_exception(fault: Fault, entry: PythonEntry) -> Exception:
    """What a handler in this process would have raised."""
    if fault.kind == "arguments":
        found = [_read_finding(each) for each in fault.findings]
        message = fault.message.removeprefix("invalid arguments: ")
        return InvalidArgumentsError(message, [each.to_dict() for each in found])
    if fault.kind == "execution":
        error = ToolExecutionError(fault.message, details=fault.details, is_final=fault.is_final)
        error.error_type = fault.error_type or error.error_type  # type: ignore[misc] # its class's
        return error
    if fault.kind == "timeout":
        return TimeoutError(fault.message or "the tool gave up waiting (TimeoutError)")
    if fault.kind == "memory":
        return ToolExecutionError(_word_lack_of_memory(fault, entry))
    if fault.kind == "exit":
        return ToolExecutionError("the tool tried to end the process (SystemExit)")
    place = redact_text(fault.raised_at[:_LONGEST_PLACE])
    return ToolExecutionError(fault.words, details={"raised_at": place} if place else None)


def _read_finding(found: Finding) -> ValidationError:
    place = found.path or found.parameter
    return ValidationError(place, found.error_type, found.message, found.expected, found.actual)


def _word_lack_of_memory(fault: Fault, entry: PythonEntry) -> str:
    if not entry.memory:
        return f"{entry.place} ran out of memory, with no limit of its own: {fault.words}"
    return (
        f"{entry.place} needs more memory than the {entry.memory // 2**20} MiB of its "
        f"entry.config.{'resources.' if entry.fleet else ''}memory"
    )
