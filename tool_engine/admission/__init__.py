"""May a call run, and when? Slots, buckets, queues and rates."""

from tool_engine.admission.announcing import SlotEvent
from tool_engine.admission.controller import ToolConcurrencyController
from tool_engine.admission.slot import ConcurrencySlot
from tool_engine.interfaces.metrics import ConcurrencyMetrics

__all__ = ["ConcurrencyMetrics", "ConcurrencySlot", "SlotEvent", "ToolConcurrencyController"]
