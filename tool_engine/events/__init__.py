"""Stage 6, publish: who hears of what happens in the engine?"""

from tool_engine.events.bus import EventBus
from tool_engine.events.stream import EventStream
from tool_engine.events.subscriber import EventFailure

__all__ = ["EventBus", "EventFailure", "EventStream"]
