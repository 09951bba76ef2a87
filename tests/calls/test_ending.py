"""What do subscribers see of the result of a call, and when is it made?"""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.pretty import pretty_repr

from tests.effort import share_of
from tool_engine import ToolEngine, ToolEngineEvent, ToolExecutionResult
from tool_engine.calls import ending, plain_events
from tool_engine.interfaces import EventCallback
from tool_engine.model.event import ShownResult
from tool_engine.redaction import remember_secret

_KEYS = st.sampled_from(["a", "b", "api_key", "url", "é"])
_TEXTS = st.one_of(st.text(max_size=12), st.just("Bearer 0123456789abcdef0123456789"))
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), _TEXTS),
    lambda inside: st.one_of(
        st.lists(inside, max_size=3), st.dictionaries(_KEYS, inside, max_size=3)
    ),
    max_leaves=8,
)
TABLE = [{"id": number, "name": f"customer {number}"} for number in range(200)]


async def ends_of(value: Any, listener: EventCallback, *, is_short: bool = True) -> Any:
    """The output of a call whose tool returns `value`, and whose end `listener` hears.

    Args:
        value: What the tool returns.
        listener: Hears it.
        is_short: Whether it is not the first call of its tool, so that it may take the short way.
    """

    async def give() -> Any:
        return value

    async with ToolEngine() as engine:
        engine.register_tool({"name": "give", "description": "Gives."}, give)
        if is_short:
            await engine.execute("give")
        engine.subscribe(listener, "execution_completed")
        return (await engine.execute("give")).output


both_ways = pytest.mark.parametrize("is_short", [True, False], ids=["short", "steps"])


def shown_of(event: ToolEngineEvent) -> ToolExecutionResult:
    """The result that an event shows."""
    assert event.execution_result is not None
    return event.execution_result


@both_ways
async def test_what_a_late_reader_sees_is_what_an_early_one_saw(is_short: bool) -> None:
    """An event shows the output as it was returned, whatever the program did to it since."""
    value = {"rows": [{"name": "Ada"}], "api_key": "very secret"}
    late: list[ToolEngineEvent] = []
    output = await ends_of(value, late.append, is_short=is_short)
    output["rows"][0]["name"] = "Bob"
    value["rows"].append({})  # type: ignore[attr-defined]
    seen = {"rows": [{"name": "Ada"}], "api_key": "[hidden]"}
    assert shown_of(late[0]).output == seen
    assert shown_of(late[0]).output is shown_of(late[0]).output, "all readers have the same"


@both_ways
async def test_rich_shows_no_secret_of_an_unread_event(is_short: bool) -> None:
    """It reads the fields past their ways to be read, and has them from `asdict` otherwise."""
    events: list[ToolEngineEvent] = []
    await ends_of({"api_key": "very secret", "rows": 3}, events.append, is_short=is_short)
    unread = msgspec.structs.asdict(shown_of(events[0]))
    shown = pretty_repr(events[0])
    assert "very secret" not in f"{shown} {unread}"
    assert "'api_key': '[hidden]'" in shown
    assert "'rows': 3" in pretty_repr(shown_of(events[0]))


async def test_what_a_caller_changes_of_its_result_no_event_shows() -> None:
    """All of a result, such as its attempts; and what a subscriber changes, no caller gets."""

    async def fail() -> None:
        raise ValueError("it is full")

    events: list[ToolEngineEvent] = []
    async with ToolEngine() as engine:
        retry = {"attempts": 2, "backoff": 0.001}
        engine.register_tool(
            {"name": "fail", "description": "Fails.", "effect": "read", "retry": retry}, fail
        )
        engine.subscribe(events.append, "execution_failed")
        result = await engine.execute("fail")
    seen = copy.deepcopy(shown_of(events[0]).metadata)
    assert len(seen["attempt_log"]) == 2
    result.metadata["attempt_log"][0].clear()
    result.metadata["attempt_log"].clear()
    assert shown_of(events[0]).metadata == seen


@settings(max_examples=share_of(60))
@given(_VALUES, st.booleans())
def test_any_output_reads_late_as_it_reads_early(value: Any, is_short: bool) -> None:
    """Whether it is read in the callback, afterwards, or in a copy."""
    early: list[Any] = []
    late: list[ToolEngineEvent] = []

    def listen(event: ToolEngineEvent) -> None:
        early.append(copy.deepcopy(shown_of(event).output))

    asyncio.run(ends_of(value, listen, is_short=is_short))
    asyncio.run(ends_of(value, late.append, is_short=is_short))
    assert [pickle.loads(pickle.dumps(shown_of(event))).output for event in late] == early  # noqa: S301 - what was made here
    assert [shown_of(event).output for event in late] == early


@both_ways
async def test_an_output_that_no_one_reads_is_not_made(
    is_short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To hide the secrets of a table takes many times as long as its call."""
    made: list[bytes] = []

    def note(kept: bytes) -> dict[str, Any]:
        made.append(kept)
        return {}

    for module in (ending, plain_events):
        monkeypatch.setattr(module, "redact_output", note)
    heard: list[Any] = []

    def measure(event: ToolEngineEvent) -> None:
        result = shown_of(event)
        heard.append((result.is_success, result.execution_time, result.metadata["attempts"]))

    await ends_of(TABLE, measure, is_short=is_short)
    assert len(heard) == 1
    assert made == []


async def test_a_secret_of_later_is_hidden_too() -> None:
    """As in records: what is resolved after the call is hidden in what is read afterwards."""
    events: list[ToolEngineEvent] = []
    await ends_of({"note": "it is quokka-7391"}, events.append)
    remember_secret("quokka-7391")
    assert shown_of(events[0]).output == {"note": "it is [hidden]"}


@both_ways
@pytest.mark.parametrize(
    "carry",
    [copy.copy, copy.deepcopy, lambda event: pickle.loads(pickle.dumps(event))],  # noqa: S301 - what was made here
    ids=["copy", "deepcopy", "pickle"],
)
async def test_an_unread_event_goes_elsewhere_whole(
    carry: Callable[[ToolEngineEvent], ToolEngineEvent], is_short: bool
) -> None:
    """Copies of an event, and other processes, have what it shows."""
    events: list[ToolEngineEvent] = []
    output = await ends_of(TABLE, events.append, is_short=is_short)
    copied = carry(events[0])
    assert (copied, events[0]) == (events[0], copied)
    assert (copied.timestamp, copied.data) == (events[0].timestamp, events[0].data)
    there = shown_of(copied)
    assert there.output == output
    assert there == shown_of(events[0])
    assert shown_of(events[0]) == there
    assert msgspec.structs.replace(there, error="no").output == output
    assert events[0].to_dict()["execution_result"]["output"] == output


async def test_no_event_is_encoded_half() -> None:
    """An encoder that looks into an unread event refuses it, rather than leave things out."""
    events: list[ToolEngineEvent] = []
    output = await ends_of(TABLE, events.append)
    with pytest.raises(TypeError, match="cell"):
        msgspec.json.encode(events[0])
    with pytest.raises(TypeError, match="UnreadOutput"):
        msgspec.json.encode(shown_of(events[0]))
    assert shown_of(events[0]).output == output
    assert msgspec.json.decode(msgspec.json.encode(shown_of(events[0])))["output"] == output


def test_a_shown_result_is_equal_to_what_it_shows() -> None:
    """Also where it has not been read, and never to something else."""
    result = ToolExecutionResult(True, "give", {"a": 1})
    shown = ShownResult(*(getattr(result, name) for name in result.__struct_fields__))
    assert shown == result
    assert result == shown
    assert shown != ToolExecutionResult(True, "give", {"a": 2})
    assert shown != {"a": 1}
