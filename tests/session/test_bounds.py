"""What a conversation may spend: rounds, calls, uses, tokens, seconds. A8, U41, U47."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine import CallbackApprover, ToolEngine
from tool_engine.session.bounds import Meter, Usage
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.session import ToolSession


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def made(parent: Meter | None = None, **config: Any) -> Meter:
    meter = Meter(ToolCallConfig(**config), parent)
    meter.begin_turn()
    return meter


def reason(refusal: Any) -> str:
    assert refusal is not None
    assert refusal.error_type == "limit_reached"
    return str(refusal.details["reason"])


def test_rounds_of_a_turn() -> None:
    """A8: as many rounds as the settings say, and as many again in the next turn."""
    meter = made(max_iterations=2)
    for _ in range(2):
        assert [meter.begin_round() for _ in range(2)] == [None, None]
        assert meter.reached() == "max_rounds_reached"
        assert reason(meter.begin_round()) == "max_rounds_reached"
        assert meter.usage().rounds == 2
        meter.begin_turn()
    assert meter.reached() is None


def test_calls_of_a_turn() -> None:
    """U47: calls are counted by turn, and the one too many is refused and not counted."""
    meter = made(max_calls_per_turn=2)
    assert [meter.take("a"), meter.take("b")] == [None, None]
    refusal = meter.take("a")
    assert reason(refusal) == "max_calls_reached"
    assert refusal is not None
    assert "the 2 calls of one turn are used up" in refusal.error
    assert meter.usage().by_tool == {"a": 1, "b": 1}
    assert meter.reached() == "max_calls_reached"
    meter.begin_turn()
    assert meter.take("a") is None
    assert (meter.usage().calls, meter.usage().calls_of_turn) == (3, 1)


def test_between_turns() -> None:
    """Whoever calls outside of a turn is held to the bounds of the conversation alone."""
    clock = Clock()
    meter = Meter(ToolCallConfig(max_calls_per_turn=1, max_calls=3, max_seconds=5.0), clock=clock)
    meter.begin_turn()
    clock.now += 2.0
    assert meter.take("a") is None
    meter.end_turn()
    clock.now += 60.0
    assert (meter.seconds_left(), meter.usage().seconds) == (None, 2.0)
    assert [meter.take("a"), meter.take("a")] == [None, None]
    assert reason(meter.take("a")) == "max_calls_reached"


def test_uses_of_a_tool() -> None:
    """What the settings say of a tool goes before its definition; other tools are not concerned."""
    meter = made(max_uses={"a": 1})
    assert meter.take("a", 5) is None
    assert reason(meter.take("a", 5)) == "max_uses_reached"
    assert meter.take("b", 1) is None
    refusal = meter.take("b", 1)
    assert refusal is not None
    assert refusal.error.startswith("the only call of 'b' in one conversation is used up")
    meter.begin_turn()
    assert reason(meter.take("b", 1)) == "max_uses_reached"
    assert meter.take("c") is None
    assert meter.reached() is None


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}, (9, 12, 21)),
        ({"input_tokens": 9, "output_tokens": 12, "total_tokens": 21}, (9, 12, 21)),
        (
            {"input_tokens": 9, "output_tokens": 12, "cache_read_input_tokens": 100,
             "cache_creation_input_tokens": 10},
            (119, 12, 131),
        ),
        (
            {"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 5,
             "cachedContentTokenCount": 4, "totalTokenCount": 17},
            (9, 8, 17),
        ),
        ({"prompt_token_count": 1, "candidates_token_count": 2}, (1, 2, 3)),
        # What servers in between send, who translate one provider into another.
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11,
             "cache_read_input_tokens": 8, "cache_creation_input_tokens": 1},
            (9, 2, 11),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "input_tokens": 9, "output_tokens": 2},
            (9, 2, 11),
        ),
        ({"prompt_tokens": 0, "input_tokens": 9, "output_tokens": 2}, (9, 2, 11)),
        ({"total_tokens": 7}, (0, 0, 7)),
        ({"prompt_tokens": True, "completion_tokens": -3, "total_tokens": "9"}, (0, 0, 0)),
        ({"prompt_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}, (2, 0, 2)),
        ({}, (0, 0, 0)),
        (None, (0, 0, 0)),
        ([1], (0, 0, 0)),
    ],
)  # fmt: skip
def test_tokens_of_every_provider(usage: Any, counted: tuple[int, int, int]) -> None:
    """Tokens are counted under every provider's names, none twice; garbage counts nothing."""
    meter = made()
    meter.add_tokens(usage)
    spent = meter.usage()
    assert (spent.input_tokens, spent.output_tokens, spent.total_tokens) == counted


def test_tokens_of_a_conversation() -> None:
    """The tokens of a conversation last for all its turns."""
    meter = made(max_tokens=20)
    meter.add_tokens({"total_tokens": 19})
    assert meter.reached() is None
    meter.add_tokens({"total_tokens": 1})
    meter.begin_turn()
    assert meter.reached() == "max_tokens_reached"
    assert reason(meter.begin_round()) == "max_tokens_reached"
    assert reason(meter.take("a")) == "max_tokens_reached"


def test_seconds_of_a_turn() -> None:
    """When the time of a turn is up, neither a round nor a call begins."""
    clock = Clock()
    meter = Meter(ToolCallConfig(max_seconds=5.0), clock=clock)
    meter.begin_turn()
    clock.now += 4.0
    assert meter.seconds_left() == 1.0
    assert meter.begin_round() is None
    clock.now += 2.0
    assert meter.seconds_left() == 0.0
    assert reason(meter.begin_round()) == "max_seconds_reached"
    assert reason(meter.take("a")) == "max_seconds_reached"
    meter.begin_turn()
    assert meter.seconds_left() == 5.0


def test_a_child_spends_what_its_parent_may() -> None:
    """R13: a sub-agent's calls and tokens are its parent's, too; its rounds are its own."""
    parent = made(max_calls_per_turn=3, max_tokens=100, max_iterations=1)
    child = made(parent, max_calls_per_turn=2)
    grandchild = made(child)
    assert parent.take("a") is None
    assert grandchild.take("a") is None
    assert child.take("b") is None
    assert parent.usage().by_tool == {"a": 2, "b": 1}
    assert (child.usage().calls, grandchild.usage().calls) == (2, 1)
    assert reason(grandchild.take("a")) == "max_calls_reached"
    assert parent.usage().calls == 3
    assert grandchild.begin_round() is not None
    other = made(made(max_tokens=100))
    assert other.begin_round() is None
    other.add_tokens({"total_tokens": 100})
    assert other.reached() == "max_tokens_reached"


def test_refused_by_the_parent_is_counted_nowhere() -> None:
    """All or nothing: a call that the parent refuses is no call of the child's either."""
    parent = made(max_uses={"a": 1})
    child = made(parent)
    assert child.take("a") is None
    assert reason(child.take("a", 9)) == "max_uses_reached"
    assert child.usage().calls == parent.usage().calls == 1


def test_time_left_is_the_shortest() -> None:
    """A sub-agent has no more time than whom it works for."""
    clock = Clock()
    parent = Meter(ToolCallConfig(max_seconds=5.0), clock=clock)
    child = Meter(ToolCallConfig(max_seconds=50.0), parent, clock)
    parent.begin_turn()
    clock.now += 3.0
    child.begin_turn()
    assert child.seconds_left() == 2.0


def test_no_further_call_of_a_turn() -> None:
    """U41: once a turn is over, each open call is told why; the next turn begins anew."""
    meter = made()
    child = made(meter)
    meter.stop_calls("max_rounds_reached", "the turn is over (max_rounds_reached)")
    for each in (meter, child):
        refusal = each.take("a")
        assert reason(refusal) == "max_rounds_reached"
        assert refusal is not None
        assert refusal.error == (
            "the turn is over (max_rounds_reached): answer with what is known, without this call"
        )
    assert meter.usage().calls == 0
    meter.end_turn()
    assert meter.take("a") is None


def test_settings_may_change() -> None:
    """What a session changes holds from the next question on."""
    meter = made(max_iterations=1)
    assert meter.begin_round() is None
    meter.config = ToolCallConfig(max_iterations=2)
    assert meter.config.max_iterations == 2
    assert meter.begin_round() is None


def test_a_copy() -> None:
    """What was told of the usage does not change afterwards."""
    meter = made()
    before = meter.usage()
    meter.take("a")
    assert before == Usage(turns=1, seconds=before.seconds)
    assert "1 of 50 calls" in repr(meter)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), max_size=20), st.integers(1, 9)
)
def test_goes_on_elsewhere(calls: list[tuple[str, int]], most: int) -> None:
    """A conversation that is kept and restored may spend what is left, and not more."""
    config = ToolCallConfig(max_calls=most, max_tokens=100)
    meter = Meter(config)
    meter.begin_turn()
    for name, tokens in calls:
        meter.take(name)
        meter.add_tokens({"total_tokens": tokens})
    meter.end_turn()
    other = Meter(config)
    other.restore(msgspec.json.decode(msgspec.json.encode(meter.to_dict())))
    assert other.to_dict() == meter.to_dict()
    assert other.usage() == meter.usage(), "also what the last turn came to"
    assert other.take("a") == meter.take("a")
    assert other.usage().calls <= most


@pytest.mark.parametrize("data", [{"calls": -1}, {"calls": "1"}, {"other": 1}, 3])
def test_what_is_no_meter(data: Any) -> None:
    """A broken file does not reset what was spent."""
    meter = made()
    meter.take("a")
    with pytest.raises(msgspec.ValidationError):
        meter.restore(data)
    assert meter.usage().calls == 1


async def test_what_never_ran_is_no_use(engine: ToolEngine) -> None:
    """U47: a model that puts its arguments right has not used the tool up with the wrong ones."""
    config = ToolCallConfig(max_uses={"half": 1}, max_calls=1)
    session = ToolSession(engine, "s", config)
    wrong: list[Any] = [{"number": "x"}, {}, {"number": "$VAR_REF{{nothing}}"}]
    ended = [await session.execute("half", each) for each in wrong]
    assert {each.error_type for each in ended} == {"validation_error"}
    assert session.usage().calls == 0
    assert session.usage().by_tool == {}
    assert (await session.execute("half", {"number": 3})).is_success
    assert (await session.execute("half", {"number": 3})).error_type == "limit_reached"
    assert session.usage().by_tool == {"half": 1}


def test_uses_of_thousands_of_tools() -> None:
    """U47: which tool a name says is looked up once, and again only when it may say another."""
    looked: list[str] = []
    said = {"alias": "b"}

    def identity(name: str) -> str:
        looked.append(name)
        return said.get(name, name)

    uses = {f"t_{number}": 5 for number in range(1_000)} | {"b": 3, "alias": 2}
    meter = Meter(ToolCallConfig(max_uses=uses), identity=identity, stamp=lambda: said)
    assert [meter.take("b") is None for _ in range(3)] == [True, True, False]
    assert [meter.take("x", 1) is None for _ in range(2)] == [True, False]
    assert len(looked) < 1_100
    said = {"alias": "c"}
    assert [meter.take("b") is None for _ in range(2)] == [True, False]
    assert [meter.take("c") is None for _ in range(3)] == [True, True, False]


async def test_a_bound_of_a_tool_that_comes_later(engine: ToolEngine) -> None:
    """U47: what the settings say of a name holds for the tool that gets it afterwards."""

    async def mine() -> str:
        return "mine"

    session = ToolSession(engine, "s", ToolCallConfig(max_uses={"mine": 1}))
    await session.execute("half", {"number": 3})
    session.register_tool({"name": "mine", "description": "Only here."}, mine)
    ended = [(await session.execute("mine")).error_type for _ in range(2)]
    assert ended == [None, "limit_reached"]


async def test_what_somebody_was_asked_is_a_use(engine: ToolEngine) -> None:
    """U47: a model that is refused cannot have a person asked again and again."""
    config = ToolCallConfig(max_uses={"half": 2}, require_confirmation=True)
    session = ToolSession(engine, "s", config, CallbackApprover(lambda _: False))
    ended = [await session.execute("half", {"number": 3}) for _ in range(3)]
    assert [each.error_type for each in ended] == ["execution_rejected"] * 2 + ["limit_reached"]
