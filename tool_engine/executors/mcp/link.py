"""What is known of one connection to a server, and which messages pass on it?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Self

from mcp_types import JSONRPCResponse, Tool
from pydantic import BaseModel, ValidationError

from tool_engine.executors.mcp.faults import BREAK, LAST_WORDS
from tool_engine.executors.mcp.invalid import describe_invalid
from tool_engine.executors.mcp.known_content import keep_known, put_away
from tool_engine.executors.mcp.stdio import StdioTransport
from tool_engine.model.trace import trace_headers

TOOLS_AT_ONCE: Final = 500
"""Tools of a list that are looked at before others have their turn."""
_CALL: Final = "tools/call"


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
        self.listed: list[str] = []
        """The names of the last page of the list, as far as they are tools."""
        self.models: tuple[type[BaseModel], ...] = (Tool,)
        """What each tool has to be: one that is none would have the SDK refuse the whole list."""
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
        words = BREAK.join(filter(None, map(str.strip, self.stdio.last_words().splitlines())))
        return f"{self.stdio.fault}{LAST_WORDS}{words}" if words else str(self.stdio.fault)

    def find_fault(self) -> str:
        """Return why the connection has ended."""
        return self.fault or "the connection ended"


class WatchedTransport:
    """A transport that notes its end, leaves bad tools out of lists, and keeps traces to itself.

    Args:
        inner: The transport.
        link: Hears of its end, and of the tools.
        host: Where it leads; None: to a process of this machine that we have started.
    """

    def __init__(self, inner: Any, link: Link, host: str | None) -> None:
        self._inner = inner
        self._link = link
        self._host = host

    async def __aenter__(self) -> tuple[Any, Any]:
        reads, writes = await self._inner.__aenter__()
        return _WatchedReads(reads, self._link), _DiscreetWrites(writes, self._host)

    async def __aexit__(self, *error: object) -> Any:
        return await self._inner.__aexit__(*error)


class _DiscreetWrites:
    """What is written to a server: of the SDK's trace context, only what the server may know."""

    def __init__(self, inner: Any, host: str | None) -> None:
        self._inner = inner
        self._host = host

    async def send(self, item: Any) -> None:
        message = item.message
        params = getattr(message, "params", None)
        if params and "_meta" in params:
            self._hide_trace(params["_meta"], is_call=message.method == _CALL)
        await self._inner.send(item)

    def _hide_trace(self, meta: dict[str, Any], *, is_call: bool) -> None:
        # Baggage is of the program, and may say who its user is.
        meta.pop("baggage", None)
        if "traceparent" not in meta:
            return
        # What connects is in the trace of what happened to need it first.
        if is_call and self._host is None:
            return
        del meta["traceparent"]
        meta.pop("tracestate", None)
        if is_call:
            meta.update(trace_headers(self._host))

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

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
        if isinstance(message, JSONRPCResponse):
            if isinstance(message.result.get("tools"), list):
                message.result["tools"] = await self._keep_tools(message.result["tools"])
            elif "content" in message.result:
                await keep_known(message.result)
                put_away(message.result)
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

    async def _keep_tools(self, listed: list[Any]) -> list[Any]:
        """Return the tools that are ones: a bad one must not hide the others."""
        kept: list[Any] = []
        for number, each in enumerate(listed):
            if number % TOOLS_AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                for model in self._link.models:
                    model.model_validate(each, by_name=False)
            except ValidationError as error:
                name = each.get("name") if isinstance(each, dict) else None
                self._link.faults[str(name)] = f"it is no tool: {describe_invalid(error)}"
            else:
                kept.append(each)
        self._link.listed = [each["name"] for each in kept]
        return kept
