"""What happens to a call whose key is busy?"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.calls.audit import Audit, check_idle, make_engine, turns
from tests.calls.samples import Stubborn, bare, forever
from tool_engine import (
    ToolConfigLoader,
    ToolEngine,
    ToolExecutionContext,
    ToolExecutionResult,
)

BOUND = 10_000.0
CANCELS = ("cancel_newest", "cancel_in_progress", "keep_newest_queued")
POLICIES = ("queue", "reject", *CANCELS)
YAML = """
name: job
version: 1.0.0
description: A job
category: custom
parameters:
  - {{name: account, type: string, required: true, description: Whose}}
  - {{name: note, type: string, description: What}}
concurrency: {{key: {key}, collision: {collision}}}
entry: {{type: custom, handler: job}}
"""


class Jobs:
    """A tool that takes ten seconds, and when each of its runs began and ended."""

    def __init__(self, seconds: float = 10.0) -> None:
        self.seconds = seconds
        self.running = 0
        self.most = 0
        self.began = 0
        self.log: list[tuple[float, str]] = []

    async def __call__(self, **params: Any) -> str:
        loop = asyncio.get_running_loop()
        self.began += 1
        self.running += 1
        self.most = max(self.most, self.running)
        self.log.append((loop.time() - 1000.0, "began"))
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.running -= 1
            self.log.append((loop.time() - 1000.0, "ended"))
        return "done"


def keyed(name: str, collision: str, **keys: Any) -> dict[str, Any]:
    """A tool whose calls all have the same key."""
    concurrency = {"collision": collision, **keys.pop("concurrency", {})}
    return bare(name, concurrency=concurrency, **keys)


def start(
    engine: ToolEngine, name: str, params: Any = None, **context: Any
) -> asyncio.Task[ToolExecutionResult]:
    return asyncio.create_task(engine.execute(name, params, ToolExecutionContext(**context)))


async def ends(*calls: asyncio.Task[ToolExecutionResult]) -> list[str | None]:
    async with asyncio.timeout(BOUND):
        return [(await call).error_type for call in calls]


@pytest.mark.parametrize(
    ("collision", "expected"),
    [
        ("queue", [None, None, None]),
        ("reject", [None, "rejected", "rejected"]),
        ("cancel_newest", [None, "cancelled", "cancelled"]),
        ("keep_newest_queued", [None, "cancelled", None]),
        ("cancel_in_progress", ["cancelled", "cancelled", None]),
    ],
)
async def test_each_policy(
    engine: ToolEngine, audit: Audit, collision: str, expected: list[str | None]
) -> None:
    """C22: three calls with one key at once, in each policy, from a YAML definition."""
    jobs = Jobs()
    definition = ToolConfigLoader().load_text(YAML.format(key="tool", collision=collision))
    engine.register_tool(definition, jobs)
    calls = []
    for account in "abc":
        calls.append(start(engine, "job", {"account": account}))
        await turns()
    assert await ends(*calls) == expected
    assert jobs.most == 1
    results = [call.result() for call in calls]
    for result in results:
        if result.error_type is not None:
            assert "'job'" in (result.error or "") or "newer call" in (result.error or "")
            assert result.outcome.value == result.error_type
    await audit.check(results)


@pytest.mark.parametrize(
    ("key", "same", "other"),
    [
        ("tool", ({}, {}), None),
        ("conversation_id", ({"conversation_id": "c"},) * 2, {"conversation_id": "d"}),
        ("caller_id", ({"caller_id": "c"},) * 2, {"caller_id": "d"}),
        ("workflow_id", ({"workflow_id": "c"},) * 2, {"workflow_id": "d"}),
    ],
)
async def test_keys_of_the_caller(
    engine: ToolEngine, audit: Audit, key: str, same: Any, other: dict[str, Any] | None
) -> None:
    """C22: calls collide with those of the same tool, conversation, caller or workflow."""
    engine.register_tool(
        ToolConfigLoader().load_text(YAML.format(key=key, collision="reject")), Jobs()
    )
    first = start(engine, "job", {"account": "a"}, **same[0])
    await turns()
    second = start(engine, "job", {"account": "b"}, **same[1])
    expected: list[str | None] = [None, "rejected"]
    calls = [first, second]
    if other is not None:
        calls += [start(engine, "job", {"account": "a"}, **each) for each in (other, {}, {})]
        expected += [None, None, None]
    assert await ends(*calls) == expected
    await audit.check()


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("params", [None, None, None, "rejected"]),
        ("params.account", [None, "rejected", None, "rejected"]),
    ],
)
async def test_keys_of_the_arguments(
    engine: ToolEngine, audit: Audit, key: str, expected: list[str | None]
) -> None:
    """C22: `params` compares all arguments, `params.NAME` one of them."""
    engine.register_tool(
        ToolConfigLoader().load_text(YAML.format(key=key, collision="reject")), Jobs()
    )
    params = [
        {"account": "a", "note": "x"},
        {"account": "a", "note": "y"},
        {"account": "b", "note": "x"},
        {"note": "x", "account": "a"},
    ]
    calls = [start(engine, "job", each) for each in params]
    assert await ends(*calls) == expected
    await audit.check()


async def test_arguments_that_no_message_pack_holds(engine: ToolEngine, audit: Audit) -> None:
    """A whole number beyond 64 bits makes a key like any other."""
    number = {"name": "n", "type": "integer", "required": True, "description": "A number"}
    engine.register_tool(
        keyed("big", "reject", concurrency={"key": "params"}, parameters=[number]), Jobs()
    )
    calls = [start(engine, "big", {"n": n}) for n in (2**70, 2**70 + 1, 2**70)]
    assert await ends(*calls) == [None, None, "rejected"]
    await audit.check()


async def test_a_call_without_the_value_has_no_key(engine: ToolEngine) -> None:
    """C22: an argument that is not given is no key: nothing limits the call."""
    jobs = Jobs()
    text = YAML.format(key="params.note", collision="reject")
    engine.register_tool(ToolConfigLoader().load_text(text), jobs)
    assert await ends(*(start(engine, "job", {"account": "a"}) for _ in range(3))) == [None] * 3
    assert jobs.most == 3


# cancel_in_progress


async def test_the_old_call_ends_at_once_and_the_new_one_follows(
    engine: ToolEngine, audit: Audit
) -> None:
    """C22: no time passes between the end of the old call and the start of the new."""
    jobs = Jobs()
    engine.register_tool(keyed("job", "cancel_in_progress"), jobs)
    old = start(engine, "job")
    await asyncio.sleep(1)
    new = start(engine, "job")
    await turns()
    assert old.done()
    assert "newer call with the same key" in (old.result().error or "")
    assert await ends(old, new) == ["cancelled", None]
    assert jobs.log == [(0, "began"), (1, "ended"), (1, "began"), (11, "ended")]
    assert audit.kinds(old.result().call_id)[-1] == "execution_cancelled"
    await audit.check()


async def test_a_tool_that_swallows_the_cancellation(engine: ToolEngine, audit: Audit) -> None:
    """C22: the old call ends at once; the new one waits for the end of its work."""
    stubborn = Stubborn(5.0)
    engine.register_tool(keyed("job", "cancel_in_progress"), stubborn)
    old = start(engine, "job")
    await turns()
    new = start(engine, "job")
    await turns()
    assert old.done()
    assert engine.controller.get_metrics().zombies == 1
    assert not stubborn.ended.is_set()
    stubborn.ended.clear()
    await asyncio.sleep(4.9)
    assert audit.kinds(_waiting_call(engine)) == ["execution_queued"]
    await asyncio.sleep(0.2)
    assert stubborn.ended.is_set()
    assert engine.controller.get_metrics().zombies == 0
    new.cancel()
    await asyncio.wait([new])
    await asyncio.sleep(20_000)
    await audit.check()


def _waiting_call(engine: ToolEngine) -> str:
    (waiting,) = engine.controller.snapshot().waiting
    return str(waiting.call_id)


async def test_a_call_with_nested_calls(engine: ToolEngine, audit: Audit) -> None:
    """C22: a call in progress whose slot is parked for a nested call gives way too."""
    jobs = Jobs()

    async def outer(context: ToolExecutionContext) -> str | None:
        return (await context.call("inner")).error_type

    engine.register_tool(bare("inner"), jobs)
    engine.register_tool(keyed("outer", "cancel_in_progress"), outer)
    old = start(engine, "outer")
    await asyncio.sleep(1)
    new = start(engine, "outer")
    assert await ends(old, new) == ["cancelled", None]
    assert jobs.log == [(0, "began"), (1, "ended"), (1, "began"), (11, "ended")]
    await audit.check()


async def test_a_call_whose_nested_call_does_not_stop(engine: ToolEngine, audit: Audit) -> None:
    """C22: the new call waits until the last work of the old one, three calls deep, has ended."""
    stubborn = Stubborn(7.0)
    began: list[float] = []

    async def outer(context: ToolExecutionContext) -> None:
        began.append(asyncio.get_running_loop().time())
        if len(began) == 1:
            await context.call("middle")

    async def middle(context: ToolExecutionContext) -> None:
        await context.call("stubborn")

    engine.register_tool(bare("stubborn"), stubborn)
    engine.register_tool(bare("middle"), middle)
    engine.register_tool(keyed("outer", "cancel_in_progress"), outer)
    old = start(engine, "outer")
    await asyncio.sleep(1)
    new = start(engine, "outer")
    await turns()
    assert old.done()
    explained = engine.controller.explain(_waiting_call(engine))
    assert "lent its slot" in explained.reason
    assert await ends(old, new) == ["cancelled", None]
    assert stubborn.ended.is_set()
    assert began == [1000.0, 1008.0]
    await audit.check()


@pytest.mark.parametrize("is_late", [False, True], ids=["suspends", "fails at once"])
async def test_a_call_between_two_attempts(engine: ToolEngine, audit: Audit, is_late: bool) -> None:
    """C22: a call that waits to be retried is not retried when a newer one comes."""
    runs: list[float] = []

    async def flaky() -> None:
        runs.append(asyncio.get_running_loop().time() - 1000.0)
        if not is_late:
            await asyncio.sleep(1)
        if len(runs) == 1:
            raise ValueError("not yet")

    retry = {"attempts": 3, "backoff": 50}
    engine.register_tool(
        keyed("job", "cancel_in_progress", effect="read", retry=retry, timeout=500), flaky
    )
    old = start(engine, "job", timeout=500)
    await asyncio.sleep(3)
    new = start(engine, "job", timeout=500)
    await turns()
    assert old.done()
    assert await ends(old, new) == ["cancelled", None]
    assert len(old.result().metadata["attempt_log"]) == 1
    assert runs == [0, 3]
    await audit.check()


async def test_a_second_attempt_gives_way(engine: ToolEngine, audit: Audit) -> None:
    """C22: a call whose first attempt failed without a wait gives way in its second."""
    runs: list[int] = []

    async def flaky() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise ValueError("not yet")
        await asyncio.sleep(10)

    retry = {"attempts": 3, "backoff": 1}
    engine.register_tool(keyed("job", "cancel_in_progress", effect="read", retry=retry), flaky)
    old = start(engine, "job")
    await asyncio.sleep(3)
    new = start(engine, "job")
    await turns()
    assert old.done()
    assert await ends(old, new) == ["cancelled", None]
    await audit.check()


@pytest.mark.parametrize("is_retry", [False, True], ids=["nested call", "retry"])
async def test_a_call_that_waits_for_its_own_slot(is_retry: bool) -> None:
    """C22: a call that wants its parked slot back, which others have, gives way at once."""
    engine = make_engine(1)
    audit = Audit(engine)
    runs: list[int] = []

    async def job(context: ToolExecutionContext) -> None:
        runs.append(1)
        if len(runs) > 1:
            return
        if is_retry:
            raise ValueError("not yet")
        # The nested call takes longer than the one that takes the slot which is lent out then.
        await context.call("inner")

    engine.register_tool(bare("inner", concurrency={"bucket": "inner"}), Jobs(2.0))
    engine.register_tool(bare("other"), Jobs(100.0))
    engine.register_tool(
        keyed(
            "job",
            "cancel_in_progress",
            effect="read",
            retry={"attempts": 2, "backoff": 2},
            timeout=500,
        ),
        job,
    )
    old = start(engine, "job", timeout=500)
    await asyncio.sleep(1)
    other = start(engine, "other", timeout=500, priority=0)
    await asyncio.sleep(10)
    (waiting,) = engine.controller.snapshot().waiting
    assert waiting.tool_name == "job"
    new = start(engine, "job", timeout=500)
    await turns()
    assert old.done()
    other.cancel()
    await asyncio.wait([other])
    assert await ends(old, new) == ["cancelled", None]
    assert len(runs) == 2
    await audit.check()
    await engine.close()


async def test_as_many_give_way_as_must(engine: ToolEngine, audit: Audit) -> None:
    """C22: with a key_limit of 3, one call more ends one call, the oldest."""
    jobs = Jobs()
    engine.register_tool(keyed("job", "cancel_in_progress", concurrency={"key_limit": 3}), jobs)
    calls = []
    for _ in range(5):
        calls.append(start(engine, "job"))
        await asyncio.sleep(1)
    assert await ends(*calls) == ["cancelled", "cancelled", None, None, None]
    assert jobs.most == 3
    await audit.check()


async def test_a_burst_leaves_the_newest(engine: ToolEngine, audit: Audit) -> None:
    """C22: of 50 calls in one step, with room for two, the last two run, the others end."""
    jobs = Jobs()
    engine.register_tool(keyed("job", "cancel_in_progress", concurrency={"key_limit": 2}), jobs)
    calls = [start(engine, "job") for _ in range(50)]
    assert await ends(*calls) == ["cancelled"] * 48 + [None, None]
    assert jobs.most <= 2
    await audit.check()


async def test_a_call_that_waits_for_its_bucket_gives_way() -> None:
    """C22: a call that has no slot yet, for whatever reason, gives way to a newer one."""
    engine = make_engine(1)
    audit = Audit(engine)
    engine.register_tool(bare("other"), Jobs(5.0))
    jobs = Jobs()
    engine.register_tool(keyed("job", "cancel_in_progress"), jobs)
    other = start(engine, "other")
    await turns()
    calls = [start(engine, "job") for _ in range(3)]
    assert await ends(other, *calls) == [None, "cancelled", "cancelled", None]
    assert jobs.began == 1
    await audit.check()
    await engine.close()


@pytest.mark.parametrize("collision", POLICIES)
async def test_a_tool_that_calls_itself(collision: str) -> None:
    """C22, C23: a tool may call itself with the same key, five deep, at any policy and one slot."""
    engine = make_engine(1, queue_timeout=None)
    audit = Audit(engine)

    async def job(depth: int, context: ToolExecutionContext) -> Any:
        await asyncio.sleep(0.1)
        if not depth:
            return "bottom"
        result = await context.call("job", {"depth": depth - 1})
        await asyncio.sleep(0.1)
        return result.error_type or result.output["result"]

    depth = {"name": "depth", "type": "integer", "required": True, "description": "How deep"}
    engine.register_tool(keyed("job", collision, parameters=[depth]), job)
    async with asyncio.timeout(BOUND):
        result = await engine.execute("job", {"depth": 5})
    assert result.output == {"result": "bottom"}
    assert len(await audit.records()) == 6
    await audit.check([result])
    await engine.close()


@pytest.mark.parametrize("collision", POLICIES)
async def test_two_tools_that_call_each_other(collision: str) -> None:
    """C22, C23: A calls B and B calls A, both with keys: nobody waits for ever."""
    engine = make_engine(4, queue_timeout=None)
    audit = Audit(engine)

    async def chain(name: str, depth: int, context: ToolExecutionContext) -> Any:
        await asyncio.sleep(0.1)
        if depth:
            return (await context.call(name, {"depth": depth - 1})).error_type
        return "bottom"

    async def ping(depth: int, context: ToolExecutionContext) -> Any:
        return await chain("pong", depth, context)

    async def pong(depth: int, context: ToolExecutionContext) -> Any:
        return await chain("ping", depth, context)

    depth = {"name": "depth", "type": "integer", "required": True, "description": "How deep"}
    engine.register_tool(keyed("ping", collision, parameters=[depth], timeout=9000), ping)
    engine.register_tool(keyed("pong", collision, parameters=[depth], timeout=9000), pong)
    calls = [start(engine, name, {"depth": 4}, timeout=9000) for name in ("ping", "pong") * 2]
    allowed = {None, "rejected"} if collision == "reject" else {None, "cancelled"}
    assert set(await ends(*calls)) <= allowed
    assert asyncio.get_running_loop().time() < 1060.0
    await audit.check()
    await engine.close()


@pytest.mark.parametrize(
    ("collision", "expected"),
    [("reject", "rejected"), ("cancel_newest", "cancelled"), ("queue", None)],
)
async def test_a_call_with_a_nested_call_is_in_progress(
    engine: ToolEngine, audit: Audit, collision: str, expected: str | None
) -> None:
    """C22: what refuses calls beside a running one does so also while its slot is lent."""

    async def outer(context: ToolExecutionContext) -> None:
        await context.call("inner")

    engine.register_tool(bare("inner"), Jobs())
    engine.register_tool(keyed("outer", collision), outer)
    old = start(engine, "outer")
    await asyncio.sleep(1)
    new = start(engine, "outer")
    assert await ends(old, new) == [None, expected]
    await audit.check()


async def test_a_nested_call_that_waits_gives_way(engine: ToolEngine, audit: Audit) -> None:
    """C22: the newest waits, also where the one before it was made by a tool."""

    async def outer(context: ToolExecutionContext) -> str | None:
        return (await context.call("job")).error_type

    engine.register_tool(keyed("job", "keep_newest_queued"), Jobs())
    engine.register_tool(bare("outer"), outer)
    first = start(engine, "job")
    await turns()
    second = start(engine, "outer")
    await turns()
    third = start(engine, "job")
    assert await ends(first, second, third) == [None, None, None]
    assert second.result().output == {"result": "cancelled"}
    await audit.check()


@pytest.mark.parametrize("collision", ["queue", "cancel_in_progress", "keep_newest_queued"])
async def test_cancelled_callers(engine: ToolEngine, audit: Audit, collision: str) -> None:
    """C8, C22: a caller that is cancelled while it waits for its key leaves it to the next."""
    stubborn = Stubborn(5.0)
    engine.register_tool(keyed("job", collision), stubborn)
    first = start(engine, "job")
    await turns()
    second = start(engine, "job")
    await turns()
    second.cancel()
    await asyncio.wait([second])
    assert second.cancelled()
    third = start(engine, "job")
    await turns()
    first.cancel()
    third.cancel()
    await asyncio.wait([first, third])
    await asyncio.sleep(20_000)
    assert {record.error_type for record in await audit.records()} == {"cancelled"}
    assert len(await audit.records()) == 3
    await audit.check()


async def test_a_call_waits_for_its_key_no_longer_than_it_may(
    engine: ToolEngine, audit: Audit
) -> None:
    """C7, C22: the queue timeout bounds the wait for the end of the old work."""
    engine.register_tool(
        keyed("job", "cancel_in_progress", concurrency={"queue_timeout": 2}), Stubborn(60.0)
    )
    old = start(engine, "job")
    await turns()
    new = start(engine, "job")
    assert await ends(old, new) == ["cancelled", "queue_timeout"]
    assert asyncio.get_running_loop().time() == 1002.0
    await asyncio.sleep(100)
    await audit.check()


@pytest.mark.parametrize("collision", POLICIES)
async def test_closing(collision: str) -> None:
    """C24: the calls of a key end with the engine, each once."""
    engine = make_engine(close_timeout=1.0)
    audit = Audit(engine)
    engine.register_tool(keyed("job", collision), forever)
    calls = []
    for _ in range(3):
        calls.append(start(engine, "job"))
        await turns()
    async with asyncio.timeout(BOUND):
        await engine.close()
    assert all(call.done() for call in calls)
    assert {call.result().error_type for call in calls} <= {
        "engine_closed",
        "cancelled",
        "rejected",
    }
    await audit.check([call.result() for call in calls])


async def test_closing_ends_a_call_that_wants_its_slot_back_for_a_retry() -> None:
    """C24: after `close` no attempt begins, also where a call waited for its slot to begin it."""
    engine = make_engine(1, close_timeout=1.0)
    audit = Audit(engine)
    runs: list[int] = []

    async def flaky() -> None:
        runs.append(1)
        raise ValueError("not yet")

    retry = {"attempts": 3, "backoff": 1}
    engine.register_tool(bare("flaky", effect="read", retry=retry, timeout=500), flaky)
    engine.register_tool(bare("other", timeout=500), forever)
    calls = [start(engine, "flaky"), start(engine, "other")]
    await asyncio.sleep(5)
    async with asyncio.timeout(BOUND):
        await engine.close()
    assert await ends(*calls) == ["engine_closed", "engine_closed"]
    assert runs == [1]
    await audit.check([call.result() for call in calls])


async def test_a_limit_that_is_changed_while_calls_collide(
    engine: ToolEngine, audit: Audit
) -> None:
    """C18, C22: a new configuration keeps who waits for whose end."""
    stubborn = Stubborn(5.0)

    async def outer(context: ToolExecutionContext) -> None:
        await context.call("stubborn")

    engine.register_tool(bare("stubborn"), stubborn)
    engine.register_tool(keyed("outer", "cancel_in_progress"), outer)
    old = start(engine, "outer")
    await turns()
    new = start(engine, "outer")
    await turns()
    for strategy in ("fair", "priority", "fifo"):
        engine.controller.configure(type(engine.controller.config)(strategy=strategy))
    await turns()
    assert len(engine.controller.snapshot().waiting) == 1
    assert old.done()
    new.cancel()
    await asyncio.wait([new])
    await asyncio.sleep(20)
    assert stubborn.ended.is_set()
    await audit.check()


async def test_secrets_do_not_show(engine: ToolEngine, audit: Audit) -> None:
    """What is in a secret parameter stands in no snapshot, explanation or refusal."""
    secret = "hunter2-hunter2"
    parameter = {"name": "token", "type": "string", "required": True, "description": "A token"}
    parameter["secret"] = True
    for collision in POLICIES:
        for key in ("params", "params.token"):
            name = f"{collision}_{key.replace('.', '_')}"
            concurrency = {"key": key}
            engine.register_tool(
                keyed(name, collision, concurrency=concurrency, parameters=[parameter]), Jobs()
            )
            calls = []
            for _ in range(3):
                calls.append(start(engine, name, {"token": secret}))
                await turns()
            snapshot = engine.controller.snapshot()
            assert snapshot.metrics.current_concurrent
            shown = [
                snapshot,
                *(engine.controller.explain(str(w.call_id)) for w in snapshot.waiting),
            ]
            assert secret not in repr(shown)
            await ends(*calls)
            assert secret not in repr([call.result() for call in calls])
    assert secret not in repr(audit.events)
    check_idle(engine)


async def test_bypassing_calls_have_no_key(engine: ToolEngine, audit: Audit) -> None:
    """C12: what is not limited does not collide."""
    jobs = Jobs()
    engine.register_tool(keyed("job", "reject"), jobs)
    calls = [start(engine, "job", caller_type="workflow_node") for _ in range(3)]
    assert await ends(*calls) == [None] * 3
    assert jobs.most == 3
    await audit.check()


async def test_keys_are_forgotten(engine: ToolEngine) -> None:
    """C14: a key that nobody holds or wants costs nothing."""
    engine.register_tool(
        keyed("job", "cancel_in_progress", concurrency={"key": "conversation_id"}), Jobs()
    )
    calls: list[Coroutine[Any, Any, Any]] = [
        engine.execute("job", None, ToolExecutionContext(conversation_id=str(number % 20)))
        for number in range(60)
    ]
    await asyncio.gather(*calls)
    assert not engine.controller._layout.keys


async def test_a_slot_that_is_lent_in_the_first_step(engine: ToolEngine, audit: Audit) -> None:
    """C25: a call that begins with a nested call is shown once, and not after its end."""

    async def outer(context: ToolExecutionContext) -> None:
        await context.call("inner")

    engine.register_tool(bare("inner"), forever)
    engine.register_tool(bare("outer"), outer)
    call = start(engine, "outer")
    await turns()
    states = [(slot.tool_name, slot.state) for slot in engine.controller.snapshot().held]
    assert sorted(states, key=str) == [("inner", "active"), ("outer", "parked")]
    call.cancel()
    await asyncio.wait([call])
    assert engine.controller.snapshot().held == []
    await audit.check()
