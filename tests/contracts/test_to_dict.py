"""Does every public value become JSON values, whole, without secrets, and the same one again?"""

from __future__ import annotations

import inspect
import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import msgspec
import pytest

import tool_engine
from tests.contracts.test_settings import SETTINGS
from tool_engine import (
    AdaptivePolicy,
    AgentAnswer,
    AgentEvent,
    AgentEventType,
    ApprovalDecision,
    ApprovalRequest,
    BreakerPolicy,
    ChatRequest,
    ConcurrencyConfig,
    KeyLimits,
    OverloadPolicy,
    ParsedReply,
    Permission,
    Refusal,
    ReplyFinding,
    ResultLimits,
    RetryPolicy,
    SessionInfo,
    SessionResult,
    Skill,
    StopReason,
    StreamEvent,
    StreamEventType,
    Tool,
    ToolCall,
    ToolCallConfig,
    ToolCallCycleResult,
    ToolCallRecord,
    ToolCallSummary,
    ToolCategory,
    ToolConcurrency,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolEngineEventType,
    ToolExecutionContext,
    ToolExecutionResult,
    ToolGroup,
    ToolMatch,
    ToolParameter,
    ToolRate,
    Usage,
    ValidationError,
    ValidationResult,
    Variable,
)
from tool_engine.model.json.data import Data
from tool_engine.model.settings.retention import RecordRetention

NOON: Final = datetime(2026, 1, 2, 12, tzinfo=UTC)
KEY: Final = "sk-ant-api03-" + "Zb7" * 12
ODD: Final = {
    "api_key": "hunter2hunter2",
    "note": f"the key is {KEY}",
    "nan": math.nan,
    "date": NOON,
    "price": Decimal("1.50"),
    "inner": {1: "x", "1": "y"},
    "many": {1, 2},
    "bytes": b"x",
    "half": "\ud800",
    "huge": 10**5000,
    "object": object(),
}
"""Arguments and outputs of every kind that a program can come up with."""
DEFINITION: Final[dict[str, Any]] = {
    "name": "login",
    "version": "1.2.3",
    "description": "Logs in.",
    "category": "http",
    "tags": ["auth"],
    "parameters": [
        {"name": "user", "type": "string", "description": "Who.", "required": True},
        {
            "name": "word",
            "type": "string",
            "description": "What.",
            "required": True,
            "secret": True,
        },
    ],
    "entry": {
        "type": "builtin",
        "handler": "http_request",
        "request": {
            "method": "GET",
            "url": "https://example.com/login/{user}/{word}",
            "headers": {"Authorization": "Bearer ${env:TOKEN}"},
        },
    },
    "retry": {"attempts": 2},
    "effect": "read",
    "timeout": 3,
    "rate": "5/s",
    "concurrency": {"priority": 2},
}
TOOL: Final = ToolConfigLoader().from_mapping(DEFINITION)
RESULT: Final = ToolExecutionResult(True, "login", ODD, executed_at=NOON)
REQUEST: Final = ApprovalRequest(
    token="tok_1",
    session_id="s",
    tool_name="login",
    tool_version="1.2.3",
    definition_hash="",
    params={**ODD, "word": "correct horse", "user": "correct horse"},
    preview="logs in with correct horse",
    asked_at=1.0,
    expires_at=2.0,
    secret_names=("word",),
)
ANSWER: Final = AgentAnswer(
    text=f"It is {KEY}.",
    stop_reason=StopReason.COMPLETED,
    usage=Usage(),
    messages=[{"role": "user", "content": KEY}],
)
VALUES: Final[list[Any]] = [
    *(kind(**fields) for kind, fields in SETTINGS.items() if issubclass(kind, Data)),
    ANSWER,
    AgentEvent(type=AgentEventType.FINISHED, answer=ANSWER, request=REQUEST, result=RESULT),
    ApprovalDecision(is_approved=True),
    REQUEST,
    ChatRequest(messages=[ODD]),
    ConcurrencyConfig(
        bucket_limits={"token": 3},
        bucket_rates={"http": ToolRate(5, 1.0)},
        breakers={"password": BreakerPolicy(2)},
        adaptive={"http": AdaptivePolicy(max=9)},
        overload={"http": OverloadPolicy(target=0.2)},
        key_limits=KeyLimits(limit=2),
    ),
    ParsedReply(calls=[ToolCall(call_id="c", tool_name="t", arguments=ODD)], message=[ODD]),
    Permission(execution="ask_once"),  # type: ignore[arg-type]
    Refusal("rejected", "no", ODD),
    ReplyFinding(error_type="refusal", message="no"),
    ResultLimits(max_items=3),
    RetryPolicy(2),
    RESULT,
    SessionInfo(session_id="s", created_at=NOON, updated_at=NOON, size=1),
    SessionResult(True, "login", ODD, executed_at=NOON, final_text="x"),
    StreamEvent(type=StreamEventType.TOOL_CALL_START, tool_call_id="c"),
    TOOL,
    ToolCall(call_id="c", tool_name="t", arguments=ODD, raw='{"api_key": "hunter2hunter2"}'),
    ToolCallConfig(rules={"pay": "deny"}),  # type: ignore[dict-item]
    ToolCallCycleResult(
        parsed_requests=[],
        execution_results=[ToolExecutionResult(True, "t", executed_at=NOON)],
        reply=ParsedReply(),
        messages=[ODD],
    ),
    ToolCallRecord(
        "r", "login", ODD, ODD, 0.1, True, None, None, "direct", None, None, NOON, call_id="c"
    ),
    ToolCallSummary("c", 1, 1, 0, 100.0, {"login": 1}),
    ToolConcurrency(breaker=BreakerPolicy()),
    ToolEngineConfig(sources={"token": "sqlite:///a.db"}, records="sqlite:///calls.db"),
    ToolEngineConfig(records=f"postgresql://user:{KEY}@host/calls"),
    ToolEngineEvent(
        ToolEngineEventType.EXECUTION_COMPLETED,
        "login",
        TOOL,
        execution_result=RESULT,
        timestamp=NOON,
        data=ODD,
    ),
    ToolExecutionContext(caller_id="ann", variables=ODD, priority=3),
    ToolGroup(name="g", skills=(Skill(name="s", desc="d", prompt="p"),)),
    ToolMatch(TOOL, 1.0),
    TOOL.parameters[0],
    ToolRate(5, 2.0),
    ValidationError("headers.token", "type_mismatch", "no", "string", object()),
    ValidationResult(True, [], ODD),
    Variable(name="v", value="x"),
]
GIVEN: Final = (ToolExecutionResult, ToolCallConfig)
"""What is not for showing: the output belongs to who called the tool; settings are kept whole."""
WITHOUT: Final = {
    "CycleOptions": "functions, and the context of one program",
    "Presentation": "functions",
}
"""Public structures that are no data."""
OTHER_KEYS: Final = {Tool: "those of a definition", ValidationError: "those of results"}


def names(values: Any) -> str:
    return f"{type(values).__name__}"


def test_every_public_structure() -> None:
    """Whatever is data has `to_dict`, and the seven of the founding document are tried here."""
    public = [getattr(tool_engine, name) for name in tool_engine.__all__]
    kinds = [each for each in public if inspect.isclass(each) and issubclass(each, msgspec.Struct)]
    missing = [each.__name__ for each in kinds if not hasattr(each, "to_dict")]
    assert sorted(missing) == sorted(WITHOUT)
    tried = {type(each) for each in VALUES}
    assert tried >= {
        *(ToolExecutionContext, ToolCallSummary, ToolEngineEvent, ValidationResult, Tool),
        *(ToolEngineConfig, ConcurrencyConfig),
    }


@pytest.mark.parametrize("value", VALUES, ids=names)
def test_json_values(value: Any) -> None:
    """The result is JSON as the standard has it, and tells of no secret."""
    told = value.to_dict()
    text = json.dumps(told, allow_nan=False)
    assert json.loads(text) == told
    if not isinstance(value, GIVEN):
        assert "hunter2hunter2" not in text
        assert KEY not in text
        assert "correct horse" not in text


@pytest.mark.parametrize("value", VALUES, ids=names)
def test_keys(value: Any) -> None:
    """Its keys are the public fields; what an event does not have is left out."""
    if type(value) in OTHER_KEYS:
        return
    fields = {name for name in value.__struct_fields__ if not name.startswith("_")}
    told = set(value.to_dict())
    if isinstance(value, AgentEvent):
        assert told <= fields
    else:
        of_process = {"scope", "on_progress"} if isinstance(value, ToolExecutionContext) else set()
        assert told == fields - of_process


@pytest.mark.parametrize(
    "value",
    [
        *(kind(**fields) for kind, fields in SETTINGS.items() if issubclass(kind, Data)),
        ToolEngineConfig(
            sources={"token": "sqlite:///a.db"},
            records="sqlite:///calls.db",
            concurrency=ConcurrencyConfig(
                bucket_rates={"http": ToolRate(5, 1.5)},
                breakers={"password": BreakerPolicy(2)},
                key_limits=KeyLimits(limit=2),
            ),
            retention=RecordRetention(max_count=5),
        ),
        ToolExecutionContext(caller_id="ann", variables={"a": [1, None]}, priority=3, timeout=5.0),
        ToolConcurrency(key="tool", breaker=BreakerPolicy()),
        ToolParameter("a", "string", default=None, has_default=True),
    ],
    ids=names,
)
def test_goes_round(value: Any) -> None:
    """What it tells makes the same value again, in another process too."""
    told = json.loads(json.dumps(value.to_dict()))
    if not isinstance(value, ToolExecutionContext) or value.timeout != 30.0:
        assert type(value)(**told) == value
    assert type(value)(**told).to_dict() == told


def test_a_timeout_that_was_left_out() -> None:
    """A context that leaves the timeout to the tool goes on doing so."""
    again = ToolExecutionContext(**ToolExecutionContext().to_dict())
    assert again.timeout is None


async def test_a_tool_is_registered_again() -> None:
    """The mapping of a tool is a definition of the same tool, references to secrets included."""
    engine = ToolEngine(ToolEngineConfig(auto_reload=False))
    again = engine.register_tool(json.loads(json.dumps(TOOL.to_dict())))
    assert again.to_dict() == TOOL.to_dict()
    assert again.definition_hash == TOOL.definition_hash
    assert again.retry == TOOL.retry == RetryPolicy(2)
    await engine.close()


def test_a_tool_made_by_hand() -> None:
    """What no file could say is told as well as can be, and a secret default is not."""
    parameters = [ToolParameter("pin", "string", default="12345", secret=True)]
    tool = Tool("1", "t", "1", "d", ToolCategory.CUSTOM, [], parameters, {"made": object()})
    text = json.dumps(tool.to_dict(), allow_nan=False)
    assert "12345" not in text
    assert "[hidden]" in text


def test_nothing_belongs_to_the_value() -> None:
    """Whoever changes what they were given changes nothing else."""
    context = ToolExecutionContext(variables={"a": [1]})
    context.to_dict()["variables"]["a"].append(2)
    assert context.variables == {"a": [1]}
    result = ToolExecutionResult(True, "t", {"a": [1]})
    result.to_dict()["output"]["a"].append(2)
    assert result.output == {"a": [1]}
