"""How does a handler run on the machines of a fleet, while the engine stays in charge?"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.fleet.connection import FleetConnection
from tool_engine.executors.fleet.fleet_program import FleetCommands, program_entry_of
from tool_engine.executors.fleet.line import (
    DefinitionMismatchError,
    FleetCall,
    FleetWorker,
    Line,
)
from tool_engine.executors.fleet.versions import own_versions
from tool_engine.executors.python.handler_source import SourceError, source_text
from tool_engine.executors.python.importing import hash_of
from tool_engine.executors.python.process_backend import is_same_tool
from tool_engine.executors.python.python_entry import (
    PythonEntry,
    compile_entry,
    declared_of,
    is_place,
)
from tool_engine.interfaces import ExecutionBackend, ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool
from tool_engine.model.trace import trace_headers

_CLOSED: Final = "the engine was closed"
_WAITED: Final = (
    "it had not begun: it waited for a worker of the fleet; raise its timeout, or "
    "entry.config.max_workers"
)
_SECONDS_TO_GIVE_WAY: Final = 5
"""After so long a tool without a worker gets the only one of another: to start one takes less."""
_MOST_UNBEGUN: Final = 1000
"""Calls of which it is kept for a moment why they had not begun."""


class FleetBackend(ExecutionBackend):
    """The workers on a fleet of handlers with `isolation: ray`.

    Args:
        address: The setting `fleet`.
        approved: The hash of the code that was approved for a tool; None where any may run.
        find_tool: The engine's tool of a name, as it is now.
    """

    def __init__(
        self,
        address: str,
        approved: Callable[[Tool], str | None] = lambda _: None,
        find_tool: Callable[[str], Tool | None] = lambda _: None,
    ) -> None:
        self._approved = approved
        self._find_tool = find_tool
        self._entries = CompiledEntries(worker_entry_of)
        self.connection = FleetConnection(address, self._retire_former)
        self._lines: dict[str, tuple[Tool, str | None, Line]] = {}
        self._is_listed: dict[str, bool] = {}
        """Whether the tool of a line was the engine's when the line was made."""
        self._old: list[tuple[Tool, Line]] = []
        self._joining: set[str] = set()
        """Calls that wait until the fleet is joined."""
        self._unbegun: deque[tuple[str, str]] = deque(maxlen=_MOST_UNBEGUN)
        """Calls that were cancelled before they had begun, and why they had not."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where the lines and the connection live."""
        self._making = asyncio.Lock()
        """Held while a line is made: the calls that come meanwhile wait for the same one."""

    def __repr__(self) -> str:
        return f"FleetBackend({self.connection.address!r}, {self.list_lines()})"

    def takes(self, executor: ToolExecutor, tool: Tool) -> bool:
        """Return whether the tool's definition asks for a fleet."""
        del tool
        return getattr(executor, "isolation", None) == "ray"

    def leaves_on_cancel(self, executor: ToolExecutor) -> bool:
        """Return True: no caller waits for a fleet."""
        del executor
        return True

    def list_lines(self) -> list[Line]:
        """Return the workers and waiting calls, by definition."""
        return [line for _, line in self.named_lines()]

    def named_lines(self) -> list[tuple[str, Line]]:
        """Return the lines with the names of their tools."""
        return [
            *((name, line) for name, (_, _, line) in self._lines.items()),
            *((tool.name, line) for tool, line in self._old),
        ]

    def explain(self, call_id: str) -> str:
        """Say on which node a call is, or how many wait before it."""
        if call_id in self._joining:
            return f"it waits until the fleet {self.connection.address!r} is joined"
        for line in self.list_lines():
            ids = [call.context.call_id for call in line.waiting]
            if call_id in ids:
                return (
                    f"number {ids.index(call_id) + 1} of {len(ids)} in line for a worker of the "
                    f"fleet; workers: {len(line.workers)} of at most {line.fleet.max_workers}, "
                    f"starting: {line.starting}"
                )
            for worker in line.workers.values():
                if any(call.context.call_id == call_id for call in worker.calls.values()):
                    return _word_place(worker, call_id)
        return ""

    def explain_start(self, call_id: str) -> str:
        """Say why a call had not begun when it was cancelled; empty: it had, or is not known."""
        return dict(self._unbegun).get(call_id, "")

    def give_up(self, call_id: str) -> str:
        """Replace the worker of a cancelled call that has not ended for long: it stands still."""
        for line in self.list_lines():
            for worker in [*line.workers.values()]:
                given_up = [
                    call for call in worker.calls.values() if call.context.call_id == call_id
                ]
                for call in given_up:
                    call.is_given_up = True
                    line.abandon_worker(worker)
        return ""

    async def execute(
        self,
        executor: ToolExecutor,
        tool: Tool,
        params: dict[str, Any],
        context: ToolExecutionContext,
    ) -> Any:
        """Return the handler's value, as JSON values.

        Raises:
            ToolExecutionError: The handler failed, cannot be imported, or there is no worker.
            WorkerLostError: Its worker was lost while it may have run.
            DefinitionMismatchError: The nodes have other code, or other versions.
            MissingExtraError: Ray is not installed.
        """
        if isinstance(executor, FleetCommands):
            # It prepares what a worker does, and reads what that returns.
            return await executor.send(tool, params, context, self._run_call)
        return await self._run_call(tool, params, context)

    async def _run_call(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        if self._is_closed:
            raise ToolExecutionError(_CLOSED)
        self._follow_loop()
        call = FleetCall(params, context, trace_headers(), tool)
        if not self.connection.is_joined:
            await self._join_for(context.call_id or "")
        while (line := self._find_line(tool)) is None:
            async with self._making:
                if self._find_line(tool) is None:
                    await self._make_line(tool)
        line.enter(call)
        try:
            return await call.ended
        except asyncio.CancelledError:
            if not call.is_over and call.line is not None:
                if words := _WAITED if call in call.line.waiting else _word_turn(call):
                    self._unbegun.append((context.call_id or "", words))
                call.go_on()
                call.line.withdraw(call)
                await _outlast_call(call)
            raise

    async def join(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - of one caller
        """Join the fleet; see `FleetConnection.join`."""
        self._follow_loop()
        await self.connection.join(timeout)

    def _follow_loop(self) -> None:
        """Begin anew on another event loop: what waited on the one before has ended with it."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop and self._loop is not None:
            self.connection.abandon("the engine has gone to another event loop; use it on one")
            self.connection = FleetConnection(self.connection.address, self._retire_former)
            self._lines, self._old, self._joining = {}, [], set()
            self._tasks, self._making = set(), asyncio.Lock()
        self._loop = loop

    async def _join_for(self, call_id: str) -> None:
        self._joining.add(call_id)
        try:
            await self.connection.join()
        except asyncio.CancelledError:
            words = (
                f"it had not begun, for the fleet {self.connection.address!r} was still being "
                "joined, which takes seconds; join it before the first call with "
                "engine.fleet.join()"
            )
            self._unbegun.append((call_id, words))
            raise
        finally:
            self._joining.discard(call_id)

    async def close(self, timeout: float) -> int:  # noqa: ASYNC109 - as the interface has it
        """End all workers, whatever they do; after `timeout` the driver is killed."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        lines, self._lines, self._old = self.list_lines(), {}, []
        for line in lines:
            line.close()
        await self.connection.close(timeout)
        for line in lines:
            line.fail_all(_CLOSED)
        return 0

    def _find_line(self, tool: Tool) -> Line | None:
        known = self._lines.get(tool.name)
        if known is None or known[1] != self._approved(tool) or not is_same_tool(known[0], tool):
            return None
        return known[2]

    async def _make_line(self, tool: Tool) -> None:
        """Make the line of a definition; that of another one goes on until its calls have ended.

        Raises:
            ToolExecutionError: No node can ever hold one of its workers.
        """
        entry, approved = self._entries.of(tool), self._approved(tool)
        code = approved or await asyncio.to_thread(_hash_code, entry.module)
        versions = await asyncio.to_thread(own_versions)
        known = self._lines.get(tool.name)
        entry = msgspec.structs.replace(entry, approved=code)
        settings = {
            "entry": entry,
            "paths": [*sys.path],
            **versions,
        }
        if known is not None:
            self._retire_line(tool.name)
        self._lines[tool.name] = (tool, approved, Line(entry, self.connection, settings, self))
        self._is_listed[tool.name] = self._is_present(tool)

    def _retire_line(self, name: str) -> None:
        tool, _, line = self._lines.pop(name)
        line.retire()
        old = (*self._old, (tool, line))
        self._old = [each for each in old if each[1].workers or each[1].waiting]

    def _is_present(self, tool: Tool) -> bool:
        found = self._find_tool(tool.name)
        return found is not None and is_same_tool(tool, found)

    def _retire_former(self) -> None:
        """Let the workers go of tools that the engine has no more, or has changed."""
        for name, (tool, _, _) in [*self._lines.items()]:
            # Others are a conversation's own.
            if self._is_listed[name] and not self._is_present(tool):
                self._retire_line(name)

    def make_room(self, hungry: Line) -> None:
        """End an idle worker of another tool; else the tool with the most gives one up.

        After a while a tool without any gets the only one of another, at the end of its calls.
        """
        short = hungry.hunger.list_short(self.connection.free)
        others = [
            line
            for line in self.list_lines()
            if line is not hungry and any(name in line.fleet.resources for name in short)
        ]
        for line in others:
            if line.end_idle():
                hungry.hunger.note_room(line.fleet.resources)
                return
        most = max(others, key=lambda line: len(line.workers) - line.starting, default=None)
        if most is None:
            return
        surplus = len(most.workers) - most.starting - len(hungry.workers) + hungry.starting
        if surplus > 1 or (surplus == 1 and hungry.hunger.seconds >= _SECONDS_TO_GIVE_WAY):
            if not most.gives_up_one:
                hungry.hunger.note_room(most.fleet.resources)
            most.gives_up_one = True

    def doubt_code(self, line: Line, error: DefinitionMismatchError) -> None:
        """Have its calls run by the present code, if that has changed here, too."""
        task = asyncio.create_task(self._renew_line(line, error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _renew_line(self, line: Line, error: DefinitionMismatchError) -> None:
        try:
            code = await asyncio.to_thread(_hash_code, line.entry.module)
        except ToolExecutionError as gone:
            line.refuse_waiting(gone)
            return
        async with self._making:
            known = next((each for each in self._lines.values() if each[2] is line), None)
            if known is None or known[1] is not None or code == line.entry.approved:
                line.refuse_waiting(error)
                return
            await self._make_line(known[0])
        line.move_waiting(self._lines[known[0].name][2])


def worker_entry_of(tool: Tool) -> PythonEntry:
    """Return what the workers of a tool run: its function, or one that starts its program."""
    if is_place(tool.handler):
        return msgspec.structs.replace(compile_entry(tool), parameters=declared_of(tool))
    return program_entry_of(tool)


def _word_place(worker: FleetWorker, call_id: str) -> str:
    if (ready := worker.ready) is None:
        return ""
    place = f"on the node {ready.node}, in the worker {ready.pid}"
    call = next(each for each in worker.calls.values() if each.context.call_id == call_id)
    before = _count_before(call)
    return f"{place}, which runs one call at a time; before it: {before}" if before else place


def _word_turn(call: FleetCall) -> str:
    """Say why a call of a batch had not begun; empty: it had."""
    if not (before := _count_before(call)):
        return ""
    return (
        f"it had not begun: its worker runs one call of a batch at a time, and was to end {before} "
        "before it; raise its timeout or entry.config.max_workers, or lower batch.max_size"
    )


def _count_before(call: FleetCall) -> int:
    """Return how many calls in its worker have to end before this one can begin."""
    worker = call.worker
    if worker is None or worker.ready is None or worker.ready.answer is None:
        return 0
    # An async handler has all of them at once.
    is_shared = worker.ready.answer.value["is_async"]
    return 0 if is_shared else [*worker.calls].index(call.number)


async def _outlast_call(call: FleetCall) -> None:
    """Wait for the end of a call's work, whatever is cancelled meanwhile."""
    while not call.is_over:
        try:
            await asyncio.wait([call.ended])
        except asyncio.CancelledError:
            if call.is_given_up:
                return  # else a program that does not close its engine could never end


def _hash_code(module: str) -> str | None:
    try:
        text = source_text(module)
    except SourceError as error:
        raise ToolExecutionError(str(error)) from None
    return None if text is None else hash_of(text)
