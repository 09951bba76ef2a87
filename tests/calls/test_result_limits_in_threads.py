"""What is shown, kept, told and read of outputs that are too long? On a real loop."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import UserDict
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.calls.audit import Audit
from tool_engine import ToolEngine, ToolExecutionContext, ToolExecutionResult
from tool_engine.output import to_text

ME = ToolExecutionContext.for_conversation("agent", "c1")
READER = {
    "name": "read_result",
    "description": "Reads on",
    "effect": "read",
    "parameters": [
        {"name": "call_id", "type": "string", "required": True, "description": "Call"},
        {"name": "path", "type": "string", "default": "", "description": "Where"},
        {"name": "offset", "type": "integer", "default": 0, "description": "From"},
        {"name": "limit", "type": "integer", "description": "How many"},
    ],
    "entry": {"type": "builtin", "handler": "read_result"},
}
ROWS = [{"id": number, "text": f"row {number} " + "x" * 90} for number in range(3_000)]


def add(
    engine: ToolEngine, name: str, handler: Callable[..., Any], limits: Any, **keys: Any
) -> None:
    definition = {"name": name, "description": "Returns much", "result": limits, **keys}
    engine.register_tool(definition, handler)


async def read(
    engine: ToolEngine, call_id: str | None, context: ToolExecutionContext = ME, **params: Any
) -> ToolExecutionResult:
    return await engine.execute("read_result", {"call_id": call_id, **params}, context)


async def whole_of(engine: ToolEngine, call_id: str | None, path: str = "") -> Any:
    """What pages give when they are put together."""
    pages, offset = [], 0
    while True:
        page = (await read(engine, call_id, path=path, offset=offset)).output
        pages.append(page)
        if page.get("next_offset") is None:
            break
        assert page["next_offset"] > offset
        offset = page["next_offset"]
    if page["kind"] == "value":
        return page["value"]
    if page["kind"] == "text":
        return "".join(each["text"] for each in pages)
    if page["kind"] == "list":
        return [entry for each in pages for entry in each["entries"]]
    return {key: entry for each in pages for key, entry in each["entries"].items()}


async def test_the_caller_gets_a_part_and_the_record_the_whole(
    engine: ToolEngine, audit: Audit
) -> None:
    """U38, U39: the result is cut and says so, the store has all of it under the call's id."""

    async def search() -> dict[str, Any]:
        return {"rows": ROWS, "total": 3_000}

    add(engine, "search", search, {"max_chars": 2_000, "max_items": 10})
    result = await engine.execute("search", {}, ME)
    assert result.is_success
    assert len(to_text(result.output)) <= 2_000
    assert result.output["total"] == 3_000
    cut = result.metadata["cut"]
    assert (cut["call_id"], cut["is_kept_whole"]) == (result.call_id, True)
    assert cut["parts"][0]["of"] == 3_000
    assert await engine.store.get_output(result.call_id or "") == {"rows": ROWS, "total": 3_000}
    (record,) = await engine.query_call_records(call_id=result.call_id)
    assert "_truncated" in record.result
    assert await engine.store.get_output("call-unknown") is None


async def test_pages_make_up_the_whole(engine: ToolEngine) -> None:
    """U39: who follows the note reads all of it, whatever it is: lists, texts, mappings."""
    engine.register_tool(READER)
    output = {
        "rows": ROWS[:300],
        "text": 'é"\n😀' * 9_000,
        "map": {f"k{number}": number for number in range(2_000)},
        "one": 7,
        "long": ["y" * 20_000, "z"],
    }

    def search() -> dict[str, Any]:
        return output

    add(engine, "search", search, {"max_chars": 500})
    result = await engine.execute("search", {}, ME)
    note = result.output["_cut"]
    assert f"read_result(call_id='{result.call_id}'" in note
    for path in ("rows", "text", "map", "one"):
        assert await whole_of(engine, result.call_id, path) == output[path]
    top = await whole_of(engine, result.call_id)
    assert list(top) == list(output)
    assert top["text"] == {"_cut": 'a text of 36,000 characters; read it with path="text"'}
    assert await whole_of(engine, result.call_id, "long[0]") == "y" * 20_000
    assert (await whole_of(engine, result.call_id, "long"))[1] == "z"


async def test_nobody_reads_the_results_of_others(engine: ToolEngine) -> None:
    """A hostile model guesses ids: another conversation, agent, kind of caller or workflow has no
    such result, in the words in which nobody has it; and without a name nobody reads anything."""
    engine.register_tool(READER)

    async def search() -> list[dict[str, Any]]:
        return ROWS

    add(engine, "search", search, {"max_items": 2})
    mine = await engine.execute("search", {}, ME)
    assert (await read(engine, mine.call_id)).is_success
    others = [
        ToolExecutionContext.for_conversation("agent", "c2"),
        ToolExecutionContext.for_conversation("other", "c1"),
        ToolExecutionContext(caller_id="agent", conversation_id="c1", caller_type="direct"),
        ToolExecutionContext.for_conversation("agent", "c1", workflow_id="w"),
        ToolExecutionContext(conversation_id="c1"),
    ]
    unknown = (await read(engine, "call-0-0-0-0")).error or ""
    for other in others:
        refused = await read(engine, mine.call_id, other)
        assert refused.error_type == "execution_error"
        assert refused.error == unknown.replace("call-0-0-0-0", mine.call_id or "")
    nobody = await engine.execute("search", {})
    assert "read_result" not in nobody.output["_cut"]
    assert f"The record of {nobody.call_id} has the whole." in nobody.output["_cut"]
    refused = await read(engine, nobody.call_id, ToolExecutionContext())
    assert "names no caller" in (refused.error or "")
    assert not (await read(engine, nobody.call_id)).is_success


async def test_the_note_names_no_tool_that_is_not_there(engine: ToolEngine) -> None:
    """A model is never told to call what it has not got; a reload changes that."""

    async def search() -> list[int]:
        return list(range(50))

    add(engine, "search", search, {"max_items": 2})
    assert "read_result" not in (await engine.execute("search", {}, ME)).output["_cut"]
    engine.register_tool({**READER, "status": "draft"})
    assert "read_result" not in (await engine.execute("search", {}, ME)).output["_cut"]
    engine.unregister_tool("read_result")
    engine.register_tool(READER)
    assert "read_result(" in (await engine.execute("search", {}, ME)).output["_cut"]


async def test_select_picks_before_limits_cut(engine: ToolEngine) -> None:
    """`select` sees what the tool returned; what it leaves out is read by nobody but who may read
    records, not even page by page."""
    engine.register_tool(READER)

    async def people() -> list[dict[str, Any]]:
        return [{"name": f"n{number}", "private": "p"} for number in range(40)]

    add(engine, "people", people, {"select": "[].name", "max_items": 3, "strategy": "head"})
    result = await engine.execute("people", {}, ME)
    assert result.output["result"] == ["n0", "n1", "n2"]
    names = await whole_of(engine, result.call_id, "result")
    assert names == [f"n{number}" for number in range(40)]
    (record,) = await engine.query_call_records(call_id=result.call_id)
    assert record.result["result"][0] == {"name": "n0", "private": "p"}


async def test_select_alone_cuts_nothing(engine: ToolEngine) -> None:
    """What was picked whole has no note."""

    async def weather() -> dict[str, Any]:
        return {"main": {"temp": 7, "humidity": 80}}

    add(engine, "weather", weather, {"select": "main.{t: temp}"})
    result = await engine.execute("weather")
    assert result.output == {"t": 7}
    assert "cut" not in result.metadata


@pytest.mark.parametrize("value", [3, {"a": "text"}])
async def test_a_select_that_does_not_fit(engine: ToolEngine, value: Any) -> None:
    """A function of the expression that cannot take the output is a clean failure."""

    async def odd() -> Any:
        return value

    add(engine, "odd", odd, {"select": "sum(@)"})
    result = await engine.execute("odd")
    assert result.error_type == "execution_error"
    assert "the tool has run, but its output does not fit result.select" in (result.error or "")


async def test_short_outputs_are_left_alone(engine: ToolEngine, audit: Audit) -> None:
    """What fits is handed over as it is, without a note and in the same objects."""
    value = {"a": [1]}

    async def small() -> dict[str, Any]:
        return value

    add(engine, "small", small, {"max_chars": 100, "max_items": 1})
    result = await engine.execute("small")
    assert result.output is value
    assert "cut" not in result.metadata


async def test_events_tell_what_the_caller_got(engine: ToolEngine) -> None:
    """Events carry the cut output: a subscriber that writes them is not flooded either."""
    seen: list[Any] = []
    engine.subscribe(lambda event: seen.append(event.execution_result), "execution_completed")

    async def search() -> list[Any]:
        return ROWS

    add(engine, "search", search, {"max_chars": 400})
    result = await engine.execute("search", {}, ME)
    assert seen[0].output == result.output
    assert seen[0].metadata["cut"] == result.metadata["cut"]


async def test_no_half_of_a_secret_reaches_an_event(engine: ToolEngine) -> None:
    """U38 and secrets: a cut within a token would leave a half that nothing recognises."""
    seen: list[Any] = []
    engine.subscribe(lambda event: seen.append(event.execution_result), "execution_completed")
    token = "sk-" + "Ab1" * 60
    password = "correct horse battery staple " * 4

    async def leak(password: str) -> str:
        return f"{'x ' * 40}{token} {'y ' * 4_000}{password}{'z ' * 40}"

    parameters = [
        {
            "name": "password",
            "type": "string",
            "required": True,
            "secret": True,
            "description": "A secret",
        }
    ]
    for most in range(300, 700, 7):
        name = f"leak{most}"
        add(engine, name, leak, {"max_chars": most}, parameters=parameters)
        assert (await engine.execute(name, {"password": password}, ME)).is_success
    for result in seen:
        text = to_text(result.output)
        assert "Ab1" not in text
        assert "horse" not in text
        assert "battery" not in text


async def test_each_of_those_who_share_a_run_may_read_on(engine: ToolEngine) -> None:
    """`single_flight`: every caller's note names its own call, whose record has the whole."""
    engine.register_tool(READER)
    gate = asyncio.Event()

    async def search() -> dict[str, Any]:
        await gate.wait()
        return {"rows": ROWS}

    keys = {"effect": "read", "concurrency": {"collision": "single_flight"}}
    add(engine, "search", search, {"max_chars": 600}, **keys)
    other = ToolExecutionContext.for_conversation("other", "c2")
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        calls = [
            group.create_task(engine.execute("search", {}, context))
            for context in (ME, other, ToolExecutionContext())
        ]
        await asyncio.sleep(0)
        gate.set()
    mine, shared, nameless = (call.result() for call in calls)
    assert shared.metadata["shared_with"] == mine.call_id
    assert shared.metadata["cut"]["call_id"] == shared.call_id
    assert f"read_result(call_id='{shared.call_id}'" in shared.output["_cut"]
    assert shared.output["rows"] == mine.output["rows"]
    page = await read(engine, shared.call_id, other, path="rows", offset=2_999)
    assert page.output["entries"] == [ROWS[2_999]]
    assert "read_result" not in nameless.output["_cut"]
    assert all(len(to_text(each.output)) <= 600 for each in (mine, shared, nameless))


async def test_a_tool_that_calls_a_tool_gets_all(engine: ToolEngine) -> None:
    """Limits are for models: a program that reads a part as the whole would be silently wrong. A
    sub-agent inside a tool, which names itself, is cut as any."""

    async def search() -> list[Any]:
        return ROWS

    async def count(context: ToolExecutionContext) -> list[int]:
        whole = await context.call("search")
        part = await engine.execute("search", {}, ME)
        return [len(whole.output["result"]), len(part.output["result"])]

    add(engine, "search", search, {"max_items": 5})
    engine.register_tool({"name": "count", "description": "Counts"}, count)
    assert (await engine.execute("count", {}, ME)).output == {"result": [3_000, 5]}


async def test_only_the_attempt_that_succeeds_is_cut(engine: ToolEngine) -> None:
    """Retries: a failed attempt has no output, and its error is bounded as ever."""
    attempts: list[int] = []

    async def flaky() -> list[Any]:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("e" * 100_000)
        return ROWS

    keys = {"effect": "read", "retry": {"attempts": 2, "backoff": 0.01}}
    add(engine, "flaky", flaky, {"max_items": 1}, **keys)
    result = await engine.execute("flaky", {}, ME)
    assert result.metadata["attempts"] == 2
    assert len(result.output["result"]) == 1
    attempts.clear()
    failed = await engine.execute("flaky", {}, ToolExecutionContext(caller_id="a", max_retries=0))
    assert failed.output == {}
    assert len(failed.error or "") < 20_000


async def test_huge_outputs_do_not_take_the_loop(engine: ToolEngine) -> None:
    """A hundred million characters, a million keys and endless nesting are cut beside the loop,
    and the record says that it has the beginning only."""
    nested: list[Any] = []
    nested.append(nested)
    values = {
        "text": "x" * 100_000_000,
        "keys": {f"k{number}": number for number in range(1_000_000)},
        "deep": nested,
    }

    async def huge(kind: str) -> Any:
        return values[kind]

    parameters = [{"name": "kind", "type": "string", "required": True, "description": "Kind"}]
    add(engine, "huge", huge, {"max_chars": 1_000}, parameters=parameters)
    engine.register_tool(READER)
    for kind in values:
        result = await engine.execute("huge", {"kind": kind}, ME)
        assert result.is_success
        assert len(to_text(result.output)) <= 1_000
        assert result.metadata["cut"]["is_kept_whole"] is False
        assert "only the beginning was kept" in result.output["_cut"]
        page = await read(engine, result.call_id)
        assert page.is_success
        assert kind == "deep" or page.output["is_whole"] is False


async def test_an_output_that_cannot_be_read(engine: ToolEngine) -> None:
    """A mapping that raises when it is looked at is a clean failure, not a broken engine."""

    class Broken(UserDict[str, Any]):
        def keys(self) -> Any:
            raise OSError("gone")

    async def odd(is_nested: bool) -> Any:
        return {"a": Broken()} if is_nested else Broken()

    parameters = [
        {"name": "is_nested", "type": "boolean", "required": True, "description": "Where"}
    ]
    add(engine, "odd", odd, {"max_chars": 100}, parameters=parameters)
    for is_nested in (True, False):
        result = await engine.execute("odd", {"is_nested": is_nested})
        assert result.error_type == "execution_error"
        assert "its output cannot be read: OSError: gone" in (result.error or "")


async def test_what_a_plain_function_returns_later(engine: ToolEngine) -> None:
    """An executor whose plain `execute` returns an awaitable has its limits too."""

    class Later:
        def execute(self, tool: Any, params: Any, context: Any) -> Any:
            async def later() -> list[Any]:
                return ROWS

            return later()

    engine.register_executor("later", Later())
    definition = {"name": "later", "description": "Later", "result": {"max_items": 2}}
    engine.register_tool(definition)
    assert len((await engine.execute("later", {}, ME)).output["result"]) == 2


async def test_what_takes_long_is_cut_beside_the_loop(engine: ToolEngine) -> None:
    """An output that is not small is looked through in a thread, whatever kind of tool made it."""
    seen: set[bool] = set()

    class Spy(UserDict[str, Any]):
        def keys(self) -> Any:
            seen.add(threading.current_thread() is threading.main_thread())
            return super().keys()

    async def large() -> dict[str, Any]:
        return {"text": "x" * 40_000, "spy": Spy(a=1)}

    def plain() -> dict[str, Any]:
        return {"text": "x" * 40_000, "spy": Spy(a=1)}

    add(engine, "large", large, {"max_chars": 500})
    add(engine, "plain", plain, {"max_chars": 500})
    for name in ("large", "plain"):
        assert (await engine.execute(name, {}, ME)).output["spy"] == {"a": 1}
    assert seen == {False}


async def test_select_sees_json_values(engine: ToolEngine) -> None:
    """What is no JSON value becomes one first, so that an expression sees it; what nests without
    end is a clean failure."""

    class Place(msgspec.Struct):
        name: str
        height: float

    endless: list[Any] = []
    endless.append(endless)
    values = {"places": [Place("a", 1.0), Place("b", math.nan)], "endless": endless}

    async def get(name: str) -> Any:
        return values[name]

    parameters = [{"name": "name", "type": "string", "required": True, "description": "Which"}]
    add(engine, "get", get, {"select": "[].[name, height]"}, parameters=parameters)
    result = await engine.execute("get", {"name": "places"})
    assert result.output == {"result": [["a", 1.0], ["b", "NaN"]]}
    failed = await engine.execute("get", {"name": "endless"})
    assert "nested too deep for result.select" in (failed.error or "")


async def test_secrets_in_lists_and_mappings(engine: ToolEngine) -> None:
    """Secret arguments that are no plain texts are not cut in half either."""
    seen: list[Any] = []
    engine.subscribe(lambda event: seen.append(event.execution_result), "execution_completed")
    password = "correct horse battery staple " * 4

    async def leak(keys: list[Any]) -> str:
        return f"{'x ' * 40}{password}{'y ' * 4_000}"

    parameters = [
        {"name": "keys", "type": "array", "required": True, "secret": True, "description": "Keys"}
    ]
    for most in range(300, 500, 9):
        add(engine, f"leak{most}", leak, {"max_chars": most}, parameters=parameters)
        params = {"keys": [{"a": password}, 5]}
        assert (await engine.execute(f"leak{most}", params, ME)).is_success
    assert seen
    assert not any(word in to_text(each.output) for each in seen for word in ("horse", "staple"))
