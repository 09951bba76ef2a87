"""A declarative tool engine for LLM agents: the public names."""

from __future__ import annotations

from importlib import import_module

from tool_engine.late_names import find_later

TYPE_CHECKING = False
# The command line starts by way of this module, and is quiet at Ctrl-C only behind it.
if TYPE_CHECKING:
    from tool_engine.admission.announcing import SlotEvent
    from tool_engine.admission.bridge import ControllerBridge
    from tool_engine.admission.controller import ToolConcurrencyController
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
    from tool_engine.catalog.approval.quarantine import QuarantinedTool
    from tool_engine.catalog.generations import Generation
    from tool_engine.catalog.loader import ToolConfigLoader
    from tool_engine.config import ConcurrencyConfig, KeyLimits, ToolEngineConfig
    from tool_engine.engine import ToolEngine
    from tool_engine.errors import (
        AdmissionError,
        ApprovalConflictError,
        ApprovalError,
        ChatModelError,
        CircuitOpenError,
        ClusterUnavailableError,
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
        LeaseLostError,
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
        TaskConflictError,
        TaskError,
        TaskNotFoundError,
        ToolConflictError,
        ToolEngineError,
        ToolExecutionError,
        ToolNotFoundError,
        ToolQuarantinedError,
        TooManyTasksError,
        UnboundContextError,
        VariableError,
    )
    from tool_engine.executors.calculator import CalculatorExecutor
    from tool_engine.executors.echo import EchoExecutor
    from tool_engine.executors.mcp.mcp_source import MCPSource
    from tool_engine.executors.mcp.server_settings import MCPServerSettings
    from tool_engine.interfaces import (
        ApprovalStorage,
        Approver,
        CallScope,
        ChatModel,
        SessionStorage,
        StandingStorage,
        ToolCallingProtocol,
        ToolExecutor,
    )
    from tool_engine.interfaces.admission_view import (
        ConcurrencySnapshot,
        HeldSlot,
        WaitExplanation,
        WaitingCall,
    )
    from tool_engine.interfaces.metrics import ConcurrencyMetrics
    from tool_engine.knowledge.memory import MemoryStorage
    from tool_engine.knowledge.memory_approvals import MemoryApprovalStorage
    from tool_engine.knowledge.memory_sessions import MemorySessionStorage
    from tool_engine.knowledge.store import ToolKnowledgeStore
    from tool_engine.model.approval import ApprovalDecision, ApprovalRequest, StandingDecision
    from tool_engine.model.call import (
        Refusal,
        ToolCall,
        ToolExecutionContext,
        ToolExecutionResult,
        ValidationError,
        ValidationResult,
    )
    from tool_engine.model.chat import ChatRequest
    from tool_engine.model.content.pieces import (
        AudioContent,
        ImageContent,
        ResourceContent,
        ResourceLink,
        TextContent,
    )
    from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
    from tool_engine.model.group import Skill, ToolGroup
    from tool_engine.model.match import ToolMatch
    from tool_engine.model.outcome import ErrorType, Outcome
    from tool_engine.model.parameter import ToolParameter
    from tool_engine.model.permission import ExecutionPolicy, Permission, ResultPolicy
    from tool_engine.model.record import ToolCallRecord
    from tool_engine.model.reply import ParsedReply, ReplyFinding, StreamEvent, StreamEventType
    from tool_engine.model.result import CutStrategy, ResultLimits
    from tool_engine.model.session import SessionInfo
    from tool_engine.model.settings.cluster import ClusterConfig
    from tool_engine.model.settings.concurrency import (
        AdaptivePolicy,
        BreakerPolicy,
        CollisionPolicy,
        OverloadPolicy,
        ToolConcurrency,
        ToolRate,
    )
    from tool_engine.model.statistics import ToolCallSummary
    from tool_engine.model.task import TaskHandle, TaskState
    from tool_engine.model.tool import RetryPolicy, Tool, ToolCategory
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
    from tool_engine.validation.validator import ToolParameterValidator

__all__ = [
    "AdaptivePolicy",
    "AdmissionError",
    "AgentAnswer",
    "AgentEvent",
    "AgentEventType",
    "AgentLoop",
    "ApprovalConflictError",
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
    "ClusterConfig",
    "ClusterUnavailableError",
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
    "LeaseLostError",
    "LiveObjectError",
    "LockFileError",
    "MCPServerSettings",
    "MCPSource",
    "MemoryApprovalStorage",
    "MemorySessionStorage",
    "MemoryStorage",
    "MissingExtraError",
    "Outcome",
    "OverloadPolicy",
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
    "TaskConflictError",
    "TaskError",
    "TaskHandle",
    "TaskNotFoundError",
    "TaskState",
    "TextContent",
    "TooManyTasksError",
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

_MODULES = {
    "admission.announcing": "SlotEvent",
    "admission.bridge": "ControllerBridge",
    "admission.controller": "ToolConcurrencyController",
    "interfaces.admission_view": "ConcurrencySnapshot HeldSlot WaitExplanation WaitingCall",
    "agent.answer": "AgentAnswer StopReason",
    "agent.events": "AgentEvent AgentEventType",
    "agent.loop": "AgentLoop",
    "agent.models.recorded": "RecordedModel",
    "agent.models.registry": "chat_model",
    "approval.callback": "CallbackApprover DeferredApprover",
    "approval.console": "ConsoleApprover",
    "approval.desk": "EngineApprovals",
    "approval.policy": "PermissionRule",
    "approval.queued": "QueueApprover",
    "catalog.approval.quarantine": "QuarantinedTool",
    "catalog.generations": "Generation",
    "catalog.loader": "ToolConfigLoader",
    "config": "ConcurrencyConfig KeyLimits ToolEngineConfig",
    "engine": "ToolEngine",
    "errors": (
        "AdmissionError ApprovalConflictError ApprovalError ChatModelError "
        "CircuitOpenError ClusterUnavailableError ConfigurationError ControllerClosedError "
        "DefinitionError "
        "DefinitionProblem DuplicateToolError EngineClosedError EventsExpiredError "
        "EventsLostError ExecutorNotFoundError GenerationNotFoundError LeaseLostError "
        "LiveObjectError "
        "LockFileError MissingExtraError QueueFullError QueueTimeoutError "
        "RateLimitedError SessionConflictError SessionError SlotRejectedError "
        "SupersededError TaskConflictError TaskError TaskNotFoundError TooManyTasksError "
        "ToolConflictError ToolEngineError ToolExecutionError ToolNotFoundError "
        "ToolQuarantinedError UnboundContextError VariableError"
    ),
    "executors.echo": "EchoExecutor",
    "executors.calculator": "CalculatorExecutor",
    "executors.mcp.mcp_source": "MCPSource",
    "executors.mcp.server_settings": "MCPServerSettings",
    "interfaces": (
        "ApprovalStorage Approver CallScope ChatModel SessionStorage StandingStorage "
        "ToolCallingProtocol ToolExecutor"
    ),
    "interfaces.metrics": "ConcurrencyMetrics",
    "knowledge.memory": "MemoryStorage",
    "knowledge.memory_approvals": "MemoryApprovalStorage",
    "knowledge.memory_sessions": "MemorySessionStorage",
    "knowledge.store": "ToolKnowledgeStore",
    "model.approval": "ApprovalDecision ApprovalRequest StandingDecision",
    "model.call": (
        "Refusal ToolCall ToolExecutionContext ToolExecutionResult ValidationError ValidationResult"
    ),
    "model.chat": "ChatRequest",
    "model.content.pieces": "AudioContent ImageContent ResourceContent ResourceLink TextContent",
    "model.event": "ToolEngineEvent ToolEngineEventType",
    "model.group": "Skill ToolGroup",
    "model.match": "ToolMatch",
    "model.outcome": "ErrorType Outcome",
    "model.parameter": "ToolParameter",
    "model.permission": "ExecutionPolicy Permission ResultPolicy",
    "model.record": "ToolCallRecord",
    "model.reply": "ParsedReply ReplyFinding StreamEvent StreamEventType",
    "model.result": "CutStrategy ResultLimits",
    "model.session": "SessionInfo",
    "model.settings.cluster": "ClusterConfig",
    "model.settings.concurrency": (
        "AdaptivePolicy BreakerPolicy CollisionPolicy OverloadPolicy ToolConcurrency ToolRate"
    ),
    "model.statistics": "ToolCallSummary",
    "model.task": "TaskHandle TaskState",
    "model.tool": "RetryPolicy Tool ToolCategory",
    "protocols.cycle": "ToolCallCycleResult process_tool_calls",
    "protocols.cycle_options": "CycleOptions",
    "protocols.registry": "get_protocol",
    "session.bounds": "Usage",
    "session.config": "ToolCallConfig",
    "session.reading.presentation": "Presentation ReturnType",
    "session.reading.result": "ResultStatus SessionResult as_tool_call_result",
    "session.session": "ToolSession",
    "session.variables.store": "Variable VariableKind VariableStore",
    "subagent": "ToolSubAgent",
    "validation.validator": "ToolParameterValidator",
}
"""Module -> its public names, loaded at their first use: `--help` needs none."""


_find = find_later(__name__, _MODULES)


def _find_name(name: str) -> object:
    if name == "__version__":
        # Looked up when it is asked for: it takes longer than most modules of ours.
        return import_module("importlib.metadata").version("tool-engine")
    return _find(name)


if not TYPE_CHECKING:  # a type checker would take any name for one that is there
    __getattr__ = _find_name


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
