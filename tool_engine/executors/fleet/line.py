"""Which worker of a fleet takes a call of one tool, and how many workers are there?"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, Protocol

import msgspec

from tool_engine.errors import ToolEngineError, ToolExecutionError
from tool_engine.executors.fleet.connection import FleetConnection
from tool_engine.executors.fleet.frames import join_items
from tool_engine.executors.fleet.hunger import Hunger
from tool_engine.executors.fleet.resources import find_lack
from tool_engine.executors.handler import wants_context
from tool_engine.executors.lost_work import WorkerLostError
from tool_engine.executors.python import guest
from tool_engine.executors.python.process_backend import pass_on_report
from tool_engine.executors.python.python_entry import PythonEntry
from tool_engine.executors.python.worker import Answer, Fault, signature_of, write_request
from tool_engine.executors.python.worker_pool import make_exception, word_import_fault
from tool_engine.logger import get_logger
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool
from tool_engine.redaction.error_words import secrets_if_known, shorten_words

_log: Final = get_logger(__name__)
SHARED_CALLS: Final = 100
"""The most calls of an async handler in one worker."""
_SECONDS_TO_END: Final = 2.0
"""After so long a worker that does not end a cancelled call gets no others."""
_MOST_STARTS: Final = 3
"""Workers that may fail to start, one after the other, before the calls that wait fail, too."""
_OTHER_CODE: Final = "OtherCodeError"


class DefinitionMismatchError(ToolExecutionError):
    """A worker of a fleet has other code than the engine; nothing has run there."""

    error_type = "definition_mismatch"

    def reworded(self, message: str) -> DefinitionMismatchError:
        """Return the same failure with another message."""
        return DefinitionMismatchError(message, details=self.details, is_final=self.is_final)


class Ready(msgspec.Struct):
    """What a worker says when it can take calls, or cannot."""

    version: str
    python: str
    node: str
    pid: int
    answer: Answer | None = None
    """None: its versions differ from the engine's."""


class FleetCall:
    """One call on its way to a worker and back; `is_over` when its work has ended."""

    __slots__ = (
        *("context", "ended", "is_given_up", "is_over", "line", "number", "params", "tool"),
        *("trace", "worker"),
    )

    def __init__(
        self,
        params: dict[str, Any],
        context: ToolExecutionContext,
        trace: dict[str, str],
        tool: Tool | None = None,
    ) -> None:
        self.params = params
        self.context = context
        self.trace = trace
        self.tool = tool
        """What says which of the arguments are secret."""
        self.number = 0
        self.line: Line | None = None
        """Where it waits, or has waited."""
        self.worker: FleetWorker | None = None
        self.is_over = False
        self.is_given_up = False
        """Whether it is not known that its work will ever end."""
        self.ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        """What its caller waits for; one that is cancelled has cancelled this, too."""

    def succeed(self, value: Any) -> None:
        self.is_over = True
        if not self.ended.done():
            self.ended.set_result(value)

    def fail(self, error: Exception) -> None:
        self.is_over = True
        if not self.ended.done():
            self.ended.set_exception(error)
            self.ended.exception()  # it counts as seen: a cancelled call never asks

    def go_on(self) -> None:
        """Have the end of the work be waited for after the caller was cancelled."""
        self.ended = asyncio.get_running_loop().create_future()


class FleetWorker:
    """One worker of a tool, as the engine sees it.

    Args:
        line: What it works for.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self.number = 0
        self.calls: dict[int, FleetCall] = {}
        self.ready: Ready | None = None
        self.capacity = 1
        self.idle_since = 0.0
        self.is_placed = self._wants_context = self._is_gone = False
        self._cancelled: dict[int, float] = {}
        """When calls were cancelled that have not ended, by their numbers."""

    def __repr__(self) -> str:
        where = "starting" if self.ready is None else f"on {self.ready.node}, pid={self.ready.pid}"
        return f"FleetWorker({where}, calls={len(self.calls)})"

    @property
    def room(self) -> int:
        """How many calls it can take now."""
        if self.ready is None or self._is_gone or self._is_stubborn():
            return 0
        return self.capacity - len(self.calls)

    @property
    def has_live_calls(self) -> bool:
        """Whether any of its calls was not cancelled."""
        return bool(self.calls.keys() - self._cancelled.keys())

    def _is_stubborn(self) -> bool:
        if not self._cancelled:
            return False
        now = asyncio.get_running_loop().time()
        return any(now > at + _SECONDS_TO_END for at in self._cancelled.values())

    # What the connection says.

    def note_placed(self) -> None:
        """Need nothing more of the fleet: what takes time now is its own start."""
        self.is_placed = True
        self._line.hunger.note_placed()

    def note_ready(self, said: bytes) -> None:
        """Take calls from now on, or say why not."""
        ready = msgspec.json.decode(said, type=Ready)
        if (error := self._line.find_obstacle(ready)) is not None:
            self._line.end_worker(self)
            self._line.note_obstacle(error)
            return
        described = ready.answer.value if ready.answer is not None else {}
        signature = signature_of(described)
        self._wants_context = signature is not None and wants_context(signature)
        fleet = self._line.fleet
        # While one batch runs, the next one is on its way.
        is_shared = described["is_async"] and not fleet.is_alone
        self.capacity = max(1, 2 * fleet.batch_size, SHARED_CALLS * is_shared)
        self.ready, self.is_placed = ready, True
        self._line.failed_starts = 0
        self._line.note_free(self)

    def take(self, answers: list[Answer]) -> None:
        """Pass on reports, and end calls with their answers."""
        for answer in answers:
            if (call := self.calls.get(answer.id)) is None:
                continue
            if answer.report is not None:
                if call.number not in self._cancelled:
                    pass_on_report(call.context, answer.report)
                continue
            del self.calls[answer.id]
            self._cancelled.pop(answer.id, None)
            if answer.error is not None:
                self._log_frames(call, answer.error)
                call.fail(self._line.word_fault(answer.error, self))
            else:
                call.succeed(answer.value)
        self._line.note_free(self)

    def _log_frames(self, call: FleetCall, fault: Fault) -> None:
        """Log where a handler failed, for its author: a model never sees that."""
        if fault.frames:
            # The names of files and classes may be made of what was sent.
            secrets = secrets_if_known(call.tool, call.params)
            _log.info(
                "fleet_handler_failed",
                handler=self._line.entry.place,
                call_id=call.context.call_id,
                node=None if self.ready is None else self.ready.node,
                error=shorten_words(fault.type, secrets),
                traceback=shorten_words(fault.frames, secrets, most=len(fault.frames)),
            )

    def note_gone(self) -> None:
        """Take no more calls: it is lost."""
        self._is_gone = True

    def lose(self, words: str, *, is_final: bool = False) -> None:
        """End all its calls: whether they ran to their end is unknown."""
        calls, self.calls = self.calls, {}
        place = self._line.entry.place
        where = "" if self.ready is None else f" on {self.ready.node}"
        for call in calls.values():
            call.fail(WorkerLostError(f"the worker of {place}{where} was lost: {words}"))
        if self.ready is not None:
            self._line.remove(self, None)
            return
        # Its node has gone, perhaps. Nothing of a call has run there.
        self._line.failed_starts += 1
        if is_final:
            words += "; correct entry.config.runtime, or give the nodes what it needs"
        error = ToolExecutionError(f"no worker of {place} can be started: {words}")
        is_last = is_final or self._line.failed_starts >= _MOST_STARTS
        self._line.remove(self, error if is_last else None)

    # What the line wants.

    def begin(self, calls: Iterable[FleetCall]) -> None:
        """Send calls, in one message."""
        numbered = {self._line.next_number(): call for call in calls}
        requests = [self._make_request(*each) for each in numbered.items()]
        try:
            data = msgspec.json.encode(requests)
        except (TypeError, ValueError, OverflowError, RecursionError):
            data = b""
        if not data or len(data) > guest.MAX_MESSAGE:
            data = _write_each(numbered, requests)
        self.calls.update(numbered)
        if numbered:
            self._line.connection.send(self.number, data, len(numbered))

    def cancel(self, call: FleetCall) -> None:
        """Have a call end that has begun; `is_over` says when it has."""
        self._cancelled[call.number] = asyncio.get_running_loop().time()
        self._line.connection.send(self.number, b'[{"cancel":%d}]' % call.number, 0)

    def _make_request(self, number: int, call: FleetCall) -> dict[str, Any]:
        call.number, call.worker = number, self
        request: dict[str, Any] = {"id": call.number, "params": call.params}
        if call.trace:
            request["trace"] = call.trace
        if self._wants_context:
            deadline = call.context.deadline
            now = asyncio.get_running_loop().time()
            request["context"] = call.context.to_wire()
            request["seconds"] = None if deadline is None else deadline - now
        return request


class LineOwner(Protocol):
    """What knows the other lines."""

    def make_room(self, hungry: Line) -> None:
        """Have others give up a worker: for a second none of this line's has started."""

    def doubt_code(self, line: Line, error: DefinitionMismatchError) -> None:
        """Refuse its waiting calls, unless what is wrong is its own idea of the code."""


class Line:
    """The workers of one definition of a tool, and the calls that wait for one.

    Args:
        entry: What they run.
        connection: Starts them.
        settings: `host.Settings`.
        owner: Hears of what other lines, or a newer one, may mend.
    """

    def __init__(
        self,
        entry: PythonEntry,
        connection: FleetConnection,
        settings: Any,
        owner: LineOwner,
    ) -> None:
        assert entry.fleet is not None  # noqa: S101 - it is read together with the isolation
        self.entry = entry
        self.fleet = entry.fleet
        self.connection = connection
        self.waiting: deque[FleetCall] = deque()
        self.workers: dict[int, FleetWorker] = {}
        self._abandoned: list[FleetWorker] = []
        self.gives_up_one = False
        """Whether the next worker that is free ends, so that another tool gets its place."""
        self._settings = settings
        self._owner = owner
        self._numbers = 0
        self._joining: asyncio.Task[None] | None = None
        self._batch: asyncio.TimerHandle | None = None
        self._tidying: asyncio.TimerHandle | None = None
        self.failed_starts = 0
        """How many workers in a row could not be started."""
        self.hunger = Hunger(self)
        self._is_closed = self._is_retired = self._will_dispatch = False

    def __repr__(self) -> str:
        workers = [*self.workers.values()]
        return f"Line({self.entry.place}, waiting={len(self.waiting)}, workers={workers})"

    @property
    def starting(self) -> int:
        """How many workers have not begun to take calls."""
        return sum(each.ready is None for each in self.workers.values())

    @property
    def unplaced(self) -> int:
        """How many of them are on no node yet."""
        return sum(not each.is_placed for each in self.workers.values())

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def enter(self, call: FleetCall) -> None:
        """Let a call wait for a worker, and begin as soon as there is one."""
        call.line = self
        if not (self.waiting or self._is_closed or self.fleet.batch_size):
            for worker in self.workers.values():
                if not worker.calls and worker.room > 0:
                    # Alone, perhaps: those that come in this turn, too, go together after it.
                    worker.begin([call])
                    return
        self.waiting.append(call)
        self.dispatch_soon()

    def _find_lack(self) -> str | None:
        if any(each.ready for each in self.workers.values()):
            return None
        return find_lack(self.fleet.resources, self.connection.nodes)

    def _refuse_lacking(self) -> None:
        if lack := self._find_lack():
            for worker in [*self.workers.values()]:
                self.end_worker(worker)  # none of them can ever start
            self.fail_waiting(ToolExecutionError(lack, is_final=True))
        else:
            self.dispatch_soon()

    def withdraw(self, call: FleetCall) -> None:
        """End a call, by all means that there are; `is_over` says when it has."""
        if call.worker is not None:
            call.worker.cancel(call)
            return
        if call in self.waiting:
            self.waiting.remove(call)
        call.fail(ToolExecutionError("the call ended before it had begun"))

    def dispatch_soon(self) -> None:
        """Dispatch once for all calls that come, or end, in this turn of the event loop."""
        if not self._will_dispatch:
            self._will_dispatch = True
            asyncio.get_running_loop().call_soon(self._dispatch_turn)

    def _dispatch_turn(self) -> None:
        self._will_dispatch = False
        if self._batch is None and 0 < len(self.waiting) < self.fleet.batch_size:
            wait = self.fleet.batch_wait
            self._batch = asyncio.get_running_loop().call_later(wait, self._end_batch)
        if self._batch is not None and self.waiting:
            self._start_workers()
        self.dispatch()

    def dispatch(self) -> None:
        """Give calls to workers as far as there is room, and start more if needed."""
        is_collecting = self._batch is not None and len(self.waiting) < self.fleet.batch_size
        if self._is_closed or is_collecting:
            return
        while self.waiting:
            worker = max(self.workers.values(), key=_room_of, default=None)
            if worker is None or (room := worker.room) <= 0:
                break
            count = min(self.fleet.batch_size or self._share_of(room), room, len(self.waiting))
            worker.begin([self.waiting.popleft() for _ in range(count)])
        if self.waiting:
            self._start_workers()

    def _share_of(self, room: int) -> int:
        """Return how many calls the worker with the most room takes before the others have some."""
        return -(-min(room, len(self.waiting)) // max(1, len(self.workers)))

    def note_free(self, worker: FleetWorker) -> None:
        """Give a worker that has room the next call, or let it be idle."""
        if not worker.calls and self.gives_up_one:
            self.gives_up_one = False
            self.end_worker(worker)
        if self.waiting:
            self.dispatch_soon()
        elif self._is_retired and not worker.calls:
            self.end_worker(worker)
        if not worker.calls:
            worker.idle_since = asyncio.get_running_loop().time()
            if self._tidying is None:
                self._tidy_later(self.fleet.idle_time)

    def abandon_worker(self, worker: FleetWorker) -> None:
        """Count no more on a worker that ends none of its calls: it may never do."""
        if worker.has_live_calls:
            return
        self._abandoned.append(worker)
        self.end_worker(worker)
        self.dispatch()

    def end_worker(self, worker: FleetWorker) -> None:
        """End a worker that has no calls, or whose calls are given up."""
        self.workers.pop(worker.number, None)
        self.connection.end_worker(worker.number)

    def remove(self, worker: FleetWorker, error: Exception | None) -> None:
        """Forget a worker that has ended; with an error, the calls that wait end with it."""
        self.workers.pop(worker.number, None)
        if error is not None and not any(each.ready for each in self.workers.values()):
            self.failed_starts = 0
            self.fail_waiting(error)
        elif not self._is_closed:
            self.dispatch()

    def note_obstacle(self, error: Exception) -> None:
        """Let the calls end that none of its workers can run, as one has shown that had started."""
        if isinstance(error, DefinitionMismatchError):
            # What its other workers have imported may be the former code.
            self._owner.doubt_code(self, error)
        else:
            self.refuse_waiting(error)

    def refuse_waiting(self, error: Exception) -> None:
        """End the calls that wait, unless it has a worker that can run them."""
        if not any(each.ready for each in self.workers.values()):
            self.failed_starts = 0
            self.fail_waiting(error)

    def move_waiting(self, other: Line) -> None:
        """Have another line run the calls that wait, and end once the others have ended."""
        waiting, self.waiting = self.waiting, deque()
        for call in waiting:
            other.enter(call)
        self.retire()

    def retire(self) -> None:
        """End the workers once the calls that are here have ended: another line takes new ones."""
        self._is_retired = True
        if not self.waiting:
            for worker in [each for each in self.workers.values() if not each.calls]:
                self.end_worker(worker)

    def end_idle(self) -> bool:
        """End the worker that is idle for longest, unless it is to stay; False: none is."""
        idle = [each for each in self.workers.values() if each.ready is not None and not each.calls]
        if not idle or self.waiting or len(self.workers) <= self.fleet.min_workers:
            return False
        self.end_worker(min(idle, key=lambda each: each.idle_since))
        return True

    def fail_waiting(self, error: Exception) -> None:
        waiting, self.waiting = self.waiting, deque()
        for call in waiting:
            call.fail(error)

    def close(self) -> None:
        """Begin with no more calls, and start no more workers."""
        self._is_closed = True
        self.hunger.end_looking()
        for each in (self._batch, self._tidying, self._joining):
            if each is not None:
                each.cancel()

    def fail_all(self, words: str) -> None:
        """End all calls: their workers have ended."""
        self.fail_waiting(ToolExecutionError(words))
        for worker in [*self.workers.values(), *self._abandoned]:
            worker.lose(words)

    def find_obstacle(self, ready: Ready) -> Exception | None:
        """Return why a worker that has started cannot be used."""
        wanted = self._settings
        if ready.answer is None:
            return DefinitionMismatchError(
                f"the node {ready.node} has tool-engine {ready.version} and Python {ready.python}, "
                f"and this engine has tool-engine {wanted['version']} and Python "
                f"{wanted['python']}; install the same on all nodes",
                is_final=True,
            )
        fault = ready.answer.error
        if fault is None:
            return None
        if fault.type == _OTHER_CODE:
            return DefinitionMismatchError(
                f"the code of {self.entry.module} on the node {ready.node} is not this engine's: "
                "deploy the same version there, or ship it with entry.config.runtime",
                is_final=True,
            )
        made = WorkerLostError if fault.kind == "lost" else ToolExecutionError
        return made(f"{word_import_fault(fault, self.entry)} (on {ready.node})")

    def word_fault(self, fault: Fault, worker: FleetWorker) -> Exception:
        """Return what a call ends with."""
        if fault.kind == "lost":
            where = "" if worker.ready is None else f" (on {worker.ready.node})"
            return WorkerLostError(f"{fault.message}{where}")
        return make_exception(fault, self.entry)

    def _end_batch(self) -> None:
        self._batch = None
        self.dispatch()

    def _start_workers(self) -> None:
        """Start as many workers as the calls that wait can use."""
        if not self.connection.is_joined:
            if self._joining is None:
                self._joining = asyncio.create_task(self._join_again())
            return
        if self._find_lack():
            # What can hold them may have been added a moment ago.
            self.connection.look_again(self._refuse_lacking)
            return
        known = [each for each in self.workers.values() if each.ready is not None]
        capacity = max((each.capacity for each in known), default=0)
        # Before the first one it is not known how many calls one takes.
        useful = -(-len(self.waiting) // capacity) if capacity else 1
        wanted = max(useful - self.starting, self.fleet.min_workers - len(self.workers))
        options = self._make_options()
        for _ in range(min(wanted, self.fleet.max_workers - len(self.workers))):
            worker = FleetWorker(self)
            worker.number = self.connection.start_worker(worker, options, self._settings)
            self.workers[worker.number] = worker
        if self.starting:
            self.hunger.begin_looking()

    async def _join_again(self) -> None:
        """Join the fleet for calls that waited when it was lost: nothing of them has run."""
        try:
            await self.connection.join()
        except ToolEngineError as error:
            self.fail_waiting(error)
        finally:
            self._joining = None
        self.dispatch_soon()

    def _make_options(self) -> dict[str, Any]:
        fleet = self.fleet
        options: dict[str, Any] = {"num_cpus": fleet.cpus, "num_gpus": fleet.gpus}
        if fleet.memory:
            options["memory"] = fleet.memory
        if fleet.others:
            options["resources"] = fleet.others
        if fleet.runtime:
            options["runtime_env"] = fleet.runtime
        return options

    def seek_room(self) -> None:
        """Have others give up a worker for one of its own that has no place."""
        if self._find_lack():
            self.connection.look_again(self._refuse_lacking)
        else:
            self._owner.make_room(self)

    def _tidy_later(self, seconds: float) -> None:
        self._tidying = asyncio.get_running_loop().call_later(seconds, self._tidy_up)

    def _tidy_up(self) -> None:
        """End workers that were idle for their time."""
        self._tidying = None
        now, wait = asyncio.get_running_loop().time(), self.fleet.idle_time
        idle = [each for each in self.workers.values() if each.ready is not None and not each.calls]
        for worker in idle:
            if worker.idle_since + wait <= now and len(self.workers) > self.fleet.min_workers:
                self.end_worker(worker)
        left = [each.idle_since for each in idle if each.number in self.workers]
        if left and len(self.workers) > self.fleet.min_workers:
            self._tidy_later(max(0.1, min(left) + wait - now))


def _room_of(worker: FleetWorker) -> int:
    return worker.room


def _write_each(calls: dict[int, FleetCall], requests: list[dict[str, Any]]) -> bytes:
    """Return the list of the calls that can be sent; the others end, and are left out."""
    written = []
    for request in requests:
        try:
            written.append(write_request(request))
        except ToolExecutionError as error:
            calls.pop(request["id"]).fail(error)
    return join_items(written)
