"""A declarative tool engine for LLM agents: the public names."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tool_engine.admission.announcing import SlotEvent
from tool_engine.admission.bridge import ControllerBridge
from tool_engine.admission.controller import ToolConcurrencyController
from tool_engine.admission.metrics import ConcurrencyMetrics
from tool_engine.admission.snapshot import (
    ConcurrencySnapshot,
    HeldSlot,
    WaitExplanation,
    WaitingCall,
)
from tool_engine.catalog.generations import Generation
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.catalog.quarantine import QuarantinedTool
from tool_engine.config import ConcurrencyConfig, KeyLimits, ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.errors import (
    AdmissionError,
    CircuitOpenError,
    ConfigurationError,
    ControllerClosedError,
    DefinitionError,
    DefinitionProblem,
    DuplicateToolError,
    EngineClosedError,
    EventsExpiredError,
    EventsLostError,
    ExecutorNotFoundError,
    GenerationNotFoundError,
    LockFileError,
    MissingExtraError,
    QueueFullError,
    QueueTimeoutError,
    RateLimitedError,
    SlotRejectedError,
    SupersededError,
    ToolEngineError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolQuarantinedError,
    UnboundContextError,
)
from tool_engine.executors.builtin import EchoExecutor
from tool_engine.interfaces import ToolCallingProtocol, ToolExecutor
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.call import (
    ErrorType,
    Outcome,
    ToolCall,
    ToolExecutionContext,
    ToolExecutionResult,
    ValidationError,
    ValidationResult,
)
from tool_engine.model.concurrency import (
    BreakerPolicy,
    CollisionPolicy,
    ToolConcurrency,
    ToolRate,
)
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.model.match import ToolMatch
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.record import ToolCallRecord, ToolCallSummary
from tool_engine.model.result import CutStrategy, ResultLimits
from tool_engine.model.tool import RetryPolicy, Tool, ToolCategory
from tool_engine.validation.validator import ToolParameterValidator

if TYPE_CHECKING:
    from tool_engine.executors.calculator import CalculatorExecutor
    from tool_engine.model.reply import ParsedReply, ReplyFinding, StreamEvent, StreamEventType
    from tool_engine.protocols.cycle import ToolCallCycleResult, process_tool_calls
    from tool_engine.protocols.registry import get_protocol
    from tool_engine.protocols.running import CycleOptions
    from tool_engine.subagent import ToolSubAgent

__all__ = [
    "AdmissionError",
    "BreakerPolicy",
    "CalculatorExecutor",
    "CircuitOpenError",
    "CollisionPolicy",
    "ConcurrencyConfig",
    "ConcurrencyMetrics",
    "ConcurrencySnapshot",
    "ConfigurationError",
    "ControllerBridge",
    "ControllerClosedError",
    "CutStrategy",
    "CycleOptions",
    "DefinitionError",
    "DefinitionProblem",
    "DuplicateToolError",
    "EchoExecutor",
    "EngineClosedError",
    "ErrorType",
    "EventsExpiredError",
    "EventsLostError",
    "ExecutorNotFoundError",
    "Generation",
    "GenerationNotFoundError",
    "HeldSlot",
    "KeyLimits",
    "LockFileError",
    "MemoryStorage",
    "MissingExtraError",
    "Outcome",
    "ParsedReply",
    "QuarantinedTool",
    "QueueFullError",
    "QueueTimeoutError",
    "RateLimitedError",
    "ReplyFinding",
    "ResultLimits",
    "RetryPolicy",
    "SlotEvent",
    "SlotRejectedError",
    "StreamEvent",
    "StreamEventType",
    "SupersededError",
    "Tool",
    "ToolCall",
    "ToolCallCycleResult",
    "ToolCallRecord",
    "ToolCallSummary",
    "ToolCallingProtocol",
    "ToolCategory",
    "ToolConcurrency",
    "ToolConcurrencyController",
    "ToolConfigLoader",
    "ToolEngine",
    "ToolEngineConfig",
    "ToolEngineError",
    "ToolEngineEvent",
    "ToolEngineEventType",
    "ToolExecutionContext",
    "ToolExecutionError",
    "ToolExecutionResult",
    "ToolExecutor",
    "ToolKnowledgeStore",
    "ToolMatch",
    "ToolNotFoundError",
    "ToolParameter",
    "ToolParameterValidator",
    "ToolQuarantinedError",
    "ToolRate",
    "ToolSubAgent",
    "UnboundContextError",
    "ValidationError",
    "ValidationResult",
    "WaitExplanation",
    "WaitingCall",
    "get_protocol",
    "process_tool_calls",
]

_ON_FIRST_USE = {
    "CalculatorExecutor": "tool_engine.executors.calculator",
    "CycleOptions": "tool_engine.protocols.running",
    "ParsedReply": "tool_engine.model.reply",
    "ReplyFinding": "tool_engine.model.reply",
    "StreamEvent": "tool_engine.model.reply",
    "StreamEventType": "tool_engine.model.reply",
    "ToolCallCycleResult": "tool_engine.protocols.cycle",
    "ToolSubAgent": "tool_engine.subagent",
    "get_protocol": "tool_engine.protocols.registry",
    "process_tool_calls": "tool_engine.protocols.cycle",
}
"""Name -> where it is; what only some programs need is not loaded for all."""


if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> Any:
        if name not in _ON_FIRST_USE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_ON_FIRST_USE[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
