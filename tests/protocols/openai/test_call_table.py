"""Which fragments of a stream are one call: by the book, and as servers write them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.protocols.wire_openai import chunk, entry, fragment, message
from tool_engine.model.call import ToolCall
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.reply import ParsedReply, StreamEvent
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.protocols.openai import OpenAIProtocol


def tool(name: str, *parameters: str) -> Tool:
    declared = [ToolParameter(each, "integer") for each in parameters]
    return Tool(name, name, "1.0.0", f"Does {name}.", ToolCategory.CUSTOM, [], declared, {})


def streamed(
    *fragments: Any, tools: list[Tool] | None = None, reason: str | None = "tool_calls"
) -> tuple[list[StreamEvent], ParsedReply]:
    """Reads a stream with one fragment in each chunk; a list is several in one."""
    decoder = OpenAIProtocol(tools=tools).decoder()
    events = []
    for each in fragments:
        events += decoder.feed(chunk(*(each if isinstance(each, list) else [each])))
    events += decoder.feed(chunk(finish_reason=reason)) if reason else []
    return events, decoder.close()


def calls_of(*fragments: Any, **options: Any) -> list[ToolCall]:
    return streamed(*fragments, **options)[1].calls


def runs(calls: list[ToolCall]) -> list[tuple[str, str, dict[str, Any]]]:
    """The calls that would be run."""
    return [(c.call_id, c.tool_name, c.arguments) for c in calls if c.is_runnable]


ADD_1 = ("a", "add", {"x": 1})
ADD_2 = ("b", "add", {"x": 2})


def test_by_the_book() -> None:
    """D8: the first fragment has id and name, the others the index; each call ends with the reply,
    and its events tell its arguments piece by piece."""
    events, reply = streamed(
        fragment(0, "a", "add", ""),
        fragment(0, arguments='{"x"'),
        fragment(0, arguments=":1}"),
        fragment(1, "b", "add", ""),
        fragment(1, arguments='{"x":2}'),
    )
    assert runs(reply.calls) == [ADD_1, ADD_2]
    assert reply.findings == []
    told = [(each.type.value, each.tool_call_id, each.tool_call_name) for each in events]
    assert told == [
        ("tool_call_start", "a", "add"),
        ("tool_call_chunk", "a", "add"),
        ("tool_call_chunk", "a", "add"),
        ("tool_call_start", "b", "add"),
        ("tool_call_chunk", "b", "add"),
        ("tool_call_end", "a", "add"),
        ("tool_call_end", "b", "add"),
    ]
    assert [each.tool_call_arguments_chunk for each in events][1:3] == ['{"x"', ":1}"]
    assert events[-2].tool_call_arguments_complete == '{"x": 1}'


PARALLEL: dict[str, list[Any]] = {
    "always index 0, each call whole": [
        fragment(0, "a", "add", '{"x":1}'),
        fragment(0, "b", "add", '{"x":2}'),
    ],
    "always index 0, in pieces": [
        fragment(0, "a", "add", ""),
        fragment(0, arguments='{"x":'),
        fragment(0, arguments="1}"),
        fragment(0, "b", "add", ""),
        fragment(0, arguments='{"x":'),
        fragment(0, arguments="2}"),
    ],
    "always index 0, empty ids go on": [
        fragment(0, "a", "add", ""),
        fragment(0, "", None, '{"x":1}'),
        fragment(0, "b", "add", ""),
        fragment(0, "", None, '{"x":2}'),
    ],
    "always index 0, the id in each chunk, interleaved": [
        fragment(0, "a", "add", '{"x"'),
        fragment(0, "b", "add", '{"x"'),
        fragment(0, "a", None, ":1}"),
        fragment(0, "b", None, ":2}"),
    ],
    "index missing": [
        fragment(None, "a", "add", '{"x":1}'),
        fragment(None, "b", "add", '{"x":2}'),
    ],
    "index missing, the id in each chunk, interleaved": [
        fragment(None, "a", "add", '{"x"'),
        fragment(None, "b", "add", '{"x"'),
        fragment(None, "a", None, ":1}"),
        fragment(None, "b", None, ":2}"),
    ],
    "index missing in all but the first": [
        fragment(0, "a", "add", ""),
        fragment(None, None, None, '{"x":1}'),
        fragment(1, "b", "add", ""),
        fragment(None, None, None, '{"x":2}'),
    ],
    "index missing in the first": [
        fragment(None, "a", "add", ""),
        fragment(0, None, None, '{"x":1}'),
        fragment(1, "b", "add", ""),
        fragment(1, None, None, '{"x":2}'),
    ],
    "index as text": [
        fragment("0", "a", "add", '{"x":1}'),
        fragment("1", "b", "add", '{"x":2}'),
    ],
    "index no number at all": [
        fragment({"n": 0}, "a", "add", '{"x":1}'),
        fragment([1], "b", "add", '{"x":2}'),
    ],
    "interleaved": [
        fragment(0, "a", "add", ""),
        fragment(1, "b", "add", ""),
        fragment(1, arguments='{"x"'),
        fragment(0, arguments='{"x"'),
        fragment(1, arguments=":2}"),
        fragment(0, arguments=":1}"),
    ],
    "several in one chunk": [
        [fragment(0, "a", "add", '{"x"'), fragment(1, "b", "add", '{"x"')],
        [fragment(0, arguments=":1}"), fragment(1, arguments=":2}")],
    ],
    "all of it in one chunk": [
        [fragment(0, "a", "add", '{"x":1}'), fragment(1, "b", "add", '{"x":2}')],
    ],
    "id and name in each chunk": [
        fragment(0, "a", "add", '{"x"'),
        fragment(0, "a", "add", ":1}"),
        fragment(0, "a", "add", ""),
        fragment(1, "b", "add", '{"x"'),
        fragment(1, "b", "add", ":2}"),
    ],
    "empty names go on": [
        fragment(0, "a", "add", ""),
        fragment(0, "a", "", '{"x":1}'),
        fragment(1, "b", "add", '{"x":'),
        fragment(1, "b", "", "2}"),
    ],
    "arguments before the name": [
        fragment(0, "a", None, '{"x":1}'),
        fragment(0, None, "add"),
        fragment(1, "b", None, '{"x":2}'),
        fragment(1, None, "add"),
    ],
    "arguments before name and id": [
        fragment(0, None, None, '{"x":1}'),
        fragment(0, "a", "add"),
        fragment(1, None, None, '{"x":2}'),
        fragment(1, "b", "add"),
    ],
    "arguments as an object": [
        fragment(0, "a", "add", {"x": 1}),
        fragment(0, "b", "add", {"x": 2}),
    ],
    "null before the arguments": [
        {"index": 0, "id": "a", "function": {"name": "add", "arguments": None}},
        fragment(0, None, None, '{"x":1}'),
        fragment(1, "b", "add", '{"x":2}'),
    ],
    "entries that say nothing": [
        {"index": 0},
        fragment(0, "a", "add", '{"x":1}'),
        [None, {}],
        {"index": 1, "function": None},
        fragment(1, "b", "add", '{"x":2}'),
        {"index": 1, "id": None, "type": None, "function": {"name": None, "arguments": ""}},
    ],
    "no level of `function`": [
        {"index": 0, "id": "a", "name": "add", "arguments": '{"x":1}'},
        {"index": 1, "id": "b", "name": "add", "arguments": '{"x":2}'},
    ],
}


@pytest.mark.parametrize("name", PARALLEL)
def test_parallel_calls(name: str) -> None:
    """However a server numbers and names parallel calls, they are two, with their own ids."""
    _, reply = streamed(*PARALLEL[name])
    assert runs(reply.calls) == [ADD_1, ADD_2]
    assert reply.findings == []


WITHOUT_IDS: dict[str, list[Any]] = {
    "one after the other at index 0": [
        fragment(0, None, "add", '{"x":1}'),
        fragment(0, None, "add", '{"x":2}'),
    ],
    "the name again in a chunk of its own": [
        fragment(0, None, "add", '{"x":1}'),
        fragment(0, None, "add", ""),
        fragment(0, None, None, '{"x":'),
        fragment(0, None, None, "2}"),
    ],
    "without an index": [
        fragment(None, "", "add", '{"x":1}'),
        fragment(None, "", "add", '{"x":2}'),
    ],
    "by the book": [
        fragment(0, None, "add", ""),
        fragment(0, None, None, '{"x":1}'),
        fragment(1, None, "add", ""),
        fragment(1, None, None, '{"x":2}'),
    ],
}


@pytest.mark.parametrize("name", WITHOUT_IDS)
def test_calls_without_ids(name: str) -> None:
    """Calls without ids get ids of their place, the same for every reader."""
    _, reply = streamed(*WITHOUT_IDS[name])
    assert runs(reply.calls) == [("call_1", "add", {"x": 1}), ("call_2", "add", {"x": 2})]


@pytest.mark.parametrize("index", [0, 1])
def test_one_id_for_two_calls(index: int) -> None:
    """An id that stands for two calls is told, and the second call gets one of its own."""
    _, reply = streamed(fragment(0, "a", "add", '{"x":1}'), fragment(index, "a", "add", '{"x":2}'))
    assert runs(reply.calls) == [ADD_1, ("a_2", "add", {"x": 2})]
    assert [each.error_type for each in reply.findings] == ["repeated_id"]


@pytest.mark.parametrize("named", [False, True], ids=["name first", "name in each"])
def test_a_new_id_in_each_chunk(named: bool) -> None:
    """vLLM made up an id for every chunk of one call: it stays one call, and that is told."""
    name = "add" if named else None
    _, reply = streamed(
        fragment(0, "a", "add", '{"x"'), fragment(0, "b", name, ":"), fragment(0, "c", name, "1}")
    )
    assert runs(reply.calls) == [ADD_1]
    assert [each.error_type for each in reply.findings] == ["malformed_reply"]


def test_a_new_id_before_the_first_arguments() -> None:
    """A new id without a name goes on with a call that has no arguments yet, and with its id."""
    _, reply = streamed(
        fragment(0, "a", "add", ""), fragment(0, "b", None, '{"x"'), fragment(0, "c", None, ":1}")
    )
    assert runs(reply.calls) == [ADD_1]


def test_an_id_that_comes_late() -> None:
    """An id that comes after the call was told of finds the call, which keeps the id it got."""
    calls = calls_of(
        fragment(None, None, "add", ""),
        fragment(None, "a", None, '{"x"'),
        fragment(None, "b", "add", '{"x":2}'),
        fragment(None, "a", None, ":1}"),
    )
    assert runs(calls) == [("call_1", "add", {"x": 1}), ADD_2]


NEVER_RUN: dict[str, tuple[list[Any], str]] = {
    "two argument objects for one call": (
        [fragment(0, "a", "add", '{"x":1}'), fragment(0, None, None, '{"x":2}')],
        "two argument objects",
    ),
    "the name changes before the arguments": (
        [fragment(0, None, "get_"), fragment(0, None, "weather", '{"x":1}')],
        "one call or two",
    ),
    "arguments without a name": ([fragment(0, "a", None, '{"x":1}')], "no tool name"),
    "arguments that are a list": ([fragment(0, "a", "add", [1])], "must be a JSON object"),
    "arguments that are a number": ([fragment(0, "a", "add", 1)], "must be a JSON object"),
    "arguments with NaN": ([fragment(0, "a", "add", {"x": float("nan")})], "NaN"),
    "arguments that no JSON can hold": ([fragment(0, "a", "add", {"x": {1j}})], "JSON"),
    "arguments that are another type": ([fragment(0, "a", "add", True)], "must be a JSON object"),
    "a custom tool": (
        [{"index": 0, "id": "a", "type": "custom", "custom": {"name": "add", "input": "{}"}}],
        "as a custom tool",
    ),
    "entries that are no calls": ([fragment(0, "a", "add", '{"x":1}'), 5], "could not be read"),
    "a function that is text": (
        [fragment(0, "a", "add", '{"x":1}'), {"index": 0, "function": "add"}],
        "could not be read",
    ),
}


@pytest.mark.parametrize("name", NEVER_RUN)
def test_doubtful_calls_are_not_run(name: str) -> None:
    """U47: what cannot be told for certain is not run, and says why."""
    fragments, why = NEVER_RUN[name]
    _, reply = streamed(*fragments)
    assert runs(reply.calls) == []
    assert why in str(reply.calls[0].error)
    assert [each.level for each in reply.findings if each.call_id is not None] == ["error"]


def test_calls_that_are_announced_under_one_index_never_run_as_none() -> None:
    """U47: two tools are named under index 0 before any arguments come: whose these are cannot be
    told, unless the first tool takes none."""
    announced = [
        fragment(0, "a", "add", ""),
        fragment(0, "b", "sub", ""),
        fragment(0, None, None, '{"x":1}'),
    ]
    both = [*announced, fragment(0, None, None, '{"x":2}')]
    for tools in (None, [tool("add", "x"), tool("sub", "x")]):
        calls = calls_of(*announced, tools=tools)
        assert runs(calls) == []
        assert "were lost" in str(calls[0].error)
        assert "call before it" in str(calls[1].error)
        assert runs(calls_of(*both, tools=tools)) == []
    known = [tool("add"), tool("sub", "x")]
    assert runs(calls_of(*announced, tools=known)) == [("a", "add", {}), ("b", "sub", {"x": 1})]


def test_lost_arguments_never_run_as_none() -> None:
    """U47: the arguments of a call that went to another one by a mistake of the server's are not
    taken for no arguments."""
    calls = calls_of(fragment(0, "a", "add", ""), fragment(1, None, None, '{"x":1}'))
    assert runs(calls) == []
    assert "were lost" in str(calls[0].error)


def test_a_second_call_in_the_place_of_the_first() -> None:
    """A call that another one follows before its arguments came is run only if it needs none."""
    fragments = [fragment(0, "a", "now", ""), fragment(0, "b", "now", "{}")]
    assert runs(calls_of(*fragments)) == [("b", "now", {})]
    assert runs(calls_of(*fragments, tools=[tool("now", "x")])) == [("b", "now", {})]
    whole = runs(calls_of(*fragments, tools=[tool("now")]))
    assert whole == [("a", "now", {}), ("b", "now", {})]


def test_mixed_ids_and_another_name() -> None:
    """Fragments that went on under another id may have been another call's: neither is run."""
    calls = calls_of(
        fragment(0, "a", "now", ""),
        fragment(0, "b", None, '{"x":1}'),
        fragment(0, None, "add", ""),
    )
    assert runs(calls) == []


def test_another_name_after_the_arguments() -> None:
    """Without ids another name begins another call, also where the arguments before it are open."""
    calls = calls_of(fragment(0, None, "add", '{"x":1'), fragment(0, None, "now", '{"y":2}'))
    assert runs(calls) == [("call_2", "now", {"y": 2})]
    calls = calls_of(
        fragment(0, None, "now", ""), fragment(0, None, "add", '{"x":1}'), tools=[tool("add", "x")]
    )
    assert [each.tool_name for each in calls] == ["now", "add"]


def test_a_name_in_pieces() -> None:
    """A name may come in pieces: it is told once it can be no other tool's."""
    known = [tool("get"), tool("get_weather", "x"), tool("get_weather_map", "x")]
    pieces = [fragment(0, "a", "get"), fragment(0, None, "_weat"), fragment(0, None, "her", "")]
    events, reply = streamed(*pieces, fragment(0, arguments='{"x":1}'), tools=known)
    assert runs(reply.calls) == [("a", "get_weather", {"x": 1})]
    assert events[0].tool_call_name == "get_weather"
    assert runs(calls_of(fragment(0, "a", "get"), tools=known)) == [("a", "get", {})]
    repeated = [fragment(0, "a", "get"), fragment(0, "a", "get"), fragment(0, "a", "get", " ")]
    assert runs(calls_of(*repeated, tools=known)) == [("a", "get", {})]


def test_custom_calls_are_apart() -> None:
    """Two custom calls are two, with what was written to each."""
    calls = calls_of(
        {"index": 0, "id": "a", "type": "custom", "custom": {"name": "run", "input": "print"}},
        {"index": 0, "custom": {"input": "(1)"}},
        {"index": 0, "id": "b", "type": "custom", "custom": {"name": "run", "input": "2"}},
    )
    assert [each.raw for each in calls] == ["print(1)", "2"]
    assert runs(calls) == []


def test_braces_in_strings_and_escapes() -> None:
    """Where an object closes is read across the pieces, through strings and escapes."""
    pieces = ['{"x": "}{', "\\", '"}', "\\\\", '", "y": [{}, "[', '"]}']
    later = [fragment(0, None, None, each) for each in pieces]
    calls = calls_of(fragment(0, None, "add", ""), *later, fragment(0, None, "add", '{"x":2}'))
    assert [each.arguments for each in calls] == [{"x": '}{"}\\', "y": [{}, "["]}, {"x": 2}]


def test_more_after_the_end() -> None:
    """Arguments that come after the end of the reply change what was told: the call is not run."""
    decoder = OpenAIProtocol().decoder()
    decoder.feed(chunk(fragment(0, "a", "add", '{"x":1}'), finish_reason="tool_calls"))
    assert decoder.feed(chunk(fragment(0, None, None, " "))) == []
    decoder.feed(chunk(fragment(0, None, None, "0")))
    reply = decoder.close()
    assert runs(reply.calls) == []
    assert "after its end" in str(reply.calls[0].error)


@pytest.mark.parametrize("index", [0, None])
def test_many_calls_take_linear_time(index: Any) -> None:
    """10,000 calls with the same id, or none, are read without looking at all the others."""
    other = [fragment(index, "a", "add", f'{{"x":{place}}}') for place in range(10_000)]
    calls = calls_of(other)
    assert len(calls) == 10_000
    assert calls[-1].call_id == "a_10000"
    same = [fragment(index, "a", "add", "{}") for _ in range(10_000)]
    assert len(calls_of(same)) == 1


def test_an_object_with_a_key_twice_is_not_run() -> None:
    """U47: a server that sends arguments as an object may repeat a key; nobody guesses which."""
    body = b"""{"choices":[{"finish_reason":"tool_calls","message":{"tool_calls":[
    {"id":"a","function":{"name":"add","arguments":{"x":1,"x":2}}},
    {"id":"b","function":{"name":"add","arguments":{"x":2}}}]}}]}"""
    reply = OpenAIProtocol().parse(body)
    assert runs(reply.calls) == [ADD_2]
    assert "twice" in str(reply.calls[0].error)


def test_another_call_beside_tool_calls_is_told() -> None:
    """A `function_call` that repeats one of `tool_calls` is a warning; another one is lost, which
    is an error."""
    for name, level in (("add", "warning"), ("sub", "error")):
        legacy = {"name": name, "arguments": '{"x":1}'}
        reply = OpenAIProtocol().parse(message(entry('{"x":1}'), function_call=legacy))
        assert runs(reply.calls) == [ADD_1]
        assert [each.level for each in reply.findings] == [level]
