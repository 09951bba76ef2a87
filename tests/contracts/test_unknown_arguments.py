"""Does everything that a program makes with keywords name the near one of a wrong keyword?"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any, Final

import pytest

import tool_engine
from tool_engine import (
    ConfigurationError,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineError,
    ToolExecutionContext,
    ToolSubAgent,
)
from tool_engine.sources.combined_tools import CombinedTools

GIVEN: Final = {
    *("AgentAnswer", "AgentEvent", "ApprovalRequest", "ConcurrencyMetrics", "ConcurrencySnapshot"),
    *("DefinitionProblem", "EngineApprovals", "Generation", "HeldSlot", "ParsedReply"),
    *("QuarantinedTool", "Refusal", "TaskHandle", "TaskState"),
    *("ReplyFinding", "SessionInfo", "SessionResult", "SlotEvent", "StreamEvent", "ToolCall"),
    *("ToolCallCycleResult", "ToolCallRecord", "ToolCallSummary", "ToolEngineEvent"),
    *("ToolExecutionResult", "ToolMatch", "Usage", "ValidationError", "ValidationResult"),
    *("WaitExplanation", "WaitingCall"),
}
"""What the engine makes, and programs read."""
TAKES_NOTHING: Final = {"CalculatorExecutor", "DeferredApprover", "EchoExecutor"}
MADE: Final = [
    name
    for name in sorted(tool_engine.__all__)
    if name not in GIVEN | TAKES_NOTHING | {"MCPSource"}
    and isinstance(kind := getattr(tool_engine, name), type)
    and not issubclass(kind, Enum | BaseException)
    and not getattr(kind, "_is_protocol", False)
]


@pytest.mark.parametrize("name", MADE)
def test_a_wrong_keyword(name: str) -> None:
    """It is a `ConfigurationError` that says what there is, and nothing of what is inside."""
    with pytest.raises(
        ConfigurationError, match=r"has no (field|argument) 'no_such_thing'; it has"
    ) as caught:
        getattr(tool_engine, name)(no_such_thing=1)
    assert " _" not in str(caught.value).partition("; it has")[2]


def test_a_wrong_keyword_of_a_server() -> None:
    """Its keywords are those of its settings."""
    with pytest.raises(ConfigurationError, match=r"has no field 'no_such_thing'; it has"):
        tool_engine.MCPSource("notes", command=["notes"], no_such_thing=1)


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("ToolExecutionContext", "priorty", "priority"),
        ("ToolSubAgent", "max_histroy", "max_history"),
        ("ToolSession", "aprover", "approver"),
        ("Presentation", "is_hole", "is_whole"),
        ("ToolEngine", "confg", "config"),
    ],
)
def test_a_misspelt_keyword(name: str, wrong: str, right: str) -> None:
    """The near one is named."""
    with pytest.raises(ConfigurationError, match=f"did you mean '{right}'"):
        getattr(tool_engine, name)(**{wrong: 3})


def test_variables_have_names() -> None:
    """What no variable can be called is refused where it is given, and not where it is read."""
    variables: Any = {1: 2}
    with pytest.raises(ConfigurationError, match="keys of variables must be texts, got 1"):
        ToolExecutionContext(variables=variables)


@pytest.mark.parametrize("engine", ["no engine", None, object()])
def test_a_sub_agent_needs_an_engine(engine: Any) -> None:
    """As a session does."""
    with pytest.raises(ToolEngineError, match="a source must have get, list_all and execute"):
        ToolSubAgent("x", engine)


@pytest.mark.parametrize(
    "take",
    [
        lambda engine: ToolSubAgent("x", engine),
        lambda engine: tool_engine.ToolSession(engine, "s"),
        lambda engine: CombinedTools({"one": engine}),
    ],
)
async def test_a_class_is_no_engine(take: Any, tmp_path: Path) -> None:
    """The parentheses were forgotten: that is said, and with them it is taken."""
    with pytest.raises(ToolEngineError, match=r"got the class itself; write ToolEngine\(\)"):
        take(ToolEngine)
    async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine:
        take(engine)
