"""What does a backend look like that runs tools elsewhere, where only JSON arrives?

An attempt has a number: what is lost is sent again under it, and what comes twice is not run twice.
"""

from __future__ import annotations

import asyncio
import json
from contextvars import Context
from functools import partial
from itertools import count
from typing import Any

from tests.contracts.doors.wire import PATIENCE, Wire
from tool_engine import Tool, ToolExecutionContext, ToolExecutionError
from tool_engine.backends import LocalBackend
from tool_engine.interfaces import ExecutionBackend, ToolExecutor
from tool_engine.model.json.returned_value import as_output

__all__ = ["FarBackend"]


class FarBackend(ExecutionBackend):
    """Sends each attempt to a worker over a bad line, and waits until its work has stopped.

    Args:
        wire: The line.
    """

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.worker = Worker(wire, self._hear)
        self.messages: list[str] = []
        """What was sent, once for each attempt."""
        self._numbers = count()
        self._answers: dict[int, asyncio.Future[Any]] = {}

    async def execute(
        self,
        executor: ToolExecutor,
        tool: Tool,
        params: dict[str, Any],
        context: ToolExecutionContext,
    ) -> Any:
        loop = asyncio.get_running_loop()
        number = next(self._numbers)
        self.worker.offer(tool, executor)
        message = json.dumps(
            {
                "number": number,
                "tool": tool.name,
                "definition_hash": tool.definition_hash,
                "arguments": params,
                "seconds_left": (context.deadline or 0.0) - loop.time(),
                "context": context.to_wire(),
            },
            allow_nan=False,
        )
        self.messages.append(message)
        answer = self._answers[number] = loop.create_future()
        self._insist(message, number, "run")
        is_cancelled = False
        while not answer.done():
            try:
                await asyncio.wait([answer])
            except asyncio.CancelledError:
                # The slot is held until the work has really stopped.
                is_cancelled = True
                self._insist(message, number, "cancel")
        del self._answers[number]
        said = answer.result()
        if is_cancelled:
            raise asyncio.CancelledError
        if said["error"] is not None:
            raise ToolExecutionError(said["error"])
        return said["output"]

    def takes(self, executor: ToolExecutor, tool: Tool) -> bool:
        """Tools that make calls stay where the engine is."""
        del executor
        return not tool.name.startswith("here_")

    def _insist(self, message: str, number: int, what: str) -> None:
        answer = self._answers.get(number)
        if answer is not None and not answer.done():
            self.wire.send(self.worker.hear, what, message)
            loop = asyncio.get_running_loop()
            loop.call_later(PATIENCE, self._insist, message, number, what)

    def _hear(self, message: str) -> None:
        said = json.loads(message)
        answer = self._answers.get(said["number"])
        if answer is not None and not answer.done():
            answer.set_result(said)


class Worker:
    """The other end: knows tools by their hash, and makes everything else of what it hears."""

    def __init__(self, wire: Wire, tell: Any) -> None:
        self.wire = wire
        self._tell = tell
        self._local = LocalBackend()
        self._known: dict[tuple[str, str], tuple[Tool, ToolExecutor]] = {}
        self.running: dict[int, asyncio.Task[dict[str, Any]]] = {}
        self.runs: list[int] = []
        """The attempts that were begun, in this order."""
        self._ended: dict[int, str] = {}
        self._cancelled: set[int] = set()

    def offer(self, tool: Tool, executor: ToolExecutor) -> None:
        """Loads a tool, as a worker has loaded the same folder."""
        self._known[tool.name, tool.definition_hash] = (tool, executor)

    def hear(self, what: str, message: str) -> None:
        request = json.loads(message)
        number = request["number"]
        if number in self._ended:
            self.wire.send(self._tell, self._ended[number])
        elif number in self.running:
            if what == "cancel":
                self._cancel(number)
        elif what == "cancel":
            self._end(number, error="it was cancelled before it came")
        else:
            self.runs.append(number)
            # Elsewhere nothing is known of the call but what the message says.
            task = asyncio.get_running_loop().create_task(self._run(request), context=Context())
            self.running[number] = task
            task.add_done_callback(partial(self._finish, number))
            asyncio.get_running_loop().call_later(request["seconds_left"], self._cancel, number)

    def _cancel(self, number: int) -> None:
        """At its deadline or when that is said, whichever comes first: once."""
        if number in self.running and number not in self._cancelled:
            self._cancelled.add(number)
            self.running[number].cancel()

    async def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        tool, executor = self._known[request["tool"], request["definition_hash"]]
        arguments, context = request["arguments"], ToolExecutionContext(**request["context"])
        if self._local.leaves_on_cancel(executor):
            return as_output(await asyncio.to_thread(executor.execute, tool, arguments, context))
        return as_output(await executor.execute(tool, arguments, context))

    def _finish(self, number: int, task: asyncio.Task[dict[str, Any]]) -> None:
        del self.running[number]
        if task.cancelled():
            self._end(number, "it was cancelled")
        elif (error := task.exception()) is not None:
            self._end(number, f"{type(error).__name__}: {error}")
        else:
            self._end(number, output=task.result())

    def _end(self, number: int, error: str | None = None, output: Any = None) -> None:
        self._ended[number] = json.dumps({"number": number, "error": error, "output": output})
        self.wire.send(self._tell, self._ended[number])
