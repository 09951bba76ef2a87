"""Contexts, results and findings: their fields, defaults and forms."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tool_engine import (
    ConcurrencyConfig,
    ConfigurationError,
    Outcome,
    ToolCall,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolExecutionResult,
    ValidationError,
    ValidationResult,
)
from tool_engine.model.context_copy import DEFAULT_TIMEOUT


def test_context_fields() -> None:
    """K30: the document's fields, in its order, with its defaults."""
    context = ToolExecutionContext("me", "direct", "conv", "wf", 5.0, 1, 2, {"a": 1})
    assert (context.caller_id, context.caller_type) == ("me", "direct")
    assert (context.conversation_id, context.workflow_id) == ("conv", "wf")
    assert (context.timeout, context.retry_count, context.max_retries) == (5.0, 1, 2)
    assert context.variables == {"a": 1}
    empty = ToolExecutionContext()
    assert empty.timeout is DEFAULT_TIMEOUT
    assert empty.timeout == 30.0
    assert ToolExecutionContext(timeout=30.0).timeout is not DEFAULT_TIMEOUT
    assert empty.variables is not ToolExecutionContext().variables


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), "5", True])
def test_impossible_timeout(timeout: Any) -> None:
    """X12: a timeout is a positive, finite number of seconds, or None."""
    with pytest.raises(ConfigurationError, match="timeout must be a positive, finite number"):
        ToolExecutionContext(timeout=timeout)
    assert ToolExecutionContext(timeout=None).timeout is None


def test_impossible_retries() -> None:
    """K30: retries are not negative."""
    with pytest.raises(ConfigurationError, match="max_retries must be a whole number >= 0, got -1"):
        ToolExecutionContext(max_retries=-1)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("priority", "high", "priority must be a whole number"),
        ("priority", float("nan"), "priority must be a whole number"),
        ("priority", 1.5, "priority must be a whole number"),
        ("priority", True, "priority must be a whole number"),
        ("priority", 10**400, "got one of more than 300 digits"),
        ("retry_count", -1, "retry_count must be a whole number >= 0"),
        ("max_retries", 1.5, "max_retries must be a whole number >= 0"),
        ("variables", "x", "variables must be a mapping"),
        ("variables", [("a", 1)], "variables must be a mapping"),
        ("caller_type", 5, "caller_type must be a text"),
        ("timeout", "abc", "timeout must be a positive, finite number"),
        ("deadline", float("nan"), "deadline must be a number of seconds"),
        ("deadline", "9", "deadline must be a number of seconds"),
        ("deadline", True, "deadline must be a number of seconds"),
    ],
)
def test_impossible_fields(field: str, value: object, words: str) -> None:
    """K30: what would fail deep inside a call is refused when the context is made, and by name."""
    with pytest.raises(ConfigurationError, match=words):
        ToolExecutionContext(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", ["fifo", "priority", "fair"])
@pytest.mark.parametrize(("field", "value"), [("priority", "high"), ("timeout", "abc")])
async def test_impossible_fields_set_later(strategy: str, field: str, value: str) -> None:
    """K30: a context is looked at again by the call that gets it."""
    config = ToolEngineConfig("none", auto_reload=False)
    async with ToolEngine(config, concurrency=ConcurrencyConfig(strategy=strategy)) as engine:
        engine.register_tool({"name": "t", "description": "d"}, lambda: 1)
        context = ToolExecutionContext(caller_id="me")
        setattr(context, field, value)
        with pytest.raises(ConfigurationError, match=field):
            await engine.execute("t", {}, context)


def test_factories() -> None:
    """K31, K32: the contexts of a conversation agent and of a workflow node."""
    one = ToolExecutionContext.for_conversation("agent", "conv", timeout=3, priority=1)
    assert (one.caller_id, one.caller_type) == ("agent", "conversation_agent")
    assert (one.conversation_id, one.timeout, one.priority) == ("conv", 3, 1)
    two = ToolExecutionContext.for_workflow("wf", "node", variables={"x": 1})
    assert (two.caller_id, two.caller_type, two.workflow_id) == ("node", "workflow_node", "wf")
    assert two.variables == {"x": 1}


def test_result_fields() -> None:
    """K50: the document's fields, in its order, with their defaults."""
    result = ToolExecutionResult(True, "echo")
    assert (result.output, result.error, result.error_type) == ({}, None, None)
    assert (result.validation_errors, result.execution_time, result.metadata) == ([], 0.0, {})
    assert result.executed_at.tzinfo is UTC
    assert result.call_id is None
    assert result.outcome is Outcome.SUCCEEDED
    assert result.output is not ToolExecutionResult(True, "echo").output


def test_result_as_json() -> None:
    """K50: a result is JSON values, times in ISO 8601."""
    when = datetime(2026, 1, 2, tzinfo=UTC)
    result = ToolExecutionResult(
        False, "x", {}, "no", "timeout", executed_at=when, metadata={"call_id": "c1"}
    )
    shown = result.to_dict()
    assert json.loads(json.dumps(shown)) == shown
    assert shown["executed_at"] == "2026-01-02T00:00:00+00:00"
    assert (result.call_id, result.outcome) == ("c1", Outcome.TIMEOUT)


@pytest.mark.parametrize(
    ("path", "parameter"), [("a", "a"), ("a.b", "a"), ("a[2].b", "a"), ("", "")]
)
def test_finding(path: str, parameter: str) -> None:
    """K24: a finding knows its parameter, and its form in results has both names of its type."""
    finding = ValidationError(path, "type_mismatch", "wrong", "integer", "x")
    assert (finding.parameter, finding.type) == (parameter, "type_mismatch")
    assert finding.to_dict() == {
        "parameter": parameter,
        "path": path,
        "type": "type_mismatch",
        "error_type": "type_mismatch",
        "message": "wrong",
        "expected": "integer",
        "actual": "x",
        "level": "error",
    }


def test_validation_result() -> None:
    """K51: a result of validation, with fresh lists."""
    first = ValidationResult(True)
    assert (first.is_valid, first.errors, first.validated_params) == (True, [], {})
    assert first.warnings == []
    assert first.errors is not ValidationResult(True).errors


def test_call_is_a_value() -> None:
    """K50: a model's request is immutable and compares by value."""
    call = ToolCall(call_id="c", tool_name="echo", arguments={})
    assert call == ToolCall(call_id="c", tool_name="echo", arguments={})
    with pytest.raises(AttributeError):
        call.tool_name = "other"  # type: ignore[misc]
