"""Where do handlers run that their definitions keep apart from the engine's process?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from tool_engine.errors import ToolExecutionError
from tool_engine.interfaces import ExecutionBackend
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool


class Places:
    """The backends by `entry.config.isolation`; each is made when it is first asked for.

    Args:
        makers: Make them.
    """

    def __init__(self, makers: Mapping[str, Callable[[], ExecutionBackend]]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, ExecutionBackend] = {}

    def __repr__(self) -> str:
        return f"Places({[*self._made.values()]}, of {sorted(self._makers)})"

    def add(self, isolation: str, make: Callable[[], ExecutionBackend]) -> None:
        """Have `make` make the backend of one isolation."""
        self._makers[isolation] = make

    def find_made(self, isolation: str) -> ExecutionBackend | None:
        """Return the backend of an isolation, if it was made."""
        return self._made.get(isolation)

    def find(self, isolation: object) -> ExecutionBackend | None:
        """Return the backend of an isolation; None: there is none, so that it runs here."""
        if not isinstance(isolation, str) or isolation not in self._makers:
            return None
        if isolation not in self._made:
            self._made[isolation] = self._makers[isolation]()
        return self._made[isolation]

    def explain_call(self, call_id: str) -> str:
        """Say where a call is that runs at one of them; empty: there is nothing to say."""
        return self._call_each("explain", call_id)

    def explain_start(self, call_id: str) -> str:
        """Say why a call has not begun whose time is up; empty: it has, or is not known."""
        return self._call_each("explain_start", call_id)

    def give_up(self, call_id: str) -> None:
        """Have what runs a call that does not end stand in the way of no other."""
        self._call_each("give_up", call_id)

    def _call_each(self, name: str, call_id: str) -> str:
        for each in self._made.values():
            explain: Callable[[str], str] | None = getattr(each, name, None)
            # Those that run calls on this machine have nothing to say.
            if explain is not None and (words := explain(call_id)):
                return words
        return ""

    async def close(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109 - what each may take
        """Close those that were made; each has `timeout` seconds for what it must wait for."""
        made, self._made = self._made, {}
        async with AsyncExitStack() as stack:
            for backend in made.values():
                stack.push_async_callback(backend.close, timeout)


class PlacedHandler:
    """Stands for handlers of one isolation: their place runs them.

    Args:
        isolation: What their definitions say.
        places: Where it is found.
    """

    def __init__(self, isolation: str, places: Places) -> None:
        self.isolation = isolation
        self._places = places

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        """Run it at its place; the plan of a call goes there without this step.

        Raises:
            ToolExecutionError: There is no such place.
        """
        backend = self._places.find(self.isolation)
        if backend is None:
            raise ToolExecutionError(
                f"{tool.name!r} has isolation: {self.isolation}, and nothing here runs that"
            )
        return await backend.execute(self, tool, params, context)
