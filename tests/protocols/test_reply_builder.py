"""What all decoders leave to the builder: ids, names, ends, and what must not be run."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tool_engine.model.parameter import ToolParameter
from tool_engine.model.reply import StreamEvent
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.protocols.arguments.argument_text import ReadArguments
from tool_engine.protocols.reply_builder import CallInProgress, Ending, ReplyBuilder
from tool_engine.protocols.tool_names import KnownTools, NameRule

RULE = NameRule(re.compile(r"[a-z]+"), 64, "letters")


def tool(name: str, *parameters: ToolParameter) -> Tool:
    return Tool(name, name, "1.0.0", "Does it.", ToolCategory.CUSTOM, [], list(parameters), {})


def builder(*tools: Tool, **options: Any) -> ReplyBuilder:
    return ReplyBuilder(KnownTools(RULE, tools), **options)


def begun(made: ReplyBuilder, text: str, call_id: Any = "a", name: Any = "add") -> CallInProgress:
    call, _ = made.begin(call_id, name)
    made.add_arguments(call, text)
    return call


def types(events: list[StreamEvent]) -> list[str]:
    return [each.type.value for each in events]


def runs(made: ReplyBuilder) -> list[str]:
    """The ids of the calls that would be run."""
    return [each.call_id for each in made.close().calls if each.is_runnable]


def test_a_fault_is_told_once() -> None:
    """Where a server ends a reply twice, first well and then cut, each fault is told once."""
    made = builder()
    begun(made, "}{")
    first = made.end(Ending.FINISHED)
    again = made.end(Ending.CUT, "length")
    assert (types(first), types(again)) == (["error"], [])
    assert len(made.close().findings) == 1


def test_characters_in_two_parts() -> None:
    """A server may cut a character in two: in the text and in the arguments it is whole again."""
    made = builder()
    call = begun(made, '{"x": "\ud83d')
    made.add_arguments(call, '\ude00"}')
    made.add_text("a \ud83d")
    made.add_text("\ude00")
    made.end(Ending.FINISHED)
    reply = made.close()
    assert (reply.text, reply.calls[0].arguments) == ("a \U0001f600", {"x": "\U0001f600"})


@pytest.mark.parametrize("wanted", [None, "", 5, {}, "a\ud800"])
def test_made_up_ids(wanted: Any) -> None:
    """A call without an id gets one of its place."""
    made = builder()
    for _ in range(2):
        begun(made, "{}", wanted)
    assert [each.call_id for each in made.close().calls] == ["call_1", "call_2"]


def test_ids_are_unique() -> None:
    """An id that is taken, also by one that was made up, gets a number, and that is told."""
    made = builder()
    for place, wanted in enumerate(("a", "a", "a", "a_2", None, "call_5")):
        begun(made, f'{{"x": {place}}}', wanted)
    reply = made.close()
    ids = [each.call_id for each in reply.calls]
    assert ids == ["a", "a_2", "a_3", "a_2_2", "call_5", "call_5_2"]
    repeated = [each.call_id for each in reply.findings if each.error_type == "repeated_id"]
    assert repeated == ["a_2", "a_3", "a_2_2", "call_5_2"]


def test_a_late_id() -> None:
    """An id that comes before the name is the call's; later, it keeps the one it was told under."""
    made = builder()
    early, _ = made.begin(None)
    made.identify(early, "a")
    made.name(early, "add")
    made.identify(early, "b")
    taken, _ = made.begin(None)
    made.identify(taken, "a")
    assert [early.call_id, taken.call_id] == ["a", "call_2"]


def test_the_tools_own_names() -> None:
    """A call has the name of the tool, not the one that was sent for it."""
    known = KnownTools(RULE, [tool("get time")])
    made = ReplyBuilder(known)
    call, events = made.begin("a", known.sent_name("get time"))
    assert call.name == events[0].tool_call_name == "get time"
    assert made.name(call, "other") == []
    assert made.close().calls[0].tool_name == "get time"


def test_arguments_before_the_name() -> None:
    """Nothing is told of a call without a name; its arguments follow the name."""
    made = builder()
    call, events = made.begin("a")
    assert events + made.add_arguments(call, "{") + made.add_arguments(call, "") == []
    assert types(made.name(call, "add")) == ["tool_call_start", "tool_call_chunk"]
    assert types(made.add_arguments(call, "}")) == ["tool_call_chunk"]
    assert types(made.end(Ending.FINISHED)) == ["tool_call_end"]


def test_a_call_without_a_name_is_not_run() -> None:
    """A call that never got a name is a finding of level error."""
    made = builder()
    call, _ = made.begin("a")
    made.add_arguments(call, "{}")
    assert types(made.end(Ending.FINISHED)) == ["error"]
    reply = made.close()
    assert [(each.error_type, each.level) for each in reply.findings] == [("missing_name", "error")]
    assert reply.calls[0].tool_name == ""


def test_the_end_of_a_call_waits_for_what_comes_next() -> None:
    """Whether a limit cut the last call is known only by what follows it."""
    made = builder()
    first = begun(made, "{}")
    made.finish(first)
    made.finish(first)
    second, events = made.begin("b", "add")
    assert types(events) == ["tool_call_end", "tool_call_start"]
    made.add_arguments(second, "{}")
    made.finish(second)
    assert types(made.end(Ending.CUT, "length")) == ["error"]
    assert runs(made) == ["a"]


@pytest.mark.parametrize("other", ["text", "other"])
def test_what_stands_before_something_else_is_whole(other: str) -> None:
    """A limit that cuts the text behind a call does not cut the call."""
    made = builder()
    made.finish(begun(made, "{}"))
    told = made.add_text("So") if other == "text" else made.add_other()
    assert types(told)[0] == "tool_call_end"
    assert types(made.end(Ending.CUT, "length")) == ["error"]
    assert runs(made) == ["a"]
    assert made.findings[0].level == "warning"


@pytest.mark.parametrize("ending", [Ending.FINISHED, Ending.UNKNOWN])
def test_what_was_cut_stays_cut(ending: Ending) -> None:
    """A server that goes on to say that all is well does not make a cut call whole."""
    made = builder()
    begun(made, "{}")
    made.end(Ending.CUT, "length")
    assert made.end(ending, "stop") == []
    begun(made, "{}", "b")
    assert runs(made) == []
    assert made.stop_reason == "length"


def test_a_call_whose_end_was_told_stays_whole() -> None:
    """Somebody may be running it by now: a fault that comes later is told, and changes nothing."""
    made = builder()
    begun(made, "{}")
    assert types(made.end(Ending.FINISHED, "stop")) == ["tool_call_end"]
    assert types(made.end(Ending.CUT)) == ["error"]
    assert runs(made) == ["a"]


def test_more_than_one_end() -> None:
    """Calls that come after an end are ended by the next one, and each once."""
    made = builder()
    begun(made, "{}")
    assert types(made.end(Ending.FINISHED, "stop")) == ["tool_call_end"]
    begun(made, "{}", "b")
    assert types(made.end(Ending.FINISHED)) == ["tool_call_end"]
    assert runs(made) == ["a", "b"]
    assert made.stop_reason == "stop"


@pytest.mark.parametrize(
    ("text", "parameters", "is_run"),
    [("{}", 1, True), ("{'a': 1}", 1, False), ("{", 1, False), ("", 1, False), ("", 0, True)],
)
@pytest.mark.parametrize("is_said", [False, True])
def test_silent_ends(text: str, parameters: int, is_run: bool, is_said: bool) -> None:
    """Where nobody says why a reply is over, a call is run only if its arguments are closed, or
    can be none."""
    made = builder(tool("add", *[ToolParameter("a", "integer")][:parameters]))
    begun(made, text)
    if is_said:
        made.end(Ending.UNKNOWN, "who knows")
    else:
        assert made.stop()[0].error is not None
        assert made.stop() == []
    assert runs(made) == (["a"] if is_run else [])
    assert ("without a word" in str(made.findings[:1])) is not is_said


def test_a_silent_end_of_a_text_is_told() -> None:
    """Half of an answer is not taken for all of it: that nobody said that it is over is told."""
    made = builder()
    made.add_text("Hi")
    assert made.add_text("") == []
    reply = made.close()
    assert (reply.text, reply.calls) == ("Hi", [])
    assert [(each.error_type, each.level) for each in reply.findings] == [("truncated", "warning")]
    assert builder().close().findings == []


def test_refused_and_spoiled_calls() -> None:
    """The first reason counts; a call that was ended before a part was lost is run."""
    made = builder()
    made.finish(begun(made, "{}"))
    refused = begun(made, "{}", "b")
    made.refuse(refused, "first")
    made.refuse(refused, "second")
    begun(made, "{}", "c")
    made.spoil("it was lost")
    begun(made, "{}", "d")
    made.end(Ending.FINISHED)
    assert runs(made) == ["a", "d"]
    kinds = [(each.error_type, each.message) for each in made.findings]
    assert kinds[0] == ("malformed_arguments", "first")
    assert kinds[1][0] == "malformed_reply"
    assert kinds[1][1].startswith("it was lost")


def test_a_call_that_the_decoder_knows_to_be_cut() -> None:
    """A decoder may know that a call is not whole although the reply is."""
    made = builder()
    call = begun(made, "{}")
    call.is_cut, call.error = True, "no end marker"
    made.end(Ending.FINISHED)
    (built,) = made.close().calls
    assert (built.complete, built.error) == (False, "no end marker")
    assert made.findings[0].error_type == "truncated"


def test_a_call_that_is_withdrawn() -> None:
    """What turns out to be something else is no call, and its id is free."""
    made = builder()
    made.withdraw(begun(made, "{}"))
    begun(made, "{}")
    made.end(Ending.FINISHED)
    assert runs(made) == ["a"]


def test_late_arguments() -> None:
    """What was told as complete may not change: with more arguments it is not run."""
    made = builder()
    call = begun(made, "{}")
    made.end(Ending.FINISHED)
    assert made.add_arguments(call, "\n") == []
    assert made.add_arguments(call, "{}") == []
    assert runs(made) == []


def test_arguments_as_an_object() -> None:
    """Arguments that come as an object are told as JSON, whatever they hold."""
    made = builder()
    for at, value in enumerate(({"x": 1}, {"y": {1}}, {("z",): 10**5000})):
        call, _ = made.begin(str(at), "add")
        call.value = value  # type: ignore[assignment]
    events = made.end(Ending.FINISHED)
    assert [each.tool_call_arguments_complete for each in events][:2] == [
        '{"x": 1}',
        '{"y": "{1}"}',
    ]
    reply = made.close()
    assert reply.calls[0].arguments == {"x": 1}
    assert reply.calls[0].raw == '{"x": 1}'
    assert len(reply.calls) == 3


def test_refined_arguments() -> None:
    """The last word on what arguments mean is the protocol's, also where an end is silent."""

    def refine(name: str, read: ReadArguments) -> ReadArguments:
        return read._replace(value={"for": name}, repairs=("changed",))

    made = builder(refine=refine)
    begun(made, '{"x": 1}')
    begun(made, "{", "b")
    nameless, _ = made.begin("c")
    made.add_arguments(nameless, "{}")
    (event, _) = made.end(Ending.UNKNOWN)
    assert event.tool_call_arguments_complete == '{"for": "add"}'
    reply = made.close()
    assert [each.is_runnable for each in reply.calls] == [True, False, False]
    assert reply.calls[0].repairs == ("changed",)


def test_the_reply_is_the_same_every_time() -> None:
    """To close twice adds nothing to what was found."""
    made = builder()
    begun(made, "{")
    assert made.close() == made.close()
