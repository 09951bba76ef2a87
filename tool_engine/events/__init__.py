"""How do subscribers receive what happens in the engine?"""

from tool_engine.events.bus import EventBus, Subscription
from tool_engine.events.log import EventLog
from tool_engine.events.memory import MemoryEventStorage
from tool_engine.events.stream import EventStream
from tool_engine.events.subscriber import EventFailure

__all__ = [
    "EventBus",
    "EventFailure",
    "EventLog",
    "EventStream",
    "MemoryEventStorage",
    "Subscription",
]
