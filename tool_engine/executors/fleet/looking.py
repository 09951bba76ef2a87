"""What can be seen of a fleet: its nodes, the workers of each tool, and the calls on their way?"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from tool_engine.executors.fleet.resources import find_lack, without_places

if TYPE_CHECKING:
    from tool_engine.executors.fleet.fleet_backend import FleetBackend
    from tool_engine.executors.fleet.line import Line


class FleetNode(msgspec.Struct, frozen=True):
    """One machine of a fleet."""

    id: str
    host: str
    address: str
    resources: dict[str, float] = {}
    """What there is of each, by Ray's names; `memory` in bytes."""


class WorkerState(msgspec.Struct, frozen=True):
    """One worker of a tool."""

    node: str | None
    """The host that it is on; None: it has not started."""
    pid: int | None
    calls: int
    """Those that it runs."""


class FleetTool(msgspec.Struct, frozen=True):
    """What one tool has of the fleet; a changed definition is a tool of its own for a while."""

    tool: str
    handler: str
    resources: dict[str, float]
    """What each worker takes of its node."""
    waiting: int
    """Calls that wait for a worker."""
    running: int
    """Calls that are with one."""
    workers: list[WorkerState]
    min_workers: int
    max_workers: int


class FleetSnapshot(msgspec.Struct, frozen=True):
    """A fleet as one engine sees it at one moment."""

    address: str
    """The setting `fleet`."""
    is_joined: bool
    python: str = ""
    ray: str = ""
    """The versions of Python and Ray that join the engine to it."""
    nodes: list[FleetNode] = []
    free: dict[str, float] = {}
    """What of all nodes no worker has, of this engine or of others, some seconds ago at most."""
    tools: list[FleetTool] = []

    @property
    def node_count(self) -> int:
        """How many machines there are."""
        return len(self.nodes)

    @property
    def waiting(self) -> int:
        """How many calls wait for a worker."""
        return sum(each.waiting for each in self.tools)

    @property
    def running(self) -> int:
        """How many calls are with a worker."""
        return sum(each.running for each in self.tools)

    @property
    def workers(self) -> int:
        """How many workers there are, those that start included."""
        return sum(len(each.workers) for each in self.tools)

    def find_lack(self, resources: dict[str, float]) -> str | None:
        """Say why no node can ever hold a worker with these resources; None: one can."""
        return find_lack(resources, [{"resources": each.resources} for each in self.nodes])

    def to_dict(self) -> dict[str, Any]:
        """Return the snapshot as JSON values."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values


class FleetView:
    """What can be seen of an engine's fleet: `engine.fleet`.

    Args:
        address: The setting `fleet`.
        find: Returns the backend, if there is one yet.
        open: Returns it in any case.
        run_at_home: Runs a coroutine on the loop of the calls.
        require_open: Raises, where the engine is closed.
    """

    def __init__(
        self,
        address: str,
        find: Callable[[], FleetBackend | None],
        open: Callable[[], FleetBackend],  # noqa: A002 - what it does
        run_at_home: Callable[[Callable[[], Coroutine[Any, Any, Any]]], Coroutine[Any, Any, Any]],
        require_open: Callable[[], object],
    ) -> None:
        self._address = address
        self._find = find
        self._open = open
        self._run_at_home = run_at_home
        self._require_open = require_open

    def __repr__(self) -> str:
        return f"FleetView({self.snapshot()!r})"

    async def join(self, timeout: float | None = None) -> FleetSnapshot:  # noqa: ASYNC109 - it ends
        """Join the fleet, as the first call of a tool on it does, and return what is there.

        It takes seconds, in a process of its own, while the event loop goes on.

        Args:
            timeout: Seconds after which it is given up; None: after three minutes, or as soon as
                it is known that it cannot be joined.

        Raises:
            MissingExtraError: Ray is not installed.
            EngineClosedError: The engine is closed.
            FleetLostError: It cannot be joined; the message says why, and what to look at.
        """
        self._require_open()
        await self._run_at_home(partial(self._open().join, timeout))
        return self.snapshot()

    def snapshot(self) -> FleetSnapshot:
        """Return the fleet as it was a moment ago; while it is not joined, without nodes."""
        backend = self._find()
        if backend is None:
            return FleetSnapshot(self._address, is_joined=False)
        connection = backend.connection
        tools = [_describe_line(name, line) for name, line in backend.named_lines()]
        if not connection.is_joined:
            return FleetSnapshot(self._address, is_joined=False, tools=tools)
        return FleetSnapshot(
            self._address,
            is_joined=True,
            **connection.versions,
            nodes=[msgspec.convert(each, FleetNode) for each in connection.nodes],
            free=without_places(connection.free),
            tools=tools,
        )


def _describe_line(name: str, line: Line) -> FleetTool:
    workers = [
        WorkerState(
            None if each.ready is None else each.ready.node,
            None if each.ready is None else each.ready.pid,
            len(each.calls),
        )
        for each in line.workers.values()
    ]
    return FleetTool(
        name,
        line.entry.place,
        line.fleet.resources,
        len(line.waiting),
        sum(each.calls for each in workers),
        workers,
        line.fleet.min_workers,
        line.fleet.max_workers,
    )
