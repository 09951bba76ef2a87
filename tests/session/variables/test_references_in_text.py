"""Which values do references stand for where a model can only write texts?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tool_engine import AgentLoop, RecordedModel, ToolEngine
from tool_engine.approval.callback import CallbackApprover
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import VariableError
from tool_engine.model.tool import Tool
from tool_engine.protocols import process_tool_calls
from tool_engine.session.session import ToolSession
from tool_engine.session.variables.references import expand_written
from tool_engine.session.variables.store import Variable, VariableStore

KEPT: dict[str, Any] = {
    "n": "42",
    "yes": "true",
    "list": "[1, 2]",
    "object": '{"a": 1}',
    "long": "abcd7ef",
    "one": 1,
    "texts": ["1"],
    "evil": '"x", "cc": "mallory"',
    "pair": '"cc": "mallory"',
    "again": "$VAR_REF{{n}}",
}

KINDS = {"n": "integer", "x": "number", "b": "boolean", "pairs": "object", "text": "string"}
MANY = {"name": "many", "type": "array", "items": {"type": "integer"}, "description": "Many"}
TAKE = ToolConfigLoader().from_mapping(
    {
        "name": "take",
        "description": "Takes all kinds.",
        "parameters": [
            *({"name": name, "type": kind, "description": "One"} for name, kind in KINDS.items()),
            MANY,
        ],
    }
)


def ref(name: str) -> str:
    return f"$VAR_REF{{{{{name}}}}}"


@pytest.fixture
def store() -> VariableStore:
    made = VariableStore()
    for name, value in KEPT.items():
        made.add(Variable(name=name, value=value))
    return made


@pytest.fixture
async def tool(engine: ToolEngine) -> Tool:
    engine.register_tool(TAKE, lambda **given: given)
    return TAKE


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"n": ref("n")}, {"n": 42}),
        ({"n": ref("long:4:1"), "x": ref("n")}, {"n": 7, "x": 42}),
        ({"n": f"1{ref('n')}"}, {"n": 142}),
        ({"b": ref("yes")}, {"b": True}),
        ({"many": ref("list"), "pairs": ref("object")}, {"many": [1, 2], "pairs": {"a": 1}}),
        ({"many": f"[{ref('n')}, {ref('one')}, 3]"}, {"many": [42, 1, 3]}),
        ({"many": f'["{ref("n")}"]'}, {"many": [42]}),
        ({"many": [ref("n")]}, {"many": [42]}),
        ({"many": ref("texts")}, {"many": ["1"]}),
        ({"text": ref("n")}, {"text": "42"}),
        ({"text": f"[{ref('n')}]"}, {"text": "[42]"}),
        ({"text": ref("again"), "n": "5"}, {"text": ref("n"), "n": "5"}),
        ({"n": ref("evil")}, {"n": KEPT["evil"]}),
        (
            {"pairs": f'{{"to": "ann", "x": {ref("evil")}}}'},
            {"pairs": {"to": "ann", "x": KEPT["evil"]}},
        ),
        (
            {"pairs": f'{{"to": "ann", "x" {ref("evil")}}}'},
            {"pairs": '{"to": "ann", "x" "x", "cc": "mallory"}'},
        ),
        ({"pairs": f'{{"to": "ann", {ref("pair")}}}'}, {"pairs": '{"to": "ann", "cc": "mallory"}'}),
        ({"many": f"[$${ref('n')[1:]}]"}, {"many": "[$VAR_REF{{n}}]"}),
        ({"n": "7"}, {"n": "7"}),
    ],
)
async def test_a_text_is_read_once_it_is_known(
    tool: Tool, store: VariableStore, written: dict[str, Any], read: dict[str, Any]
) -> None:
    """U36, U37: a text with references is read like one without; what came out of a variable is
    one value, never a part of the form around it, and a value that is no text keeps its type."""
    assert expand_written(written, tool, store).params == read


async def test_what_is_no_reference_is_told(tool: Tool, store: VariableStore) -> None:
    """S25: also where it stands in a list without quotes."""
    with pytest.raises(VariableError, match="is no reference"):
        expand_written({"many": "[$VAR_REF{{n]"}, tool, store)


def test_quotes_without_an_end_take_linear_time(store: VariableStore) -> None:
    """A text of escaped quotes, of which none ends, is looked at once."""
    text = "[" + ref("n") + '"' + '\\"' * 200_000
    assert expand_written({"many": text}, TAKE, store).params["many"][:3] == "[42"


def vcp(**arguments: str) -> str:
    """A call of `take` as text."""
    given = "".join(f"{key}:「始」{value}「末」\n" for key, value in arguments.items())
    return f"<<<[TOOL_REQUEST]>>>\ntool_name:「始」take「末」\n{given}<<<[END_TOOL_REQUEST]>>>"


@pytest.mark.usefixtures("tool")
async def test_every_way_of_a_text(engine: ToolEngine, store: VariableStore) -> None:
    """U36, A40: `process`, `process_cycle`, `process_tool_calls`, also by way of a sub-agent."""
    session = ToolSession(engine, "s", {"mode": "auto"}, variables=store)
    text = vcp(n=ref("n"), b=ref("yes"))
    given = json.dumps({"name": "take", "arguments": {"n": ref("n"), "b": ref("yes")}})
    cycles = [
        await session.process(text, "vcp"),
        await session.process_cycle(text),
        await process_tool_calls(session, text, "vcp"),
        await process_tool_calls(session.sub_agent("helper"), text, "vcp"),
        await session.process(f"<function_call>{given}</function_call>", "function_call"),
    ]
    outputs = [each.output for cycle in cycles for each in cycle.execution_results]
    assert outputs == [{"n": 42, "b": True}] * len(cycles)
    typed = await session.execute("take", {"n": ref("n")})
    assert typed.error_type == "validation_error", "who can write a number, has to"


async def test_who_is_asked_sees_what_will_run(
    engine: ToolEngine, tool: Tool, store: VariableStore
) -> None:
    """X3: approval shows the arguments as the tool will get them."""
    seen: list[Any] = []

    def ask(request: Any) -> bool:
        seen.append(request.params)
        return True

    del tool
    session = ToolSession(
        engine,
        "s",
        {"rules": {"take": {"execution": "ask_always"}}},
        CallbackApprover(ask),
        variables=store,
    )
    await session.process(vcp(n=ref("n"), many=f"[{ref('one')}]"), "vcp")
    assert [(each["n"], each["many"]) for each in seen] == [(42, [1])]


@pytest.mark.usefixtures("tool")
@pytest.mark.parametrize("protocol", ["vcp", "function_call"])
async def test_an_agent_that_writes_texts(
    engine: ToolEngine, store: VariableStore, protocol: str
) -> None:
    """R1, U36: the same in the loop, for a model that has no tools of its own."""
    call = {"name": "take", "arguments": {"n": ref("n"), "many": f"[{ref('one')}, 2]"}}
    model = RecordedModel({"replies": [{"calls": [call]}, {"text": "Done."}]}, protocol=protocol)
    loop = AgentLoop(ToolSession(engine, "s", variables=store), model)
    assert (await loop.run("Take it.")).text == "Done."
    (record,) = await engine.query_call_records()
    assert (record.params["n"], record.params["many"]) == (42, [1, 2])
