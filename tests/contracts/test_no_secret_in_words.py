"""What foreign code says when it fails repeats no secret of the call, wherever the engine notes it.

Each row of `PLACES` lets some code that is not the engine's raise an error that quotes a secret,
named by the log line that tells of it. Nobody who reads a log, a record, an event or a result sees
the secret; the tool has got it. `PLACES` and `OWN_WORDS` name every log line of the engine that has
words, and `tests/contracts/test_words_in_one_way.py` finds those by reading the code.

Looked at: whatever the engine logs, and whatever of a result goes on after a tool has failed: its
error, details, findings, attempts, presentation and short forms, also of a call that succeeds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from tests.contracts.secret_world import KINDS, SENT, SecretWorld
from tests.protocols.line_protocol import LineDecoder, LineProtocol
from tool_engine import (
    ConcurrencyConfig,
    ToolConcurrencyController,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionError,
    ToolSubAgent,
)
from tool_engine.agent.loop import AgentLoop
from tool_engine.agent.models import RecordedModel
from tool_engine.errors import ChatModelError
from tool_engine.logger import current_call
from tool_engine.model.group import ToolGroup
from tool_engine.protocols.cycle import process_tool_calls
from tool_engine.protocols.cycle_options import CycleOptions
from tool_engine.session.reading.compression import compressed_args, compressed_result
from tool_engine.session.reading.presentation import Presentation
from tool_engine.session.session import ToolSession

LIMIT = 30.0
UNSENT = tuple(kind for kind in KINDS if kind not in SENT)
ASK: dict[str, Any] = {"permission": {"execution": "ask_once"}}
RETRY: dict[str, Any] = {"effect": "read", "retry": {"attempts": 2, "backoff": 0.001}}


class Person:
    """Approves by what a function does; without one, everything."""

    def __init__(self, approve: Callable[..., Any] | None = None) -> None:
        self._approve = approve

    async def approve(self, request: Any) -> Any:
        return True if self._approve is None else self._approve(request)


class Decisions:
    """A storage of decisions that is broken."""

    def __init__(self, world: SecretWorld) -> None:
        self.remember = self.remembered = world.fail_later


class Around:
    """An engine of others, in whose place something fails."""

    def __init__(self, world: SecretWorld, **broken: Any) -> None:
        self._engine = world.engine
        self.__dict__.update(broken)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class Model:
    """A model that calls the tool once, and then has no more to say."""

    name = "lines"

    def __init__(self, world: SecretWorld, protocol: Any = None, **broken: Any) -> None:
        self.protocol = LineProtocol() if protocol is None else protocol
        self.world = world
        self.rounds = 0
        self.broken = broken

    def user_message(self, text: str) -> Any:
        return {"role": "user", "content": text}

    async def reply(self, request: Any) -> AsyncGenerator[Any, None]:
        self.rounds += 1
        try:
            if self.rounds == 2:
                self.broken.get("asked", lambda: None)()
            yield line(self.world) if self.rounds == 1 else "Done."
        finally:
            if self.rounds == 2:
                self.broken.get("closed", lambda: None)()


def line(world: SecretWorld) -> str:
    return f"CALL x1 pay {json.dumps(world.arguments)}"


async def cycle(world: SecretWorld, engine: Any = None, protocol: Any = None, **how: Any) -> None:
    """One reply whose call is run."""
    engine = world.engine if engine is None else engine
    protocol = LineProtocol() if protocol is None else protocol
    done = await process_tool_calls(engine, line(world), protocol, options=CycleOptions(**how))
    world.said.append([each.to_dict() for each in done.findings])
    # What the model wrote itself, it may read again.
    world.said.append(done.formatted)
    for result in done.execution_results:
        world.keep(result)


async def converse(world: SecretWorld, model: Any, **options: Any) -> None:
    """One turn of a conversation."""
    loop = AgentLoop(ToolSession(world.engine, "chat"), model, **options)
    try:
        answer = await loop.run("Pay.")
        world.said.append(answer.to_dict()["findings"])
    except ChatModelError as error:
        world.said.append(str(error))


# One for each log line that tells of what foreign code raised.


async def approver(world: SecretWorld) -> bool:
    world.define(permission={"execution": "ask_always"})
    session = ToolSession(world.engine, "chat", approver=Person(world.fail))
    world.keep(await session.execute("pay", world.arguments))
    return False


async def approval_listener(world: SecretWorld) -> bool:
    world.define(**ASK)
    session = ToolSession(world.engine, "chat", approver=Person())
    session.gate.on_request = session.gate.on_answer = world.fail
    world.keep(await session.execute("pay", world.arguments))
    return True


async def decisions(world: SecretWorld) -> bool:
    world.define(**ASK)
    session = ToolSession(world.engine, "chat", approver=Person())
    session.gate.book.storage = Decisions(world)  # type: ignore[assignment]
    world.keep(await session.execute("pay", world.arguments))
    return True


async def preview(world: SecretWorld) -> bool:
    class Previewing:
        preview = staticmethod(world.fail)

        async def execute(self, tool: Any, params: Any, context: Any) -> Any:
            world.got.append(params)
            return "paid"

    world.engine.register_executor("previewing", Previewing())
    entry = {"type": "builtin", "handler": "previewing"}
    world.define(has_handler=False, permission={"execution": "ask_always"}, entry=entry)
    session = ToolSession(world.engine, "chat", approver=Person())
    world.keep(await session.execute("pay", world.arguments))
    return True


async def progress(world: SecretWorld) -> bool:
    def report() -> str:
        context = current_call.get().bind(None)
        context.report_progress(1, None, f"paid with {world.canary}")
        context.log(f"paid with {world.canary}")
        return "paid"

    world.on_call = report
    world.define()
    await world.call(on_progress=world.fail)
    return True


async def scope(world: SecretWorld) -> bool:
    class Scope:
        own = staticmethod(lambda name: None)
        consent = staticmethod(world.fail_later)

    world.define()
    await world.call(scope=Scope())
    return False


async def on_before_execute(world: SecretWorld) -> bool:
    world.define()
    await cycle(world, on_before_execute=world.fail)
    return False


async def on_result(world: SecretWorld) -> bool:
    world.define()
    await cycle(world, on_result=world.fail)
    return True


async def engine_of_others(world: SecretWorld) -> bool:
    world.define()
    await cycle(world, Around(world, execute=world.fail_later))
    return False


async def looking_up(world: SecretWorld) -> bool:
    """No definition says then which arguments are secret."""
    world.define()
    await cycle(world, Around(world, get=world.fail))
    return False


async def refusing(world: SecretWorld) -> bool:
    world.define()
    await cycle(world, Around(world, refuse=world.fail), on_before_execute=lambda *_: "no")
    return False


async def formatting(world: SecretWorld) -> bool:
    world.define()
    protocol = LineProtocol()
    protocol.format_results = world.fail  # type: ignore[method-assign]
    await cycle(world, protocol=protocol)
    return True


async def parsing(world: SecretWorld) -> bool:
    world.define()
    protocol = LineProtocol()
    protocol.parse = world.fail  # type: ignore[method-assign]
    await cycle(world, protocol=protocol)
    return False


async def decoding(world: SecretWorld) -> bool:
    class Decoder(LineDecoder):
        def close(self) -> Any:
            found = super().close()
            return found if found.calls else world.fail()

    class Protocol(LineProtocol):
        def decoder(self) -> LineDecoder:
            return Decoder()

    world.define()
    await converse(world, Model(world, Protocol()))
    return True


async def closing_a_reply(world: SecretWorld) -> bool:
    class Reply:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __aiter__(self) -> Any:
            return self.inner.__aiter__()

        async def aclose(self) -> None:
            world.fail()

    class Closing(Model):
        def reply(self, request: Any) -> Any:
            inner = super().reply(request)
            return inner if self.rounds == 0 else Reply(inner)

    world.define()
    await converse(world, Closing(world))
    return True


async def model(world: SecretWorld) -> bool:
    world.define()
    await converse(world, Model(world, asked=world.fail), on_event=world.hear)
    return True


async def agent_listener(world: SecretWorld) -> bool:
    """What it is told before the model calls anything, it has from nobody but the user."""

    def hear(event: Any) -> None:
        if event.tool_call_name is not None:
            world.fail()

    world.define()
    calls = [{"name": "pay", "arguments": world.arguments}]
    replies = [{"calls": calls}, {"text": "Done."}]
    for is_streamed in (False, True):
        model = RecordedModel({"replies": replies})
        await converse(world, model, on_event=hear, is_streamed=is_streamed)
    return True


async def result_callback(world: SecretWorld) -> bool:
    world.define()
    agent = ToolSubAgent("agent", world.engine, on_result_callback=world.fail)
    world.keep(await agent.execute("pay", world.arguments))
    world.said.append(agent.summary() if hasattr(agent, "summary") else None)
    return True


async def subscriber(world: SecretWorld) -> bool:
    world.define()
    world.engine.subscribe(world.fail)
    await world.call()
    return True


async def async_subscriber(world: SecretWorld) -> bool:
    world.define()
    world.engine.subscribe(world.fail_later)
    await world.call()
    await world.engine._bus.flush()
    return True


async def presentation(world: SecretWorld) -> bool:
    world.define()
    for own in (Presentation(format=world.fail), Presentation(truncate=world.fail)):
        session = ToolSession(world.engine, "chat", presentations={"pay": own})
        world.keep(await session.execute("pay", world.arguments))
    return True


async def short_forms(world: SecretWorld) -> bool:
    own = Presentation(compress_args=world.fail, compress_result=world.fail)
    long = f"{'y' * 9_000} {world.canary}"
    world.on_call = lambda: {"said": f"paid with {world.canary}", "x": long}
    world.define()
    tool = world.engine.get("pay")
    result = await world.engine.execute("pay", world.arguments)
    for each in (own, None):
        world.said.append(compressed_args(world.arguments, each, tool))
        world.said.append(compressed_result(result, each, world.arguments, tool))
    return True


async def records(world: SecretWorld) -> bool:
    world.define()
    world.records.broken = True
    await world.call()
    return True


async def kept_events(world: SecretWorld) -> bool:
    world.define()
    world.kept.broken = True
    await world.call()
    return True


async def slots(world: SecretWorld) -> bool:
    world.define()
    world.engine.controller.subscribe(world.fail)
    await world.call()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return True


async def following_a_source(world: SecretWorld) -> bool:
    class Source:
        origin = "mcp:shop"
        executor: Any = None
        follow = staticmethod(world.fail)

        async def read_tools(self) -> list[Any]:
            return []

    await world.engine.add_source(Source())
    return False


async def controllers(world: SecretWorld) -> bool:
    class Broken(ToolConcurrencyController):
        admit_nowait = staticmethod(world.fail)
        admit = staticmethod(world.fail_later)

    config = ToolEngineConfig(auto_reload=False)
    engine = ToolEngine(config, controller=Broken(ConcurrencyConfig()))
    engine.register_tool({"name": "pay", "description": "P."}, world.fail)
    world.keep(await engine.execute("pay"))
    await engine.close()
    return False


async def group_rules(world: SecretWorld) -> bool:
    world.define()
    session = ToolSession(world.engine, "chat")
    group = ToolGroup(name="money", is_enabled=True)
    session.toolbox.register_group(group, world.fail)
    world.said.append(session.system_prompt())
    world.keep(await session.execute("pay", world.arguments))
    return True


async def closing_an_executor(world: SecretWorld) -> bool:
    class Executor:
        close = staticmethod(world.fail_later)

        async def execute(self, tool: Any, params: Any, context: Any) -> Any:
            return None

        def __repr__(self) -> str:
            return f"<Executor of {world.canary}>"

    world.engine.register_executor("closing", Executor())
    world.define()
    await world.call()
    await world.engine.close()
    return True


PLACES: dict[str, list[tuple[Callable[[SecretWorld], Awaitable[bool]], tuple[str, ...]]]] = {
    "agent_listener_failed": [(agent_listener, KINDS)],
    "approval_listener_failed": [(approval_listener, KINDS)],
    "approver_failed": [(approver, KINDS)],
    "call_failed_outside_of_the_engine": [
        (engine_of_others, KINDS),
        (looking_up, ("parameter", "part", *UNSENT)),
    ],
    "consent_failed": [(scope, KINDS)],
    "decision_not_found": [(decisions, KINDS)],
    "controller_failed": [(controllers, UNSENT)],
    "decision_not_kept": [(decisions, KINDS)],
    "event_lost": [(kept_events, KINDS)],
    "executor_close_failed": [(closing_an_executor, UNSENT)],
    "group_rules_failed": [(group_rules, UNSENT)],
    "on_before_execute_failed": [(on_before_execute, KINDS)],
    "on_result_failed": [(on_result, KINDS)],
    "presentation_failed": [(presentation, KINDS), (short_forms, KINDS)],
    "preview_failed": [(preview, KINDS)],
    "progress_listener_failed": [(progress, KINDS)],
    "record_lost": [(records, KINDS)],
    "refusal_not_recorded": [(refusing, KINDS)],
    "reply_not_closed": [(closing_a_reply, KINDS)],
    "reply_not_decoded": [(decoding, KINDS)],
    "reply_not_parsed": [(parsing, UNSENT)],
    "result_callback_failed": [(result_callback, KINDS)],
    "results_not_formatted": [(formatting, KINDS)],
    "slot_subscriber_failed": [(slots, UNSENT)],
    "source_not_followed": [(following_a_source, UNSENT)],
    "subscriber_failed": [(subscriber, KINDS), (async_subscriber, KINDS)],
}
"""Log line -> the foreign code of which it tells, and the kinds of secrets that are hidden there.
Where no call is at hand (`UNSENT`), nothing knows what one was sent: see docs/security.md."""
CASES = [
    pytest.param(name, place, kind, id=f"{place.__name__}-{kind}-{name}")
    for name, rows in PLACES.items()
    for place, kinds in rows
    for kind in kinds
]


@pytest.mark.parametrize(("name", "place", "kind"), CASES)
async def test_what_is_logged(
    name: str, place: Callable[[SecretWorld], Awaitable[bool]], kind: str
) -> None:
    """The line is there, and the secret is nowhere but in the tool."""
    world = SecretWorld(kind)
    async with asyncio.timeout(LIMIT):
        with world.listening():
            has_run = await place(world)
            await world.check(name, has_run=has_run)


# What leaves in a result without any log line.


async def failing_tool(world: SecretWorld) -> None:
    world.on_call = world.fail
    world.define()
    assert not (await world.call()).is_success


async def error_with_details(world: SecretWorld) -> None:
    def fail() -> None:
        said = f"no {world.canary}"
        raise ToolExecutionError(said, details={"sent": [world.canary], world.canary: said})

    world.on_call = fail
    world.define()
    assert (await world.call()).metadata["error_details"]


async def timeout_of_a_tool(world: SecretWorld) -> None:
    def fail() -> None:
        raise TimeoutError(f"no answer to {world.canary}")

    world.on_call = fail
    world.define()
    assert (await world.call()).error_type == "timeout"


async def retried(world: SecretWorld) -> None:
    world.on_call = world.fail_once
    world.define(**RETRY)
    result = await world.call(max_retries=2)
    assert result.is_success
    assert len(result.metadata["attempt_log"]) == 2


async def retried_in_vain(world: SecretWorld) -> None:
    world.on_call = world.fail
    world.define(**RETRY)
    result = await world.call(max_retries=2)
    assert not result.is_success
    assert len(result.metadata["attempt_log"]) == 2


async def shared(world: SecretWorld) -> None:
    world.on_call = world.fail_once
    world.define(**RETRY)
    results = await asyncio.gather(*(world.call(max_retries=2) for _ in range(2)))
    assert any(each.is_success for each in results)


async def finding(world: SecretWorld) -> None:
    """A finding about an unknown argument, which the engine lets pass."""
    world.define()
    sent = {**world.arguments, "other": world.canary, "pim": world.canary}
    world.keep(await world.engine.execute("pay", sent))


async def refused_argument(world: SecretWorld) -> None:
    world.define()
    sent = {**world.arguments, "note": [world.canary]}
    result = await world.engine.execute("pay", sent)
    assert result.error_type == "validation_error"
    world.keep(result)
    world.got.append({"it": world.canary})  # it never came so far


async def formatter_finding(world: SecretWorld) -> None:
    world.define()
    shown = {"pay": Presentation(format=world.fail)}
    session = ToolSession(world.engine, "chat", presentations=shown)
    result = await session.execute("pay", world.arguments)
    assert result.metadata["findings"]
    world.keep(result)


async def failing_batch(world: SecretWorld) -> None:
    """A batch over an engine of others."""
    world.define()
    agent = ToolSubAgent("agent", Around(world, execute=world.fail_later))
    for result in await agent.execute_batch([("pay", world.arguments)]):
        world.keep(result)
    world.got.append({"it": world.canary})  # it never came so far


async def a_refusal(world: SecretWorld) -> None:
    """The reason of a person who repeats what was asked."""
    world.define(permission={"execution": "ask_always"})
    person = Person(lambda request: f"not with {world.canary}")
    session = ToolSession(world.engine, "chat", approver=person)
    result = await session.execute("pay", world.arguments)
    assert result.error_type == "execution_rejected"
    world.keep(result)
    world.got.append({"it": world.canary})  # it never came so far


RESULTS = (
    a_refusal,
    error_with_details,
    failing_batch,
    failing_tool,
    finding,
    formatter_finding,
    refused_argument,
    retried,
    retried_in_vain,
    shared,
    timeout_of_a_tool,
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", RESULTS, ids=lambda each: each.__name__)
async def test_what_leaves_in_a_result(
    place: Callable[[SecretWorld], Awaitable[None]], kind: str
) -> None:
    """No error, detail, finding or attempt of a call holds the secret, whether it ends well."""
    world = SecretWorld(kind)
    async with asyncio.timeout(LIMIT):
        with world.listening():
            await place(world)
            await world.check(has_run=True)
