"""What is known of one connection to a server, and which of its messages pass?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from mcp_types import JSONRPCResponse, Tool
from pydantic import ValidationError

from tool_engine.executors.mcp.invalid import describe_invalid
from tool_engine.executors.mcp.stdio import StdioTransport


class Link:
    """What is known of one connection, by its transport and by those who use it.

    Args:
        on_end: Called when it has ended.
    """

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self.is_lost = False
        self.faults: dict[str, str] = {}
        """What is wrong with single tools of the list, by name."""
        self.stdio: StdioTransport | None = None

    def end(self) -> None:
        """Have the connection given up."""
        self.is_lost = True
        self._on_end()

    @property
    def fault(self) -> str:
        """Why its program has ended, and what it wrote last; empty: unknown."""
        if self.stdio is None or self.stdio.fault is None:
            return ""
        words = self.stdio.last_words()
        return f"{self.stdio.fault}; its last words: {words}" if words else str(self.stdio.fault)

    def find_fault(self) -> str:
        """Return why the connection has ended."""
        return self.fault or "the connection ended"


class WatchedTransport:
    """A transport that notes its end, and leaves bad tools out of lists.

    Args:
        inner: The transport.
        link: Hears of both.
    """

    def __init__(self, inner: Any, link: Link) -> None:
        self._inner = inner
        self._link = link

    async def __aenter__(self) -> tuple[Any, Any]:
        reads, writes = await self._inner.__aenter__()
        return _WatchedReads(reads, self._link), writes

    async def __aexit__(self, *error: object) -> Any:
        return await self._inner.__aexit__(*error)


class _WatchedReads:
    def __init__(self, inner: Any, link: Link) -> None:
        self._inner = inner
        self._link = link

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> _WatchedReads:
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._inner.__anext__()
        except BaseException:
            self._link.end()
            raise
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCResponse) and isinstance(message.result.get("tools"), list):
            message.result["tools"] = self._keep_tools(message.result["tools"])
        return item

    async def receive(self) -> Any:
        return await self._inner.receive()

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self._inner.__aexit__(*error)

    def _keep_tools(self, listed: list[Any]) -> list[Any]:
        """Return the tools that are ones: a bad one must not hide the others."""
        kept = []
        for each in listed:
            try:
                Tool.model_validate(each, by_name=False)
            except ValidationError as error:
                name = each.get("name") if isinstance(each, dict) else None
                self._link.faults[str(name)] = f"it is no tool: {describe_invalid(error)}"
            else:
                kept.append(each)
        return kept
