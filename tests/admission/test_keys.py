"""How many slots do the calls of one conversation, or of one key of a tool, hold at once?"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.admission.conftest import MakeCrew
from tests.admission.crew import Crew, context
from tool_engine.admission.lines import Lane
from tool_engine.admission.request import AdmissionRequest, tool_key_of
from tool_engine.admission.waiting import Waiter
from tool_engine.errors import QueueFullError, QueueTimeoutError, SlotRejectedError
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.settings.concurrency import ToolConcurrency, ToolRate
from tool_engine.model.tool import Tool, ToolCategory


def tool_of(name: str = "probe", **concurrency: Any) -> Tool:
    """A tool of the bucket `custom` with this `concurrency`."""
    wants = ToolConcurrency(**concurrency)
    return Tool(name, name, "1.0.0", "x", ToolCategory.CUSTOM, [], [], {}, concurrency=wants)


def wanted(
    crew: Crew, tool: Tool, caller: ToolExecutionContext | None = None, **arguments: Any
) -> AdmissionRequest:
    """What a call of the tool asks for, as the engine puts it."""
    caller = caller or context()
    config = crew.controller.config
    key = tool_key_of(tool, caller, arguments)
    return AdmissionRequest.for_tool(tool, config).for_caller(config, caller, tool_key=key)


async def test_key_limit(crew_of: MakeCrew) -> None:
    """C14: a key holds as many slots as it may; others, and calls without a key, go on."""
    crew = crew_of(key_limits={"limit": 2})
    await crew.call("k1", "k2", "k3", key="k")
    await crew.call("other", key="other")
    await crew.call("n1", "n2", "n3")
    assert crew.started == ["k1", "k2", "other", "n1", "n2", "n3"]
    await crew.end("other", "n1")
    assert crew.started[-1] == "n3"
    await crew.end("k1")
    assert crew.started[-1] == "k3"


async def test_override_of_a_key(crew_of: MakeCrew) -> None:
    """C14: a key of its own limit, higher or lower than that of all."""
    crew = crew_of(max_concurrent=50, key_limits={"limit": 2, "overrides": {"vip": 10, "bad": 1}})
    for key in ("vip", "bad", "any"):
        await crew.call(*(f"{key}{n}" for n in range(12)), key=key)
    assert [
        sum(name.startswith(key) for name in crew.started) for key in ("vip", "bad", "any")
    ] == [
        10,
        1,
        2,
    ]


async def test_override_without_a_limit_of_all(crew_of: MakeCrew) -> None:
    """C14: only the keys that are named have a limit then."""
    crew = crew_of(key_limits={"overrides": {"bad": 1}})
    await crew.call("b1", "b2", key="bad")
    await crew.call("a1", "a2", key="any")
    assert crew.started == ["b1", "a1", "a2"]


@pytest.mark.parametrize("field", ["conversation_id", "caller_id", "workflow_id", "caller_type"])
async def test_key_from_the_context(crew_of: MakeCrew, field: str) -> None:
    """C14: the field of the context that is named tells the key."""
    crew = crew_of(key_limits={"key": field, "limit": 1})
    fields = {"caller_id": "x", "caller_type": "y", "conversation_id": "z", "workflow_id": "w"}
    same = ToolExecutionContext(**fields)  # type: ignore[arg-type]
    other = ToolExecutionContext(**fields | {field: "other"})  # type: ignore[arg-type]
    await crew.call("a1", "a2", context=same)
    await crew.call("b1", context=other)
    assert crew.started == ["a1", "b1"]
    await crew.end("a1")
    assert crew.started[-1] == "a2"


async def test_context_without_the_key(crew_of: MakeCrew) -> None:
    """C14: a call without a conversation counts against no key."""
    crew = crew_of(key_limits={"limit": 1})
    await crew.call("a", "b", "c", context=context())
    assert crew.started == ["a", "b", "c"]


async def test_key_of_the_call_goes_before_that_of_the_context(crew_of: MakeCrew) -> None:
    """C14: `key=` says it for one call; both name the same keys."""
    crew = crew_of(key_limits={"limit": 1})
    talk = context(conversation_id="talk")
    await crew.call("a", context=talk)
    await crew.call("b", context=talk, key="own")
    await crew.call("c", key="talk")
    assert crew.started == ["a", "b"]
    await crew.end("a")
    assert crew.started[-1] == "c"


async def test_key_counts_across_buckets(crew_of: MakeCrew) -> None:
    """C14, C4: a key is one for all buckets, and the first of its calls goes when it has room."""
    crew = crew_of(key_limits={"limit": 2})
    for number, bucket in enumerate(["http", "ai", "db", "http", "ai"]):
        await crew.call(f"k{number}", bucket=bucket, key="k")
    assert crew.started == ["k0", "k1"]
    assert await crew.serve(3) == ["k2", "k3", "k4"]


async def test_full_key_delays_nobody_else(crew_of: MakeCrew) -> None:
    """C4, C14: neither in its bucket nor for the last free slot."""
    crew = crew_of(max_concurrent=2, bucket_limits={"http": 2}, key_limits={"limit": 1})
    await crew.call(*(f"k{n}" for n in range(50)), bucket="http", key="k")
    await crew.call("a", "b", bucket="http", key="other")
    assert crew.started == ["k0", "a"]
    await crew.end("a")
    assert crew.started[-1] == "b"
    await crew.end("b")
    slot = crew.controller.try_acquire("http", key="third")
    assert slot is not None
    crew.controller.release(slot)


async def test_full_bucket_does_not_hold_up_the_key_elsewhere(crew_of: MakeCrew) -> None:
    """C4, C14: a call that waits for its bucket takes no place in its key."""
    crew = crew_of(bucket_limits={"http": 1}, key_limits={"limit": 1})
    await crew.call("holder", bucket="http")
    await crew.call("waits", bucket="http", key="k")
    await crew.call("goes", bucket="ai", key="k")
    assert crew.started == ["holder", "goes"]
    await crew.end("holder")
    assert crew.started == ["holder", "goes"]
    await crew.end("goes")
    assert crew.started[-1] == "waits"


async def test_heavy_call_of_a_key_is_not_starved(crew_of: MakeCrew) -> None:
    """C16, C14: light calls of the key, in any bucket, do not take what it waits for."""
    crew = crew_of(key_limits={"limit": 2})
    await crew.call("h", bucket="ai", key="k")
    await crew.call("heavy", bucket="http", key="k", weight=2)
    await crew.call("l1", "l2", bucket="ai", key="k")
    await crew.call("l3", bucket="db", key="k")
    await crew.cancel("l1")  # those behind it look again whether they may go
    assert crew.controller.try_acquire("new", key="k") is None
    assert crew.started == ["h"]
    await crew.end("h")
    assert crew.started == ["h", "heavy"]
    await crew.end("heavy")
    assert crew.started == ["h", "heavy", "l2", "l3"]


@pytest.mark.parametrize("what", ["pause and resume", "configure"])
async def test_heavy_call_keeps_its_place_when_all_look_again(crew_of: MakeCrew, what: str) -> None:
    """C16, C14: what makes every line look again lets no light call of the key pass."""
    crew = crew_of(key_limits={"limit": 2})
    await crew.call("h", bucket="ai", key="k")
    await crew.call("heavy", bucket="http", key="k", weight=2)
    await crew.call("light", bucket="ai", key="k")
    if what == "configure":
        await crew.configure(key_limits={"limit": 2})
    else:
        crew.controller.pause()
        crew.controller.resume()
    await crew.turn()
    assert crew.started == ["h"]


async def test_call_before_a_heavy_one_of_its_key_goes(crew_of: MakeCrew) -> None:
    """C4, C16: only those behind the heavy call wait for it, not the one that came before."""
    crew = crew_of(max_concurrent=2, key_limits={"limit": 2})
    await crew.call("h", bucket="a", key="k")
    await crew.call("other", bucket="b")
    await crew.call("first", bucket="http", key="k")
    await crew.call("heavy", bucket="ai", key="k", weight=2)
    await crew.end("other")
    assert crew.started == ["h", "other", "first"]


async def test_heavy_call_that_gives_up_frees_its_key(crew_of: MakeCrew) -> None:
    """C8, C14: cancelled or too late, it no longer keeps the others of its key waiting."""
    for timeout in (None, 5.0):
        crew = crew_of(key_limits={"limit": 2}, queue_timeout=None)
        await crew.call("h", key="k")
        await crew.call("heavy", bucket="http", key="k", weight=2, timeout=timeout)
        await crew.call("light", bucket="ai", key="k")
        assert crew.started == ["h"]
        if timeout is None:
            await crew.cancel("heavy")
        else:
            await asyncio.sleep(timeout)
            await crew.turn()
            assert isinstance(crew.errors["heavy"], QueueTimeoutError)
        assert crew.started == ["h", "light"]


async def test_who_comes_after_a_heavy_call_has_given_up_is_not_kept(crew_of: MakeCrew) -> None:
    """C8, C14: of a call that has gone nothing stands in the way of the next one of its key."""
    crew = crew_of(key_limits={"limit": 2})
    await crew.call("a", "b", key="k")
    await crew.call("heavy", key="k", weight=2)
    await crew.cancel("heavy")
    await crew.end("a")
    await crew.call("light", key="k")
    assert crew.started == ["a", "b", "light"]


async def test_priority_within_a_key(crew_of: MakeCrew) -> None:
    """C5, C14: a key that is full is given on to the most urgent of its calls, in any bucket."""
    crew = crew_of(strategy="priority", key_limits={"limit": 1})
    await crew.call("h", bucket="a", key="k")
    await crew.call("p9", bucket="b", key="k", priority=9)
    await crew.call("p5", bucket="a", key="k", priority=5)
    await crew.call("p1", bucket="c", key="k", priority=1)
    assert await crew.serve(3) == ["p1", "p5", "p9"]


async def test_call_too_heavy_for_its_key(crew_of: MakeCrew) -> None:
    """C16: what can never run is refused at once, and says which limit it is."""
    crew = crew_of(key_limits={"limit": 2})
    await crew.call("heavy", key="k", weight=3)
    error = crew.errors["heavy"]
    assert isinstance(error, SlotRejectedError)
    assert "the limit of key 'k' is 2" in str(error)


async def test_queue_of_a_key(crew_of: MakeCrew) -> None:
    """C6, C14: one key may not fill the queue of all; the refusal comes at once, with advice."""
    crew = crew_of(key_limits={"limit": 1, "queue_size": 2}, queue_timeout=None)
    await crew.call("done", key="k")
    await asyncio.sleep(2.0)
    await crew.end("done")
    await crew.call("k0", "k1", "k2", "k3", bucket="http", key="k")
    error = crew.errors["k3"]
    assert isinstance(error, QueueFullError)
    assert "the queue of key 'k' is full (2 of 2 waiting" in str(error)
    assert error.retry_after is not None
    assert error.retry_after > 0
    await crew.call("o0", "o1", "o2", key="other")
    await crew.call("n0")
    assert set(crew.errors) == {"k3"}
    await crew.end("k0")
    await crew.call("k4", key="k")
    assert set(crew.errors) == {"k3"}


async def test_queue_of_a_key_may_be_none(crew_of: MakeCrew) -> None:
    """C6: queue_size 0 for keys: a call whose key is full does not wait."""
    crew = crew_of(key_limits={"limit": 1, "queue_size": 0})
    await crew.call("a", "b", key="k")
    assert isinstance(crew.errors["b"], QueueFullError)
    await crew.end("a")
    await crew.call("c", key="k")
    assert crew.started == ["a", "c"]


async def test_full_key_under_reject(crew_of: MakeCrew) -> None:
    """K36, C14: the refusal names the key that is full."""
    crew = crew_of(strategy="reject", key_limits={"limit": 1})
    await crew.call("a", "b", key="k")
    assert "1 of 1 for key 'k'" in str(crew.errors["b"])


async def test_parked_slot_frees_its_key_and_takes_it_again(crew_of: MakeCrew) -> None:
    """C23, C14: a call that waits for its own call lends its place in the key, too."""
    crew = crew_of(key_limits={"limit": 1})
    await crew.call("outer", "next", bucket="http", key="k")
    slot = crew.slots["outer"]
    crew.controller.park(slot)
    await crew.turn()
    assert crew.started == ["outer", "next"]
    await crew.call("third", bucket="ai", key="k")
    task = asyncio.create_task(crew.controller.unpark(slot))
    await crew.turn()
    assert not task.done()
    await crew.end("next")
    assert task.done()
    assert crew.started == ["outer", "next"]
    await crew.end("outer")
    assert crew.started[-1] == "third"


async def test_nested_call_of_the_same_key(crew_of: MakeCrew) -> None:
    """C23, C14: with one slot per key, a call made by a call cannot deadlock."""
    crew = crew_of(key_limits={"limit": 1})
    await crew.call("outer", "later", key="k")
    slot = crew.slots["outer"]
    request = AdmissionRequest.of(crew.controller.config, "http", key="k")
    request.parent = slot
    crew.controller.park(slot)
    await crew.call("inner", request=request)
    assert crew.started == ["outer", "later"]
    await crew.end("later")
    assert crew.started == ["outer", "later", "inner"]
    task = asyncio.create_task(crew.controller.unpark(slot))
    await crew.call("last", bucket="ai", key="k")
    await crew.end("inner")
    assert task.done()
    assert crew.started == ["outer", "later", "inner"]


async def test_zombie_keeps_its_key(crew_of: MakeCrew) -> None:
    """C10, C14: work that outlives its call counts against its key until it stops."""
    crew = crew_of(key_limits={"limit": 1})
    await crew.call("a", "b", key="k")
    crew.controller.mark_overdue(crew.slots["a"])
    await crew.turn()
    assert crew.started == ["a"]
    await crew.end("a")
    assert crew.started == ["a", "b"]


async def test_bypass_takes_no_place_in_a_key(crew_of: MakeCrew) -> None:
    """C12, C14: callers that the limits do not apply to do not count against a key."""
    crew = crew_of(key_limits={"limit": 1})
    node = context("workflow_node", conversation_id="k")
    await crew.call("free1", "free2", context=node)
    await crew.call("a", key="k")
    assert crew.started == ["free1", "free2", "a"]


async def test_rate_and_key_together(crew_of: MakeCrew) -> None:
    """C2, C17: a call that waits for its key spends nothing of the rate of its bucket."""
    crew = crew_of(
        key_limits={"limit": 1}, bucket_rates={"web": ToolRate(2, 10.0)}, queue_timeout=None
    )
    await crew.call("k1", "k2", bucket="web", key="k")
    await crew.call("o1", "o2", bucket="web", key="o")
    assert crew.started == ["k1", "o1"]
    await crew.end("k1", "o1")
    assert crew.started == ["k1", "o1"]
    await asyncio.sleep(10.0)
    await crew.turn()
    assert crew.started == ["k1", "o1", "k2", "o2"]


async def test_key_of_a_tool(crew_of: MakeCrew) -> None:
    """C14, C22: `key: params.url` with one slot: one call per URL, others go on."""
    crew = crew_of()
    tool = tool_of(key="params.url", key_limit=1)
    await crew.call("a1", "a2", request=wanted(crew, tool, url="a"))
    await crew.call("b1", request=wanted(crew, tool, url="b"))
    await crew.call("none1", "none2", request=wanted(crew, tool))
    await crew.call("other", request=wanted(crew, tool_of("other", key="params.url"), url="a"))
    assert crew.started == ["a1", "b1", "none1", "none2", "other"]
    await crew.end("a1")
    assert crew.started[-1] == "a2"


@pytest.mark.parametrize("key", ["tool", "conversation_id", "caller_id", "workflow_id", "params"])
async def test_what_calls_of_a_tool_have_in_common(crew_of: MakeCrew, key: str) -> None:
    """C14: each kind of key holds those up that share it, and only those."""
    crew = crew_of()
    tool = tool_of(key=key)
    fields = {"caller_id": "x", "caller_type": "y", "conversation_id": "z", "workflow_id": "w"}
    caller = ToolExecutionContext(**fields)  # type: ignore[arg-type]
    await crew.call("a1", "a2", request=wanted(crew, tool, caller, n=1))
    assert crew.started == ["a1"]
    if key not in ("tool", "params"):
        caller = ToolExecutionContext(**fields | {key: "other"})  # type: ignore[arg-type]
    await crew.call("b1", request=wanted(crew, tool, caller, n=2))
    assert crew.started == (["a1"] if key == "tool" else ["a1", "b1"])


async def test_key_of_the_caller_and_of_the_tool(crew_of: MakeCrew) -> None:
    """C2, C14: both must have room; one that waits for the one takes nothing of the other."""
    crew = crew_of(key_limits={"limit": 1})
    tool = tool_of(key="tool", key_limit=1)
    ann, bob = (context(conversation_id=name) for name in ("ann", "bob"))
    await crew.call("ann1", request=wanted(crew, tool, ann))
    await crew.call("bob1", request=wanted(crew, tool, bob))
    await crew.call("bob2", key="bob")
    assert crew.started == ["ann1", "bob2"]
    await crew.end("ann1")
    assert crew.started == ["ann1", "bob2"]
    await crew.end("bob2")
    assert crew.started[-1] == "bob1"


async def test_changed_key_limit_of_a_tool(crew_of: MakeCrew) -> None:
    """C18: a definition that was reloaded with another limit applies to the next call, and to those
    that wait."""
    crew = crew_of()
    await crew.call("a1", "a2", "a3", request=wanted(crew, tool_of(key="tool", key_limit=1)))
    assert crew.started == ["a1"]
    await crew.call("b1", request=wanted(crew, tool_of(key="tool", key_limit=3)))
    assert crew.started == ["a1", "a2", "a3"]
    await crew.end("a1")
    assert crew.started[-1] == "b1"


def of_tool(crew: Crew, conversation: str, *, limit: int = 1) -> AdmissionRequest:
    """A call of a tool that runs `limit` times at once, on behalf of one conversation."""
    tool = tool_of(key="tool", key_limit=limit)
    return wanted(crew, tool, context(conversation_id=conversation))


async def test_thousands_of_conversations_wait_for_one_tool(crew_of: MakeCrew) -> None:
    """C14, C30: a slot of the tool that comes free concerns only who is next, not all who wait."""
    many = 300
    crew = crew_of(max_concurrent=2, queue_size=many, key_limits={})
    tries: Counter[str] = Counter()
    for number in range(many):
        crew.begin(f"c{number}", request=of_tool(crew, f"c{number}"))
    await crew.turn()
    with counted_tries(tries):
        served = await crew.serve(many - 1)
    assert served == [f"c{number}" for number in range(1, many)]
    assert tries["lets"] < 20 * many


@contextlib.contextmanager
def counted_tries(tries: Counter[str]) -> Iterator[None]:
    """Counts how often a lane is asked whether its first call may go."""
    original = Lane.lets

    def lets(lane: Lane, waiter: Waiter, now: float) -> bool:
        tries["lets"] += 1
        return original(lane, waiter, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lane, "lets", lets)
        yield


async def test_next_in_key_when_the_first_is_held_up_elsewhere(crew_of: MakeCrew) -> None:
    """C4, C14: the room that the first cannot use, because of another key, goes to the next."""
    crew = crew_of(max_concurrent=3, key_limits={"limit": 1})
    await crew.call("runs", request=of_tool(crew, "c0"))
    await crew.call("first", request=of_tool(crew, "c1"))
    await crew.call("second", request=of_tool(crew, "c2"))
    await crew.call("busy", key="c1")
    assert crew.started == ["runs", "busy"]
    await crew.end("runs")
    assert crew.started == ["runs", "busy", "second"]
    await crew.end("busy")
    assert crew.started == ["runs", "busy", "second"]
    await crew.end("second")
    assert crew.started[-1] == "first"


async def test_heavy_call_is_asked_before_those_behind_it_elsewhere(crew_of: MakeCrew) -> None:
    """C14, C16: whichever bucket of the key is looked at first."""
    crew = crew_of(key_limits={"limit": 2})
    await crew.call("h1", "h2", "light", bucket="ai", key="k")
    await crew.call("heavy", bucket="http", key="k", weight=2)
    await crew.call("late", bucket="ai", key="k")
    await crew.end("h1", "h2")
    assert crew.started == ["h1", "h2", "light"]
    await crew.end("light")
    assert crew.started[-1] == "heavy"


async def test_next_in_key_when_the_first_loses_its_chance(crew_of: MakeCrew) -> None:
    """C4, C14: while the first waits for any slot, its conversation becomes full."""
    crew = crew_of(max_concurrent=2, key_limits={"limit": 1}, strategy="priority")
    await crew.call("runs", request=of_tool(crew, "c0"))
    await crew.call("other", key="x")
    await crew.call("first", request=of_tool(crew, "c1"))
    await crew.call("second", request=of_tool(crew, "c2"))
    await crew.call("urgent", key="c1", priority=0)
    await crew.end("runs")  # the tool has room: `first` stands in line, and `urgent` before it
    assert crew.started[-1] == "urgent"
    await crew.end("other")
    assert crew.started[-1] == "second"


@pytest.mark.parametrize("how", ["cancelled", "refused"])
async def test_nobody_is_barred_by_a_call_that_has_gone(crew_of: MakeCrew, how: str) -> None:
    """C8, C14: a call that waited for its key leaves no trace in it."""
    crew = crew_of(key_limits={"limit": 1}, strategy="reject" if how == "refused" else "fifo")
    await crew.call("runs", "gone", key="k")
    await crew.cancel("gone")
    await crew.end("runs")
    slot = crew.controller.try_acquire(key="k")
    assert slot is not None
    crew.controller.release(slot)


async def test_thousands_give_up_while_their_key_is_full(crew_of: MakeCrew) -> None:
    """C8, C14: nothing is kept of lanes that are left, however long the key stays full."""
    crew = crew_of(max_concurrent=1, queue_size=1000, key_limits={})
    await crew.call("runs", request=of_tool(crew, "c"))
    key = next(key for key in crew.controller._layout.keys.values() if key.name[0])
    for number in range(300):
        await crew.call(f"n{number}", request=of_tool(crew, f"c{number}"))
        await crew.cancel(f"n{number}")
    assert not key.blocked
    assert sum(map(len, key._heaps.values())) < 200
