"""How does a handler run apart from the engine, in worker processes with limits?

This backend is here, not among the others: it needs what ends the processes of commands.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands.command_executor import seconds_left
from tool_engine.executors.commands.own_thread import OwnThread
from tool_engine.executors.commands.supervisor import Bell
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.python.python_entry import compile_entry, declared_of
from tool_engine.executors.python.worker import Report
from tool_engine.executors.python.worker_pool import WorkerPool
from tool_engine.interfaces import ExecutionBackend, ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool
from tool_engine.model.trace import trace_headers

_TO_END: Final = 0.25
"""The most seconds of a call's time that are reserved to end its processes."""


class _Call(OwnThread[Any]):
    def __init__(
        self,
        pool: WorkerPool,
        params: dict[str, Any],
        context: dict[str, Any],
        timeout: float | None,
        trace: dict[str, str],
        hear: Callable[[Report], object],
    ) -> None:
        # The caller's deadline covers the whole run: reserve time to end the processes.
        super().__init__(None if timeout is None else timeout - min(_TO_END, timeout / 10))
        self._run = partial(pool.run, params, context, trace=trace, hear=hear)

    def work(self, deadline: float | None, bell: Bell) -> Any:
        return self._run(deadline=deadline, bell=bell)


class ProcessBackend(ExecutionBackend):
    """The worker processes of handlers with `isolation: process`, whose code may need approval."""

    def __init__(self, approved: Callable[[Tool], str | None] = lambda _: None) -> None:
        self._approved = approved
        self._entries = CompiledEntries(compile_entry)
        self._pools: dict[str, tuple[Tool, WorkerPool]] = {}

    def __repr__(self) -> str:
        return f"ProcessBackend({[pool for _, pool in self._pools.values()]})"

    async def execute(
        self,
        executor: ToolExecutor,
        tool: Tool,
        params: dict[str, Any],
        context: ToolExecutionContext,
    ) -> Any:
        """Return the handler's value, as JSON values.

        A cancelled call ends its worker process, with all that it started, before it passes on.

        Raises:
            ToolExecutionError: The handler failed, cannot be imported, or its process died.
            TimeoutError: It did not end in time; nothing of the call is left.
        """
        del executor
        wire, timeout = context.to_wire(), seconds_left(context)
        hear = partial(pass_on_report, context)
        pool = self._find_pool(tool)
        return await _Call(pool, params, wire, timeout, trace_headers(), hear).run()

    def takes(self, executor: ToolExecutor, tool: Tool) -> bool:
        """Return whether the tool's definition asks for processes."""
        del tool
        return getattr(executor, "isolation", None) == "process"

    async def close(self, timeout: float) -> int:  # noqa: ASYNC109 - as the interface has it
        """End the idle worker processes; the others end with their calls."""
        del timeout
        pools, self._pools = self._pools, {}
        if pools:
            await asyncio.to_thread(_close_pools, [pool for _, pool in pools.values()])
        return 0

    def _find_pool(self, tool: Tool) -> WorkerPool:
        known, approved = self._pools.get(tool.name), self._approved(tool)
        is_same = known is not None and is_same_tool(known[0], tool)
        if known is not None and is_same and known[1].entry.approved == approved:
            return known[1]
        if sys.platform != "linux":
            raise ToolExecutionError(
                f"isolation: process works on Linux only, this is {sys.platform}: nowhere else can "
                "it be made sure that nothing of a call is left"
            )
        # A changed definition gets new processes, with the present code.
        entry = self._entries.of(tool)
        pool = WorkerPool(replace(entry, approved=approved, parameters=declared_of(tool)))
        self._pools[tool.name] = (tool, pool)
        if known is not None:
            threading.Thread(target=known[1].close, name="tool-workers").start()
        return pool


def pass_on_report(context: ToolExecutionContext, report: Report) -> None:
    if context.bound_call is None:
        return
    if report.level is None:
        context.report_progress(report.done, report.total, report.message)
    else:
        context.log(report.message or "", report.level)


def is_same_tool(known: Tool, tool: Tool) -> bool:
    has_same_text = bool(tool.definition_hash) and tool.definition_hash == known.definition_hash
    return known is tool or has_same_text


def _close_pools(pools: list[WorkerPool]) -> None:
    for pool in pools:
        pool.close()
