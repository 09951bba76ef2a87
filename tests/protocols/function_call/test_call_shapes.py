"""Which calls are in one object of JSON, and which is never dropped for another one?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tool_engine import ToolConfigLoader
from tool_engine.model.call import ToolCall
from tool_engine.model.reply import ParsedReply
from tool_engine.protocols.function_call import FunctionCallProtocol

PAY: Any = {"name": "pay", "arguments": {"to": "ann"}}
REMOVE: Any = {"name": "remove", "arguments": {"to": "bob"}}
KNOWN = [
    ToolConfigLoader().from_mapping(
        {
            "name": name,
            "description": "d",
            "parameters": [{"name": "to", "type": "string", "description": "d"}],
        }
    )
    for name in ("pay", "remove")
]
WRAPPERS = ["function_call", "function", "tool_call", "tool_use", "call"]


def parse(value: Any, form: str = "<function_call>{}</function_call>") -> ParsedReply:
    return FunctionCallProtocol(tools=KNOWN).parse(form.replace("{}", json.dumps(value)))


def runnable(reply: ParsedReply) -> list[ToolCall]:
    return [call for call in reply.calls if call.is_runnable]


TWO_IN_ONE = [
    *({first: PAY, second: REMOVE} for first in WRAPPERS for second in WRAPPERS if first < second),
    *({second: PAY, first: REMOVE} for first in WRAPPERS for second in WRAPPERS if first < second),
    *({**PAY, key: REMOVE} for key in (*WRAPPERS, "tool", "type", "index", "id", "next")),
    *({**PAY, key: [REMOVE]} for key in ("tool_calls", "function_calls", "calls", "then")),
    {"function": PAY, "tool_calls": [REMOVE]},
    {"tool_calls": [PAY], "calls": [REMOVE]},
    {"tool_calls": [PAY], "other": REMOVE},
    {"function": PAY, "function_call": json.dumps(REMOVE)},
    {"function_call": {"function": PAY, "call": REMOVE}},
    {"tool_calls": [{"function": PAY, "call": REMOVE}]},
    {**PAY, "to": "bob"},
    {**PAY, "To": "bob"},
    {**PAY, "more": {"to": "bob"}},
    {"function": PAY, "arguments": {"to": "bob"}},
    {"function": PAY, "to": "bob"},
    {**PAY, **{f"word {number}": "so" for number in range(9)}},
    {"name": "unknown", "arguments": {}, "to": "bob"},
]


@pytest.mark.parametrize("form", ["<function_call>{}</function_call>", "{}", "[{}]"])
@pytest.mark.parametrize("value", TWO_IN_ONE, ids=json.dumps)
def test_what_may_be_a_second_call_is_not_dropped(value: Any, form: str) -> None:
    """None of two calls, or of two sets of arguments, in one object runs; that is an error."""
    reply = parse(value, form)
    assert runnable(reply) == []
    [call] = reply.calls
    [found] = [each for each in reply.findings if each.level == "error"]
    assert found.call_id == call.call_id
    assert "write each call as an object of its own" in found.message


@pytest.mark.parametrize("lost", ["text", 1, ["x"], {"x": 1}, {"a": {"b": {"c": {"d": REMOVE}}}}])
def test_an_entry_that_is_no_call_is_told(lost: Any) -> None:
    """The calls of a list run; what else is in it is an error, and not passed over."""
    reply = parse({"tool_calls": [PAY, lost, REMOVE]})
    assert [call.tool_name for call in runnable(reply)] == ["pay", "remove"]
    assert [each.level for each in reply.findings] == ["error"]


@pytest.mark.parametrize(
    ("value", "repairs"),
    [
        ({**PAY, "thought": "so"}, ["'thought' beside the call was left out"]),
        ({"thought": "so", "call": PAY}, ["'thought' beside the call was left out"]),
        ({**PAY, "function": None}, ["'function' beside the call was left out"]),
        ({"type": "function", "id": "1", "function": PAY, "index": 0}, []),
        ({"id": "1", "type": "tool_use", "name": "pay", "input": {"to": "ann"}}, []),
    ],
)
def test_what_cannot_be_meant_is_left_out(value: Any, repairs: list[str]) -> None:
    """A word beside a call that is neither a call nor a parameter does not stop it."""
    [call] = runnable(parse(value))
    assert (call.tool_name, call.arguments) == ("pay", {"to": "ann"})
    assert list(call.repairs) == repairs
