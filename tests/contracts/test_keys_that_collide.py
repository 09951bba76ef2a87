"""Is every entry of a result still there where two of its keys are the same text?"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.calls.audit import EMPTY_FOLDER
from tool_engine import (
    AgentEvent,
    AgentEventType,
    ToolCall,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolSession,
    Variable,
    get_protocol,
)
from tool_engine.cli.console import json_text
from tool_engine.knowledge.snapshot import keep_beginning, restore_value, take_snapshot
from tool_engine.model.json.returned_value import copy_plain, to_text
from tool_engine.protocols.registry import PROTOCOLS
from tool_engine.redaction import redact
from tool_engine.session.reading.compression import compressed_args

ODD: Final[dict[Any, Any]] = {
    1: "odd_a",
    "1": "even_a",
    "1'": "even_b",
    None: "odd_b",
    "None": "even_c",
    "null": "even_d",
    False: "odd_c",
    "False": "even_e",
    "false": "even_f",
    1.5: "odd_d",
    "1.5": "even_g",
    (1, 2): "odd_e",
    "(1, 2)": "even_h",
    b"k": "odd_f",
    "b'k'": "even_i",
}
RESULT: Final = {"rows": [ODD], **ODD}


LIMITS: Final = ({"max_items": 50}, {"max_chars": 900}, {"select": "@"})


def check(told: Any) -> None:
    """Every entry is there, and those whose keys are texts have kept them."""
    text = json.dumps(told)
    for value in ODD.values():
        assert text.count(value) == 2, value
    for each in (told, told["rows"][0]):
        for key, value in ODD.items():
            if isinstance(key, str):
                assert each[key] == value


@pytest.mark.parametrize(
    "tell",
    [
        copy_plain,
        redact,
        lambda value: json.loads(to_text(value)),
        lambda value: json.loads(json_text(value)),
        lambda value: restore_value(take_snapshot(value)),
        lambda value: restore_value(keep_beginning(value)),
    ],
    ids=["plain", "redact", "to_text", "cli", "snapshot", "beginning"],
)
def test_forms(tell: Any) -> None:
    """Each form of a value has all of its entries."""
    check(tell(RESULT))


@pytest.mark.parametrize("limits", [{}, *({"result": each} for each in LIMITS)])
async def test_everywhere(limits: dict[str, Any]) -> None:
    """A result has all of its entries wherever it is told, and however it is limited."""
    engine = ToolEngine(ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False))
    definition = {"name": "t", "version": "1.0.0", "description": "d", "category": "custom"}
    engine.register_tool({**definition, "parameters": [], "effect": "read", **limits}, give)
    heard: list[ToolEngineEvent] = []
    engine.subscribe(heard.append)
    session = ToolSession(engine, "s")
    result = await session.execute("t")
    check(result.to_dict()["output"])
    check(json.loads(result.formatted_text))
    check(session.variables.get(result.result_variable or "").value)
    (record,) = await engine.query_call_records()
    check(record.result)
    check(record.to_dict()["result"])
    (ended,) = (each.execution_result for each in heard if each.execution_result is not None)
    check(ended.output)
    event = AgentEvent(type=AgentEventType.TOOL_RESULT, result=result).to_dict()
    check(event["result"]["output"])
    again = ToolSession.from_dict(json.loads(json.dumps(session.to_dict())), engine)
    check(again.variables.get(result.result_variable or "").value)
    plain_result = await engine.execute("t")
    plain_result.metadata["request_id"] = "c"
    call = ToolCall(call_id="c", tool_name="t", arguments={})
    for name in PROTOCOLS:
        wire = str(get_protocol(name).format_results([plain_result], [call]))
        for value in ODD.values():
            assert wire.count(value) == 2, (name, value)
    await engine.close()


async def give() -> Any:
    return RESULT


def test_in_variables_and_lines() -> None:
    """A variable that a program adds, and the line of a log, have all entries."""
    check(Variable(name="v", value=RESULT).to_dict()["value"])
    arguments: dict[Any, Any] = {1: "odd", "1": "even"}
    line = compressed_args(arguments, None, None)
    assert "odd" in line
    assert "even" in line
