"""Does a call fail where its output is not as declared, and what is kept of a large one?"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.calls.audit import Audit, make_engine
from tests.calls.samples import bare
from tests.growth import growth_of
from tool_engine import ToolEngine, ToolExecutionContext, ToolExecutionResult
from tool_engine.calls.ready_output import UNCHECKED, choose_readying
from tool_engine.knowledge.snapshot import pack, restore_value
from tool_engine.model.event import ToolEngineEvent
from tool_engine.validation.output import OutputCheck

WEATHER = {
    "type": "object",
    "properties": {"temp": "number", "days": {"type": "array", "items": "integer"}},
}
RAW = {"type": "object", "properties": {"temp": {"type": "number"}}}
NULL = {"schema": {"type": ["string", "null"]}}


@dataclasses.dataclass
class Weather:
    temp: Any
    on: dt.date = dt.date(2026, 1, 2)


async def call(
    engine: ToolEngine, value: Any, output: Any = WEATHER, context: Any = None, **keys: Any
) -> ToolExecutionResult:
    if engine.get("give") is None:

        async def give() -> Any:
            return value

        engine.register_tool(
            bare("give", **({} if output is None else {"output": output}), **keys), give
        )
    return await engine.execute("give", {}, context)


@pytest.mark.parametrize(
    ("output", "value", "said"),
    [
        (WEATHER, {"temp": 3.5, "more": "x"}, ""),
        (WEATHER, {}, ""),
        (WEATHER, {"temp": "hot"}, "'output.temp' must be a number, got the string \"hot\""),
        (WEATHER, {"days": [1, "x"]}, "'output.days[1]' must be an integer"),
        (WEATHER, {"days": [1] * 20_000}, ""),
        (WEATHER, {"days": [1] * 20_000 + ["x"]}, "'output.days[20000]' must be an integer"),
        (WEATHER, "hot", "the output must be an object"),
        (WEATHER, None, "the output must be an object"),
        (WEATHER, Weather(3), ""),
        (WEATHER, Weather("hot"), "'output.temp' must be a number"),
        ({**WEATHER, "required": ["temp"]}, {}, "'output.temp' (number) is missing"),
        ({"type": "object", "properties": {"on": "string"}}, Weather(1), ""),
        ({"type": "object", "properties": {"on": "integer"}}, Weather(1), "'output.on' must be"),
        ({"type": "object", "properties": {"result": "number"}}, {"result": 1}, ""),
        ({"type": "object", "properties": {"result": "number"}}, 1, ""),
        ({"type": "object", "properties": {"name": NULL}}, {"name": None}, ""),
        ({"type": "object", "properties": {"name": NULL}}, {"name": 1}, "'output.name' must be"),
        ("array", (1, 2), ""),
        ("array", {"result": [1]}, ""),
        ("array", {"rows": [1]}, "the output must be an array"),
        ({"type": "array", "items": "number"}, [1, None], "'output[1]' must be a number"),
        ("string", {1, 2}, "the output must be a string"),
        ("object", "x", ""),
        ("any", "x", ""),
        (None, "x", ""),
        ({"schema": {"anyOf": [{"type": "null"}, RAW]}}, {"temp": 1}, ""),
        ({"schema": {"anyOf": [{"type": "null"}, RAW]}}, None, ""),
        ({"schema": {"anyOf": [{"type": "null"}, RAW]}}, {"temp": ""}, "the output must"),
        (
            {"schema": {**RAW, "additionalProperties": False}},
            {"a": 1},
            "'output.a' is not declared",
        ),
        ({"schema": {**RAW, "unevaluatedProperties": False}}, {"a": 1}, "'output"),
    ],
)
async def test_what_holds(
    engine: ToolEngine, audit: Audit, output: Any, value: Any, said: str
) -> None:
    """A mapping is held as it is, a lone value as itself; what differs has a place and a cure."""
    result = await call(engine, value, output)
    assert result.is_success is not bool(said)
    if said:
        assert result.error_type == "execution_error"
        assert said in str(result.error)
        assert str(result.metadata["error_details"]["output"][0]["path"]).startswith("output")


@pytest.fixture
async def engine() -> AsyncIterator[ToolEngine]:
    async with make_engine() as made:
        yield made


@pytest.mark.parametrize("value", [{"temp": "hot"}, {"temp": "hot", "days": [0] * 20_000}])
async def test_the_record_keeps_what_came(engine: ToolEngine, value: Any) -> None:
    """The result has the error, the record the value, and the event neither more nor less."""
    seen: list[ToolEngineEvent] = []
    engine.subscribe(seen.append)
    result = await call(engine, value)
    (record,) = await engine.query_call_records()
    assert (result.output, record.is_success, record.error) == ({}, False, result.error)
    assert record.result["temp"] == "hot"
    assert [each.event_type.value for each in seen][-1] == "execution_failed"


async def test_what_the_record_keeps_has_no_secrets(engine: ToolEngine) -> None:
    """A misfit that repeats a secret hides it, in its words and in its record."""

    async def give(pin: str) -> Any:
        return {"temp": f"hot {pin}"}

    spec = {"name": "pin", "type": "string", "description": "x", "secret": True, "required": True}
    engine.register_tool(bare("give", output=WEATHER, parameters=[spec]), give)
    result = await engine.execute("give", {"pin": "mysecretpin"})
    (record,) = await engine.query_call_records()
    assert "mysecretpin" not in f"{result} {record} {record.result}"
    assert "hot" in record.result["temp"]


async def test_the_modes(engine: ToolEngine) -> None:
    """With `warn` the result has a warning; with `off` nothing is looked at."""
    warned = await call(engine, {"temp": "hot"}, output_mode="warn")
    assert (warned.is_success, warned.output) == (True, {"temp": "hot"})
    (finding,) = warned.validation_errors
    assert (finding["level"], finding["path"]) == ("warning", "output.temp")
    engine.unregister_tool("give")
    free = await call(engine, {"temp": "hot"}, output_mode="off")
    assert (free.is_success, free.validation_errors) == (True, [])


async def test_a_misfit_is_not_tried_again(engine: ToolEngine) -> None:
    """The tool has done its work, and would return the same kind of value."""
    runs = []

    async def give() -> Any:
        runs.append(1)
        return {"temp": "hot"}

    retry = {"attempts": 3, "backoff": 0}
    engine.register_tool(bare("give", output=WEATHER, effect="read", retry=retry), give)
    result = await engine.execute("give", {}, ToolExecutionContext(max_retries=5))
    assert (result.error_type, len(runs)) == ("execution_error", 1)


async def test_a_breaker_counts_it(engine: ToolEngine) -> None:
    """A tool that breaks its word is out of order."""
    breaker = {"breaker": {"failures": 2, "reset_after": 60}}
    for expected in ("execution_error", "execution_error", "circuit_open"):
        result = await call(engine, {"temp": "hot"}, concurrency=breaker)
        assert result.error_type == expected


async def test_limits_apply_to_what_holds(engine: ToolEngine) -> None:
    """What `select` picks is what is declared; cutting comes after."""
    limits = {"select": "inner", "max_items": 2}
    good = await call(engine, {"inner": {"days": list(range(9))}}, result=limits)
    assert good.is_success
    assert len(good.output["days"]) < 9
    engine.unregister_tool("give")
    bad = await call(engine, {"inner": {"days": [*range(9), "x"]}}, result=limits)
    assert "'output.days[9]' must be an integer" in str(bad.error)
    (record, _) = await engine.query_call_records()
    assert record.result["inner"]["days"][-1] == "x"


async def test_followers_share_the_failure(engine: ToolEngine) -> None:
    """Each has the error, and its record the value."""
    goes_on = asyncio.Event()

    async def give() -> Any:
        await goes_on.wait()
        return {"temp": "hot"}

    single = {"collision": "single_flight"}
    engine.register_tool(bare("give", output=WEATHER, effect="read", concurrency=single), give)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        tasks = [group.create_task(engine.execute("give")) for _ in range(3)]
        await asyncio.sleep(0)
        goes_on.set()
    assert {task.result().error_type for task in tasks} == {"execution_error"}
    records = await engine.query_call_records()
    assert [record.result for record in records] == [{"temp": "hot"}] * 3


async def test_an_inner_call_fails_alike(engine: ToolEngine) -> None:
    """A tool that calls it gets the failure, not the value."""

    async def outer(context: ToolExecutionContext) -> Any:
        inner = await context.call("give")
        return {"error": inner.error_type, "output": inner.output}

    async def give() -> Any:
        return {"temp": "hot"}

    engine.register_tool(bare("give", output=WEATHER), give)
    engine.register_tool(bare("outer"), outer)
    result = await engine.execute("outer")
    assert result.output == {"error": "execution_error", "output": {}}


def test_the_work_grows_with_the_output() -> None:
    """A check of twice as much takes twice as long, with a misfit at the end, too."""
    check = OutputCheck({"type": "array", "items": {"type": "object", "required": ["id"]}})

    def make(size: int) -> Any:
        return {"result": [*({"id": number} for number in range(size)), {}]}

    assert growth_of(check.find_misfits, make, most=200_000).exponent < 1.5


async def test_a_tool_without_a_typed_output_pays_nothing(engine: ToolEngine) -> None:
    """The plan has the very function that makes an output, with nothing around it."""
    for output in (None, "any", "object", {"type": "object", "description": "x"}):
        if engine.get("give") is not None:
            engine.unregister_tool("give")
        await call(engine, {}, output)
        tool = engine.get("give")
        assert tool is not None
        assert choose_readying(tool) is UNCHECKED


async def test_a_large_output_is_cut_before_it_is_handed_over(engine: ToolEngine) -> None:
    """D20: of millions of values the record has the beginning, and nobody has to read them all."""
    handed: list[bytes] = []
    events: list[ToolEngineEvent] = []
    values = [number / 7 for number in range(300_000)]

    async def many() -> list[float]:
        return values

    def reading(data: bytes) -> Any:
        handed.append(data)
        return restore_value(data)

    engine.register_tool(bare("many"), many)
    engine.subscribe(events.append)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tool_engine.knowledge.entry.restore_value", reading)
        result = await engine.execute("many")
        assert handed == []
    assert result.output == {"result": values}
    event = events[-1]
    (record,) = await engine.store.query_call_records()
    assert record.result["_truncated"] == {"size": len(pack({"result": values}))}
    assert record.result["result"][:1_000] == values[:1_000]
    assert "more]" in record.result["result"][-1]
    assert event.execution_result is not None
    assert event.execution_result.output == record.result
