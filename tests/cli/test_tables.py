"""Tables show what they are given, whatever is in it."""

import pytest

from tool_engine.cli.console import make_console
from tool_engine.cli.tables import (
    event_text,
    fact_table,
    results_table,
    rules_text,
)
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory


def test_rules_of_a_parameter_are_all_listed() -> None:
    """The short rules, the raw schema, and that a value is secret."""
    parameter = ToolParameter(
        "key",
        "string",
        validation={"min_length": 3, "pattern": "^a"},
        schema={"format": "uri"},
        secret=True,
    )
    assert rules_text(parameter).splitlines() == [
        "min_length: 3",
        "pattern: ^a",
        'schema: {"format": "uri"}',
        "secret: true",
    ]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (ToolEngineEvent(ToolEngineEventType.LOAD_ERROR, error="a\n  b"), "a b"),
        (ToolEngineEvent(ToolEngineEventType.RELOAD_STARTED), ""),
        (
            ToolEngineEvent(
                ToolEngineEventType.RELOAD_COMPLETED,
                data={"generation": 2, "added": ["x", "y"], "removed": []},
            ),
            "generation: 2, added: x y",
        ),
        (ToolEngineEvent(ToolEngineEventType.LOAD_MENDED, data={"file": "tools/a.yaml"}), ""),
        (
            ToolEngineEvent(
                ToolEngineEventType.TOOL_TOGGLED, data={"is_enabled": True, "by": {"a": 1}}
            ),
            'is_enabled: true, by: {"a": 1}',
        ),
        (
            ToolEngineEvent(
                ToolEngineEventType.TOOL_ADDED,
                tool=Tool("i", "n", "3.0.0", "d", ToolCategory.AI, [], [], {}),
            ),
            "version 3.0.0",
        ),
    ],
)
def test_an_event_says_what_it_adds(event: ToolEngineEvent, text: str) -> None:
    """The error, the version or the data, on one line."""
    assert event_text(event) == text


def test_every_row_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Results and facts, with missing numbers left out."""
    console = make_console()
    failed = ToolExecutionResult(False, "b", error="\x1b[31mno", error_type="queue_full")
    succeeded = ToolExecutionResult(True, "a", {"x": 1}, metadata={"queue_wait": 0.5})
    console.print(results_table([succeeded, failed]))
    console.print(fact_table("facts", {"a": 1.23456, "b": "text", "c": [1]}))
    out = capsys.readouterr().out
    for part in ("500.0 ms", "rejected", "queue_full: \\x1b[31mno"):
        assert part in out
    for part in ("1.235", "text", "[1]"):
        assert part in out
    assert "\x1b" not in out
