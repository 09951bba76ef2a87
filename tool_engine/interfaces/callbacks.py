"""Which functions are passed to parts that may not know the engine?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tool_engine.model.event import ToolEngineEvent
from tool_engine.model.match import ToolMatch
from tool_engine.model.record import ToolCallRecord

EventCallback = Callable[[ToolEngineEvent], Awaitable[None] | None]
"""A subscriber: sync or async, called once per event; what it raises is logged, never passed on."""

SearchTools = Callable[[str, int], Sequence[ToolMatch]]
"""`ToolEngine.search_tools`; called from any thread."""

FindCall = Callable[[str], Awaitable[ToolCallRecord | None]]
"""`ToolKnowledgeStore.get_whole`."""
