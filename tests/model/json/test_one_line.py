"""What people print first reads on one short line."""

from datetime import UTC, datetime

import pytest

from tool_engine import ToolConfigLoader, ToolEngineEvent, ToolEngineEventType, ToolExecutionResult
from tool_engine.model.json.returned_value import shorten_repr

LARGE = {"rows": [{"text": "x\n" * 5_000, "n": list(range(1_000))}] * 100, "b": {"c": {"d": {}}}}


@pytest.mark.parametrize("value", [LARGE, [LARGE] * 50, "a\nb" * 9_999, 10**3_000, {1, 2}, None])
def test_any_value_is_short(value: object) -> None:
    """No line break, and at most 160 characters, whatever its size and depth."""
    text = shorten_repr(value)
    assert text.isprintable()
    assert len(text) <= 160


def test_events_results_and_tools() -> None:
    """`engine.subscribe(print)` prints a line for each event, with what a reader looks for."""
    text = "name: look\ndescription: Looks.\nparameters:\n" + "".join(
        f"  - {{name: p{number}, type: string, description: {'x' * 500}}}\n" for number in range(30)
    )
    tool = ToolConfigLoader().load_text(text, "look.yaml")
    good = ToolExecutionResult(True, "look", LARGE, metadata={"call_id": "call-1"})
    bad = ToolExecutionResult(False, "look", {}, "no\nluck " * 500, "execution_error")
    when = datetime(2026, 1, 1, tzinfo=UTC)
    event = ToolEngineEvent(
        ToolEngineEventType.EXECUTION_COMPLETED,
        "look",
        tool,
        execution_result=good,
        timestamp=when,
        call_id="call-1",
        data={"bucket": "web", "caller_id": None, "more": LARGE},
    )
    for value, parts in (
        (tool, ("Tool('look' 1.0.0 from look.yaml, takes p0, p1,", "p7, …)")),
        (good, ("ToolExecutionResult('look' succeeded in 0 ms: {'rows'",)),
        (bad, ("ToolExecutionResult('look' failed in 0 ms: 'execution_error: no",)),
        (event, ("ToolEngineEvent(execution_completed 'look' call-1 output={", "bucket='web'")),
    ):
        shown = repr(value)
        assert all(part in shown for part in parts), shown
        assert shown.isprintable()
        assert len(shown) < 500
