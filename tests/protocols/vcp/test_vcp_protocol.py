"""Which calls are in a reply in VCP, and which of them may be run?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.reply import ParsedReply, StreamEventType
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.protocols.registry import get_protocol
from tool_engine.protocols.vcp import VCPProtocol

GET_TIME = json.loads((Path(__file__).parents[1] / "get_time" / "vcp.json").read_text("utf-8"))
START, END = "<<<[TOOL_REQUEST]>>>", "<<<[END_TOOL_REQUEST]>>>"


def tool(name: str, *parameters: ToolParameter, **fields: Any) -> Tool:
    return Tool(
        id=name,
        name=name,
        version="1.0.0",
        description=fields.pop("description", "Does it."),
        category=ToolCategory.CUSTOM,
        tags=[],
        parameters=list(parameters),
        implementation_config={},
        **fields,
    )


FILES = tool("files_read", ToolParameter("path", "string"), ToolParameter("lines", "integer"))
TIME = tool(
    "getTime",
    ToolParameter("offset_ms", "number", required=True, description="时间偏移量(毫秒)"),
    description="获取当前时间偏移后的毫秒数时间戳",
    output={"type": "number"},
)


def block(*fields: str) -> str:
    return "\n".join([START, *fields, END])


def read(text: str, **options: Any) -> ParsedReply:
    """Reads a text whole and in characters; both must be the same."""
    protocol = VCPProtocol(**options)
    decoder = protocol.decoder()
    for character in text:
        decoder.feed(character)
    reply = decoder.close()
    assert reply == protocol.parse(text)
    return reply


def only(text: str, **options: Any) -> ToolCall:
    [call] = read(text, **options).calls
    return call


def test_get_time() -> None:
    """D22: the example of the documents, from its definition to its result."""
    protocol = VCPProtocol(language="zh")
    assert protocol.definitions([TIME]) == GET_TIME["definitions"]
    reply = protocol.parse(GET_TIME["reply"])
    [call] = reply.calls
    assert (call.tool_name, call.arguments) == ("getTime", {"offset_ms": -86400000})
    result = ToolExecutionResult(
        is_success=True,
        tool_name="getTime",
        output={"result": 1684713600000},
        execution_time=0.012,
    )
    assert protocol.format_results([result], reply.calls) == GET_TIME["results"]


def test_the_example_of_the_document() -> None:
    """A16-A21: a block, its values as text, its id by its place; `command` stays an argument."""
    text = "Look:\n" + block(
        "tool_name:「始」directory-tree_listFiles「末」",
        "path:「始」src/tools「末」",
        "recursive:「始」false「末」",
    )
    reply = read(text)
    [call] = reply.calls
    assert (call.call_id, call.tool_name) == ("req_1", "directory-tree_listFiles")
    assert call.arguments == {"path": "src/tools", "recursive": "false"}
    assert call.raw == text.removeprefix("Look:\n")
    assert (call.is_runnable, call.repairs, reply.findings) == (True, (), [])
    assert reply.text == "Look:\n"
    assert reply.message == [{"role": "assistant", "content": text}]


def test_ids_follow_the_blocks() -> None:
    """A21: `request_id` is the id, wherever it stands; else the place of the block counts."""
    text = block("tool_name:「始」a「末」", "x:「始」1「末」", "request_id:「始」 mine 「末」")
    again = text.replace("1", "2")
    reply = read(text + block("tool_name:「始」b「末」") + again)
    assert [call.call_id for call in reply.calls] == ["mine", "req_2", "mine_2"]
    assert [finding.error_type for finding in reply.findings] == ["repeated_id"]
    assert "request_id" not in reply.calls[0].arguments


@pytest.mark.parametrize(
    "field",
    [
        "k:「始」v「末」",
        "k : 「始」v「末」",
        "k:\n「始」v「末」,",
        " ,k:「始」v「末」 , ,",
        "- k:「始」v「末」、",
    ],
)
def test_white_space_and_commas_are_free(field: str) -> None:
    """U24: white space around the colon, and commas."""
    call = only(block("tool_name:「始」a「末」", field))
    assert (call.arguments, call.is_runnable) == ({"k": "v"}, True)


@pytest.mark.parametrize(
    "value", ["", " ", "\n  a\n\tb \n", "a\r\nb", "\x00", "\u2028", '{"a": 1}']
)
def test_values_are_kept_as_they_are(value: str) -> None:
    """A18: a value is all that stands between its marks."""
    assert only(block("tool_name:「始」 a\n「末」", f"k:「始」{value}「末」")).arguments == {
        "k": value
    }


def test_escaped_values() -> None:
    """U26: in an escaped value, marks are text, and the escaped ones stand for the plain ones."""
    written = (
        "<<<[TOOL_REQUEST_ESCAPE]>>>a:「始ESCAPE」b「末」<<<[END_TOOL_REQUEST_ESCAPE]>>>"
        "<<<[END_TOOL_REQUEST]>>>"
    )
    call = only(
        block(
            "tool_name:「始」a「末」",
            f"k:「始ESCAPE」{written}「末ESCAPE」",
            "l:「始exp」「末」「末exp」",
        )
    )
    assert call.arguments == {"k": f"{START}a:「始」b「末」{END}{END}", "l": "「末」"}


CUT = {
    "value": (f"{START}\ntool_name:「始」a「末」\npath:「始」x\n{END}", "'path' was not closed"),
    "escaped": (
        f"{START}tool_name:「始」a「末」path:「始ESCAPE」x「末」{END}",
        "'path' was not closed",
    ),
    "block": (f"{START}tool_name:「始」a「末」path:「始」x「末」", "block was not closed"),
    "mark": (f"{START}tool_name:「始」a「末」<<<[END_TOOL_REQ", "block was not closed"),
    "name": (f"{START}tool_name:「始」a", "'tool_name' was not closed"),
}


@pytest.mark.parametrize(("text", "words"), CUT.values(), ids=CUT)
def test_what_is_not_closed_is_not_run(text: str, words: str) -> None:
    """A20, U24: the call is there, is not complete, and the message says which parameter it is."""
    reply = read(text)
    [call] = reply.calls
    assert (call.complete, call.is_runnable, call.arguments) == (False, False, {})
    assert words in (call.error or "")
    assert [(f.error_type, f.level) for f in reply.findings][-1] == ("truncated", "error")
    decoder = VCPProtocol().decoder()
    kinds = [event.type for event in decoder.feed(text)]
    assert StreamEventType.TOOL_CALL_END not in kinds


def test_a_new_block_ends_an_open_one() -> None:
    """The parameters of two blocks are never put together."""
    text = f"{START}tool_name:「始」a「末」x:「始」1「末」" + block("tool_name:「始」b「末」")
    reply = read(text)
    assert [(c.tool_name, c.complete, c.arguments) for c in reply.calls] == [
        ("a", False, {}),
        ("b", True, {}),
    ]


MEANT = {
    "cut by an end mark": "k:「始」say 「末」 to end「末」",
    "no marks": "path: src/tools",
    "equals": "path=src",
    "half a mark": "k:「始」v「末」」",
    "no name": "「始」v「末」",
    "next in value": "k:「始」v\nl:「始」w「末」",
    "foreign colon": "foo:bar:「始」v「末」",
    "long name": "k" * 300 + ":「始」v「末」",
}


@pytest.mark.parametrize("field", MEANT.values(), ids=MEANT)
def test_a_value_that_may_be_cut_short_is_not_run(field: str) -> None:
    """What is left in a block may be the rest of a value, or a lost parameter: never guessed."""
    reply = read(block("tool_name:「始」a「末」", field))
    [call] = reply.calls
    assert (call.is_runnable, call.arguments) == (False, {})
    assert [f.level for f in reply.findings] == ["error"]


def test_harmless_text_in_a_block_is_told() -> None:
    """U24: anything else between the parameters is left out, and it is said so."""
    reply = read(block("tool_name:「始」a「末」", "and now", "k：「始」v「末」"))
    [call] = reply.calls
    assert (call.is_runnable, call.arguments) == (True, {"k": "v"})
    assert call.repairs == ("the wide colon ： was read as :",)
    assert [(f.error_type, f.level) for f in reply.findings] == [("malformed_reply", "warning")]


def test_a_block_without_a_name_is_not_run() -> None:
    """A21: nothing says which tool is meant."""
    reply = read(block("path:「始」x「末」"))
    assert [call.is_runnable for call in reply.calls] == [False]
    assert [f.error_type for f in reply.findings] == ["missing_name"]


def test_a_mark_that_is_only_mentioned_is_text() -> None:
    """Nothing is swallowed where somebody speaks of the mark."""
    text = f"Use {START} to `call`, or {START}.\nBye"
    reply = read(text)
    assert (reply.calls, reply.text) == ([], text)
    assert [f.error_type for f in reply.findings] == ["malformed_reply"] * 2
    assert read(text + block("tool_name:「始」a「末」")).calls[0].call_id == "req_1"


@pytest.mark.parametrize("second", ["1", "2", ""])
@pytest.mark.parametrize("key", ["k", "request_id", "command", "command1", "tool_name"])
def test_a_parameter_that_stands_twice_is_not_guessed(key: str, second: str) -> None:
    """which of two values was meant is not known, so the call is not run."""
    field = f"{key}:「始」1「末」"
    reply = read(
        block("tool_name:「始」a「末」", field, f"{key}:「始」{second}「末」", "x:「始」y「末」")
    )
    assert [(call.is_runnable, call.arguments) for call in reply.calls] == [(False, {})]
    [found] = reply.findings
    assert (found.level, found.call_id) == ("error", reply.calls[0].call_id)
    assert "more than once: write each" in found.message or "names two tools" in found.message


@pytest.mark.parametrize(
    "field",
    [
        *(
            "archery:「始」no_reply「末」",
            "ink:「始」mark_history「末」",
            "river:「始」last:3「末」",
        ),
        *(
            "vref:「始」2「末」",
            "maid:「始」Nova「末」",
            "valet:「始」Nova「末」",
            "vref:2:「始」x「末」",
        ),
        *("timely_contact:「始」2030-01-01「末」", "ink:mark_history:「始」true「末」"),
    ],
)
def test_words_to_the_server_are_no_arguments(field: str) -> None:
    """U30: they are kept out, with a finding, unless the tool has such a parameter."""
    reply = read(block("tool_name:「始」a「末」", field, "k:「始」v「末」"))
    assert reply.calls[0].arguments == {"k": "v"}
    assert [f.error_type for f in reply.findings] == ["skipped"]
    own = tool("a", ToolParameter("maid", "string"))
    assert only(block("tool_name:「始」a「末」", "maid:「始」N「末」"), tools=[own]).arguments == {
        "maid": "N"
    }


def test_values_become_what_the_tool_wants() -> None:
    """A51: text becomes a number where the schema says so, and `repairs` tells of it."""
    text = block(
        "tool_name:「始」files「末」",
        "command:「始」read「末」",
        "lines:「始」5「末」",
        "path:「始」7「末」",
    )
    call = only(text, tools=[FILES])
    assert call.arguments == {"command": "read", "lines": 5, "path": "7"}
    assert len(call.repairs) == 1
    assert only(text).arguments["lines"] == "5"


def batch(*fields: str, tools: list[Tool] | None = None) -> ParsedReply:
    return read(block("tool_name:「始」files_read「末」", *fields), tools=tools)


def test_numbered_commands_are_several_calls() -> None:
    """U28: one call for each number, with the parameters that have none."""
    reply = batch(
        *(
            "command1:「始」read「末」",
            "path1:「始」a「末」",
            "command2:「始」read「末」",
            "path2:「始」b「末」",
        ),
        *("lines:「始」3「末」",),
        tools=[FILES],
    )
    assert [call.call_id for call in reply.calls] == ["req_1_1", "req_1_2"]
    assert [call.arguments for call in reply.calls] == [
        {"command": "read", "path": "a", "lines": 3},
        {"command": "read", "path": "b", "lines": 3},
    ]
    assert reply.findings == []


def test_numbers_that_belong_to_a_name_split_nothing() -> None:
    """U28: `base64` is not command 64 of `base`."""
    names = ["base64", "sha256", "utf8", "mp3", "x1"]
    fields = [f"{name}:「始」v「末」" for name in names]
    reply = batch(*fields, tools=[FILES])
    assert [call.call_id for call in reply.calls] == ["req_1"]
    assert reply.calls[0].arguments == dict.fromkeys(names, "v")
    own = tool("files_read", ToolParameter("path", "string"), ToolParameter("path1", "string"))
    assert len(batch("path1:「始」a「末」", tools=[own]).calls) == 1
    assert [call.call_id for call in batch("path1:「始」a「末」", tools=[FILES]).calls] == [
        "req_1_1"
    ]


def test_names_that_end_in_a_digit_are_numbered_too() -> None:
    """U28: the first of a parameter `sha256` is `sha2561`, and none of them is lost unsaid.

    Looked at: names that end in digits, one name that begins another, numbers with a zero in front
    and with more than four digits, of parameters and of `command`.
    """
    own = tool("files_read", ToolParameter("sha256", "string"), ToolParameter("command", "string"))
    fields = ("sha2561:「始」a「末」", "sha2562:「始」b「末」")
    assert [call.arguments for call in batch(*fields, tools=[own]).calls] == [
        {"sha256": "a"},
        {"sha256": "b"},
    ]
    numbered = ("command1:「始」c「末」", "command2:「始」d「末」", *fields)
    assert [call.arguments for call in batch(*numbered, tools=[own]).calls] == [
        {"command": "c", "sha256": "a"},
        {"command": "d", "sha256": "b"},
    ]


@pytest.mark.parametrize(
    "key", ["path12", "path01", "path10000", "command10000", "command01", "path" + "9" * 250]
)
def test_a_number_that_is_in_doubt_runs_nothing(key: str) -> None:
    """U28: what may be two parameters, or no number of a call, is told and not left out."""
    own = tool("files_read", ToolParameter("path", "string"), ToolParameter("path1", "string"))
    for fields in ([key], ["command1", key]):
        reply = batch(*(f"{name}:「始」v「末」" for name in fields), tools=[own])
        assert [call.is_runnable for call in reply.calls] == [False]
        assert repr(key) in str(reply.calls[0].error)
        assert "a block for each call" in str(reply.calls[0].error)


@pytest.mark.parametrize("fields", [("a1", "a2"), ("a2", "a1"), ("a1", "b1"), ("a1", "command1")])
def test_a_parameter_that_may_be_a_number_of_another_one_runs_nothing(
    fields: tuple[str, ...],
) -> None:
    """U28: of `a1` and `a`, `a1` and `a2` may be one call or two, whatever their order."""
    own = tool("files_read", *(ToolParameter(name, "string") for name in ("a1", "a", "b")))
    [call] = batch(*(f"{name}:「始」v「末」" for name in fields), tools=[own]).calls
    assert not call.is_runnable
    assert "'a1' is a parameter of its own, and may be number 1 of 'a'" in str(call.error)
    [alone] = batch("a1:「始」v「末」", "a:「始」w「末」", tools=[own]).calls
    assert (alone.is_runnable, alone.arguments) == (True, {"a1": "v", "a": "w"})


def test_odd_numbers_are_told() -> None:
    """U28: gaps, and parameters that only some calls have, are findings."""
    reply = batch(
        "command1:「始」a「末」", "command3:「始」b「末」", "path3:「始」c「末」", tools=[FILES]
    )
    assert [call.call_id for call in reply.calls] == ["req_1_1", "req_1_3"]
    messages = [finding.message for finding in reply.findings]
    assert "numbered 1, 3" in messages[0]
    assert "1 have no 'path'" in messages[1]


@pytest.mark.parametrize(
    "fields", [("path", "path2"), ("path1", "path", "path2"), ("command", "command1")]
)
def test_a_value_for_all_calls_and_one_for_a_single_call_clash(fields: tuple[str, ...]) -> None:
    """U28: which of two values is meant is not guessed, and none of them is lost unsaid."""
    reply = batch(*(f"{name}:「始」v{name}「末」" for name in fields), tools=[FILES])
    assert [call.is_runnable for call in reply.calls] == [False] * len(reply.calls) != []
    assert f"has both {fields[-1].rstrip('12')!r} and" in str(reply.calls[0].error)


def test_an_early_start_that_was_wrong_has_no_end() -> None:
    """D16: what was told of a block that turns out to be several calls is never ended."""
    text = block(
        "tool_name:「始」a「末」",
        "x:「始」1「末」",
        "command1:「始」b「末」",
        "command2:「始」c「末」",
    )
    decoder = VCPProtocol().decoder()
    events = [event for character in text for event in decoder.feed(character)]
    told = {kind: [e.tool_call_id for e in events if e.type is kind] for kind in StreamEventType}
    assert told[StreamEventType.TOOL_CALL_START] == ["req_1", "req_1_1", "req_1_2"]
    assert told[StreamEventType.TOOL_CALL_END] == ["req_1_1", "req_1_2"]
    assert [call.call_id for call in decoder.close().calls] == ["req_1_1", "req_1_2"]


def test_a_call_is_told_of_early() -> None:
    """D16: its start comes with its first parameter, its parts as they are written."""
    decoder = VCPProtocol().decoder()
    decoder.feed(f"{START}\ntool_name:「始」a「末」\n")
    [start, first] = decoder.feed("path:「始」sr")[:2]
    assert (start.type, start.tool_call_name) == (StreamEventType.TOOL_CALL_START, "a")
    assert first.type is StreamEventType.TOOL_CALL_CHUNK
    assert decoder.feed("c")[0].tool_call_arguments_chunk == "c"
    [end] = [e for e in decoder.feed(f"「末」{END}") if e.type is StreamEventType.TOOL_CALL_END]
    assert end.tool_call_arguments_complete == '{"path": "src"}'


FUZZY = [
    "<<[tool_request]>>tool_name:「始」files_read「末」PATH:「始」x「末」<<[END_TOOL_REQUEST]>>",
    "<<<<[Tool_Request]>>>>tool_name:{始}files_read{末},path:「始}x{末」<<<[END_TOOL_REQUEST]>>>>",
    f"{START}tool_name:「始xx」files_read「末xx」path:「始」x「末」{END}",
    f"{START}tool_name:「始」files_read「末」pa-th:「始escape」x「末ESCAPE」{END}",
]


@pytest.mark.parametrize("text", FUZZY)
def test_marks_that_are_nearly_right(text: str) -> None:
    """U27: they count if that is asked for, and each change is told."""
    call = only(text, fuzzy=True, tools=[FILES])
    assert (call.tool_name, call.arguments, call.is_runnable) == ("files_read", {"path": "x"}, True)
    strict = read(text, tools=[FILES])
    assert not [each for each in strict.calls if each.is_runnable and each == call]
    assert read(text + "!", fuzzy=True).text == "!"


VALUES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *(START, END, "<<<[TOOL_REQUEST_ESCAPE]>>>", "<<<[END_TOOL_REQUEST_ESCAPE]>>>"),
                *(
                    "「始」",
                    "「末」",
                    "「始ESCAPE」",
                    "「末ESCAPE」",
                    "「始exp」",
                    "「末exp」",
                    "_ESCAPE",
                    "」",
                ),
                *(
                    "<<<[",
                    "]>>>",
                    "「",
                    "<think>",
                    "```\n",
                    "`",
                    "\x00",
                    "\u2028",
                    "\r\n",
                    "\ud800",
                ),
                *("「末ESCAPE_ESCAPE」", "<<<[TOOL_REQUEST_ESCAPE_ESCAPE]>>>", "k:「始」v「末」"),
            ]
        ),
        st.text(max_size=4),
    ),
    max_size=8,
).map("".join)


@settings(max_examples=share_of(150))
@given(arguments=st.dictionaries(st.from_regex(r"[a-zA-Z0-9_-]{1,8}", fullmatch=True), VALUES))
@example(arguments={"k": "「末」「末ESCAPE」「末exp」" + END})
def test_every_call_can_be_written(arguments: dict[str, str]) -> None:
    """A18: what is written for a call is read as that call, or it is refused."""
    call = ToolCall(call_id="my id", tool_name="look", arguments=arguments)
    protocol = VCPProtocol()
    try:
        text = protocol.render_call(call)
    except ConfigurationError:
        reserved = {"archery", "ink", "river", "vref", "maid", "valet", "tool_name", "request_id"}
        assert any(key in reserved or key.startswith("command") for key in arguments)
        return
    [found] = protocol.parse(f"{text}\n{text}").calls[:1]
    assert (found.call_id, found.tool_name, found.arguments) == ("my id", "look", arguments)


def test_what_cannot_be_written_is_refused() -> None:
    """A number needs a tool that says so; no name may hold other letters."""
    number = ToolCall(call_id="1", tool_name="files_read", arguments={"lines": 5, "path": "5"})
    with pytest.raises(ConfigurationError, match="the tool must be known"):
        VCPProtocol().render_call(number)
    text = VCPProtocol(tools=[FILES], is_thinking=True).render_call(number)
    assert only(text, tools=[FILES]).arguments == {"lines": 5, "path": "5"}
    for arguments in ({"a b": "x"}, {"n": 1.5}, {"tool_name": "x"}, {"path": None}):
        call = ToolCall(call_id="1", tool_name="files_read", arguments=arguments)
        with pytest.raises(ConfigurationError, match="cannot carry the call '1'"):
            VCPProtocol(tools=[FILES]).render_call(call)


@pytest.mark.parametrize(
    ("option", "value"),
    [("language", "fr"), ("definition_style", "x"), ("result_style", "x"), ("no_such", 1)],
)
def test_options_are_checked(option: str, value: object) -> None:
    """A wrong option is an error that names what is right."""
    with pytest.raises(ConfigurationError, match=option):
        get_protocol("vcp", **{option: value})
