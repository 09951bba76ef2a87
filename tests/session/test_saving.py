"""How does a conversation survive the process that it began in?"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine import DeferredApprover, ToolEngine
from tool_engine.errors import (
    ApprovalError,
    ConfigurationError,
    RecordsUnavailableError,
    SessionConflictError,
    SessionError,
)
from tool_engine.knowledge.memory_sessions import MemorySessionStorage
from tool_engine.model.group import Skill, ToolGroup
from tool_engine.model.permission import ExecutionPolicy, Permission
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.repetition import Advice
from tool_engine.session.session import ToolSession
from tool_engine.session.variables.store import Variable, VariableKind

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = st.from_regex(r"[A-Za-z0-9_./-]{1,20}", fullmatch=True)
CONFIGS = st.builds(
    ToolCallConfig,
    tool_toggles=st.dictionaries(st.text(max_size=9), st.booleans(), max_size=3),
    max_iterations=st.integers(1, 50),
    max_calls=st.none() | st.integers(1, 99),
    timeout=st.floats(0.1, 500),
    permission=st.none()
    | st.builds(Permission, execution=st.none() | st.sampled_from(ExecutionPolicy)),
    rules=st.dictionaries(
        st.sampled_from(["put", "put:text=a*", "*", "put::SilentReject"]),
        st.builds(Permission, execution=st.sampled_from(ExecutionPolicy)),
        max_size=2,
    ),
    language=st.sampled_from(["en", "zh"]),
)


@settings(
    max_examples=share_of(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(config=CONFIGS, values=st.dictionaries(NAMES, VALUES, max_size=4))
async def test_a_round_trip_loses_nothing(
    engine: ToolEngine, config: ToolCallConfig, values: dict[str, Any]
) -> None:
    """A session is the same after `to_dict`, JSON and `from_dict`."""
    session = ToolSession(engine, "s", config, agent_id="a", conversation_id="c")
    for name, value in values.items():
        session.variables.add(Variable(name=name, value=value, labels=frozenset({"user"})))
    session.toolbox.set_tool_enabled("half", False)
    skill = Skill(name="s", desc="d", prompt="p")
    session.toolbox.register_group(ToolGroup(name="g", tools=("put",), skills=(skill,)))
    session.toolbox.toggle_group_enabled("g", True)
    session.guard.see([("half", {}, "x")])
    await session.execute("put", {"text": "x"})
    data = session.to_dict()
    assert json.loads(json.dumps(data)) == data, "JSON values, and no tuples"
    kept = ToolSession.from_dict(json.loads(json.dumps(data)), engine)
    assert kept.to_dict() == data
    assert kept.config == session.config
    assert kept.usage() == session.usage()
    assert [tool.name for tool in kept.tools()] == [tool.name for tool in session.tools()]
    assert kept.system_prompt("vcp") == session.system_prompt("vcp")
    for name, value in values.items():
        assert kept.variables.get(name).value == value
        assert kept.variables.get(name).labels == {"user"}


async def test_the_data_come_first(engine: ToolEngine) -> None:
    """Who mixes up the arguments is told."""
    with pytest.raises(SessionError, match=r"to_dict\(\) gave, and the engine comes after"):
        ToolSession.from_dict(engine, ToolSession(engine, "s").to_dict())  # type: ignore[arg-type]


async def test_what_counts_goes_on(engine: ToolEngine) -> None:
    """Bounds of the conversation, numbers of calls, and what was repeated are not forgotten."""
    session = ToolSession(engine, "s", ToolCallConfig(max_calls=2))
    await session.execute("half", {"number": 1})
    session.guard.see([("half", {"number": 1}, "0.5")])
    later = ToolSession.from_dict(session.to_dict(), engine)
    assert later.guard.see([("half", {"number": 1}, "0.5")]) is Advice.HINT
    result = await later.execute("half", {"number": 1})
    assert result.result_variable == "half_2_result"
    assert (await later.execute("half", {"number": 1})).error_type == "limit_reached"


async def test_saved_and_restored(engine: ToolEngine) -> None:
    """The engine's storage keeps it, with what belongs to it."""
    session = ToolSession(engine, "s")
    await session.execute("half", {"number": 5})
    await session.save({"messages": [{"role": "user", "content": "hi"}]})
    later = await ToolSession.restore(engine, "s")
    assert later is not None
    assert later.more == {"messages": [{"role": "user", "content": "hi"}]}
    assert later.variables.get("half_1_result").value == 2.5
    await later.save()
    again = await ToolSession.restore(engine, "s")
    assert again is not None
    assert again.more == later.more
    assert await ToolSession.restore(engine, "other") is None


async def test_what_a_call_returned_can_be_saved(engine: ToolEngine) -> None:
    """D20: no number is so large that its conversation cannot be kept any more."""

    @engine.tool(effect="read")
    async def power(digits: int) -> list[int]:
        """A large number."""
        return [1 - 10**digits]

    for digits in (1300, 4300):
        session = ToolSession(engine, f"s-{digits}")
        assert (await session.execute("power", {"digits": digits})).is_success
        await session.save()
        again = await ToolSession.restore(engine, session.session_id)
        assert again is not None
        assert again.to_dict() == session.to_dict()


async def test_nowhere_to_keep_it(engine: ToolEngine) -> None:
    """Without a storage, to save says so."""

    class Bare:
        def __init__(self) -> None:
            self.get, self.list_all, self.execute = engine.get, engine.list_all, engine.execute
            self.refuse = engine.refuse

    bare: Any = Bare()
    with pytest.raises(SessionError, match="nothing keeps sessions here"):
        await ToolSession(bare, "s").save()
    with pytest.raises(SessionError, match="nothing keeps sessions here"):
        await ToolSession.restore(bare, "s")
    with pytest.raises(SessionError, match="nothing keeps sessions here"):
        await ToolSession(bare, "s").is_behind()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"approver": ToolCallConfig()}, "approver must have"),
        ({"engine": None}, "a source must have get"),
        ({"storage": "x"}, "storage must have"),
        ({"storage": MemorySessionStorage}, "storage must have"),
        ({"config": ToolCallConfig()}, "config is what the kept conversation has"),
        ({"variables": None}, "variables is what the kept"),
        ({"agent_id": "x"}, "agent_id is what the kept"),
        ({"prepare": 3}, "prepare takes a function"),
        ({"presentations": [1]}, "presentations must be"),
        ({"parent": 3}, "parent must be"),
        ({"agent": "x"}, "has no argument 'agent'"),
    ],
)
async def test_a_wrong_argument_is_no_damaged_save(
    engine: ToolEngine, wrong: dict[str, Any], words: str
) -> None:
    """What the caller got wrong is said of the argument, whichever way the data comes."""
    storage = MemorySessionStorage()
    session = ToolSession(engine, "s", storage=storage)
    await session.save()
    options: dict[str, Any] = {"engine": engine, "storage": storage} | wrong
    data = session.to_dict()
    with pytest.raises(ConfigurationError, match=words):
        await ToolSession.restore(session_id="s", **options)
    with pytest.raises(ConfigurationError, match=words):
        ToolSession.from_dict(data, **options)


@pytest.mark.parametrize("key", ["config", "toolbox", "variables", "approvals", "meter", "guard"])
@pytest.mark.parametrize("wrong", [{"nonsense": 1}, None, [], "x"])
async def test_what_is_no_session_is_told(engine: ToolEngine, key: str, wrong: Any) -> None:
    """Garbage is a SessionError that names the place, never half a session."""
    data = {**ToolSession(engine, "s").to_dict(), key: wrong}
    with pytest.raises(SessionError):
        ToolSession.from_dict(data, engine)
    with pytest.raises(SessionError):
        ToolSession.from_dict({}, engine)


async def test_a_rule_stays_a_rule(engine: ToolEngine) -> None:
    """S21: skills are variables that are always kept; they come from their groups."""
    session = ToolSession(engine, "s")
    skill = Skill(name="tidy", desc="d", prompt="Be tidy.")
    session.toolbox.register_group(ToolGroup(name="g", tools=("put",), skills=(skill,)))
    session.toolbox.toggle_group_enabled("g", True)
    session.system_prompt("vcp")
    assert session.variables.get("Rule/g/tidy").kind is VariableKind.RULE
    later = ToolSession.from_dict(session.to_dict(), engine)
    later.system_prompt("vcp")
    assert later.variables.get("Rule/g/tidy").value == "Be tidy."


class Plain:
    """A storage of somebody's own, with the four methods alone; what `fails` is not told."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self.fails = ""

    async def save(self, session_id: str, data: dict[str, Any]) -> None:
        if self.fails != "before":
            self.kept[session_id] = json.loads(json.dumps(data))
        if self.fails:
            raise RecordsUnavailableError("the place does not answer")

    async def load(self, session_id: str) -> dict[str, Any] | None:
        found = self.kept.get(session_id)
        return None if found is None else json.loads(json.dumps(found))


@pytest.fixture(params=["engine", "plain"])
def storage(request: pytest.FixtureRequest, engine: ToolEngine) -> Any:
    """What the engine has, and one that knows nothing of states."""
    return engine.store.sessions if request.param == "engine" else Plain()


async def restored(engine: ToolEngine, storage: Any, session_id: str = "s") -> ToolSession:
    found = await ToolSession.restore(engine, session_id, storage=storage)
    assert found is not None
    return found


async def test_of_two_that_go_on_from_one_state_the_second_is_told(
    engine: ToolEngine, storage: Any
) -> None:
    """No save is lost silently: the first one stays, and the message has the cures."""
    await ToolSession(engine, "s", storage=storage).save()
    one, other = await restored(engine, storage), await restored(engine, storage)
    assert not await other.is_behind()
    await one.save({"said": "one"})
    await one.save({"said": "one again"})
    assert await other.is_behind()
    with pytest.raises(SessionConflictError, match=r"'s' since it was read.*restore\(\)") as caught:
        await other.save({"said": "other"})
    assert "save(as_id=...)" in str(caught.value)
    assert caught.value.error_type == "session_conflict"
    assert (await restored(engine, storage)).more == {"said": "one again"}
    with pytest.raises(SessionConflictError):
        await other.save()
    later = await restored(engine, storage)
    await later.save({"said": "later"})
    assert await one.is_behind()


async def test_two_that_begin_under_one_id(engine: ToolEngine, storage: Any) -> None:
    """A new session never takes the place of one that is kept, unless somebody says so."""
    one = ToolSession(engine, "s", storage=storage)
    other = ToolSession(engine, "s", storage=storage)
    await one.save({"said": "one"})
    with pytest.raises(SessionConflictError, match="another session is kept under the id 's'"):
        await other.save({"said": "other"})
    assert (await restored(engine, storage)).more == {"said": "one"}
    await other.save({"said": "other"}, overwrite=True)
    await other.save({"said": "still other"})
    assert (await restored(engine, storage)).more == {"said": "still other"}
    with pytest.raises(SessionConflictError):
        await one.save()


async def test_a_copy_under_another_id(engine: ToolEngine, storage: Any) -> None:
    """What may not take the place of the other one is kept beside it, whole, once."""
    one = ToolSession(engine, "s", ToolCallConfig(max_calls=9), storage=storage)
    await one.save()
    other = await restored(engine, storage)
    await one.save()
    await other.execute("half", {"number": 5})
    await other.save({"said": "other"}, as_id="s-2")
    copy = await restored(engine, storage, "s-2")
    assert (copy.session_id, copy.more) == ("s-2", {"said": "other"})
    assert copy.variables.get("half_1_result").value == 2.5
    assert copy.gate.book.session_id == "s-2"
    await copy.save({"said": "more"})
    with pytest.raises(SessionConflictError, match="'s-2'"):
        await other.save(as_id="s-2")
    with pytest.raises(SessionError, match="the id of a session"):
        await other.save(as_id="")
    for _ in range(2):
        await copy.save(as_id="s-2")
    assert (await restored(engine, storage, "s-2")).more == {"said": "more"}


@pytest.mark.parametrize("fails", ["before", "after"])
async def test_a_save_of_which_nobody_knows(engine: ToolEngine, fails: str) -> None:
    """Whether it happened or not, the next one goes on; who has read it meanwhile is told."""
    storage: Any = Plain()
    session = ToolSession(engine, "s", storage=storage)
    await session.save({"turn": 1})
    storage.fails = fails
    for turn in range(80):
        with pytest.raises(RecordsUnavailableError):
            await session.save({"turn": turn})
    storage.fails = ""
    reader = await restored(engine, storage)
    assert reader.more == {"turn": 1 if fails == "before" else 79}
    assert len(session._state.revisions) <= 66
    await session.save({"turn": 2})
    assert (await restored(engine, storage)).more == {"turn": 2}
    with pytest.raises(SessionConflictError):
        await reader.save()


async def test_a_later_save_that_is_not_known_either(engine: ToolEngine) -> None:
    """Of each of several it is remembered that it may be the one that is kept."""
    storage: Any = Plain()
    session = ToolSession(engine, "s", storage=storage)
    await session.save()
    for fails in ("after", "before"):
        storage.fails = fails
        with pytest.raises(RecordsUnavailableError):
            await session.save()
    storage.fails = ""
    await session.save({"turn": 1})
    assert len(session._state.revisions) == 1


async def test_a_save_that_ends_while_another_one_runs(engine: ToolEngine) -> None:
    """What the second one may have kept is not forgotten with the end of the first."""
    second, first_is_over = asyncio.Event(), asyncio.Event()

    class Slow(Plain):
        async def save(self, session_id: str, data: dict[str, Any]) -> None:
            if data["more"] == {"turn": 0}:
                await second.wait()
            if data["more"] == {"turn": 1}:
                second.set()
                await first_is_over.wait()
                self.fails = "after"
            await super().save(session_id, data)

    storage: Any = Slow()
    session = ToolSession(engine, "s", storage=storage)
    async with asyncio.timeout(5):
        tasks = [asyncio.create_task(session.save({"turn": turn})) for turn in range(2)]
        await tasks[0]
        first_is_over.set()
        with pytest.raises(RecordsUnavailableError):
            await tasks[1]
    storage.fails = ""
    await session.save({"turn": 2})


async def test_an_empty_storage_is_one(engine: ToolEngine) -> None:
    """What is passed is used, also while it keeps nothing yet."""
    storage = MemorySessionStorage()
    assert await ToolSession.restore(engine, "s", storage=storage) is None
    await ToolSession(engine, "s").save()
    assert await ToolSession.restore(engine, "s", storage=storage) is None
    await ToolSession(engine, "s", storage=storage).save()
    assert len(storage) == 1


async def test_to_look_and_to_keep_is_one_step(engine: ToolEngine) -> None:
    """Of two that save at the very same moment one is told."""

    class Slow(MemorySessionStorage):
        async def load(self, session_id: str) -> dict[str, Any] | None:
            found = await super().load(session_id)
            await asyncio.sleep(0)
            return found

    storage = Slow()
    await ToolSession(engine, "s", storage=storage).save()
    both = [await restored(engine, storage) for _ in range(2)]
    done = await asyncio.gather(*(each.save() for each in both), return_exceptions=True)
    assert [type(each) for each in done] == [type(None), SessionConflictError]


async def test_saves_of_one_session_at_once(engine: ToolEngine) -> None:
    """They do not get in each other's way: the one that began last stays."""
    session = ToolSession(engine, "s")
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for turn in range(9):
            group.create_task(session.save({"turn": turn}))
    found = await restored(engine, engine.store.sessions)
    assert found.more == {"turn": 8}
    await session.save()
    assert len(session._state.revisions) == 1


async def test_a_slow_save_that_is_overtaken(engine: ToolEngine) -> None:
    """A storage that keeps no order: what is known of the later one is not forgotten."""
    first = asyncio.Event()

    class Slow(Plain):
        async def save(self, session_id: str, data: dict[str, Any]) -> None:
            if data["more"] == {"turn": 0}:
                await first.wait()
                return
            await super().save(session_id, data)
            first.set()

    storage = Slow()
    session = ToolSession(engine, "s", storage=storage)  # type: ignore[arg-type]
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for turn in range(2):
            group.create_task(session.save({"turn": turn}))
    await session.save({"turn": 2})
    kept = await storage.load("s")
    assert kept is not None
    assert kept["more"] == {"turn": 2}


async def test_data_of_a_session_know_their_state(engine: ToolEngine, storage: Any) -> None:
    """`from_dict` goes on from what `to_dict` has seen; data without a state are of before."""
    session = ToolSession(engine, "s", storage=storage)
    await session.save()
    copy = ToolSession.from_dict(session.to_dict(), engine, storage=storage)
    await copy.save()
    with pytest.raises(SessionConflictError):
        await session.save()
    old = {key: value for key, value in session.to_dict().items() if key != "revision"}
    await storage.save("s", old)
    again = await restored(engine, storage)
    await again.save()
    assert not await again.is_behind()


def later(session: ToolSession, source: Any, **options: Any) -> ToolSession:
    """The same conversation in another process."""
    return ToolSession.from_dict(json.loads(json.dumps(session.to_dict())), source, **options)


def rules_of(names: list[str]) -> str:
    return f"Ask before {names}."


async def test_what_code_made_is_missed_until_it_is_there(engine: ToolEngine) -> None:
    """S33: rules and tools that a program made are missed, however often it is saved."""

    async def mine(text: str) -> str:
        return text

    tool = msgspec.structs.replace(engine.get_or_raise("put"), name="mine")
    group = ToolGroup(name="g", tools=("put",), is_enabled=True)
    session = ToolSession(engine, "s")
    session.register_tool(tool, mine)
    session.toolbox.register_group(group, rules_of)
    assert session.findings == []
    again = later(later(session, engine), engine)
    told = " | ".join(again.findings)
    assert "the tool 'mine' was the conversation's own" in told
    assert "a function made the rules of the group 'g'" in told
    again.register_tool(tool, mine)
    again.toolbox.register_group(group, rules_of)
    assert again.findings == []
    assert again.to_dict() == session.to_dict()


async def test_a_request_waits_for_its_tool(engine: ToolEngine) -> None:
    """D19: nobody can allow what is not there, and nothing is lost by trying; it may be refused."""

    async def mine(text: str) -> str:
        return f"mine {text}"

    tool = msgspec.structs.replace(engine.get_or_raise("put"), name="mine")
    config = ToolCallConfig(require_confirmation=True)
    session = ToolSession(engine, "s", config, DeferredApprover())
    session.register_tool(tool, mine)
    tokens = [(await session.execute("mine", {"text": text})).approval_token for text in "ab"]
    one, other = (token for token in tokens if token is not None)
    again = later(session, engine)
    with pytest.raises(ApprovalError, match="'mine' is not what was approved: it is not there now"):
        await again.resume(one, True)
    assert (await again.resume(other, False)).error_type == "execution_rejected"
    again.register_tool(tool, mine)
    assert (await again.resume(one, True)).final_text == "mine a"
    assert again.pending_approvals == []


async def test_turns_and_helpers_go_on(engine: ToolEngine) -> None:
    """What `prepare` is told goes on, and no two helpers have one id in the records."""
    turns: set[int] = set()

    def prepare(tool: Tool, turn: int) -> Tool:
        turns.add(turn)
        return tool

    session = ToolSession(engine, "s", prepare=prepare)
    await session.process("no calls")
    assert session.derive().session_id == "s/1"
    again = later(session, engine, prepare=prepare)
    turns.clear()
    again.tools()
    assert turns == {1}
    assert [again.derive().session_id for _ in range(2)] == ["s/2", "s/3"]
    assert again.derive("name").session_id == "s/name"


async def test_another_session_under_this_id(engine: ToolEngine) -> None:
    """What is restored under an id is saved under it, and nowhere else."""
    await engine.store.sessions.save("s", ToolSession(engine, "other").to_dict())
    with pytest.raises(SessionError, match="kept under the id 's' is the session 'other'"):
        await ToolSession.restore(engine, "s")


@pytest.mark.parametrize("levels", [295, 480, 900])
async def test_what_is_nested_deep_can_be_saved(engine: ToolEngine, levels: int) -> None:
    """Every result and every history that the loop accepts comes back as it was."""

    @engine.tool(effect="read")
    async def deep(levels: int) -> dict[str, Any]:
        """Nests."""
        return nested(levels)

    session = ToolSession(engine, "s", ToolCallConfig(protocol="anthropic"))
    result = await session.execute("deep", {"levels": levels})
    called = {"type": "tool_use", "id": "c", "name": "half", "input": nested(min(levels, 499))}
    cycle = await session.process({"role": "assistant", "content": [called]})
    assert [each.error_type for each in cycle.execution_results] == ["validation_error"]
    await session.save({"messages": [called]})
    again = await ToolSession.restore(engine, "s")
    assert again is not None
    name = result.result_variable or ""
    assert again.variables.get(name).text == session.variables.get(name).text
    assert repr(again.more["messages"][0]["input"]) == repr(called["input"])


def nested(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


WEB = "tool:page effect:read host:evil.example"


@pytest.mark.parametrize(
    "read", ["as saved", "left out", None, "user", 7, [1, "user"], {"user": 1}, ["user", None]]
)
async def test_what_was_read_goes_on(engine: ToolEngine, read: Any) -> None:
    """N33: a save without what was read, or with something else there, counts as all read."""
    session = ToolSession(engine, "s")
    session.variables.add(Variable(name="unread", value="x", labels=frozenset({WEB})))
    session.results.note("call-1", frozenset({"crm"}))
    session.read_labels.note(["user"])
    data = session.to_dict()
    assert data["read"] == ["user"]
    if read == "left out":
        del data["read"]
    elif read != "as saved":
        data["read"] = read
    # What a former version kept of variables that were gone.
    trace = {"name": "x", "labels": ["old"], "updated": "2026-01-01T00:00:00Z", "marks": ""}
    data["variables"]["traces"] = [trace, {"name": "y"}]
    kept = ToolSession.from_dict(data, engine)
    known = {"user"} if read == "as saved" else {WEB, "crm", "old", "unknown"}
    assert kept.read_labels.labels == known
    assert ToolSession.from_dict(kept.to_dict(), engine).read_labels.labels == known
