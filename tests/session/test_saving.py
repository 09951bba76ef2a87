"""How does a conversation survive the process that it began in?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tool_engine import ToolEngine
from tool_engine.errors import SessionError
from tool_engine.model.group import Skill, ToolGroup
from tool_engine.model.permission import ExecutionPolicy, Permission
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.repetition import Advice
from tool_engine.session.session import ToolSession
from tool_engine.session.variables import Variable, VariableKind

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
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
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
    kept = ToolSession.from_dict(json.loads(json.dumps(data)), engine)
    assert kept.to_dict() == data
    assert kept.config == session.config
    assert kept.usage().by_tool == session.usage().by_tool
    assert [tool.name for tool in kept.tools()] == [tool.name for tool in session.tools()]
    assert kept.system_prompt("vcp") == session.system_prompt("vcp")
    for name, value in values.items():
        assert kept.variables.get(name).value == value
        assert kept.variables.get(name).labels == {"user"}


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

    for digits in (1300, 4300, 4301):
        session = ToolSession(engine, "s")
        assert (await session.execute("power", {"digits": digits})).is_success
        await session.save()
        again = await ToolSession.restore(engine, "s")
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
