"""Which variables does a call leave, and which of them are made only when one is read?"""

from __future__ import annotations

import asyncio
import threading
from copy import deepcopy
from datetime import UTC, datetime, tzinfo
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine import ToolExecutionResult
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.model.tool import Tool
from tool_engine.session.variables import call_variables
from tool_engine.session.variables.call_variables import (
    NamesOfCall,
    keep_call,
    keep_call_in_time,
    keep_packed,
    make_variables,
    name_variables,
    pack_call,
)
from tool_engine.session.variables.references import expand_references, write_reference
from tool_engine.session.variables.store import Variable, VariableKind, VariableStore, copy_value

WEB = "tool:fetch effect:read"
BOUND = 10.0


def make_tool(**keys: Any) -> Tool:
    """A tool whose calls are kept."""
    return ToolConfigLoader().from_mapping(
        {"name": "fetch", "description": "Fetches.", "effect": "read", **keys}
    )


_SHORT_VALUES = st.one_of(
    st.text(max_size=20), st.integers(), st.floats(), st.booleans(), st.none(), st.just("\ud800")
)
_KEYS = st.sampled_from(["a", "b", "api_key", "\x00é"])
_NOT_IN_JSON = st.one_of(
    st.dates(),
    st.datetimes(timezones=st.sampled_from([None, UTC])),
    st.times(),
    st.timedeltas(),
    st.uuids(),
    st.decimals(),
    st.binary(max_size=5),
    st.frozensets(st.integers(), max_size=3),
)
_NESTED = st.recursive(
    st.one_of(_SHORT_VALUES, _NOT_IN_JSON),
    lambda inside: st.one_of(
        st.lists(inside, max_size=3),
        st.tuples(inside),
        st.dictionaries(st.one_of(_KEYS, st.integers()), inside, max_size=3),
    ),
    max_leaves=5,
)
_VALUES = st.dictionaries(_KEYS, st.one_of(_SHORT_VALUES, _NESTED))
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["call", "call", "fail", "read", "write", "remove", "look", "copy"]),
        _VALUES,
        st.one_of(_VALUES, st.builds(lambda value: {"result": value}, _NESTED)),
        st.integers(0, 5),
    ),
    max_size=30,
)


def described(variables: list[Variable]) -> list[str]:
    """Variables but for the times; as text, since a NaN is not equal to itself.

    The labels beside it, in order: two sets that are equal need not be written in one order.
    """
    alike: dict[str, Any] = dict.fromkeys(("created", "updated"), datetime(2026, 1, 1, tzinfo=UTC))
    alike["labels"] = frozenset()
    return [
        f"{sorted(each.labels)} {msgspec.structs.replace(each, **alike)!r}" for each in variables
    ]


@settings(max_examples=share_of(200))
@given(_STEPS, st.integers(1, 8), st.integers(1, 400))
def test_what_is_made_later_is_as_if_it_were_made_at_once(
    steps: list[tuple[str, dict[str, Any], dict[str, Any], int]], capacity: int, most: int
) -> None:
    """S29: values, order, and what goes for lack of room, whatever is read in between."""
    tool, labels = make_tool(), frozenset({WEB})
    at_once, later = VariableStore(capacity, most), VariableStore(capacity, most)
    for number, (step, params, output, which) in enumerate(steps):
        name = f"fetch_{max(0, number - which)}_result"
        names = name_variables("fetch", number, at_once)
        assert names == name_variables("fetch", number, later)
        if step in ("call", "fail"):
            result = ToolExecutionResult(step == "call", "fetch", output)
            what = tool, names, params, result, labels, frozenset({"user"})
            keep_call(at_once, *what)
            packed, of_call = pack_call(tool, params, result), (labels, frozenset({"user"}))
            if packed is None or not keep_packed(
                later, tool, names, packed, *of_call, is_success=result.is_success
            ):
                keep_call(later, *what)
            # The program has them, and may do with them what it likes.
            params.clear()
            output.clear()
        elif step == "read" and name in at_once:
            assert described([at_once.get(name)]) == described([later.get(name)])
        elif step == "write" and name in at_once:
            for store in (at_once, later):
                store.add(Variable(name=name, value=which))
        elif step == "remove":
            assert at_once.remove(name) == later.remove(name)
        elif step == "look":
            assert described(list(at_once)) == described(list(later))
        elif step == "copy":
            later = deepcopy(later)
        assert (len(at_once), at_once.evicted) == (len(later), later.evicted)
    assert at_once.chars == later.chars
    assert described(at_once.find()) == described(later.find())


def test_variables_that_are_not_read_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most variables are never read, and so cost little; reading one makes those of its call."""
    store, result = VariableStore(), ToolExecutionResult(True, "fetch", {"result": "x"})
    for number in range(3):
        names = name_variables("fetch", number, store)
        packed = pack_call(make_tool(), {"n": number}, result)
        assert packed is not None
        assert keep_packed(store, make_tool(), names, packed, frozenset({WEB}))
    made: list[str] = []

    def count(*parts: Any, **more: Any) -> list[Variable]:
        made.append(parts[1].args)
        return make_variables(*parts, **more)

    monkeypatch.setattr(call_variables, "make_variables", count)
    assert len(store) == 6
    assert store.get("fetch_1_result").value == "x"
    assert store.get("fetch_1_args").value == {"n": 1}
    assert made == ["fetch_1_args"]


class Word(str):
    """A text of a class of its own, which would read back as another one."""

    __slots__ = ()


def unfold(levels: int) -> list[Any]:
    """A short list that is very long when it is written: each level holds the next one twice."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value, value]
    return value


def test_many_calls_that_none_has_read_are_not_made_to_learn_their_size() -> None:
    """As many tables as fit are kept unread: each call after them makes none of those before."""
    store, tool, calls = VariableStore(), make_tool(), 600
    rows = [{"id": at, "name": f"name {at}", "value": at * 1.5, "ok": True} for at in range(270)]
    for number in range(calls):
        names = name_variables("fetch", number, store)
        packed = pack_call(tool, {}, ToolExecutionResult(True, "fetch", {"rows": rows}))
        assert packed is not None
        assert keep_packed(store, tool, names, packed, frozenset({WEB}))
    assert (len(store), store.evicted) == (store.capacity, 2 * calls - store.capacity)
    unread = [each for each in store._used.values() if isinstance(each, call_variables.UnmadeCall)]
    assert len(unread) == store.capacity
    assert store.get(f"fetch_{calls - 1}_result").value == {"rows": rows}


def test_a_result_that_is_removed_takes_its_part_of_what_may_be_unread() -> None:
    """What is not made yet counts by itself: removing or reading one leaves that of the other."""
    result = ToolExecutionResult(True, "fetch", {"rows": ["x" * 100] * 50})
    for step in ("remove", "read", "look"):
        store = VariableStore()
        packed = pack_call(make_tool(), {"a": ["y" * 10]}, result)
        assert packed is not None
        keep_packed(store, make_tool(), name_variables("fetch", 1), packed, frozenset({WEB}))
        assert store._unmade == packed.most_sent + packed.most_returned
        if step == "remove":
            store.remove("fetch_1_result")
            assert store._unmade == packed.most_sent
        elif step == "read":
            store.get("fetch_1_result")
            assert store._unmade == 0
        store.remove(["fetch_1_args", "fetch_1_result"])
        assert (store._unmade, store.chars) == (0, 0)


def test_what_is_packed_for_the_record_is_not_packed_again() -> None:
    """A call's record and its variables share the bytes of an output."""
    result = ToolExecutionResult(True, "fetch", {"rows": [[1], [2]]})
    assert pack_call(make_tool(), {}, result, lambda output: b"x" * 40_000) is None
    known = msgspec.msgpack.encode(result.output)
    packed = pack_call(make_tool(), {}, result, lambda output: known)
    assert packed is not None
    assert packed.data[1] is known
    assert packed.most_returned == 8 * len(known)
    assert pack_call(make_tool(), {}, result, lambda output: None) is not None


def test_what_takes_long_or_is_secret_is_kept_at_once() -> None:
    """Long texts, what is no plain JSON, and the arguments of a tool with secrets."""
    result = ToolExecutionResult(True, "fetch", {"result": "x"})
    secret = make_tool(
        parameters=[{"name": "key", "type": "string", "secret": True, "description": "A key."}]
    )
    for tool, params in (
        (make_tool(), {"a": "x" * 40_000}),
        (make_tool(), {"a": [Word("x")]}),
        (make_tool(), {"a": unfold(60)}),
        (secret, {"key": "k"}),
    ):
        assert pack_call(tool, params, result) is None


def test_names_of_calls() -> None:
    """S29: the tool, the number of the call, and what it is."""
    assert name_variables("fetch", 3) == NamesOfCall("fetch_3_result", "fetch_3_args")
    assert name_variables("crm.find/v1", 1).args == "crm.find/v1_1_args"
    assert name_variables("größe messen", 1).result == "gr__e_messen_1_result"


@given(name=st.text(max_size=300), number=st.integers(1, 10**18))
def test_every_tool_has_names(name: str, number: int) -> None:
    """S29: whatever a tool is called, its variables can be kept and referenced."""
    store = VariableStore()
    names = name_variables(name, number)
    for each in (names.result, names.args):
        store.add(Variable(name=each, value="x"))
        assert expand_references({"x": write_reference(each)}, store).params == {"x": "x"}
    assert len(store) == 2


def test_names_that_are_taken() -> None:
    """S29: a call never writes over what is there, whoever put it there."""
    store = VariableStore()
    store.add(Variable(name="fetch_3_args", value="mine"))
    names = name_variables("fetch", 3, store)
    assert names == NamesOfCall("fetch_3_result-2", "fetch_3_args-2")
    store.add(Variable(name=names.result, value="mine", kind=VariableKind.RULE))
    third = NamesOfCall("fetch_3_result-3", "fetch_3_args-3")
    assert name_variables("fetch", 3, store) == third


def kept(
    output: dict[str, Any],
    params: dict[str, Any] | None = None,
    tool: Tool | None = None,
    *,
    is_success: bool = True,
    used: frozenset[str] | None = None,
) -> VariableStore:
    store = VariableStore()
    tool = tool or make_tool()
    result = ToolExecutionResult(is_success, tool.name, output)
    labels = frozenset({WEB})
    keep_call(store, tool, name_variables("fetch", 1, store), params or {}, result, labels, used)
    return store


def test_a_call_is_kept() -> None:
    """S29: its arguments and its output, however short they are."""
    store = kept({"a": [1]}, {"url": "x"}, used=frozenset({"user"}))
    result, args = store.get("fetch_1_result"), store.get("fetch_1_args")
    assert (result.value, result.kind) == ({"a": [1]}, VariableKind.TOOL_CALL_RESULT)
    assert result.labels == {WEB}
    assert (args.value, args.kind) == ({"url": "x"}, VariableKind.TOOL_CALL_ARGS)
    assert args.labels == {"model", "user"}
    assert args.updated < result.updated


def test_arguments_are_older_than_what_they_led_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """S29: whoever asks which one held a text first is told so, however coarse the clock is."""

    class Stopped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Stopped:
            return cls(2026, 1, 1, tzinfo=tz)

    monkeypatch.setattr(call_variables, "datetime", Stopped)
    store = kept({"result": "x"}, {"text": "x"})
    assert store.get("fetch_1_args").updated < store.get("fetch_1_result").updated


def test_arguments_without_secrets_are_kept_as_they_are() -> None:
    """S29: a change of what was passed does not reach the variable; no key that tells is lost."""
    params: dict[str, Any] = {"a": 1, "b": "x", "c": None, "api_key": 5}
    store = kept({"x": [1]}, params)
    params["a"] = 2
    assert store.get("fetch_1_args").value == {"a": 1, "b": "x", "c": None, "api_key": 5}
    params["api_key"] = "abc"
    args = kept({}, params).get("fetch_1_args")
    assert args.value == {"a": 2, "b": "x", "c": None, "api_key": "[hidden]"}


def test_a_single_value_is_kept_as_it_is() -> None:
    """S29: a reference to the result of a tool that returns a text is the text."""
    assert kept({"result": "hello"}).get("fetch_1_result").value == "hello"
    assert kept({"result": None}).get("fetch_1_result").value is None
    assert kept({"result": 1, "more": 2}).get("fetch_1_result").value == {"result": 1, "more": 2}


def test_a_call_that_failed() -> None:
    """S29: the arguments are kept, so that it can be tried again; there is no result to keep."""
    store = kept({}, {"url": "x"}, is_success=False)
    assert [each.name for each in store] == ["fetch_1_args"]
    assert store.get("fetch_1_args").labels == {"model", WEB}


def test_secrets_are_not_kept() -> None:
    """S29: a secret argument is hidden in the variable, at any depth; a text is never changed."""
    secret = {"name": "pin", "type": "string", "description": "P", "secret": True}
    part = {"type": "object", "properties": {"code": {"type": "string", "writeOnly": True}}}
    data = {"name": "data", "type": "object", "description": "D", "schema": part}
    tool = make_tool(parameters=[secret, data])
    params = {
        "pin": "1234",
        "data": {"code": "5678", "x": "y", "max_tokens": 5},
        "headers": [{"Authorization": "Bearer abc", "Accept": "text"}],
        "text": "The password: hunter2",
    }
    args = kept({}, params, tool).get("fetch_1_args")
    assert args.value == {
        "pin": "[hidden]",
        "data": {"code": "[hidden]", "x": "y", "max_tokens": 5},
        "headers": [{"Authorization": "[hidden]", "Accept": "text"}],
        "text": "The password: hunter2",
    }


def test_arguments_that_are_too_deep() -> None:
    """S29: arguments that were refused for their depth are kept without a crash."""
    deep: Any = {"pin": 1}
    for _ in range(5_000):
        deep = [deep]
    store = kept({}, {"deep": deep}, is_success=False)
    assert store.get("fetch_1_args").text.startswith('{"deep": [[[')


@pytest.mark.parametrize("size", [10, 1_000_000])
async def test_large_results_are_kept_in_a_thread(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D20: to copy a large result does not hold up other calls; what is kept is the same."""
    threads: list[threading.Thread] = []

    def seen(value: Any, *, in_pieces: bool) -> tuple[Any, int]:
        threads.append(threading.current_thread())
        return copy_value(value, in_pieces=in_pieces)

    monkeypatch.setattr(call_variables, "copy_value", seen)
    store = VariableStore()
    result = ToolExecutionResult(True, "fetch", {"rows": ["x"] * size})
    async with asyncio.timeout(BOUND):
        await keep_call_in_time(
            store, make_tool(), name_variables("fetch", 1), {"a": 1}, result, frozenset({WEB})
        )
    assert store.get("fetch_1_result").value == {"rows": ["x"] * size}
    assert store.get("fetch_1_args").value == {"a": 1}
    is_here = threads[0] is threading.current_thread()
    assert is_here is (size == 10)
