"""Where do calls begin in a reply that comes in parts, and which of them are only quoted?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import IS_WHOLE, share_of
from tool_engine.model.reply import ParsedReply, StreamEventType
from tool_engine.protocols.function_call import FunctionCallProtocol
from tool_engine.protocols.text.text_protocol import TextProtocol
from tool_engine.protocols.vcp import VCPProtocol

CALL = (
    "<<<[TOOL_REQUEST]>>>\ntool_name:「始」look「末」\npath:「始」x「末」\n<<<[END_TOOL_REQUEST]>>>"
)
LINE = CALL.replace("\n", " ")


def read(text: str, **options: Any) -> ParsedReply:
    """Reads a text whole and in characters; both must be the same."""
    protocol = VCPProtocol(**options)
    decoder = protocol.decoder()
    for character in text:
        decoder.feed(character)
    reply = decoder.close()
    assert reply == protocol.parse(text)
    return reply


def findings(reply: ParsedReply) -> list[str]:
    return [finding.error_type for finding in reply.findings]


QUOTED = {
    "fence": f"```\n{CALL}\n```\n",
    "fence with info": f"```xml tool\n{CALL}\n```\n",
    "three spaces": f"   ```\n{CALL}\n  ```\n",
    "tildes": f"~~~ `a`\n{CALL}\n~~~~\n",
    "longer fence": f"````\n```\n{CALL}\n```\n````\n",
    "closing fence with text": f"```\n``` no end\n{CALL}\n```\n",
    "other marks": f"~~~\n```\n{CALL}\n~~~\n",
    "never closed": f"text\n```\n{CALL}\n",
    "info line": f"```{LINE}\n```\n",
    "info line at the end": f"```{LINE}",
    "inline": f"so: `{LINE}` yes",
    "inline double": f"so: ``a ` {LINE}`` yes",
    "inline at the end": f"so: `{LINE}`",
    "fence on one line": f"```{LINE}``` yes",
    "windows": f"```\r\n{CALL}\r\n```\r\n",
    "after carriage return": f"a\r```\r{CALL}",
    "in a list": f"1. So:\n\n    ```\n    {CALL}\n    ```\n",
    "in a nested list": f"- a\n  - b\n\n      ```xml\n{CALL}\n      ```\n",
    "in an item of several lines": f"* a\n  b\n\n  c\n     ```\n{CALL}\n",
    "in an item": f"1. ```json\n   {CALL}\n   ```\n",
    "in a bullet": f"- a\n\n  * ```\n{CALL}\n    ```\n",
    "block quote": f"He wrote:\n> {CALL}\nwell",
    "block quote at once": f"   >{LINE}",
    "fence in a block quote": f"> ```\n> {LINE}\n> ```\n",
    "tildes after a list": f"- a\n\n    ```\n    b\n    ```\n~~~\n{CALL}\n",
    "escaped block": f"<<<[TOOL_REQUEST_ESCAPE]>>>{CALL}<<<[END_TOOL_REQUEST_ESCAPE]>>>",
    "escaped block never closed": f"<<<[TOOL_REQUEST_ESCAPE]>>>{CALL}",
}


@pytest.mark.parametrize("text", QUOTED.values(), ids=QUOTED)
def test_quoted_calls_are_text(text: str) -> None:
    """U25: a call in code is shown, not made; a finding says how to read it all the same."""
    reply = read(text)
    assert (reply.calls, reply.text, findings(reply)) == ([], text, ["skipped"])
    [finding] = reply.findings
    assert "skip_quoted=False" in finding.message
    assert finding.position == text.index("<<<[TOOL_REQUEST]>>>")


PLAIN = {
    "after a fence": f"```\ncode\n```\n{CALL}",
    "after inline code": f"`a` {CALL} `b`",
    "after a lone backtick": f"it`s {CALL}",
    "after another run": f"`a``b {CALL}",
    "backticks in two paragraphs": f"a `b\n\n{LINE} c` d",
    "four spaces": f"a\n    ```\n{CALL}\n",
    "tildes in a line": f"a ~~~\n{CALL}",
    "four spaces in no list": f"a\n\n    ```\n{CALL}\n",
    "four spaces after a list": f"- a\n\nb\n\n    ```\n{CALL}\n",
    "too many spaces in a list": f"- a\n\n          ```\n{CALL}\n",
    "after a fence in a list": f"1. a\n\n    ```\n    b\n    ```\n{CALL}",
    "after a fence in an item": f"- ```\n  b\n  ```\n{CALL}",
    "after a block quote": f"> a\n{CALL}",
    "after a sign": f"a > b\n 2 > 1 {CALL}",
    "four spaces and a sign": f"a\n    > {CALL}",
    "two tildes": f"~~\n{CALL}",
    "two backticks": f"``\n{CALL}",
    "three backticks in a line": f"a ```\n{CALL}",
    "backtick in the info": f"``` a`b\n{CALL}",
    "after a longer end": f"~~~\na\n~~~~~  \n{CALL}",
    "runs of all lengths": f"`a``a```a {CALL}",
    "after held text": f"` <thin` {CALL}",
}


@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN)
def test_calls_outside_of_code_count(text: str) -> None:
    """CommonMark decides what is code; a backtick that nothing closes on its line is none."""
    reply = read(text)
    assert [call.tool_name for call in reply.calls if call.is_runnable] == ["look"]
    assert "TOOL_REQUEST" not in reply.text


@pytest.mark.parametrize("marks", ["`", "``"])
def test_a_block_between_backticks_is_quoted(marks: str) -> None:
    """U25: inline code of several lines, which is certain only when the block is over."""
    reply = read(f"{CALL}\nSo: {marks}{CALL}{marks}, then\n{CALL}")
    assert [call.is_runnable for call in reply.calls] == [True, False, True]
    assert "in inline code" in str(reply.calls[1].error)
    assert findings(reply) == ["skipped"]
    assert reply.findings[0].level == "error"
    both = read(f"So: {marks}{CALL}{marks}", skip_quoted=False)
    assert [call.is_runnable for call in both.calls] == [True]


@pytest.mark.parametrize(
    "form", ["it`{}``", "`a`{}`b`", "`<think>`{}`b`", "`{}\n\n`", "`` {} `b`", "{}`{}"]
)
def test_other_backticks_around_a_block_quote_nothing(form: str) -> None:
    """A lone backtick is an ordinary character; one after a code span is no part of it."""
    reply = read(form.replace("{}", CALL))
    assert [call.is_runnable for call in reply.calls] == [True] * form.count("{}")
    assert reply.findings == []


def test_a_sign_after_a_block_begins_no_block_quote() -> None:
    """A block quote begins with its line."""
    assert len(read(f"{CALL}> {CALL}").calls) == 2


def test_text_before_a_closed_span_on_the_same_line_is_read_once() -> None:
    """Held text is read again as what it is: the call, and the code after it."""
    reply = read(f"` {LINE} `` {LINE} ``` {LINE} ``\n{LINE}")
    assert len(reply.calls) == 2
    assert reply.text == "`  `` " + LINE + " ``` " + LINE + " ``\n"
    assert findings(reply) == ["skipped"]


THOUGHTS = [
    ("<think>a{call}b</think>c", "c", "ab"),
    ("<THINKING>a{call}</Thinking>c", "c", "a"),
    ("<think>a<think>b</think>{call}</think>c", "c", "a<think>b</think>"),
    ("<think >a{call}</ think>c", "c", "a"),
    ('<thinking budget="high">a{call}</thinking>c', "c", "a"),
    ("x<think>`a{call}</think>c", "xc", "`a"),
]


@pytest.mark.parametrize(("text", "said", "thought"), THOUGHTS)
def test_thoughts_are_no_text(text: str, said: str, thought: str) -> None:
    """U25: what stands in think tags is reasoning, and its calls are not made."""
    reply = read(text.replace("{call}", CALL))
    assert (reply.calls, reply.text, findings(reply)) == ([], said, ["skipped"])
    assert reply.reasoning.replace(CALL, "") == thought


def test_an_open_thought_takes_the_rest() -> None:
    """U25: an unclosed think tag discards every call after it, and says so."""
    reply = read(f"a<think>b {CALL}")
    assert (reply.calls, reply.text) == ([], "a")
    assert findings(reply) == ["skipped", "malformed_reply"]


def test_a_thought_that_the_prompt_opened() -> None:
    """Templates end with `<think>`: the reply begins inside it."""
    reply = read(f"b {CALL}</think>c{CALL}", is_thinking=True)
    assert [call.call_id for call in reply.calls] == ["req_1"]
    assert (reply.text, reply.reasoning) == ("c", f"b {CALL}")


def test_calls_before_a_stray_end_of_thought_are_not_run() -> None:
    """A `</think>` that nothing opened: all before it may be reasoning, so none of it is run."""
    reply = read(f"b {CALL}</think>c{CALL}")
    assert [call.is_runnable for call in reply.calls] == [False, True]
    assert "is_thinking=True" in (reply.calls[0].error or "")
    assert reply.text == "b c"
    assert findings(reply) == ["malformed_reply", "skipped"]


@pytest.mark.parametrize("text", [f"```\n{CALL}\n```", f"`{LINE}`", f"<think>{CALL}</think>"])
def test_the_switch_reads_quoted_calls(text: str) -> None:
    """One switch reads calls in code and thoughts, too."""
    reply = read(text, skip_quoted=False)
    assert [call.is_runnable for call in reply.calls] == [True]
    assert reply.findings == []


@pytest.mark.parametrize("part", ["hello", "a < b", "1 <2", "<<<[", "「", "\n", " ", "``", "x~"])
def test_what_cannot_become_a_marker_is_passed_on(part: str) -> None:
    """D11: text waits only while it may still become a marker."""
    decoder = VCPProtocol().decoder()
    events = [*decoder.feed("a"), *decoder.feed(part)]
    said = "".join(event.content or "" for event in events)
    may_become = part.endswith("<<<[")
    assert said == ("a" if may_become else "a" + part)
    later = "".join(event.content or "" for event in decoder.feed("?"))
    assert said + later == f"a{part}?"


PIECES = st.sampled_from(
    [
        *("<<<[TOOL_REQUEST]>>>", "<<<[END_TOOL_REQUEST]>>>", "<<<[TOOL_REQUEST_ESCAPE]>>>"),
        *("<<<[END_TOOL_REQUEST_ESCAPE]>>>", "「始」", "「末」", "「始ESCAPE」", "「末ESCAPE」"),
        *(
            "「始exp」",
            "「末exp」",
            "tool_name:「始」t「末」",
            "b:「始」1「末」",
            "a:",
            "<<",
            "{始}",
        ),
        *("command1:「始」x「末」", "request_id:「始」r「末」", "<<[tool_request]>>>>"),
        *("<function_call>", "</function_call>", '{"name":"a","arguments":{"x":1}}', "{", "}"),
        *('{"tool_name": "b", "parameters": {}}', "[", "]", '"', "\\", ":", ",", '"name"'),
        *('{"name":"a","arguments":{"x":"', '"}}', "```json\n", '{"tool_name":"x"', '"id":'),
        *("<function_call>" + '{"name":"a","arguments":{"x":1}}' + "</function_call>",),
        *("`", "``", "```", "\n", "\r\n", "~~~", "~~~~", " ", "    ", "word", "始", "🙂"),
        *("<think>", "</think>", "<THINKING>", "</thinking >", "<", "，"),
    ]
)
PROTOCOLS = [
    VCPProtocol(),
    VCPProtocol(skip_quoted=False),
    VCPProtocol(fuzzy=True),
    FunctionCallProtocol(),
    FunctionCallProtocol(skip_quoted=False),
]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
@settings(max_examples=share_of(120))
@given(parts=st.lists(PIECES, max_size=22), data=st.data())
def test_any_text_is_the_same_however_it_is_cut(
    protocol: TextProtocol, parts: list[str], data: st.DataObject
) -> None:
    """D11: whole, in characters, in bytes, or cut anywhere: the same reply, and the same text."""
    text = "".join(parts)
    raw = text.encode()
    whole = protocol.parse(text)
    step = data.draw(st.integers(1, 7))
    for chunks in (
        [raw[place : place + 1] for place in range(len(raw))],
        [text[place : place + step] for place in range(0, len(text), step)],
    ):
        decoder = protocol.decoder()
        events = [event for chunk in chunks for event in decoder.feed(chunk)]
        assert decoder.close() == whole
        said = [e.content or "" for e in events if e.type is StreamEventType.CONTENT_CHUNK]
        assert whole.text.startswith("".join(said))
        ended = [e.tool_call_id for e in events if e.type is StreamEventType.TOOL_CALL_END]
        assert set(ended) <= {call.call_id for call in whole.calls}


LONG = 1_000_000 if IS_WHOLE else 300_000
"""What takes more than time in proportion to it would never end at either."""
MANY = 30_000 if IS_WHOLE else 12_000
HOSTILE = [
    "w" * 300_000,
    "<<<[TOOL_REQUEST]>>>" * (LONG // 20),
    "<function_call>" * (LONG // 20),
    "`" * LONG,
    "<" * LONG,
    "a\n    ```b" * (LONG // 20),
    "「" * LONG,
    "{" * LONG,
    "<function_call>" + '{"name":"a","arguments":' + '{"a":' * 10_000,
    "".join("`" * length + "<function_call>" for length in range(1, 600)),
    "<function_call>" + '{"name":"a","arguments":{"x":"}}</function_call>\n' * 2_000,
]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:16])
@pytest.mark.parametrize("protocol", [VCPProtocol(), FunctionCallProtocol()], ids=lambda p: p.name)
def test_hostile_text_is_read_to_its_end(protocol: TextProtocol, text: str) -> None:
    """No text takes more than time in proportion to it: twice as much would never end here."""
    reply = protocol.parse(text)
    assert not [call for call in reply.calls if call.is_runnable]
    decoder = protocol.decoder()
    for place in range(0, len(text), 64):
        decoder.feed(text[place : place + 64])
    assert decoder.close() == reply


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    "unit", ["`a` ", "<function_call>{", "~~~\n", "<<<[TOOL_REQUEST]>>>a:「始", CALL + "\n"]
)
@pytest.mark.parametrize("protocol", [VCPProtocol(), FunctionCallProtocol()], ids=lambda p: p.name)
def test_what_has_too_many_marks_is_text(protocol: TextProtocol, unit: str) -> None:
    """A reply that is made to take long costs no more than its first ten thousand marks."""
    few, many = protocol.parse(unit * 4_000), protocol.parse(unit * MANY)
    told = [finding.message for finding in many.findings if "more than 10,000" in finding.message]
    assert not any("more than 10,000" in finding.message for finding in few.findings)
    assert len(told) <= 1
    assert len([call for call in many.calls if call.is_runnable]) <= 10_000
    if told:
        assert protocol.parse(unit * MANY + CALL).text.endswith(CALL)
