"""Does a call that waits learn why, behind whom, and does it say so in a good sentence?"""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.admission.conftest import MakeCrew
from tests.admission.crew import Crew, context
from tool_engine.admission import ToolConcurrencyController
from tool_engine.admission.key import Key
from tool_engine.admission.reasons import Reason
from tool_engine.admission.request import AdmissionRequest
from tool_engine.errors import CircuitOpenError
from tool_engine.model.settings.concurrency import BreakerPolicy, CollisionPolicy, ToolRate


async def ask(crew: Crew, *names: str, bucket: str | None = None, **how: Any) -> None:
    """Calls with an id, which is the name."""
    talk = how.pop("talk", None)
    for name in names:
        who = context(call_id=name, conversation_id=talk)
        await crew.call(name, bucket=bucket, context=who, **how)


def reason(crew: Crew, name: str) -> str:
    told = crew.controller.explain(name)
    assert told.state == "waiting"
    return told.reason


async def test_a_full_bucket(crew_of: MakeCrew) -> None:
    """explain: the bucket, its limit, who holds it, who comes first, and for how long already."""
    crew = crew_of(max_concurrent=9, bucket_limits={"http": 2})
    await ask(crew, "a", "b", "c", "d", bucket="http")
    await ask(crew, "other", bucket="ai")
    await asyncio.sleep(1.5)
    told = crew.controller.explain("c")
    assert (told.bucket, told.position, told.ahead) == ("http", 1, [])
    assert (told.holders, told.waited) == (["a", "b"], 1.5)
    assert told.reason == "bucket 'http' is full (2 of 2)"
    assert str(told) == (
        "c has waited 1.50 s as number 1 for bucket 'http': bucket 'http' is full (2 of 2)"
    )
    told = crew.controller.explain("d")
    assert (told.position, told.ahead, told.holders) == (2, ["c"], ["a", "b"])
    assert told.reason == "c is the first of its line, and bucket 'http' is full (2 of 2)"


async def test_all_slots_in_use(crew_of: MakeCrew) -> None:
    """explain: without a limit of its own a bucket waits for all; bypassing calls hold nothing."""
    crew = crew_of(max_concurrent=2, queue_timeout=None)
    await crew.call("free", context=context("workflow_node", call_id="free"))
    await ask(crew, "a", bucket="http")
    await ask(crew, "b", bucket="ai")
    await ask(crew, "c", bucket="http")
    await ask(crew, "d", bucket="ai")
    assert crew.controller.explain("c").holders == ["a", "b"]
    assert reason(crew, "c") == "all slots are in use (2 of 2)"
    assert reason(crew, "d") == "c comes first, and all slots are in use (2 of 2)"
    await asyncio.sleep(60.0)
    await crew.end("a")
    told = crew.controller.explain("d")
    assert told.wait_p50 is not None
    assert str(told).endswith(
        "number 1 for bucket 'ai': all slots are in use (2 of 2); "
        f"about {told.wait_p50:.2f} s to go (nine in ten: 60.00 s)"
    )


async def test_after_a_slot_was_passed_on(crew_of: MakeCrew) -> None:
    """Who is first is who waits now, also where calls of one line alone have waited since."""
    crew = crew_of(max_concurrent=1, queue_timeout=None)
    await ask(crew, "a", "b", bucket="http")
    await ask(crew, "x", bucket="ai")
    await ask(crew, "c", "d", "e", bucket="http")
    for name in ("a", "b", "x", "c"):
        await crew.end(name)
    assert reason(crew, "e") == "all slots are in use (1 of 1)"


async def test_a_heavier_call_comes_first(crew_of: MakeCrew) -> None:
    """C16: room is kept for a heavy call; those behind it learn so, in all and in a bucket."""
    crew = crew_of(max_concurrent=3, bucket_limits={"http": 2})
    await ask(crew, "a", "b", bucket="ai")
    await ask(crew, "heavy", weight=2)
    await ask(crew, "light")
    told = crew.controller.explain("light")
    assert told.reason == (
        "heavy is the first of its line, and a call of weight 2 finds no room (2 of 3 in use)"
    )
    assert told.holders == ["a", "b"]
    await crew.end("a", "b")
    await crew.end("heavy", "light")
    await ask(crew, "c", bucket="http")
    await ask(crew, "big", bucket="http", weight=2)
    assert reason(crew, "big") == "bucket 'http' has no room for weight 2 (1 of 2 in use)"


async def test_a_key_is_full(crew_of: MakeCrew) -> None:
    """C14: the key, its limit and its holders; others of the bucket do not wait for it."""
    crew = crew_of(max_concurrent=9, bucket_limits={"http": 9}, key_limits={"limit": 2})
    await ask(crew, "a", bucket="http", talk="ann")
    await ask(crew, "b", bucket="ai", talk="ann")
    await ask(crew, "c", bucket="http", talk="ann")
    await ask(crew, "d", bucket="ai", talk="ann")
    told = crew.controller.explain("c")
    assert (told.reason, told.holders) == ("key 'ann' is full (2 of 2)", ["a", "b"])
    assert reason(crew, "d") == "key 'ann' is full (2 of 2)"


async def test_a_heavier_call_of_the_key_comes_first(crew_of: MakeCrew) -> None:
    """C16: within a key a heavy call is not overtaken either, from whatever bucket."""
    crew = crew_of(max_concurrent=9, key_limits={"limit": 3})
    await ask(crew, "a", talk="ann", weight=2)
    await ask(crew, "heavy", bucket="http", talk="ann", weight=2)
    await ask(crew, "light", bucket="ai", talk="ann")
    assert reason(crew, "light") == (
        "heavy comes first, and key 'ann' has no room for weight 2 (2 of 3 in use)"
    )


async def test_the_key_of_a_tool_is_full(crew_of: MakeCrew) -> None:
    """C22: the tool is named, the value is not: it may be an argument."""
    crew = crew_of()
    own = AdmissionRequest(tool_name="pay", tool_key="0f0f", tool_key_limit=1, lane="own")
    for name in ("a", "b"):
        await crew.call(name, request=_named(own, name))
    told = crew.controller.explain("b")
    assert (told.reason, told.holders) == ("the key of tool 'pay' is full (1 of 1)", ["a"])


async def test_a_call_that_lent_its_slot_out_blocks_its_key(crew_of: MakeCrew) -> None:
    """C22, C23: a call waits for one with its key that is in progress without a slot."""
    crew = crew_of()
    policy = CollisionPolicy.CANCEL_IN_PROGRESS
    own = AdmissionRequest(
        tool_name="pay", tool_key="0f", tool_key_limit=1, lane="own", collision=policy
    )
    await crew.call("a", request=_named(own, "a"))
    crew.controller.park(crew.slots["a"])
    await crew.call("b", request=_named(own, "b"))
    assert reason(crew, "b") == "a call of the key of tool 'pay' has lent its slot out"
    assert crew.controller.explain("b").wait_p50 is None
    assert [row.call_id for row in crew.controller.snapshot().waiting] == ["b"]


async def test_a_rate(crew_of: MakeCrew) -> None:
    """C17: the rate of the tool or of the bucket, and when it lets the next one through."""
    crew = crew_of(bucket_rates={"http": "1/4s"})
    await ask(crew, "a", "b", bucket="http")
    await asyncio.sleep(1.0)
    assert reason(crew, "b") == "the rate of bucket 'http' lets the next call through in 3.00 s"
    rated = AdmissionRequest(rate=ToolRate(1, 9.0), lane="own", line="own", tool_name="pay")
    for name in ("c", "d", "e"):
        await crew.call(name, request=_named(rated, name))
    assert reason(crew, "d") == "the rate of tool 'pay' lets the next call through in 9.00 s"
    assert reason(crew, "e").startswith("d is the first of its line, and the rate of tool 'pay'")


async def test_a_pause_of_the_bucket(crew_of: MakeCrew) -> None:
    """C17: a pause is told apart from a rate and from a full bucket."""
    crew = crew_of(bucket_limits={"http": 1}, bucket_rates={"http": "1/4s"})
    await ask(crew, "a", bucket="http")
    crew.controller.pause_bucket("http", 20.0)
    await ask(crew, "b", bucket="http")
    assert reason(crew, "b") == "the pause of bucket 'http' lets the next call through in 20.00 s"
    assert crew.controller.explain("b").holders == []


async def test_a_paused_controller(crew_of: MakeCrew) -> None:
    """C24: then that is the reason, whatever else there is."""
    crew = crew_of(max_concurrent=1)
    await ask(crew, "a", "b")
    crew.controller.pause()
    assert reason(crew, "b") == "the controller is paused"
    assert crew.controller.snapshot().waiting[0].reason == "the controller is paused"


async def test_the_end_of_a_delay_that_nobody_has_noticed_yet(crew_of: MakeCrew) -> None:
    """explain: in the moment before its timer rings, nothing holds the call up any more."""
    crew = crew_of()
    now = 0.0
    crew.controller = ToolConcurrencyController(clock=lambda: now)
    crew.controller.pause_bucket("http", 9.0)
    await ask(crew, "a", bucket="http")
    now = 9.0
    assert reason(crew, "a") == "it goes on at once"
    assert crew.controller.explain("a").wait_p50 == 0.0


async def test_calls_that_do_not_wait(crew_of: MakeCrew) -> None:
    """explain: running, bypassing, parked, outlived by its work, or unknown."""
    crew = crew_of(slot_ttl=5.0)
    await ask(crew, "a", "b", "c", bucket="http")
    await crew.call("free", context=context("workflow_node", call_id="free"))
    await asyncio.sleep(2.0)
    explain = crew.controller.explain
    assert str(explain("a")) == "a runs in bucket 'http': it has its slot; it began 2.00 s ago"
    assert (explain("a").position, explain("a").wait_p50) == (0, None)
    assert explain("free").reason == "it needs no slot; it began 2.00 s ago"
    crew.controller.mark_overdue(crew.slots["b"])
    assert explain("b").state == "running"
    assert explain("b").reason == (
        "it has ended for its caller, but its work goes on and holds the slot; "
        "it began 2.00 s ago and is overdue"
    )
    crew.controller.park(crew.slots["c"])
    assert str(explain("c")) == (
        "c is parked in bucket 'http': it has lent its slot out until a call of its own has ended; "
        "it began 2.00 s ago"
    )
    assert (explain("x").state, str(explain("x"))) == (
        "unknown",
        (
            "x neither holds a slot nor waits for one; the engine gives the ids: take that of an "
            "event, of the snapshot or of context.call_id in a tool"
        ),
    )
    await asyncio.sleep(4.0)
    assert explain("a").reason.endswith("6.00 s ago and is overdue")


async def test_a_call_that_a_breaker_refuses_does_not_wait(crew_of: MakeCrew) -> None:
    """C20: it has ended, so that nothing is known of it."""
    crew = crew_of(breakers={"http": BreakerPolicy(failures=1)})
    await ask(crew, "a", bucket="http")
    crew.controller.release(crew.slots.pop("a"), outcome=False)
    await ask(crew, "b", bucket="http")
    assert isinstance(crew.errors["b"], CircuitOpenError)
    assert crew.controller.explain("b").state == "unknown"


async def test_at_most_ten_are_named(crew_of: MakeCrew) -> None:
    """explain: those who hold what is wanted, and those ahead; the position has the number."""
    crew = crew_of(max_concurrent=12)
    await ask(crew, *(f"running {n}" for n in range(12)))
    await crew.call("nameless")
    await ask(crew, *(f"waiting {n}" for n in range(12)))
    told = crew.controller.explain("waiting 11")
    assert told.position == 13
    assert told.ahead == ["(no id)", *(f"waiting {n}" for n in range(9))]
    assert told.holders == [f"running {n}" for n in range(10)]
    assert told.reason.startswith("another call is the first of its line")
    assert json.loads(json.dumps(told.to_dict()))["text"] == str(told)


async def test_a_holder_without_an_id_is_named_by_its_slot(crew_of: MakeCrew) -> None:
    """explain: the same name as in the snapshot."""
    crew = crew_of(max_concurrent=1)
    await crew.call("nameless")
    await ask(crew, "a")
    assert crew.controller.explain("a").holders == [crew.controller.snapshot().held[0].slot_id]


@pytest.mark.parametrize("strategy", ["fifo", "priority", "fair"])
async def test_a_nested_call_has_the_place_of_its_parent(strategy: str, crew_of: MakeCrew) -> None:
    """C23: it stands ahead of those who came after its parent."""
    crew = crew_of(max_concurrent=1, strategy=strategy)
    await ask(crew, "outer", "next", "last")
    outer = crew.slots["outer"]
    crew.controller.park(outer)
    await crew.turn()
    await crew.call("inner", request=AdmissionRequest(parent=outer, call_id="inner"))
    told = crew.controller.explain("inner")
    assert (told.position, told.holders) == (1, ["next"])
    assert crew.controller.explain("last").ahead == ["inner"]


def _named(request: AdmissionRequest, name: str) -> AdmissionRequest:
    return msgspec.structs.replace(request, call_id=name)


def test_the_key_of_another_has_no_name() -> None:
    """Who waits behind a call of another key learns that it is full, and not whose it is."""
    own, other = Key((None, "ann")), Key((None, "bob"))
    lane, lane_of_other = SimpleNamespace(keys=(own,)), SimpleNamespace(keys=(other,))
    request = SimpleNamespace(call_id="b")
    first: Any = SimpleNamespace(lane=lane_of_other, call_id="b", request=request)
    waiter: Any = SimpleNamespace(lane=lane, call_id="a", request=request)
    found = Reason(first, "key 'bob' is full (1 of 1)", other)
    assert found.text_for(waiter) == "b comes first, and the key of that call is full (1 of 1)"
    assert found.text_for(first) == "key 'bob' is full (1 of 1)"
