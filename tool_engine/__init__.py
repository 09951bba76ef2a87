"""A declarative tool engine for LLM agents: the public names."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tool_engine.admission.announcing import SlotEvent
from tool_engine.admission.bridge import ControllerBridge
from tool_engine.admission.controller import ToolConcurrencyController
from tool_engine.admission.snapshot import (
    ConcurrencySnapshot,
    HeldSlot,
    WaitExplanation,
    WaitingCall,
)
from tool_engine.catalog.approval.quarantine import QuarantinedTool
from tool_engine.catalog.generations import Generation
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.config import ConcurrencyConfig, KeyLimits, ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.errors import (
    AdmissionError,
    ApprovalError,
    ChatModelError,
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
    LiveObjectError,
    LockFileError,
    MissingExtraError,
    QueueFullError,
    QueueTimeoutError,
    RateLimitedError,
    SessionConflictError,
    SessionError,
    SlotRejectedError,
    SupersededError,
    ToolConflictError,
    ToolEngineError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolQuarantinedError,
    UnboundContextError,
    VariableError,
)
from tool_engine.executors.builtin import EchoExecutor
from tool_engine.interfaces import ChatModel, ToolCallingProtocol, ToolExecutor
from tool_engine.interfaces.metrics import ConcurrencyMetrics
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.call import (
    Refusal,
    ToolCall,
    ToolExecutionContext,
    ToolExecutionResult,
    ValidationError,
    ValidationResult,
)
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.model.match import ToolMatch
from tool_engine.model.outcome import ErrorType, Outcome
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.record import ToolCallRecord, ToolCallSummary
from tool_engine.model.result import CutStrategy, ResultLimits
from tool_engine.model.settings.concurrency import (
    BreakerPolicy,
    CollisionPolicy,
    ToolConcurrency,
    ToolRate,
)
from tool_engine.model.tool import RetryPolicy, Tool, ToolCategory
from tool_engine.validation.validator import ToolParameterValidator

if TYPE_CHECKING:
    from tool_engine.agent.answer import AgentAnswer, StopReason
    from tool_engine.agent.events import AgentEvent, AgentEventType
    from tool_engine.agent.loop import AgentLoop
    from tool_engine.agent.models.recorded import RecordedModel
    from tool_engine.agent.models.registry import chat_model
    from tool_engine.approval.callback import CallbackApprover, DeferredApprover
    from tool_engine.approval.console import ConsoleApprover
    from tool_engine.approval.desk import EngineApprovals
    from tool_engine.approval.policy import PermissionRule
    from tool_engine.approval.queued import QueueApprover
    from tool_engine.executors.calculator import CalculatorExecutor
    from tool_engine.interfaces import (
        ApprovalStorage,
        Approver,
        CallScope,
        ChatModel,
        SessionStorage,
        StandingStorage,
    )
    from tool_engine.knowledge.approvals import MemoryApprovalStorage
    from tool_engine.knowledge.memory_sessions import MemorySessionStorage
    from tool_engine.model.approval import ApprovalDecision, ApprovalRequest, StandingDecision
    from tool_engine.model.chat import ChatRequest
    from tool_engine.model.content.pieces import (
        AudioContent,
        ImageContent,
        ResourceContent,
        ResourceLink,
        TextContent,
    )
    from tool_engine.model.group import Skill, ToolGroup
    from tool_engine.model.permission import ExecutionPolicy, Permission, ResultPolicy
    from tool_engine.model.reply import ParsedReply, ReplyFinding, StreamEvent, StreamEventType
    from tool_engine.model.session import SessionInfo
    from tool_engine.protocols.cycle import ToolCallCycleResult, process_tool_calls
    from tool_engine.protocols.cycle_options import CycleOptions
    from tool_engine.protocols.registry import get_protocol
    from tool_engine.session.bounds import Usage
    from tool_engine.session.config import ToolCallConfig
    from tool_engine.session.reading.presentation import Presentation, ReturnType
    from tool_engine.session.reading.result import ResultStatus, SessionResult, as_tool_call_result
    from tool_engine.session.session import ToolSession
    from tool_engine.session.variables.store import Variable, VariableKind, VariableStore
    from tool_engine.subagent import ToolSubAgent

__all__ = [
    "AdmissionError",
    "AgentAnswer",
    "AgentEvent",
    "AgentEventType",
    "AgentLoop",
    "ApprovalDecision",
    "ApprovalError",
    "ApprovalRequest",
    "ApprovalStorage",
    "Approver",
    "AudioContent",
    "BreakerPolicy",
    "CalculatorExecutor",
    "CallScope",
    "CallbackApprover",
    "ChatModel",
    "ChatModelError",
    "ChatRequest",
    "CircuitOpenError",
    "CollisionPolicy",
    "ConcurrencyConfig",
    "ConcurrencyMetrics",
    "ConcurrencySnapshot",
    "ConfigurationError",
    "ConsoleApprover",
    "ControllerBridge",
    "ControllerClosedError",
    "CutStrategy",
    "CycleOptions",
    "DeferredApprover",
    "DefinitionError",
    "DefinitionProblem",
    "DuplicateToolError",
    "EchoExecutor",
    "EngineApprovals",
    "EngineClosedError",
    "ErrorType",
    "EventsExpiredError",
    "EventsLostError",
    "ExecutionPolicy",
    "ExecutorNotFoundError",
    "Generation",
    "GenerationNotFoundError",
    "HeldSlot",
    "ImageContent",
    "KeyLimits",
    "LiveObjectError",
    "LockFileError",
    "MemoryApprovalStorage",
    "MemorySessionStorage",
    "MemoryStorage",
    "MissingExtraError",
    "Outcome",
    "ParsedReply",
    "Permission",
    "PermissionRule",
    "Presentation",
    "QuarantinedTool",
    "QueueApprover",
    "QueueFullError",
    "QueueTimeoutError",
    "RateLimitedError",
    "RecordedModel",
    "Refusal",
    "ReplyFinding",
    "ResourceContent",
    "ResourceLink",
    "ResultLimits",
    "ResultPolicy",
    "ResultStatus",
    "RetryPolicy",
    "ReturnType",
    "SessionConflictError",
    "SessionError",
    "SessionInfo",
    "SessionResult",
    "SessionStorage",
    "Skill",
    "SlotEvent",
    "SlotRejectedError",
    "StandingDecision",
    "StandingStorage",
    "StopReason",
    "StreamEvent",
    "StreamEventType",
    "SupersededError",
    "TextContent",
    "Tool",
    "ToolCall",
    "ToolCallConfig",
    "ToolCallCycleResult",
    "ToolCallRecord",
    "ToolCallSummary",
    "ToolCallingProtocol",
    "ToolCategory",
    "ToolConcurrency",
    "ToolConcurrencyController",
    "ToolConfigLoader",
    "ToolConflictError",
    "ToolEngine",
    "ToolEngineConfig",
    "ToolEngineError",
    "ToolEngineEvent",
    "ToolEngineEventType",
    "ToolExecutionContext",
    "ToolExecutionError",
    "ToolExecutionResult",
    "ToolExecutor",
    "ToolGroup",
    "ToolKnowledgeStore",
    "ToolMatch",
    "ToolNotFoundError",
    "ToolParameter",
    "ToolParameterValidator",
    "ToolQuarantinedError",
    "ToolRate",
    "ToolSession",
    "ToolSubAgent",
    "UnboundContextError",
    "Usage",
    "ValidationError",
    "ValidationResult",
    "Variable",
    "VariableError",
    "VariableKind",
    "VariableStore",
    "WaitExplanation",
    "WaitingCall",
    "as_tool_call_result",
    "chat_model",
    "get_protocol",
    "process_tool_calls",
]

_ON_FIRST_USE = {
    "AgentAnswer": "tool_engine.agent.answer",
    "AgentEvent": "tool_engine.agent.events",
    "AgentEventType": "tool_engine.agent.events",
    "AgentLoop": "tool_engine.agent.loop",
    "ApprovalDecision": "tool_engine.model.approval",
    "ApprovalRequest": "tool_engine.model.approval",
    "ApprovalStorage": "tool_engine.interfaces",
    "Approver": "tool_engine.interfaces",
    "AudioContent": "tool_engine.model.content.pieces",
    "CalculatorExecutor": "tool_engine.executors.calculator",
    "CallScope": "tool_engine.interfaces",
    "CallbackApprover": "tool_engine.approval.callback",
    "ChatModel": "tool_engine.interfaces",
    "ChatRequest": "tool_engine.model.chat",
    "ConsoleApprover": "tool_engine.approval.console",
    "CycleOptions": "tool_engine.protocols.cycle_options",
    "DeferredApprover": "tool_engine.approval.callback",
    "EngineApprovals": "tool_engine.approval.desk",
    "ExecutionPolicy": "tool_engine.model.permission",
    "ImageContent": "tool_engine.model.content.pieces",
    "MemoryApprovalStorage": "tool_engine.knowledge.approvals",
    "MemorySessionStorage": "tool_engine.knowledge.memory_sessions",
    "ParsedReply": "tool_engine.model.reply",
    "Permission": "tool_engine.model.permission",
    "PermissionRule": "tool_engine.approval.policy",
    "Presentation": "tool_engine.session.reading.presentation",
    "QueueApprover": "tool_engine.approval.queued",
    "RecordedModel": "tool_engine.agent.models.recorded",
    "ReplyFinding": "tool_engine.model.reply",
    "ResourceContent": "tool_engine.model.content.pieces",
    "ResourceLink": "tool_engine.model.content.pieces",
    "ResultPolicy": "tool_engine.model.permission",
    "ResultStatus": "tool_engine.session.reading.result",
    "ReturnType": "tool_engine.session.reading.presentation",
    "SessionInfo": "tool_engine.model.session",
    "SessionResult": "tool_engine.session.reading.result",
    "SessionStorage": "tool_engine.interfaces",
    "Skill": "tool_engine.model.group",
    "StandingDecision": "tool_engine.model.approval",
    "StandingStorage": "tool_engine.interfaces",
    "StopReason": "tool_engine.agent.answer",
    "StreamEvent": "tool_engine.model.reply",
    "StreamEventType": "tool_engine.model.reply",
    "TextContent": "tool_engine.model.content.pieces",
    "ToolCallConfig": "tool_engine.session.config",
    "ToolCallCycleResult": "tool_engine.protocols.cycle",
    "ToolGroup": "tool_engine.model.group",
    "ToolSession": "tool_engine.session.session",
    "ToolSubAgent": "tool_engine.subagent",
    "Usage": "tool_engine.session.bounds",
    "Variable": "tool_engine.session.variables.store",
    "VariableKind": "tool_engine.session.variables.store",
    "VariableStore": "tool_engine.session.variables.store",
    "as_tool_call_result": "tool_engine.session.reading.result",
    "chat_model": "tool_engine.agent.models.registry",
    "get_protocol": "tool_engine.protocols.registry",
    "process_tool_calls": "tool_engine.protocols.cycle",
}
"""Name -> where it is; what only some programs need is not loaded for all."""


if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            # Looked up when it is asked for: it takes longer than most modules of ours.
            return import_module("importlib.metadata").version("tool-engine")
        if name not in _ON_FIRST_USE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_ON_FIRST_USE[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
