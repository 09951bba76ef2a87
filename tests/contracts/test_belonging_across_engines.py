"""Does what a tool starts belong to its call, also where it calls tools of another engine?

The other engine is one of the conversation's sources, shown under other names or not at all, or
the conversation does not have it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.calls.audit import check_idle, make_engine, turns
from tests.contracts.calling_ways import WAYS, Asked, Way, make_handler, tool
from tests.contracts.test_belonging import (
    BOUND,
    HOSTILE,
    WORKFLOW,
    Approver,
    frames_of_a_tracer,
    settled,
)
from tool_engine import (
    ApprovalDecision,
    ApprovalError,
    DeferredApprover,
    Permission,
    Tool,
    ToolCallConfig,
    ToolCallRecord,
    ToolEngine,
    ToolExecutionContext,
    ToolExecutionResult,
    ToolSession,
    UnboundContextError,
)
from tool_engine.model.call import Refusal
from tool_engine.model.permission import ExecutionPolicy
from tool_engine.protocols import CombinedTools
from tool_engine.sources.composition import combine, keep, prefix, rename

__all__ = ["frames_of_a_tracer"]

DENY = Permission(execution=ExecutionPolicy.DENY)
ASK = Permission(execution=ExecutionPolicy.ASK_ALWAYS)
AUTO = Permission(execution=ExecutionPolicy.AUTO)
PLACES = ("prefixed", "nested", "hidden", "separate")
FAR_WAYS: list[Way | str] = [each for each in WAYS if not each.name.startswith("context.call")]
FAR_WAYS += ["workflow", "chain"]
IDS = [each if isinstance(each, str) else each.name for each in FAR_WAYS]


class World:
    """Two engines: `helper` of the first calls `mail` of the second twice, in one of the ways."""

    def __init__(self, way: Way | str, place: str) -> None:
        self.near, self.far = make_engine(), make_engine()
        self.way, self.place = way, place
        self.sent: list[str] = []
        self.contexts: list[ToolExecutionContext] = []
        self.hanging = asyncio.Event()
        self.hangs = False
        self.timeout = 20.0

    @property
    def source(self) -> Any:
        """What the conversation has."""
        if self.place == "prefixed":
            return combine(self.near, prefix(self.far, "far_"))
        if self.place == "nested":
            return combine(CombinedTools({"a": self.near, "b": rename(self.far, {"mail": "post"})}))
        if self.place == "hidden":
            return combine(self.near, keep(self.far, []))
        return self.near

    @property
    def shown(self) -> str:
        """What the conversation calls `mail`."""
        return {"prefixed": "far_mail", "nested": "post"}.get(self.place, "mail")

    def register(self, **keys: Any) -> None:
        """Adds the tools; `keys` go to the definition of `mail`."""

        async def web(text: str) -> str:
            return HOSTILE

        async def mail(text: str, context: ToolExecutionContext) -> None:
            self.sent.append(text)
            self.contexts.append(context)
            if self.hangs:
                self.hanging.set()
                await asyncio.Event().wait()

        self.near.register_tool(tool("web"), web)
        self.far.register_tool(tool("mail", **keys), mail)
        if not isinstance(self.way, str):
            handler = make_handler(self.far, self.way, _two_mails)
            self.near.register_tool(tool("helper", timeout=self.timeout), handler)
        elif self.way == "workflow":
            self._register_steps()
        else:
            self._register_chain()

    def _register_steps(self) -> None:
        async def step(text: str) -> None:
            await self.far.execute("mail", {"text": text})

        self.near.register_tool(tool("step"), step)
        (both,) = WORKFLOW["entry"]["steps"]  # type: ignore[index]
        steps = [{**each, "tool": "step"} for each in both["parallel"]]
        entry = {**WORKFLOW["entry"], "steps": [{"id": "both", "parallel": steps}]}  # type: ignore[dict-item]
        self.near.register_tool({**WORKFLOW, "entry": entry, "timeout": self.timeout})

    def _register_chain(self) -> None:
        async def helper(text: str) -> None:
            await self.far.execute("there", {"text": text})

        async def there(text: str) -> None:
            await asyncio.create_task(self.near.execute("back", {"text": text}))

        async def back(text: str) -> None:
            await asyncio.gather(*(self.far.execute("mail", {"text": text}) for _ in range(2)))

        self.near.register_tool(tool("helper", timeout=self.timeout), helper)
        self.far.register_tool(tool("there"), there)
        self.near.register_tool(tool("back"), back)

    async def records(self) -> list[ToolCallRecord]:
        """The finished calls of `mail`."""
        return [each for each in await self.far.query_call_records() if each.tool_name == "mail"]

    async def helped(self, session: ToolSession, text: str) -> ToolExecutionResult:
        """One call of `helper`."""
        return await session.execute("helper", {"text": text})


def _two_mails(text: str) -> Asked:
    return [("mail", text), ("mail", text)]


@pytest.fixture(params=FAR_WAYS, ids=IDS)
async def world(request: pytest.FixtureRequest, place: str) -> AsyncIterator[World]:
    made = World(request.param, place)
    async with asyncio.timeout(BOUND), made.near, made.far:
        yield made
        check_idle(made.near)
        check_idle(made.far)


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.thinned(2)
async def test_deny(world: World) -> None:
    """DESIGN 2.8: what a conversation forbids, no tool does for it in another engine."""
    world.register()
    session = ToolSession(world.source, "outer", ToolCallConfig(rules={world.shown: DENY}))
    await world.helped(session, "x")
    records = await world.records()
    assert world.sent == []
    assert {each.error_type for each in records} == {"execution_rejected"}


@pytest.mark.thinned(2)
async def test_deny_of_all(world: World) -> None:
    """DESIGN 2.8: so does what is said of no tool in particular."""
    world.register()
    free = dict.fromkeys(("helper", "back", "step"), AUTO)
    session = ToolSession(world.source, "outer", ToolCallConfig(permission=DENY, rules=free))
    await world.helped(session, "x")
    assert world.sent == []


@pytest.mark.thinned(2)
async def test_accepts(world: World) -> None:
    """S20: what came from a web page gets to no tool of another engine that does not accept it."""
    world.register(accepts=["user"])
    session = ToolSession(world.source, "outer")
    page = await session.execute("web", {"text": ""})
    await world.helped(session, f"$VAR_REF{{{{{page.result_variable}}}}}")
    records = await world.records()
    assert world.sent == []
    assert {each.error_type for each in records} == {"execution_rejected"}


@pytest.mark.thinned(2)
async def test_consent(world: World) -> None:
    """S31: each call is asked about that the conversation asks about, whatever engine has it."""
    asked: list[str] = []

    async def approve(request: Any) -> bool:
        asked.append(request.tool_name)
        return False

    world.register()
    config = ToolCallConfig(rules={world.shown: ASK})
    session = ToolSession(world.source, "outer", config, Approver(approve))
    await world.helped(session, "x")
    assert world.sent == []
    assert set(asked) == {"mail"}


@pytest.mark.parametrize("place", ["separate"])
async def test_books(world: World) -> None:
    """C23: each call has its maker's id, priority and conversation, and no later deadline."""
    world.register()
    context = ToolExecutionContext(priority=2, timeout=10)
    session = ToolSession(world.source, "outer")
    result = await session.execute("helper", {"text": "x"}, context)
    assert result.is_success, result.error
    records = await world.records()
    assert len(records) == len(world.contexts) == 2
    parents = {each.parent_call_id for each in records}
    everything = [*await world.near.query_call_records(), *await world.far.query_call_records()]
    known = {each.call_id: each for each in everything}
    while parents != {result.call_id} and parents <= set(known):
        # Each call in between, which engine it may be of.
        parents = {known[each].parent_call_id for each in parents if each}
    if isinstance(world.way, Way) and world.way.name == "other engine":
        assert all(each.parent_call_id for each in records)
    else:
        assert parents == {result.call_id}
    assert {each.priority for each in records} == {2}
    assert all(str(each.session_id).startswith(("outer", "inner")) for each in records)
    now = asyncio.get_running_loop().time()
    assert all((each.deadline or 1e9) <= now + 10 for each in world.contexts)


@pytest.mark.parametrize("place", ["separate"])
async def test_own_deadline(world: World) -> None:
    """C7: what a tool starts in another engine has no more time than its call."""
    world.timeout, world.hangs = 0.3, True
    world.register(timeout=100)
    result = await world.near.execute("helper", {"text": "x"})
    assert result.error_type == "timeout"
    await settled(world.near)
    await settled(world.far)
    assert {each.error_type for each in await world.records()} <= {"timeout", "cancelled"}


@pytest.mark.parametrize("place", ["separate"])
async def test_cancellation(world: World) -> None:
    """C9: when a call is cancelled, what it has started in another engine ends too."""
    world.hangs = True
    world.register()
    call = asyncio.create_task(world.near.execute("helper", {"text": "x"}))
    await world.hanging.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await settled(world.near)
    await settled(world.far)
    records = await world.records()
    assert records
    assert {each.error_type for each in records} == {"cancelled"}


@pytest.mark.usefixtures("frames_of_a_tracer")
@pytest.mark.parametrize(
    "way", ["one by one", "gather", "create_task", "to_thread", "session", "own loop"]
)
async def test_limit_of_one(way: str) -> None:
    """DESIGN 2.2: two engines that call each other in turn pass at limits of one, fifty deep."""
    chosen = next(each for each in WAYS if each.name == way)
    engines = [make_engine(1, queue_timeout=5.0) for _ in range(2)]

    def below(text: str) -> Asked:
        return [("deep", str(int(text) - 1)), ("leaf", "")] if int(text) else []

    def finish(answers: Any) -> int:
        assert all(each.is_success for each in answers), [each.error for each in answers]
        return 1 + max((int(each.output["result"]) for each in answers), default=0)

    async def leaf(text: str) -> int:
        return 0

    for engine, other in (engines, engines[::-1]):
        engine.register_tool(tool("leaf"), leaf)
        engine.register_tool(tool("deep", timeout=25), make_handler(other, chosen, below, finish))
    async with asyncio.timeout(BOUND), engines[0], engines[1]:
        result = await engines[0].execute("deep", {"text": str(chosen.depth)})
        assert result.output == {"result": chosen.depth + 1}, result.error
        for engine in engines:
            check_idle(engine)
            assert engine.controller.get_metrics().max_concurrent_observed == 1


@pytest.fixture
async def two() -> AsyncIterator[tuple[ToolEngine, ToolEngine]]:
    """Two engines."""
    engines = make_engine(), make_engine()
    async with asyncio.timeout(BOUND), engines[0], engines[1]:
        yield engines
        check_idle(engines[0])
        check_idle(engines[1])


async def test_what_a_call_in_between_forbids(two: tuple[ToolEngine, ToolEngine]) -> None:
    """DESIGN 2.8: on the way back to the first engine, all that was met on the way holds."""
    near, far = two
    contexts: list[ToolExecutionContext] = []
    sent: list[str] = []

    async def mail(text: str) -> None:
        sent.append(text)

    async def helper(text: str, context: ToolExecutionContext) -> Any:
        contexts.append(context)
        inner = ToolSession(combine(near, far), "inner", ToolCallConfig(rules={"mail": DENY}))
        return (await inner.execute("there", {"text": text})).output["result"]

    async def there(text: str) -> list[Any]:
        calls = near.execute("mail", {"text": text}), contexts[0].call("mail", {"text": text})
        return [each.error_type for each in [await call for call in calls]]

    near.register_tool(tool("mail"), mail)
    near.register_tool(tool("helper"), helper)
    far.register_tool(tool("there"), there)
    result = await near.execute("helper", {"text": ""})
    assert result.output == {"result": ["execution_rejected"] * 2}
    assert sent == []
    (there_record,) = await far.query_call_records()
    records = [each for each in await near.query_call_records() if each.tool_name == "mail"]
    assert [each.parent_call_id for each in records] == [there_record.call_id] * 2


async def test_after_the_end(two: tuple[ToolEngine, ToolEngine]) -> None:
    """DESIGN 2.8: what outlives a call is allowed no more, and has time of its own."""
    near, far = two
    going = asyncio.Event()
    tasks: list[asyncio.Task[Any]] = []

    async def mail(text: str) -> None:
        raise AssertionError("this is denied")

    async def note(text: str, context: ToolExecutionContext) -> float:
        return (context.deadline or 0) - asyncio.get_running_loop().time()

    async def helper(text: str) -> None:
        async def later() -> list[Any]:
            await going.wait()
            denied = await far.execute("mail", {"text": text})
            return [denied.error_type, await far.execute("note", {"text": text})]

        tasks.append(asyncio.create_task(later()))

    far.register_tool(tool("mail", timeout=10), mail)
    far.register_tool(tool("note", timeout=10), note)
    near.register_tool(tool("helper", timeout=1), helper)
    session = ToolSession(near, "outer", ToolCallConfig(rules={"mail": DENY}))
    result = await session.execute("helper", {"text": ""})
    going.set()
    denied, noted = await tasks[0]
    assert denied == "execution_rejected"
    assert noted.output["result"] > 9
    records = await far.query_call_records()
    assert {each.parent_call_id for each in records} == {result.call_id}


async def test_after_the_deadline(two: tuple[ToolEngine, ToolEngine]) -> None:
    """C23: a tool that has run out of time makes no calls in another engine either."""
    near, far = two
    raised: list[str] = []

    async def helper(text: str) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # What goes on after this has overrun its deadline.
            for _ in range(20):
                await asyncio.sleep(0)
        try:
            await far.execute("leaf", {"text": ""})
        except UnboundContextError as error:
            raised.append(str(error))

    async def leaf(text: str) -> None:
        raised.append("it has run")

    near.register_tool(tool("helper", timeout=0.05), helper)
    far.register_tool(tool("leaf"), leaf)
    assert (await near.execute("helper", {"text": ""})).error_type == "timeout"
    await settled(near)
    assert len(raised) == 1
    assert raised[0].startswith("cannot call 'leaf'")


@pytest.mark.parametrize("has_far", [True, False])
@pytest.mark.parametrize("bounds", [{"max_calls": 3}, {"max_uses": {"mail": 2}}])
async def test_bounds(
    two: tuple[ToolEngine, ToolEngine], bounds: dict[str, Any], has_far: bool
) -> None:
    """U47: a conversation over another engine, inside of a tool, spends what the outer one may."""
    near, far = two

    async def mail(text: str) -> None:
        return None

    async def helper(text: str) -> list[str | None]:
        inner = ToolSession(far, "inner")
        calls = [inner.execute("mail", {"text": text}) for _ in range(3)]
        return [each.error_type for each in await asyncio.gather(*calls)]

    far.register_tool(tool("mail"), mail)
    near.register_tool(tool("helper"), helper)
    source = combine(near, far) if has_far else near
    session = ToolSession(source, "outer", ToolCallConfig(**bounds))
    result = await session.execute("helper", {"text": ""})
    assert result.output == {"result": [None, None, "limit_reached"]}
    assert session.usage().calls == 3


async def test_a_name_of_two_engines(two: tuple[ToolEngine, ToolEngine]) -> None:
    """X3: what is said of one engine's tool frees none of another engine, and forbids both."""
    near, far = two
    sent: list[str] = []

    async def mail(text: str) -> None:
        sent.append(text)

    async def helper(text: str) -> str | None:
        return (await far.execute("mail", {"text": text})).error_type

    for engine in two:
        engine.register_tool(tool("mail"), mail)
    near.register_tool(tool("helper"), helper)
    freed = {"mail": AUTO, "helper": AUTO, "*": DENY}
    renamed = combine(near, prefix(far, "far_"))
    for source, rules, expected in (
        (near, freed, "execution_rejected"),
        (renamed, freed, "execution_rejected"),
        (renamed, {**freed, "far_mail": AUTO}, None),
        (renamed, {"near_mail": DENY}, None),
        (combine(prefix(near, "near_"), far), {"near_mail": DENY}, None),
        (near, {"mail": DENY}, "execution_rejected"),
    ):
        session = ToolSession(source, "outer", ToolCallConfig(rules=rules))
        name = "near_helper" if session.get("helper") is None else "helper"
        result = await session.execute(name, {"text": "x"})
        assert result.output == {"result": expected}, (source, rules)


@pytest.mark.parametrize("has_far", [True, False])
async def test_labels_of_a_tool(two: tuple[ToolEngine, ToolEngine], has_far: bool) -> None:
    """S20: `tool:web` is the tool of the engine that accepts it, not another engine's."""
    near, far = two

    async def web(text: str) -> str:
        return HOSTILE

    async def mail(text: str) -> None:
        return None

    async def helper(text: str) -> str | None:
        return (await far.execute("mail", {"text": text})).error_type

    async def other_web(text: str) -> str:
        return "what the page of the other engine says, which its own tools may well be sent"

    near.register_tool(tool("web"), web)
    far.register_tool(tool("web"), other_web)
    near.register_tool(tool("helper"), helper)
    far.register_tool(tool("mail", accepts=["tool:web"]), mail)
    source = combine(near, prefix(far, "far_")) if has_far else near
    for name, expected in (("web", "execution_rejected"), ("far_web", None)):
        session = ToolSession(source, "outer")
        if session.get(name) is not None:
            page = await session.execute(name, {"text": ""})
            sent = {"text": f"$VAR_REF{{{{{page.result_variable}}}}}"}
            assert (await session.execute("helper", sent)).output == {"result": expected}


@pytest.mark.parametrize("has_far", [True, False])
@pytest.mark.parametrize("yes", [True, False, None])
async def test_who_is_asked(has_far: bool, yes: bool | None) -> None:
    """S31: an engine that a conversation does not have asks its own approver, too."""
    asked: list[str] = []

    def approver(name: str, answer: bool) -> Approver:
        async def approve(request: Any) -> bool:
            asked.append(f"{name} {request.tool_name}")
            return answer

        return Approver(approve)

    async def pay(text: str) -> None:
        return None

    near, far = make_engine(), make_engine()
    if yes is not None:
        far = ToolEngine(far.config, approver=approver("engine", yes))

    async def helper(text: str) -> str | None:
        return (await far.execute("pay", {"text": text})).error_type

    near.register_tool(tool("helper"), helper)
    far.register_tool(tool("pay", permission="ask_always"), pay)
    source = combine(near, far) if has_far else near
    async with asyncio.timeout(BOUND), near, far:
        session = ToolSession(source, "outer", approver=approver("session", True))
        result = await session.execute("helper", {"text": ""})
        is_free = has_far or yes
        assert result.output == {"result": None if is_free else "execution_rejected"}
        others = [] if has_far or yes is None else ["engine pay"]
        assert asked == ["session pay", *others]


async def test_own_tools_stay_at_home(two: tuple[ToolEngine, ToolEngine]) -> None:
    """S29: a conversation's own tool is none of an engine that it does not have."""
    near, _far = two

    async def helper(text: str) -> list[str | None]:
        calls = [await each.execute("own", {"text": text}) for each in two]
        return [each.error_type for each in calls]

    async def own(text: str) -> None:
        return None

    near.register_tool(tool("helper"), helper)
    session = ToolSession(near, "outer")
    session.register_tool(tool("own"), own)
    result = await session.execute("helper", {"text": ""})
    assert result.output == {"result": [None, "tool_not_found"]}


@pytest.mark.parametrize("has_far", [True, False])
async def test_results_that_must_be_seen(two: tuple[ToolEngine, ToolEngine], has_far: bool) -> None:
    """S31: what another engine's tool gave counts in the result of the tool that called it."""
    near, far = two
    asked: list[str] = []

    async def approve(request: Any) -> bool:
        asked.append(f"{request.kind} {request.tool_name}")
        return False

    async def show(text: str) -> str:
        return "what must be seen first"

    async def helper(text: str) -> Any:
        return (await far.execute("show", {"text": text})).output

    far.register_tool(tool("show", permission={"result": "always"}), show)
    near.register_tool(tool("helper"), helper)
    source = combine(near, far) if has_far else near
    session = ToolSession(source, "outer", approver=Approver(approve))
    result = await session.execute("helper", {"text": ""})
    assert result.error_type == "result_rejected"
    assert asked == ["result helper"]
    plain = await near.execute("helper", {"text": ""})
    assert plain.metadata["results_inside"] == "always"


async def test_a_loop_of_its_own_in_a_thread(two: tuple[ToolEngine, ToolEngine]) -> None:
    """DESIGN 2.8: also from a thread with an event loop of its own."""
    near, far = two
    sent: list[str] = []

    async def mail(text: str) -> None:
        sent.append(text)

    def helper(text: str) -> str | None:
        return asyncio.run(far.execute("mail", {"text": text})).error_type

    far.register_tool(tool("mail"), mail)
    near.register_tool(tool("helper"), helper)
    session = ToolSession(combine(near, far), "outer", ToolCallConfig(rules={"mail": DENY}))
    result = await session.execute("helper", {"text": ""})
    assert result.output == {"result": "execution_rejected"}
    assert sent == []


async def test_what_is_forbidden_meanwhile() -> None:
    """S31: a call that had to wait in another engine is looked at again when it has its slot."""
    near, far = make_engine(), make_engine(1)
    free = asyncio.Event()

    async def mail(text: str) -> None:
        await free.wait()

    async def helper(text: str) -> str | None:
        return (await far.execute("mail", {"text": text})).error_type

    far.register_tool(tool("mail"), mail)
    near.register_tool(tool("helper"), helper)
    async with asyncio.timeout(BOUND), near, far:
        outer = ToolSession(combine(near, far), "outer")
        first = asyncio.create_task(far.execute("mail", {"text": ""}))
        await turns()
        call = asyncio.create_task(outer.execute("helper", {"text": ""}))
        await turns()
        outer.toolbox.config = ToolCallConfig(rules={"mail": DENY})
        free.set()
        assert (await call).output == {"result": "execution_rejected"}
        assert (await first).is_success


async def test_a_refusal_belongs_too(two: tuple[ToolEngine, ToolEngine]) -> None:
    """C23: a call that a tool has refused in another engine has its maker's id."""
    near, far = two

    async def helper(text: str) -> None:
        far.refuse("leaf", {}, None, Refusal("rejected", "no"))

    near.register_tool(tool("helper"), helper)
    result = await near.execute("helper", {"text": ""})
    (record,) = await far.query_call_records()
    assert record.parent_call_id == result.call_id


class Around:
    """A source of another class, which has the tools of an engine."""

    def __init__(self, engine: ToolEngine) -> None:
        self._engine = engine

    def get(self, tool_name: str) -> Tool | None:
        return self._engine.get(tool_name)

    def list_all(self) -> list[Tool]:
        return self._engine.list_all()

    async def execute(
        self, tool_name: str, params: Any = None, context: Any = None
    ) -> ToolExecutionResult:
        return await self._engine.execute(tool_name, params, context)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"far_mail": DENY}, "execution_rejected"),
        ({"*": DENY, "helper": AUTO, "far_mail": AUTO}, None),
    ],
)
async def test_a_source_around_an_engine(
    two: tuple[ToolEngine, ToolEngine], rules: dict[str, Permission], expected: str | None
) -> None:
    """X3: an engine is one of the sources, also where another object stands around it."""
    near, far = two

    async def mail(text: str) -> None:
        return None

    async def helper(text: str) -> str | None:
        return (await far.execute("mail", {"text": text})).error_type

    far.register_tool(tool("mail"), mail)
    near.register_tool(tool("helper"), helper)
    source = combine(near, prefix(Around(far), "far_"))
    session = ToolSession(source, "outer", ToolCallConfig(rules=rules))
    assert (await session.execute("helper", {"text": ""})).output == {"result": expected}


@pytest.mark.parametrize("place", ["shown", "hidden", "separate", "separate, same name"])
async def test_an_answer_that_comes_later(two: tuple[ToolEngine, ToolEngine], place: str) -> None:
    """S31: a yes that comes later runs that engine's tool, if the session shows it, or nothing."""
    near, far = two
    paid: list[str] = []

    async def pay(text: str) -> None:
        paid.append(text)

    async def other_pay(text: str) -> None:
        raise AssertionError("this was not asked about")

    async def helper(text: str) -> str | None:
        return (await far.execute("pay", {"text": text})).error_type

    far.register_tool(tool("pay"), pay)
    near.register_tool(tool("helper"), helper)
    if place.endswith("same name"):
        near.register_tool(tool("pay"), other_pay)
    source = {"shown": combine(near, prefix(far, "far_")), "hidden": combine(near, keep(far, []))}
    rules = ToolCallConfig(rules={"pay": ASK})
    session = ToolSession(source.get(place, near), "outer", rules, DeferredApprover())
    result = await session.execute("helper", {"text": "x"})
    assert result.output == {"result": "approval_required"}
    (request,) = session.gate.book.pending()
    if place == "shown":
        assert (await session.resume(request.token, ApprovalDecision(is_approved=True))).is_success
        assert paid == ["x"]
        return
    with pytest.raises(ApprovalError, match="is not what was approved"):
        await session.resume(request.token, ApprovalDecision(is_approved=True))
    assert paid == []


async def test_an_engine_of_another_loop() -> None:
    """DESIGN 2.8: rules and deadline hold in an engine that another thread's loop runs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    near, far = make_engine(), make_engine()
    sent: list[str] = []

    def there(work: Any) -> asyncio.Future[Any]:
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    async def mail(text: str) -> None:
        sent.append(text)

    async def hang(text: str) -> None:
        await asyncio.Event().wait()

    async def helper(text: str) -> Any:
        return (await there(far.execute(text, {"text": ""}))).error_type

    far.register_tool(tool("mail"), mail)
    far.register_tool(tool("hang"), hang)
    near.register_tool(tool("helper", timeout=0.3), helper)
    try:
        async with asyncio.timeout(BOUND), near:
            await there(far.load())
            session = ToolSession(near, "outer", ToolCallConfig(rules={"mail": DENY}))
            denied = await session.execute("helper", {"text": "mail"})
            assert denied.output == {"result": "execution_rejected"}
            late = await session.execute("helper", {"text": "hang"})
            assert late.error_type == "timeout"
            await settled(far)
            records = await there(far.query_call_records())
            assert {each.parent_call_id for each in records} == {denied.call_id, late.call_id}
            await there(far.close())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join)
        loop.close()
    assert sent == []
