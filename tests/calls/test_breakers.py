"""Do circuit breakers of tools and buckets open, probe and close with the calls of an engine?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.calls.audit import Audit, make_engine, turns
from tests.calls.samples import Stubborn, bare, forever
from tool_engine import (
    BreakerPolicy,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolExecutionResult,
)
from tool_engine.executors.handler import executor_for

BOUND = 10_000.0
YAML = """
name: service
version: 1.0.0
description: A service
category: custom
effect: read
timeout: 10
parameters:
  - {{name: number, type: integer, description: A number}}
concurrency: {{breaker: {{failures: {failures}, reset_after: {reset_after}, probes: {probes}}}}}
entry: {{type: custom, handler: service}}
"""


class Service:
    """A tool that fails while it is down, after a second."""

    def __init__(self, *, is_down: bool = True, seconds: float = 1.0) -> None:
        self.is_down = is_down
        self.seconds = seconds
        self.runs = 0
        self.running = 0
        self.most = 0

    async def __call__(self, **params: Any) -> str:
        self.runs += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.running -= 1
        if self.is_down:
            raise ConnectionError("the service is down")
        return "up"


def guarded(
    engine: ToolEngine,
    service: Any,
    failures: int = 3,
    reset_after: float = 30,
    probes: int = 1,
) -> None:
    text = YAML.format(failures=failures, reset_after=reset_after, probes=probes)
    engine.register_tool(ToolConfigLoader().load_text(text), service)


def start(
    engine: ToolEngine, name: str = "service", params: Any = None, **context: Any
) -> asyncio.Task[ToolExecutionResult]:
    return asyncio.create_task(engine.execute(name, params, ToolExecutionContext(**context)))


async def ends(*calls: asyncio.Task[ToolExecutionResult]) -> list[str | None]:
    async with asyncio.timeout(BOUND):
        return [(await call).error_type for call in calls]


async def one(engine: ToolEngine, name: str = "service", params: Any = None) -> str | None:
    return (await engine.execute(name, params)).error_type


async def test_failures_in_a_row_open_it(engine: ToolEngine, audit: Audit) -> None:
    """C20: after three failures in a row the tool is not called any more, and says until when."""
    service = Service()
    guarded(engine, service)
    assert [await one(engine) for _ in range(5)] == [
        *["execution_error"] * 3,
        *["circuit_open"] * 2,
    ]
    assert service.runs == 3
    await asyncio.sleep(10)
    result = await engine.execute("service")
    assert result.error_type == "circuit_open"
    assert result.outcome.value == "rejected"
    assert result.metadata["error_details"] == {"retry_after": 20.0}
    assert "breaker of tool 'service'" in (result.error or "")
    assert "20 s" in (result.error or "")
    assert audit.kinds(result.call_id) == ["execution_failed"]
    await audit.check([result])


async def test_a_success_in_between_starts_the_count_anew(engine: ToolEngine, audit: Audit) -> None:
    """C20: only failures in a row count."""
    service = Service()
    guarded(engine, service)
    for is_down in (True, True, False, True, True, False):
        service.is_down = is_down
        assert await one(engine) == ("execution_error" if is_down else None)
    await audit.check()


async def test_it_closes_after_a_good_probe(engine: ToolEngine, audit: Audit) -> None:
    """C20: after reset_after one call is tried; if it is good, all may pass again."""
    service = Service()
    guarded(engine, service, failures=1)
    assert await one(engine) == "execution_error"
    await asyncio.sleep(30)
    service.is_down = False
    assert await one(engine) is None
    assert await ends(*(start(engine) for _ in range(5))) == [None] * 5
    await audit.check()


async def test_it_opens_again_after_a_bad_probe(engine: ToolEngine, audit: Audit) -> None:
    """C20: a failed probe opens it for another reset_after."""
    service = Service()
    guarded(engine, service, failures=1)
    assert await one(engine) == "execution_error"
    await asyncio.sleep(30)
    assert [await one(engine) for _ in range(2)] == ["execution_error", "circuit_open"]
    await asyncio.sleep(29)
    assert await one(engine) == "circuit_open"
    await asyncio.sleep(1)
    service.is_down = False
    assert await one(engine) is None
    await audit.check()


@pytest.mark.parametrize("probes", [1, 3])
async def test_probes_are_bounded(engine: ToolEngine, audit: Audit, probes: int) -> None:
    """C20: while it is half-open no more than its probes run at once; the others are refused."""
    service = Service(seconds=5.0)
    guarded(engine, service, failures=1, probes=probes)
    assert await one(engine) == "execution_error"
    await asyncio.sleep(30)
    service.is_down, service.most = False, 0
    calls = [start(engine) for _ in range(8)]
    assert await ends(*calls) == [*[None] * probes, *["circuit_open"] * (8 - probes)]
    assert service.most == probes
    await audit.check()


async def test_those_who_wait_are_refused_when_it_opens() -> None:
    """C20: a call that waits for a slot is refused as soon as the breaker opens."""
    engine = make_engine(1, queue_timeout=None)
    audit = Audit(engine)
    guarded(engine, Service(), failures=2, reset_after=7)
    calls = [start(engine) for _ in range(6)]
    assert await ends(*calls) == [*["execution_error"] * 2, *["circuit_open"] * 4]
    assert asyncio.get_running_loop().time() == 1002.0
    assert calls[5].result().metadata["error_details"] == {"retry_after": 7.0}
    await audit.check([call.result() for call in calls])
    await engine.close()


async def test_those_who_wait_elsewhere_are_refused_too() -> None:
    """C20: also where others wait for other keys or tools: their lines are left in order."""
    breakers = {"custom": {"failures": 1, "reset_after": 5}}
    engine = make_engine(1, queue_timeout=None, breakers=breakers)
    audit = Audit(engine)
    bad, good = Service(), Service(is_down=False)
    engine.register_tool(bare("bad"), bad)
    engine.register_tool(bare("good", rate="100/s"), good)
    engine.register_tool(bare("keyed", concurrency={"key": "conversation_id"}), good)
    engine.register_tool(bare("elsewhere", concurrency={"bucket": "elsewhere"}), good)
    names = ["bad", "bad", "good", "keyed", "keyed", "elsewhere", "good", "bad"]
    for _ in range(2):
        calls = [start(engine, name, conversation_id=f"c{n}") for n, name in enumerate(names)]
        expected = ["circuit_open"] * 8
        expected[0], expected[5] = "execution_error", None  # type: ignore[call-overload] # a success
        assert await ends(*calls) == expected
        await audit.check([call.result() for call in calls])
        await asyncio.sleep(6)
    calls = [start(engine, name, conversation_id="c") for name in ("good", "keyed", "elsewhere")]
    # The first of them is the probe; while it runs, nobody else may.
    assert await ends(*calls) == [None, "circuit_open", None]
    assert [await one(engine, name) for name in ("good", "keyed", "good")] == [None] * 3
    await audit.check()
    await engine.close()


async def test_many_wait_while_a_probe_runs() -> None:
    """C20: calls that wait for something else do not become probes beyond the bound."""
    engine = make_engine(10, queue_timeout=None, bucket_limits={"custom": 4})
    audit = Audit(engine)
    service = Service()
    guarded(engine, service, failures=1, probes=2)
    engine.register_tool(bare("other"), Service(is_down=False, seconds=3.0))
    assert await one(engine) == "execution_error"
    await asyncio.sleep(30)
    service.is_down, service.seconds, service.most = False, 5.0, 0
    others = [start(engine, "other") for _ in range(4)]
    await turns()
    calls = [start(engine) for _ in range(10)]
    await turns()
    assert engine.controller.get_metrics().queue_length == 10
    assert await ends(*others) == [None] * 4
    assert await ends(*calls) == [None, None, *["circuit_open"] * 8]
    assert service.most == 2
    await audit.check()
    await engine.close()


async def test_what_does_not_count(engine: ToolEngine, audit: Audit) -> None:
    """C20: invalid, refused and cancelled calls say nothing about the service."""
    service = Service()
    guarded(engine, service, failures=2)
    assert await one(engine) == "execution_error"
    assert await one(engine, params={"number": "many"}) == "validation_error"
    cancelled = start(engine)
    await turns()
    cancelled.cancel()
    await asyncio.wait([cancelled])
    engine.controller.pause()
    waiting = start(engine)
    await turns()
    waiting.cancel()
    await asyncio.wait([waiting])
    refused = start(engine)
    assert await ends(refused) == ["queue_timeout"]
    engine.controller.resume()
    assert await one(engine) == "execution_error"
    assert await one(engine) == "circuit_open"
    assert service.runs == 3
    await audit.check()


async def test_a_superseded_call_does_not_count(engine: ToolEngine, audit: Audit) -> None:
    """C20, C22: nor does one whose place another call takes."""
    breaker = {"failures": 1}
    concurrency = {"collision": "cancel_in_progress", "breaker": breaker}
    engine.register_tool(bare("job", concurrency=concurrency), Service(is_down=False))
    calls = []
    for _ in range(4):
        calls.append(start(engine, "job"))
        await turns()
    assert await ends(*calls) == [*["cancelled"] * 3, None]
    await audit.check()


async def test_a_cancelled_probe_makes_room_for_another(engine: ToolEngine, audit: Audit) -> None:
    """C20: a probe that says nothing can be taken again at once."""
    service = Service()
    guarded(engine, service, failures=1)
    assert await one(engine) == "execution_error"
    await asyncio.sleep(30)
    service.is_down = False
    probe = start(engine)
    await turns()
    assert await one(engine) == "circuit_open"
    probe.cancel()
    await asyncio.wait([probe])
    assert await one(engine) is None
    await audit.check()


async def test_a_timeout_counts_at_the_deadline(engine: ToolEngine, audit: Audit) -> None:
    """C20: work that goes on after its deadline has failed then, and not again when it ends."""
    stubborn = Stubborn(60.0)

    async def tool(**params: Any) -> Any:
        return await stubborn()

    guarded(engine, tool, failures=1, reset_after=40)
    assert await one(engine) == "timeout"
    assert await one(engine) == "circuit_open"
    await asyncio.sleep(40)
    assert not stubborn.ended.is_set()
    probe = start(engine)
    await turns()
    assert not probe.done()
    await stubborn.ended.wait()
    assert await ends(probe) == ["timeout"]
    assert await one(engine) == "circuit_open"
    await asyncio.sleep(100)
    await audit.check()


async def test_the_late_end_of_a_zombie_is_no_success(engine: ToolEngine, audit: Audit) -> None:
    """C20: a tool that returns a value long after its deadline does not close the breaker."""
    stubborn = Stubborn(10.0)

    async def tool(**params: Any) -> Any:
        return await stubborn()

    guarded(engine, tool, failures=2, reset_after=500)
    assert await one(engine) == "timeout"
    await stubborn.ended.wait()
    await turns()
    assert await one(engine) == "timeout"
    assert await one(engine) == "circuit_open"
    await asyncio.sleep(100)
    await audit.check()


@pytest.mark.parametrize("is_late", [True, False], ids=["waits", "at once"])
async def test_a_retried_call_counts_once(engine: ToolEngine, audit: Audit, is_late: bool) -> None:
    """C20: three attempts of one call are one failure, or one success."""
    runs: list[int] = []
    good_from = 7

    async def flaky() -> int:
        runs.append(1)
        if is_late:
            await asyncio.sleep(0.1)
        if len(runs) < good_from:
            raise ConnectionError("the service is down")
        return len(runs)

    engine.register_tool(
        bare(
            "flaky",
            effect="read",
            retry={"attempts": 3, "backoff": 0.1},
            concurrency={"breaker": {"failures": 3}},
        ),
        flaky,
    )
    assert [await one(engine, "flaky") for _ in range(2)] == ["execution_error"] * 2
    assert len(runs) == 6
    assert await one(engine, "flaky") is None
    good_from = 100
    ended = [await one(engine, "flaky") for _ in range(4)]
    assert ended == [*["execution_error"] * 3, "circuit_open"]
    await audit.check()


@pytest.mark.parametrize("is_bucket", [False, True], ids=["tool", "bucket"])
async def test_a_call_that_runs_when_it_opens_goes_on(
    engine: ToolEngine, audit: Audit, is_bucket: bool
) -> None:
    """C20: opening ends no running call, and its late success closes nothing."""
    policy = {"failures": 1, "reset_after": 30}
    if is_bucket:
        config = type(engine.controller.config)(breakers={"custom": BreakerPolicy(**policy)})
        engine.controller.configure(config)
    service = Service(is_down=False, seconds=10.0)
    failing = Service()
    own = {} if is_bucket else {"concurrency": {"breaker": policy}}

    async def tool(bad: bool) -> Any:
        return await (failing if bad else service)()

    bad = {"name": "bad", "type": "boolean", "required": True, "description": "Whether to fail"}
    engine.register_tool(bare("tool", parameters=[bad], **own), tool)
    slow = start(engine, "tool", {"bad": False})
    await turns()
    assert await one(engine, "tool", {"bad": True}) == "execution_error"
    assert await one(engine, "tool", {"bad": False}) == "circuit_open"
    assert await ends(slow) == [None]
    refused = await engine.execute("tool", {"bad": False})
    assert refused.error_type == "circuit_open"
    assert ("bucket 'custom'" if is_bucket else "tool 'tool'") in (refused.error or "")
    await audit.check()


async def test_a_bucket_counts_all_its_tools() -> None:
    """C20: the breaker of a bucket counts failures whichever tool has them, and stops them all."""
    breakers = {"custom": {"failures": 2, "reset_after": 30}}
    engine = make_engine(breakers=breakers)
    audit = Audit(engine)
    for name in ("a", "b"):
        engine.register_tool(bare(name), Service())
    engine.register_tool(bare("c"), Service(is_down=False))
    engine.register_tool(bare("d", concurrency={"bucket": "d"}), Service(is_down=False))
    ended = [await one(engine, name) for name in ("a", "b", "c", "d")]
    assert ended == ["execution_error", "execution_error", "circuit_open", None]
    assert engine.controller.snapshot().buckets["custom"]["breaker"] == "open"
    await asyncio.sleep(30)
    assert engine.controller.snapshot().buckets["custom"]["breaker"] == "half_open"
    assert await one(engine, "c") is None
    assert engine.controller.snapshot().buckets["custom"]["breaker"] == "closed"
    await audit.check()
    await engine.close()


async def test_a_tool_and_its_bucket_each_have_one() -> None:
    """C20: either of the two refuses the call; a probe refused by one is not kept by the other."""
    breakers = {"custom": {"failures": 3, "reset_after": 100}}
    engine = make_engine(breakers=breakers)
    audit = Audit(engine)
    service, other = Service(), Service()
    guarded(engine, service, failures=1, reset_after=10)
    engine.register_tool(bare("other"), other)
    assert [await one(engine) for _ in range(2)] == ["execution_error", "circuit_open"]
    assert [await one(engine, "other") for _ in range(3)] == [
        "execution_error",
        "execution_error",
        "circuit_open",
    ]
    await asyncio.sleep(20)
    refused = await engine.execute("service")
    assert "bucket 'custom'" in (refused.error or "")
    service.is_down = other.is_down = False
    await asyncio.sleep(90)
    assert await one(engine) is None
    assert [await one(engine, name) for name in ("service", "other")] == [None, None]
    await audit.check()
    await engine.close()


async def test_nested_calls_count_for_their_own_tools(engine: ToolEngine, audit: Audit) -> None:
    """C20, C23: a tool that copes with the failure of another has not failed."""
    outcomes: list[str | None] = []

    async def outer(context: ToolExecutionContext) -> None:
        outcomes.append((await context.call("service")).error_type)

    guarded(engine, Service(), failures=1)
    engine.register_tool(bare("outer", concurrency={"breaker": {"failures": 1}}), outer)
    assert [await one(engine, "outer") for _ in range(3)] == [None] * 3
    assert outcomes == ["execution_error", "circuit_open", "circuit_open"]
    await audit.check()


async def test_a_probe_that_calls_others(engine: ToolEngine, audit: Audit) -> None:
    """C20, C23: a probe keeps its place while its slot is parked."""
    service = Service()

    async def outer(context: ToolExecutionContext) -> None:
        if not (await context.call("service")).is_success:
            raise ConnectionError("the service is down")

    engine.register_tool(bare("service"), service)
    engine.register_tool(bare("outer", concurrency={"breaker": {"failures": 1}}), outer)
    assert await one(engine, "outer") == "execution_error"
    await asyncio.sleep(30)
    service.is_down = False
    probe = start(engine, "outer")
    await turns()
    assert await one(engine, "outer") == "circuit_open"
    assert await ends(probe) == [None]
    assert await one(engine, "outer") is None
    await audit.check()


async def test_the_state_survives_a_reload(tmp_path: Path) -> None:
    """C20: a reload with another policy, and back, neither opens nor closes the breaker."""
    file = tmp_path / "service.yaml"

    def write(failures: int, reset_after: float) -> None:
        text = YAML.format(failures=failures, reset_after=reset_after, probes=1)
        file.write_text(text)

    write(1, 30)
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:
        audit = Audit(engine)
        engine.register_executor("service", executor_for(Service(), engine.get_or_raise("service")))
        assert await one(engine) == "execution_error"
        for reset_after, wait, expected in (
            (100, 40, "circuit_open"),
            (30, 0, "execution_error"),  # 40 s have passed: it is a probe
            (100, 40, "circuit_open"),
            (30, 0, "execution_error"),
        ):
            write(1, reset_after)
            assert (await engine.reload())["modified"] == ["service"]
            await asyncio.sleep(wait)
            assert await one(engine) == expected
        write(5, 30)
        await engine.reload()
        assert await one(engine) == "circuit_open"
        await audit.check()


async def test_a_policy_that_is_changed_while_calls_run(engine: ToolEngine, audit: Audit) -> None:
    """C20: calls that began under the old policy count under the new one."""
    service = Service()
    for failures in (10, 2, 10, 2):
        if engine.get("service"):
            engine.unregister_tool("service")
        breaker = {"failures": failures, "reset_after": 30}
        engine.register_tool(bare("service", concurrency={"breaker": breaker}), service)
        running = [start(engine) for _ in range(2)]
        await turns()
    assert await ends(*running) == ["execution_error"] * 2
    assert await one(engine) == "circuit_open"
    assert service.runs == 8
    await audit.check()


async def test_a_rate_that_is_changed_and_changed_back(engine: ToolEngine, audit: Audit) -> None:
    """C18: what waits under the old rate goes on, and nothing is kept of it afterwards."""
    service = Service(is_down=False, seconds=0.1)
    calls = []
    for rate in ("1/s", "100/s", "1/s", "50/s"):
        if engine.get("rated"):
            engine.unregister_tool("rated")
        engine.register_tool(bare("rated", rate=rate, timeout=500), service)
        calls += [start(engine, "rated") for _ in range(3)]
        await turns()
    assert await ends(*calls) == [None] * 12
    assert asyncio.get_running_loop().time() < 1010.0
    await one(engine, "rated")
    assert len(engine.controller._layout.lanes) == 1
    await audit.check()


async def test_a_breaker_that_is_taken_out(engine: ToolEngine, audit: Audit) -> None:
    """C18, C20: without a breaker in the new configuration nobody is refused."""
    engine.controller.configure(
        type(engine.controller.config)(breakers={"custom": BreakerPolicy(1, 30)})
    )
    engine.register_tool(bare("bad"), Service())
    running = start(engine, "bad")
    await turns()
    assert await one(engine, "bad") == "execution_error"
    assert await one(engine, "bad") == "circuit_open"
    assert await ends(running) == ["execution_error"]
    engine.controller.configure(type(engine.controller.config)())
    assert [await one(engine, "bad") for _ in range(3)] == ["execution_error"] * 3
    await audit.check()


async def test_bypassing_calls(engine: ToolEngine, audit: Audit) -> None:
    """C12: calls that nothing limits are neither refused nor counted."""
    guarded(engine, Service(), failures=1)
    calls = [start(engine, caller_type="workflow_node") for _ in range(3)]
    assert await ends(*calls) == ["execution_error"] * 3
    assert await one(engine) == "execution_error"
    assert await ends(start(engine, caller_type="workflow_node")) == ["execution_error"]
    assert await one(engine) == "circuit_open"
    await audit.check()


@pytest.mark.parametrize("strategy", ["fifo", "priority", "fair", "reject"])
async def test_each_strategy(strategy: str) -> None:
    """C20: a storm of calls of many conversations on a service that goes down and comes back."""
    engine = make_engine(3, strategy=strategy, queue_timeout=None, queue_size=1000)
    audit = Audit(engine)
    service = Service(is_down=False)
    guarded(engine, service, failures=3, reset_after=10, probes=2)
    engine.register_tool(bare("other"), Service(is_down=False, seconds=0.3))
    calls = []
    for second in range(120):
        service.is_down = 20 <= second < 60
        for number in range(4):
            name = "other" if number == 3 else "service"
            calls.append(start(engine, name, conversation_id=str(number), priority=number))
        await asyncio.sleep(1)
    ended = await ends(*calls)
    assert {None, "execution_error", "circuit_open"} <= set(ended)
    assert set(ended[-4:]) <= {None, "rejected"}
    assert service.most <= 3
    await audit.check()
    await engine.close()


async def test_closing_while_it_is_open() -> None:
    """C24: an engine with an open breaker closes like any other."""
    engine = make_engine(1, close_timeout=1.0)
    audit = Audit(engine)
    guarded(engine, Service(), failures=1)
    assert await one(engine) == "execution_error"
    engine.register_tool(bare("other"), forever)
    calls = [start(engine, "other"), start(engine), start(engine, "other")]
    await turns()
    await engine.close()
    assert await ends(*calls) == ["engine_closed", "circuit_open", "engine_closed"]
    await audit.check([call.result() for call in calls])
