"""Is a call refused whose arguments raise when they are looked at, whichever way it comes in?"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.calls.samples import bare
from tool_engine import (
    ToolEngine,
    ToolEngineConfig,
    ToolParameterValidator,
    ToolSession,
    ToolSubAgent,
)
from tool_engine.model.call import Refusal
from tool_engine.model.json.plain import Unreadable, read_plain
from tool_engine.protocols import get_protocol

NAMES: dict[type, tuple[str, ...]] = {
    dict: (
        *("items", "keys", "values", "__iter__", "__len__", "__getitem__", "__contains__"),
        *("get", "__eq__", "__repr__", "copy"),
    ),
    list: ("__iter__", "__len__", "__getitem__", "__contains__", "__eq__", "__repr__"),
    tuple: ("__iter__", "__len__", "__getitem__", "__contains__", "__eq__", "__repr__"),
    str: ("__eq__", "__hash__", "__str__", "__len__", "__iter__", "isascii", "encode", "strip"),
    int: ("__int__", "__index__", "__eq__", "__lt__", "__gt__", "__bool__", "__hash__"),
    float: ("__float__", "__eq__", "__lt__", "__int__", "is_integer", "__repr__"),
}
SAMPLES: dict[type, Any] = {dict: {"a": 1}, list: [1], tuple: (1,), str: "a", int: 1, float: 1.5}


def burst(*_: Any, **__: Any) -> Any:
    raise RuntimeError("burst")


def hostile(base: type, *names: str) -> Any:
    """A value of a subclass of `base` whose methods of these names raise."""
    return type(f"Odd{base.__name__}", (base,), dict.fromkeys(names, burst))(SAMPLES[base])


class Lazy(Mapping[str, int]):
    """A mapping that is broken in one place."""

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1

    def __getitem__(self, key: str) -> int:
        return burst(key)  # type: ignore[no-any-return]


Masked = type("Masked", (), {"__class__": property(burst)})
Meta = type("Meta", (type,), {"__hash__": burst, "__name__": property(burst)})
OfMeta = Meta("OfMeta", (), {})


HOSTILE = [
    *(hostile(base, name) for base, names in NAMES.items() for name in names),
    *(hostile(base, *names) for base, names in NAMES.items()),
    *(Lazy(), Masked(), OfMeta()),
]
KEYS = [hostile(str, name) for name in NAMES[str] if name not in ("__hash__", "__eq__")]
KEYS.append(type("OddKey", (str,), {"__eq__": burst, "__hash__": str.__hash__})("a"))
PARAMETERS: list[dict[str, Any]] = [
    {"name": "v", "type": "object"},
    {"name": "w", "type": "object", "properties": {"a": "integer"}},
    {"name": "x", "type": "array"},
    {"name": "s", "type": "string", "enum": ["a"]},
    {"name": "n", "type": "number"},
]


def calls() -> list[Any]:
    """Arguments with a hostile value or key in each place."""
    found: list[Any] = [*HOSTILE]
    for each in HOSTILE:
        found += [{name: each} for name in (*"vwxsn", "unknown")]
        found += [{"v": {"a": each}}, {"v": [each]}, {"x": [each]}, {"x": [[{"a": each}]]}]
    for key in KEYS:
        found += [{key: 1}, {"v": {key: 1}}, {"w": {key: 1}}]
    return found


async def doors(engine: ToolEngine) -> dict[str, Callable[[Any], Awaitable[Any]]]:
    session, agent = ToolSession(engine, "s"), ToolSubAgent("a", engine)
    validator, tool = ToolParameterValidator(), engine.get_or_raise("t")

    async def validate(sent: Any) -> Any:
        checked = validator.validate(tool, sent)
        assert checked == validator.compiled(tool).explain(sent)
        return checked

    async def refuse(sent: Any) -> Any:
        return engine.refuse("t", sent, None, Refusal("rejected", "no"))

    async def batch(sent: Any) -> Any:
        (result,) = await agent.execute_batch([("t", sent)], parallel=True)
        return result

    return {
        "validate": validate,
        "execute": lambda sent: engine.execute("t", sent),
        "refuse": refuse,
        "session": lambda sent: session.execute("t", sent),
        "agent": lambda sent: agent.execute("t", sent),
        "batch": batch,
    }


DOORS = ["validate", "execute", "refuse", "session", "agent", "batch"]


async def keep(**sent: Any) -> str:
    return json.dumps(sent)


async def made() -> ToolEngine:
    engine = ToolEngine(ToolEngineConfig("none", auto_reload=False))
    engine.register_tool(
        bare("t", parameters=[{"description": "x", **each} for each in PARAMETERS]), keep
    )
    return engine


@pytest.mark.parametrize("door", DOORS)
async def test_nothing_that_is_sent_raises(door: str) -> None:
    """Whatever a value raises, the call has its end, and the tool gets nothing but plain JSON."""
    async with await made() as engine:
        enter = (await doors(engine))[door]
        for sent in calls():
            result = await enter(sent)
            if door == "validate":
                assert result.is_valid is not bool(result.errors)
            elif door == "refuse":
                assert result.error_type == "rejected"
            else:
                assert result.is_success or result.error_type == "validation_error", result.error


@pytest.mark.parametrize("door", ["execute", "session", "agent", "batch"])
@pytest.mark.parametrize(
    ("sent", "path", "words"),
    [
        ({"v": Lazy()}, "v", "a value of type Lazy that cannot be read"),
        ({"v": {"a": [1, Lazy()]}}, "v.a[1]", "(RuntimeError)"),
        ({"w": {"a": Lazy()}}, "w.a", "a value of type Lazy"),
        ({"x": [Lazy()]}, "x[0]", "a value of type Lazy"),
        ({"v": Masked()}, "v", "a value of type Masked"),
        ({"v": OfMeta()}, "v", "a value of type OfMeta"),
    ],
)
async def test_the_place_is_told(door: str, sent: Any, path: str, words: str) -> None:
    """The finding has the path of what cannot be read, and says what was there."""
    async with await made() as engine:
        result = await (await doors(engine))[door](sent)
    assert result.error_type == "validation_error"
    (finding,) = result.validation_errors
    assert (finding["path"], finding["level"]) == (path, "error")
    assert f"'{path}' must be a JSON value, got " in finding["message"]
    assert words in finding["message"]


@pytest.mark.parametrize("door", ["execute", "session", "agent"])
async def test_arguments_that_cannot_be_read_at_all(door: str) -> None:
    """Where the arguments as a whole cannot be read, the finding is about them."""
    async with await made() as engine:
        result = await (await doors(engine))[door](Lazy())
    assert result.error_type == "validation_error"
    assert "the arguments must be an object" in str(result.error)
    assert "Lazy that cannot be read" in str(result.error)


@pytest.mark.parametrize("door", ["execute", "session", "agent", "batch"])
@pytest.mark.parametrize("base", [dict, list, tuple])
async def test_a_subclass_is_what_it_holds(door: str, base: type) -> None:
    """A subclass of a plain type counts as what that holds, whatever its own methods say."""
    name, held = ("v", {"a": 1}) if base is dict else ("x", [1])
    async with await made() as engine:
        enter = (await doors(engine))[door]
        for sent in (
            {name: hostile(base, *NAMES[base])},
            {name: hostile(base, *NAMES[base]), "z": 1},
        ):
            result = await enter(sent)
            assert result.is_success, result.error
            assert json.loads(result.output["result"]) == {name: held}
        if base is dict:
            result = await enter(type("Whole", (dict,), {"items": burst})(s="a"))
            assert json.loads(result.output["result"]) == {"s": "a"}


def reply(protocol: str, arguments: Any) -> Any:
    """A model's reply, as an SDK's object might hold it, with one call of `t`."""
    if protocol == "openai":
        call = {"id": "1", "type": "function", "function": {"name": "t", "arguments": arguments}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return {"choices": [{"finish_reason": "tool_calls", "message": message}]}
    if protocol == "openai_responses":
        item = {"type": "function_call", "call_id": "1", "name": "t", "arguments": arguments}
        return {"status": "completed", "output": [item]}
    if protocol == "anthropic":
        block = {"type": "tool_use", "id": "1", "name": "t", "input": arguments}
        return {"role": "assistant", "stop_reason": "tool_use", "content": [block]}
    part = {"functionCall": {"name": "t", "args": arguments}}
    content = {"role": "model", "parts": [part]}
    return {"candidates": [{"finishReason": "STOP", "content": content}]}


@pytest.mark.parametrize("protocol", ["openai", "openai_responses", "anthropic", "gemini"])
async def test_arguments_of_a_reply_that_raise(protocol: str) -> None:
    """Arguments that a reply holds as objects end the call at worst, never the turn."""
    async with await made() as engine:
        session = ToolSession(engine, "s")
        for sent in calls():
            cycle = await session.process(reply(protocol, sent), get_protocol(protocol))
            assert len(cycle.execution_results) == 1
            for result in cycle.execution_results:
                assert result.is_success or result.error_type == "validation_error", result.error


def test_read_plain() -> None:
    """What is plain stays itself; what is not is copied, shared and endless parts included."""
    plain = {"a": [1, {"b": None}], "c": "x"}
    assert read_plain(plain) is plain
    shared = [hostile(str, "__eq__")]
    found = read_plain({"a": shared, "b": shared, "c": (1, 2)})
    assert found == {"a": ["a"], "b": ["a"], "c": [1, 2]}
    assert found["a"] is found["b"]
    endless: list[Any] = [(1,)]
    endless.append(endless)
    copied = read_plain(endless)
    assert copied[0] == [1]
    assert copied[1] is copied
    assert type(read_plain({"a": Lazy()})["a"]) is Unreadable


def test_keys_that_become_one() -> None:
    """Two keys that are one in plain text are not silently one of them."""

    class Other(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            return False

    found = read_plain({"a": 1, Other("a"): 2})
    assert type(found) is Unreadable
    assert "cannot be read" in repr(found)
