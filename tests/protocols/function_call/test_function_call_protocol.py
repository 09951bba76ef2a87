"""Which calls are in a reply with `<function_call>` tags or JSON, and which may be run?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.reply import ParsedReply, StreamEvent, StreamEventType
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.protocols.arguments.argument_text import read_arguments
from tool_engine.protocols.function_call import FunctionCallProtocol

GET_TIME = json.loads(
    (Path(__file__).parents[1] / "get_time" / "function_call.json").read_text("utf-8")
)
TIME = Tool(
    id="getTime",
    name="getTime",
    version="1.0.0",
    description="获取当前时间偏移后的毫秒数时间戳",
    category=ToolCategory.CUSTOM,
    tags=[],
    parameters=[
        ToolParameter("offset_ms", "number", required=True, description="时间偏移量(毫秒)")
    ],
    implementation_config={},
    output={"type": "number"},
)
A = '{"name": "a", "arguments": {"x": 1}}'


def streamed(text: str, **options: Any) -> tuple[list[StreamEvent], ParsedReply]:
    decoder = FunctionCallProtocol(**options).decoder()
    return [event for character in text for event in decoder.feed(character)], decoder.close()


def read(text: str, **options: Any) -> ParsedReply:
    """Reads a text whole and in characters; both must be the same."""
    reply = FunctionCallProtocol(**options).parse(text)
    assert streamed(text, **options)[1] == reply
    return reply


def tag(text: str) -> str:
    return f"<function_call>{text}</function_call>"


def calls(reply: ParsedReply) -> list[tuple[str, dict[str, Any]]]:
    return [(call.tool_name, call.arguments) for call in reply.calls if call.is_runnable]


def test_get_time() -> None:
    """D22: the example of the documents, from its definition to its result."""
    protocol = FunctionCallProtocol(language="zh")
    assert protocol.definitions([TIME]) == GET_TIME["definitions"]
    reply = protocol.parse(GET_TIME["reply"])
    assert calls(reply) == [("getTime", {"offset_ms": -86400000})]
    assert reply.text == "我需要获取昨天的日期。我将调用getTime函数获取昨天的时间戳。\n\n"
    assert (reply.findings, reply.calls[0].call_id) == ([], "call_1")
    result = ToolExecutionResult(
        is_success=True, tool_name="getTime", output={"result": 1684713600000}
    )
    assert protocol.format_results([result], reply.calls) == GET_TIME["results"]
    assert "函数结果: 1684713600000" in GET_TIME["results"]


SHAPES = [
    A,
    '{"name": "a", "arguments": "{\\"x\\": 1}"}',
    '{"function_call": {"name": "a", "arguments": {"x": 1}}}',
    '{"function": {"name": "a", "arguments": {"x": 1}}}',
    '{"type": "function", "function": {"name": "a", "arguments": {"x": 1}}}',
    '{"tool_name": "a", "parameters": {"x": 1}}',
    '{"tool": "a", "args": {"x": 1}}',
    '{"anything": {"name": "a", "arguments": {"x": 1}}}',
    '{"tool_calls": [{"function": {"name": "a", "arguments": "{\\"x\\": 1}"}}]}',
    '{"arguments": {"x": 1}, "name": "a"}',
    f"[{A}]",
    f"\n```json\n{A}\n```\n",
]


@pytest.mark.parametrize("text", SHAPES)
def test_every_shape_of_a_call(text: str) -> None:
    """U42, X10: every known form, in a tag."""
    reply = read("So: " + tag(text))
    assert calls(reply) == [("a", {"x": 1})]
    assert (reply.text, [f for f in reply.findings if f.level == "error"]) == ("So: ", [])


WHOLE = [A, SHAPES[1], SHAPES[2], SHAPES[3], SHAPES[4], SHAPES[5], f"[{A}]"]


@pytest.mark.parametrize("text", WHOLE)
@pytest.mark.parametrize(
    "form",
    [
        "{}",
        " \n{}\n",
        "```json\n{}\n```",
        "```\n{}\n```\n",
        "<think>so</think>\n\n{}",
        "~~~\n{}\n~~~",
    ],
)
def test_a_call_that_is_the_whole_reply(form: str, text: str) -> None:
    """D9, X10: JSON that is all of the reply, in a code block or not, after thoughts or not."""
    reply = read(form.replace("{}", text))
    assert calls(reply) == [("a", {"x": 1})]
    assert reply.text.strip() == ""


TEXTS = [
    '{"answer": 42}',
    '{"name": "Bob", "age": 3}',
    '{"name": "Bob"}',
    '{"name": "Bob", "ag',
    "[1, 2, 3]",
    "[]",
    "{",
    "{}",
    "```json\n[1]\n```",
    '```python\nprint({"name": "a"})\n```',
    '{"name": 1, "arguments": {}}',
    'Write {"tool_name": "a", "parameters": {}} to call.',
    " " * 2000 + A,
    "",
    "  \n ",
]


@pytest.mark.parametrize("text", TEXTS)
def test_json_that_is_no_call_is_text(text: str) -> None:
    """An answer in JSON, and JSON in the middle of a sentence, are what the user is told."""
    reply = read(text)
    assert (reply.calls, reply.text) == ([], text)
    assert not [finding for finding in reply.findings if finding.level == "error"]


def test_a_call_with_an_answer_after_it_is_not_guessed() -> None:
    """Whether JSON and prose are an example or a call is not known: text, with a finding."""
    for text in (f"{A} is how to call it", f"```json\n{A}\n```\nis how"):
        reply = read(text)
        assert (reply.calls, reply.text) == ([], text)
        assert reply.findings[0].error_type == "skipped"
    known = FunctionCallProtocol(tools={"a": TIME})
    assert calls(known.parse(f"{A} now")) == [("a", {"x": 1})]


def test_json_lines_in_a_text() -> None:
    """D10, D12: the form that the prompt asks for counts at the beginning of any line."""
    reply = read('One:\n{ "tool_name": "a", "parameters": {"x": 1}}\n  {"tool_name": "b"}\nBye')
    assert calls(reply) == [("a", {"x": 1}), ("b", {})]
    assert reply.text == "One:\n\n\nBye"


@pytest.mark.parametrize(
    "before", ["Sure. ", "Sure: ", "我来查询。", "我来查询", "* ", "  ", "a\t"]
)
@pytest.mark.parametrize("after", ["", " ", "\n", " \t\r\nBye {"])
def test_a_json_call_at_the_end_of_a_line(before: str, after: str) -> None:
    """D10, D12: words before a call do not hide it, if it ends its line."""
    call = '{ "tool_name": "a", "parameters": {"x": 1} }'
    whole = read(f"{before}{call}{after}")
    assert calls(whole) == [("a", {"x": 1})]
    assert whole.findings == []
    assert whole.text.replace("\t", "").split() == f"{before} {after}".replace("\t", "").split()


@pytest.mark.parametrize(
    "text",
    [
        'Write {"tool_name": "a", "parameters": {}} to call.',
        'So "{"tool_name": "a", "parameters": {}}',
        'Like f({"tool_name": "a", "parameters": {}}',
        '{\n "history": [\n {"tool_name": "a", "parameters": {}}\n]}',
        '{"a": 1,\n"b": {"tool_name": "a", "parameters": {}}\n}',
        '[1, "x",\n {"tool_name": "a", "parameters": {}}\n]',
        'All: [{"tool_name": "a", "parameters": {}}]',
    ],
)
def test_a_json_call_inside_something_else(text: str) -> None:
    """What stands in a sentence or in other JSON is text; that it was not run is told."""
    reply = read(text)
    assert (reply.calls, reply.text) == ([], text)
    assert [finding.error_type for finding in reply.findings] == ["skipped"]


def test_a_json_call_that_ends_with_the_reply() -> None:
    """One that the reply breaks off in is never run."""
    [call] = read('Sure. {"tool_name": "a", "parameters": {"x": "ab').calls
    assert not call.complete
    assert calls(read('Sure. {"tool_name": "a", "parameters": {}}<b>')) == []


def test_refused_objects_are_told_once_and_cost_little() -> None:
    """D20: each object that is refused is read twice, so there is an end to it."""
    text = 'x {"tool_name": {}} ' * 40
    reply = read(text)
    assert (reply.calls, reply.text) == ([], text)
    assert [finding.error_type for finding in reply.findings] == ["skipped"]
    assert calls(read(text + '\n{"tool_name": "a", "parameters": {}}')) == [("a", {})]


def test_a_prefix_of_a_json_call_waits() -> None:
    """D10, D11: `{ "tool_name"` may come in parts; what cannot become it is passed on."""
    decoder = FunctionCallProtocol().decoder()
    assert decoder.feed("Hi\n")[0].content == "Hi\n"
    assert decoder.feed('{ "tool') == []
    assert decoder.feed('box"')[0].content == '{ "toolbox"'


@pytest.mark.parametrize(
    "value",
    ["</function_call>", 'a \\" b </function_call> c', "{<function_call>", "\\\\", "}}", "\\u2028"],
)
def test_tags_inside_strings_are_text(value: str) -> None:
    """U43: an end tag inside a JSON string does not end the call."""
    reply = read(tag(f'{{"name": "a", "arguments": {{"t": "{value}"}}}}') + " tail")
    assert calls(reply) == [("a", {"t": json.loads(f'"{value}"')})]
    assert reply.text == " tail"


BROKEN = [
    '{"name": "a", "arguments": {"t": "b}}',
    '{"name": "a", "arguments": {"t": "b\n}}',
    '{"name": "a", "arguments": {"t": 1',
    '{"name": "a", "arguments": {"t": [1}',
    '{"name": "a", "arguments": [1]}',
    '{"name": "a", "arguments": "{\\"x\\": "}',
    '{"name": "a", "x": 1}',
    '{"name": "a", "arguments": {}, "parameters": {}}',
    '{"name": "a", "arguments": {"x": 1, "x": 2}}',
]


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_call_is_not_run(text: str) -> None:
    """U47: what cannot be read for sure is an error, and the calls after it are read."""
    reply = read(f"{tag(text)} tail {tag(A)} end")
    assert calls(reply) == [("a", {"x": 1})]
    assert [call.tool_name for call in reply.calls] == ["a", "a"]
    assert reply.text == " tail  end"
    [finding] = [each for each in reply.findings if each.level == "error"]
    assert finding.call_id == "call_1"


LOST_QUOTES = [
    '{"name": "a", "arguments": {"t": "b}}</function_call> "x": "y"}} tail ',
    '{"name": "a", "arguments": {"t": "b}}</function_call> "x": "y"}}</function_call> tail ',
    '[{"name": "a", "arguments": {"t": "b}}]</function_call> "x": "y"}}, {"name": "c"}] tail ',
    '{"name": "a", "arguments": {"t": "b}}</function_call> "x": 1 tail ',
]


@pytest.mark.parametrize("text", LOST_QUOTES)
@pytest.mark.parametrize("rest", ["", tag(A), f"{tag(A)} more", "<function_call>"])
def test_a_string_that_is_never_closed_ends_with_its_tag(text: str, rest: str) -> None:
    """U43: what stands behind the first end tag is read as what it is, and nothing is lost."""
    reply = read(f"<function_call>{text}{rest}")
    assert calls(reply) == ([("a", {"x": 1})] if tag(A) in rest else [])
    assert (reply.calls[0].tool_name, reply.calls[0].is_runnable) == ("a", False)
    assert " tail " in reply.text


def test_a_reply_with_many_such_strings_is_read_plainly() -> None:
    """It takes time in proportion to the text: after eight of them, each end tag ends its call."""
    lost = '<function_call>{"name": "a", "arguments": {"t": "b}}</function_call> and '
    reply = read(lost * 20 + tag(A))
    assert [call.is_runnable for call in reply.calls] == [False] * 20 + [True]
    assert reply.text == " and " * 20


def test_many_objects_in_a_tag() -> None:
    """Objects that are no calls are counted, not read one by one without end."""
    reply = read(tag(f"[{A}" + ', {"x": 1}' * 150 + "]"))
    assert calls(reply) == [("a", {"x": 1})]
    assert "150 objects" in reply.findings[0].message


def test_a_call_that_another_one_interrupts() -> None:
    """A tag that begins inside the JSON of another call: the first one is not whole."""
    reply = read('<function_call>{"name": "a", "arguments": {"y": [' + tag(A))
    assert [(call.tool_name, call.complete) for call in reply.calls] == [("a", False), ("a", True)]
    assert calls(reply) == [("a", {"x": 1})]


def test_a_json_reply_that_breaks_off() -> None:
    """A whole reply in the form of the prompt that is cut is a call that is not run."""
    for text in ('{"tool_name": "a", "parameters": {"x"', '[{"tool_name": "a", "param'):
        reply = read(text)
        assert [(call.tool_name, call.complete) for call in reply.calls] == [("a", False)]
    late = f'[{A}, {{"tool_name": "b", "parameters": {{}}}}] and more'
    assert [name for name, _ in calls(read(late))] == ["a", "b"]


def test_prose_in_a_tag_is_text() -> None:
    """A tag with other text before its object is none; what is in it is read as text."""
    with_id = A.replace("{", '{"id": "i", ', 1)
    for text in (f"<function_call>so {with_id}", f"<function_call>so {A}</function_call>"):
        reply = read(text)
        assert (reply.calls, reply.text) == ([], text)
    text = '<function_call>["name"{"tool_name":"x"{</function_call>\n</function_call>'
    assert (read(text).calls, read(text).text) == ([], text)
    reply = read(f"<function_call>so {A} " + tag(A))
    assert calls(reply) == [("a", {"x": 1})]


def test_json_that_begins_like_a_call() -> None:
    """The form counts, not the first key: without a name, nothing is called."""
    text = 'So:\n{"tool_name": 5, "parameters": {}}'
    reply = read(text)
    assert (reply.calls, reply.text) == ([], text)
    assert [finding.level for finding in reply.findings] == ["error"]
    cut = read('So:\n{"tool_name": "a", "parameters": {"x"')
    assert [call.complete for call in cut.calls] == [False]
    cut = read('{"name": "a", "arguments": {"x"')
    assert [(call.tool_name, call.complete) for call in cut.calls] == [("a", False)]


def test_a_list_that_is_the_whole_reply() -> None:
    """Every object of it must be a call, or none of it is one."""
    b = '{"tool_name": "b", "parameters": {}}'
    assert [name for name, _ in calls(read(f"[{A}, {b}]"))] == ["a", "b"]
    text = f'[{A}, {{"x": 1}}]'
    assert (read(text).calls, read(text).text) == ([], text)


REPAIRED = [
    ('{"name": "a", "arguments": {"x": 1}', {"x": 1}),
    ("{'name': 'a', 'arguments': {'x': 1,}}", {"x": 1}),
    ('{"name": "a", "arguments": {"x": 1}}}}', {"x": 1}),
    ('{"name": "a", "arguments": {"x": "1\n2"}}', {"x": "1\n2"}),
    ('{"name": "a", "arguments": null}', {}),
    ('{"name": "a"}', {}),
]


@pytest.mark.parametrize(("text", "arguments"), REPAIRED)
def test_repairs_are_told(text: str, arguments: dict[str, Any]) -> None:
    """D12: what is finished and clear is read, and it is said what was changed."""
    reply = read(tag(text))
    assert calls(reply) == [("a", arguments)]
    assert reply.calls[0].repairs or reply.findings


@pytest.mark.parametrize("end", range(len("<function_call>") + 11, len(tag(A))))
def test_a_reply_that_breaks_off_runs_nothing(end: int) -> None:
    """U43: without its end tag a call has a start and parts, but no end, and is not run."""
    text = tag(A)[:end]
    events, reply = streamed(text)
    assert reply == FunctionCallProtocol().parse(text)
    assert [(call.complete, call.is_runnable) for call in reply.calls] == [(False, False)]
    assert not [event for event in events if event.type is StreamEventType.TOOL_CALL_END]


def test_a_stop_sequence_is_no_cut() -> None:
    """Where the server says that the model ended by itself, a closed object is whole."""
    reply = {"choices": [{"message": {"content": tag(A)[:-16]}, "finish_reason": "stop"}]}
    protocol = FunctionCallProtocol()
    assert calls(protocol.parse(reply)) == [("a", {"x": 1})]
    reply["choices"][0]["finish_reason"] = "length"
    assert [call.complete for call in protocol.parse(reply).calls] == [False]
    whole = {"choices": [{"message": {"content": tag(A)}, "finish_reason": "length"}]}
    assert calls(protocol.parse(whole)) == [("a", {"x": 1})]


def test_several_calls() -> None:
    """U42, U44: several tags in a row, a list or several objects in one; a bad one costs none."""
    b = A.replace('"a"', '"b"')
    for text in (
        tag(A) + tag(b),
        tag(f"[{A}, {b}]"),
        tag(f"{A}\n{b}"),
        f"<function_call>{A}{tag(b)}",
    ):
        reply = read(text)
        assert calls(reply) == [("a", {"x": 1}), ("b", {"x": 1})]
        assert [call.call_id for call in reply.calls] == ["call_1", "call_2"]
    reply = read(tag(f'[{A}, {{"what": 1}}, {b}]'))
    assert calls(reply) == [("a", {"x": 1}), ("b", {"x": 1})]
    assert [finding.level for finding in reply.findings] == ["error"]


def test_ids_are_kept() -> None:
    """The model's own ids count; a repeated one is told."""
    one = '{"id": "i", "name": "a", "arguments": {}}'
    late = '{"name": "a", "arguments": {}, "id": "j"}'
    other = one.replace('"a"', '"b"')
    reply = read(tag(one) + tag(other) + tag(late))
    assert [call.call_id for call in reply.calls] == ["i", "i_2", "j"]
    assert [finding.error_type for finding in reply.findings] == ["repeated_id"]


@pytest.mark.parametrize("text", ["getTime(1)", "", '{"what": 1}', "[1]", "null", "<think>"])
def test_a_tag_without_a_call_is_text(text: str) -> None:
    """What is no call in a tag is told, and shown as it is."""
    reply = read(tag(text) + "!")
    assert reply.calls == []
    assert reply.findings[0].error_type == "malformed_reply"
    if text != "<think>":
        assert reply.text == tag(text) + "!"


def test_a_record_is_no_call() -> None:
    """U44: a call of the past that is told again is not made again."""
    text = tag('{"function_call_record": {"name": "a", "arguments": {}, "response": 1}}')
    reply = read(text)
    assert (reply.calls, reply.text) == ([], text)
    assert [finding.error_type for finding in reply.findings] == ["skipped"]


def test_a_fenced_tag_is_quoted() -> None:
    """U25: with prose around it, a tag in a code block is an example; the finding tells how."""
    text = f"Call it:\n```xml\n{tag(A)}\n```"
    reply = read(text)
    assert (reply.calls, reply.text) == ([], text)
    assert "skip_quoted=False" in reply.findings[0].message
    assert calls(read(text, skip_quoted=False)) == [("a", {"x": 1})]


def test_arguments_become_what_the_tool_wants() -> None:
    """A51: a number that was written as text, where the schema says so."""
    call = read(tag('{"name": "getTime", "arguments": {"offset_ms": "-1"}}'), tools=[TIME]).calls[0]
    assert call.arguments == {"offset_ms": -1}
    assert len(call.repairs) == 1


def test_a_call_is_told_of_while_it_is_written() -> None:
    """D16: the start with the name, the parts of the arguments as they come, the end at the end."""
    decoder = FunctionCallProtocol().decoder()
    decoder.feed('<function_call>{"name": "a"')
    [start] = decoder.feed(",")
    assert (start.type, start.tool_call_id) == (StreamEventType.TOOL_CALL_START, "call_1")
    parts = decoder.feed(' "arguments": {"x"') + decoder.feed(": 1}}")
    assert "".join(part.tool_call_arguments_chunk or "" for part in parts) == '{"x": 1}'
    [end] = decoder.feed("</function_call>")
    assert end.tool_call_arguments_complete == '{"x": 1}'


def test_messages_and_chunks() -> None:
    """Text comes as text, bytes cut anywhere, messages, and chunks of Chat Completions."""
    protocol = FunctionCallProtocol()
    text = "é" + tag(A)
    chunks = [
        {"choices": [{"delta": {"role": "assistant", "reasoning_content": "hm"}}]},
        *({"choices": [{"delta": {"content": part}}]} for part in text),
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"total_tokens": 3}},
    ]
    parts = [{"type": "text", "text": text[:5]}, {"type": "text", "text": text[5:]}]
    replies = [
        protocol.parse(text),
        protocol.parse(text.encode()),
        protocol.parse(memoryview(text.encode())),
        protocol.parse([text.encode()[:1], text.encode()[1:]]),
        protocol.parse({"role": "assistant", "content": text}),
        protocol.parse({"role": "assistant", "content": parts}),
        protocol.parse(chunks),
    ]
    for reply in replies:
        assert (reply.text, calls(reply)) == ("é", [("a", {"x": 1})])
        assert reply.findings == []
    assert (replies[-1].reasoning, replies[-1].stop_reason) == ("hm", "stop")
    assert protocol.parse({"role": "assistant", "content": None}).findings == []


@pytest.mark.parametrize("chunk", [None, 3, {"x": 1}, {"content": 5}, [None], object()])
def test_garbage_is_told(chunk: object) -> None:
    """A27: what is no text is a finding."""
    reply = FunctionCallProtocol().parse(chunk)
    assert [(f.error_type, f.level) for f in reply.findings] == [("malformed_reply", "error")]


JSON_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**100), 2**100),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
        st.sampled_from(
            ["</function_call>", "<function_call>", '"', "\\", "\x00", "\ud800", "```"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=share_of(120))
@given(arguments=st.dictionaries(st.text(max_size=6), JSON_VALUES, max_size=4))
@pytest.mark.parametrize("style", ["function_call", "json"])
def test_every_call_can_be_written(style: str, arguments: dict[str, Any]) -> None:
    """What is written for a call is read as that call, whatever its arguments."""
    call = ToolCall(call_id="my id", tool_name="look", arguments=arguments)
    protocol = FunctionCallProtocol(call_style=style)
    [found] = protocol.parse(protocol.render_call(call)).calls
    assert (found.call_id, found.tool_name, found.arguments) == ("my id", "look", arguments)
    assert found.is_runnable


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, {1: 2}, (1, 2), [10**5000], b"x"])
def test_what_is_no_json_cannot_be_written(value: object) -> None:
    """A call that would come back as another one is refused."""
    call = ToolCall(call_id="1", tool_name="a", arguments={"x": value})
    with pytest.raises(ConfigurationError, match="function_call cannot carry the call '1'"):
        FunctionCallProtocol().render_call(call)


COMMENTS = ("/*c*/", " /*c*/ ", " // c\n", " # c\n")


@pytest.mark.parametrize("value", ['"a"', '"a/"', '""', "2", "true", "null", "[1]", '{"b": "c"}'])
@pytest.mark.parametrize("comment", COMMENTS)
def test_a_comment_is_read_as_it_is_elsewhere(value: str, comment: str) -> None:
    """What stands behind a value in a call is judged as in the arguments of a provider.

    Looked at: comments behind each kind of value, in every way to cut the reply. A comment that
    itself holds a quote or a bracket still ends a call in tags too early, which is refused.
    """
    arguments = f'{{"path": {value}{comment}}}'
    expected = read_arguments(arguments)
    text = f'<function_call>{{"name": "a", "arguments": {arguments}}}</function_call>'
    assert expected.error is None
    for cut in range(len(text)):
        decoder = FunctionCallProtocol().decoder()
        for part in (text[:cut], text[cut:]):
            decoder.feed(part)
        [call] = decoder.close().calls
        assert (call.error, call.arguments) == (None, expected.value)
