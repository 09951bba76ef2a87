"""Reads at the same time, writes alone, in their place; what is refused is recorded. A11, A28."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.calls.audit import EMPTY_FOLDER, Audit
from tests.calls.samples import bare
from tests.effort import share_of
from tests.protocols.line_protocol import LineProtocol
from tool_engine import ToolEngine, ToolEngineConfig, ToolSession, ToolSubAgent
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolCall, ToolExecutionContext, ToolExecutionResult
from tool_engine.protocols import get_protocol
from tool_engine.protocols.call_runner import CallRunner
from tool_engine.protocols.cycle import process_tool_calls
from tool_engine.protocols.cycle_options import BY_EFFECT, GIVEN, CycleOptions

BOUND = 20.0
EFFECTS = {"get": "read", "list": "read", "put": "write", "odd": "unknown"}
PARAMETERS: list[dict[str, Any]] = [
    {"name": "image_size", "type": "integer", "required": True, "description": "x"},
    {"name": "note", "type": "string", "description": "x", "max_length": 3},
    {
        "name": "filter",
        "type": "object",
        "description": "x",
        "properties": {"sizes": {"type": "array", "items": "integer"}},
    },
]


def sample(name: str, effect: str) -> dict[str, Any]:
    return {
        "name": name,
        "version": "1.0.0",
        "description": "A sample",
        "category": "custom",
        "effect": effect,
        "parameters": [
            {"name": "n", "type": "integer", "description": "A number", "required": True},
            {"name": "word", "type": "string", "description": "A word", "secret": True},
        ],
        "entry": {"type": "custom", "handler": name},
    }


class World:
    """An engine with two tools that read, one that writes, and one that does not say."""

    def __init__(self) -> None:
        self.engine = ToolEngine(
            ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False),
            concurrency=ConcurrencyConfig(max_concurrent=50),
        )
        self.running: dict[int, str] = {}
        self.together: list[list[str]] = []
        """What ran at the same time, whenever a call began."""
        self.began: list[int] = []
        self.ended: list[int] = []
        self.gate: asyncio.Event | None = None
        for name, effect in EFFECTS.items():
            self.engine.register_tool(sample(name, effect), self.handler(name))
        self.audit = Audit(self.engine)

    def handler(self, name: str) -> Any:
        async def run(n: int, word: str = "") -> int:
            self.running[n] = name
            self.began.append(n)
            self.together.append(sorted(self.running.values()))
            try:
                if self.gate is not None:
                    await self.gate.wait()
                for _ in range(4):
                    await asyncio.sleep(0)
            finally:
                del self.running[n]
            self.ended.append(n)
            return n

        return run

    async def run(self, *names: str, **options: Any) -> list[ToolExecutionResult]:
        options = {"max_parallel": None, "order": BY_EFFECT} | options
        calls = [
            ToolCall(call_id=f"c{n}", tool_name=name, arguments={"n": n})
            for n, name in enumerate(names)
        ]
        return await CallRunner(self.engine, CycleOptions(**options)).run(calls)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with asyncio.timeout(BOUND):
        made = World()
        async with made.engine:
            yield made


async def test_reads_run_together_and_writes_alone(world: World) -> None:
    """A write waits for all before it, and all after it wait for the write."""
    results = await world.run("get", "list", "put", "get", "odd", "list", "get")
    assert [each.output["result"] for each in results] == list(range(7))
    assert world.together == [
        ["get"],
        ["get", "list"],
        ["put"],
        ["get"],
        ["odd"],
        ["list"],
        ["get", "list"],
    ]
    await world.audit.check(results)


async def test_the_given_order_lets_all_run_together(world: World) -> None:
    """What is asked for without an order is as before: as many as may run, whatever they do."""
    await world.run("put", "put", "get", order=GIVEN)
    assert world.together[-1] == ["get", "put", "put"]


async def test_reads_keep_to_the_most_that_may_run(world: World) -> None:
    """`max_parallel` counts within a run of reads, too."""
    await world.run(*["get"] * 6, max_parallel=2)
    assert max(map(len, world.together)) == 2
    world.together.clear()
    await world.run(*["get"] * 3, max_parallel=1)
    assert world.together == [["get"]] * 3


@settings(max_examples=share_of(30), deadline=None)
@given(st.lists(st.sampled_from([*EFFECTS, "nobody"]), max_size=12), st.integers(1, 4))
def test_no_write_ever_overlaps(names: list[str], max_parallel: int) -> None:
    """Whatever a model asks for: results in order, and a write begins when all before it ended."""

    async def check() -> None:
        world = World()
        async with asyncio.timeout(BOUND), world.engine:
            results = await world.run(*names, max_parallel=max_parallel)
            assert [each.tool_name for each in results] == names
            for together in world.together:
                assert len(together) == 1 or {EFFECTS[name] for name in together} == {"read"}
            known = [n for n, name in enumerate(names) if name != "nobody"]
            assert sorted(world.began) == known
            for n in known:
                if EFFECTS[names[n]] != "read":
                    assert {each for each in known if each < n} <= set(
                        world.ended[: world.ended.index(n)]
                    )
                    later = [place for place in world.began if place > n]
                    assert world.began.index(n) < min(map(world.began.index, later), default=99)
            await world.audit.check(results)

    asyncio.run(check())


async def test_calls_that_do_not_run_hold_nobody_up(world: World) -> None:
    """A call that is refused at once does not part the reads around it."""
    broken = ToolCall(call_id="x", tool_name="put", arguments={}, error="it is not JSON")
    reads = [ToolCall(call_id=f"r{n}", tool_name="get", arguments={"n": n}) for n in (1, 2)]
    options = CycleOptions(max_parallel=None, order=BY_EFFECT)
    results = await CallRunner(world.engine, options).run([reads[0], broken, reads[1]])
    assert [each.is_success for each in results] == [True, False, True]
    assert world.together[-1] == ["get", "get"]
    await world.audit.check(results)


async def test_what_a_write_changes_counts_for_what_follows(world: World) -> None:
    """Effects are looked up when it is a call's turn: here the tool becomes a write before it."""

    async def load(n: int, word: str = "") -> int:
        world.engine.unregister_tool("list")
        world.engine.register_tool(sample("list", "write"))
        return n

    world.engine.unregister_tool("put")
    changes = sample("put", "write") | {"entry": {"type": "custom", "handler": "load"}}
    world.engine.register_tool(changes, load)
    await world.run("put", "list", "list")
    assert world.together == [["list"], ["list"]]


async def test_what_is_refused_is_recorded_and_published(world: World) -> None:
    """A call that the cycle refuses ends like any other: one record, one final event, no slot."""
    limits: dict[str, Any] = {"max_calls": 2, "tools": ["get"]}
    results = await world.run("get", "put", "get", **limits)
    assert [each.error_type for each in results] == [None, "rejected", "rejected"]
    await world.audit.check(results)
    refused = await world.engine.store.query_call_records(is_success=False)
    assert {each.tool_name for each in refused} == {"put", "get"}


async def test_what_is_refused_tells_no_secrets(world: World) -> None:
    """The record and the event of a refused call hide what its tool says is secret."""
    reply = 'CALL a put {"n": 1, "word": "swordfish"}\nCALL b nobody {"word": "swordfish"}'
    context = ToolExecutionContext.for_conversation("agent", "chat")
    options = CycleOptions(on_before_execute=lambda *_: "never", context=context)
    done = await process_tool_calls(world.engine, reply, LineProtocol(), options)
    assert [each.error_type for each in done.execution_results] == ["rejected", "tool_not_found"]
    kept = await world.engine.store.query_call_records()
    assert [each.conversation_id for each in kept] == ["chat", "chat"]
    assert "swordfish" not in repr(kept)
    assert "swordfish" not in repr(world.audit.events)
    await world.audit.check(done.execution_results)


async def test_the_seconds_that_are_told_are_those_that_were_asked_for(world: World) -> None:
    """A model, and a record, read the timeout that somebody set, and no other number."""
    world.gate = asyncio.Event()
    (result,) = await world.run("get", timeout=0.5)
    (kept,) = await world.engine.store.query_call_records()
    for told in (result.error, kept.error):
        assert "did not finish within 0.5 s" in str(told)


async def test_a_call_that_began_is_recorded_once(world: World) -> None:
    """What the engine has recorded is not recorded again when the cycle gives up on it."""
    world.gate = asyncio.Event()
    results = await world.run("get", "put", total_timeout=0.1)
    assert [each.error_type for each in results] == ["timeout", "timeout"]
    assert len(await world.engine.store.query_call_records()) == 2
    assert world.running == {}


async def test_cancelled_between_a_read_and_a_write(world: World) -> None:
    """The reads that ran end as cancelled; the write never begins."""
    world.gate = asyncio.Event()
    told: list[str] = []
    task = asyncio.create_task(
        world.run("get", "get", "put", on_result=lambda call, _: told.append(call.call_id))
    )
    while len(world.running) < 2:  # noqa: ASYNC110 - bounded by the fixture
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == []
    assert {each.tool_name for each in await world.engine.store.query_call_records()} == {"get"}
    await world.audit.check()


async def test_each_result_is_told_at_once(world: World) -> None:
    """Who listens hears of each call when it ends, refused ones too; a listener that fails stops
    nothing."""
    told: list[tuple[str, bool]] = []

    def listen(call: ToolCall, result: ToolExecutionResult) -> None:
        told.append((call.call_id, result.is_success))
        raise RuntimeError("no")

    results = await world.run("get", "nobody", "put", on_result=listen)
    assert told == [("c0", True), ("c1", False), ("c2", True)]
    assert [each.is_success for each in results] == [True, False, True]


async def test_whoever_is_told_may_take_time(world: World) -> None:
    """`on_result` may be async: it is not forgotten without a word."""
    told: list[str] = []

    async def listen(call: ToolCall, result: ToolExecutionResult) -> None:
        await asyncio.sleep(0)
        told.append(call.call_id)

    await world.run("get", "nobody", "put", on_result=listen)
    assert told == ["c0", "c1", "c2"]


async def test_a_question_about_the_call_alone(world: World) -> None:
    """A29: the founding document asks with the call; so may a function, sync or async."""

    async def ask(call: ToolCall) -> bool | str:
        return call.tool_name == "get" or "reads only"

    results = await world.run("get", "put", on_before_execute=ask)
    assert [each.error_type for each in results] == [None, "rejected"]
    assert results[1].metadata["error_details"] == {"reason": "reads only"}
    one_by_one = await world.run("put", on_before_execute=lambda call, why="no": why)
    assert one_by_one[0].is_success is False, "what takes two is given both"
    # What cannot tell what it takes is called as ever.
    unknown: Any = dict
    assert CycleOptions(on_before_execute=unknown).on_before_execute is unknown


@pytest.mark.parametrize(
    "fields",
    [
        {"order": "by effect"},
        {"order": None},
        {"on_result": "print"},
        {"on_before_execute": lambda: True},
        {"on_before_execute": lambda call, tool, more: True},
    ],
)
def test_options_that_are_none(fields: dict[str, Any]) -> None:
    """An order that nobody knows is an error, not the default."""
    with pytest.raises(ConfigurationError, match=next(iter(fields))):
        CycleOptions(**fields)


class Bare:
    """Something with tools that keeps no records."""

    def __init__(self, engine: ToolEngine) -> None:
        self.engine = engine

    def get(self, name: str) -> Any:
        return self.engine.get(name)

    async def execute(self, tool_name: str, params: Any, context: Any) -> ToolExecutionResult:
        return await self.engine.execute(tool_name, params, context)


async def test_an_engine_that_cannot_refuse(world: World) -> None:
    """A refused call still has its one result."""
    call = ToolCall(call_id="c", tool_name="put", arguments={"n": 1})
    options = CycleOptions(tools=["get"])
    (result,) = await CallRunner(Bare(world.engine), options).run([call])
    assert (result.error_type, result.metadata) == ("rejected", {"request_id": "c"})
    assert await world.engine.store.query_call_records() == []


class Speechless(Bare):
    """Something that fails where a call is to be refused."""

    def refuse(self, *args: Any) -> ToolExecutionResult:
        raise OSError("no such disk")


async def test_a_refusal_that_fails(world: World) -> None:
    """What the other calls of the reply did is told all the same."""
    calls = [
        ToolCall(call_id=f"c{n}", tool_name=name, arguments={"n": n})
        for n, name in enumerate(("put", "nobody"))
    ]
    results = await CallRunner(Speechless(world.engine), CycleOptions(tools=["put"])).run(calls)
    assert [each.is_success for each in results] == [True, False]
    assert results[1].error_type == "tool_not_found"


class Broken(Bare):
    """Something that cannot even look up one of its tools."""

    def get(self, name: str) -> Any:
        if name == "put":
            raise OSError("no such disk")
        return super().get(name)


async def test_a_tool_that_cannot_be_looked_up(world: World) -> None:
    """It fails its own call, and loses no other result."""
    calls = [
        ToolCall(call_id=f"c{n}", tool_name=name, arguments={"n": n})
        for n, name in enumerate(("get", "put", "list"))
    ]
    options = CycleOptions(max_parallel=None, order=BY_EFFECT)
    results = await CallRunner(Broken(world.engine), options).run(calls)
    assert [each.error_type for each in results] == [None, "execution_error", None]
    assert "no such disk" in str(results[1].error)


def block(**fields: str) -> str:
    lines = [f"{key.replace('__', '-')}:「始」{value}「末」," for key, value in fields.items()]
    return "\n".join(["<<<[TOOL_REQUEST]>>>", *lines, "<<<[END_TOOL_REQUEST]>>>"])


async def made() -> ToolEngine:
    engine = ToolEngine(ToolEngineConfig("none", auto_reload=False))
    engine.register_tool(bare("draw", parameters=PARAMETERS), lambda **sent: sent)
    return engine


@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize(
    ("sent", "call", "paths"),
    [
        ({"IMAGE__SIZE": "big"}, 0, {"image_size": "IMAGE-SIZE"}),
        ({"image_size1": "1", "image_size2": "big"}, 1, {"image_size": "image_size2"}),
        (
            {"image_size1": "1", "note1": "long", "image_size2": "2"},
            0,
            {"note": "note1"},
        ),
        ({"image_size": "1", "FILTER": '{"sizes": [1, "x"]}'}, 0, {"filter.sizes[1]": "FILTER"}),
    ],
)
async def test_names_of_a_text_protocol(
    in_session: bool, sent: dict[str, str], call: int, paths: dict[str, str]
) -> None:
    """What was read under another name is told of under the name that the model wrote as well."""
    async with await made() as engine:
        protocol = get_protocol("vcp", fuzzy=True)
        protocol.definitions(engine.list_all())
        runs = ToolSession(engine, "s") if in_session else engine
        cycle = await process_tool_calls(runs, block(tool_name="draw", **sent), protocol)
    result = cycle.execution_results[call]
    assert result.error_type == "validation_error"
    assert {each["path"]: each["sent_as"] for each in result.validation_errors} == paths
    for name, key in paths.items():
        told = f"you sent '{name.partition('.')[0]}' as '{key}'"
        assert told in str(result.error)
        assert told in json.dumps(cycle.formatted, ensure_ascii=False)


async def test_names_that_are_the_tool_s_own() -> None:
    """Nothing is added where the model wrote the tool's own name."""
    async with await made() as engine:
        protocol = get_protocol("vcp", fuzzy=True)
        protocol.definitions(engine.list_all())
        text = block(tool_name="draw", image_size="big")
        cycle = await process_tool_calls(engine, text, protocol)
    (result,) = cycle.execution_results
    assert "sent_as" not in result.validation_errors[0]
    assert "you sent" not in str(result.error)


@pytest.mark.parametrize("name", ["openai", "openai_responses", "anthropic", "gemini", "vcp"])
async def test_all_protocols_keep_the_findings(name: str) -> None:
    """A refusal keeps its place in every model's language: in the text, and as fields beside it."""
    async with await made() as engine:
        sent = {"image_size": 1, "filter": {"sizes": [1, "x"]}}
        result = await engine.execute("draw", sent)
    (finding,) = result.validation_errors
    assert (finding["path"], finding["expected"], finding["actual"]) == (
        *("filter.sizes[1]", "integer", "x"),
    )
    result.metadata["request_id"] = "1"
    formatted = get_protocol(name).format_results([result])
    assert "'filter.sizes[1]' must be an integer" in json.dumps(formatted, ensure_ascii=False)


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ({"image_size": 1, "note": "$VAR_REF{{none}}"}, "note"),
        ({"image_size": 1, "filter": {"sizes": [1, "$VAR_REF{{x y}}"]}}, "filter.sizes[1]"),
        ({"image_size": 1, "filter": {"$VAR_REF{{x}}": 1}}, "filter"),
    ],
)
async def test_references_have_their_place(sent: dict[str, Any], path: str) -> None:
    """What a session refuses has the fields of what the validation refuses."""
    async with await made() as engine:
        result = await ToolSession(engine, "s").execute("draw", sent)
    assert result.error_type == "validation_error"
    (finding,) = result.validation_errors
    assert (finding["path"], finding["level"]) == (path, "error")
    assert finding["message"] == result.error


@pytest.mark.parametrize("arguments", ['{"image_size": ', "[1]", 5])
async def test_every_refusal_of_arguments_has_a_finding(arguments: Any) -> None:
    """Arguments that could not be read are told of as a finding as well, with no place."""
    function = {"name": "draw", "arguments": arguments}
    call = {"id": "1", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reply = {"choices": [{"finish_reason": "tool_calls", "message": message}]}
    async with await made() as engine:
        for runs in (engine, ToolSession(engine, "s"), ToolSubAgent("a", engine)):
            cycle = await process_tool_calls(runs, reply, get_protocol("openai"))
            (result,) = cycle.execution_results
            assert result.error_type == "validation_error"
            (finding,) = result.validation_errors
            assert (finding["path"], finding["message"]) == ("", result.error)
        (result,) = await ToolSubAgent("a", engine).execute_batch([("draw", 5)])  # type: ignore[list-item]
        assert result.validation_errors[0]["message"] == result.error
