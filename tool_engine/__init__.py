"""A declarative tool engine for LLM agents: the public names."""

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
from tool_engine.catalog.lock import QuarantinedTool
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
from tool_engine.executors.calculator import CalculatorExecutor
from tool_engine.interfaces import ToolExecutor
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
from tool_engine.subagent import ToolSubAgent
from tool_engine.validation.validator import ToolParameterValidator

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
    "QuarantinedTool",
    "QueueFullError",
    "QueueTimeoutError",
    "RateLimitedError",
    "ResultLimits",
    "RetryPolicy",
    "SlotEvent",
    "SlotRejectedError",
    "SupersededError",
    "Tool",
    "ToolCall",
    "ToolCallRecord",
    "ToolCallSummary",
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
]
