"""How does the result of a call become what a model reads?"""

from __future__ import annotations

import json
import re
import threading
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.session.formatting import data_of
from tool_engine.session.reading.presentation import (
    Presentation,
    Presented,
    ReturnType,
    present_in_time,
    present_result,
    with_return_type,
    without_hidden_limit,
)
from tool_engine.session.variables.store import Variable, VariableStore

BLOCK = re.compile(r"\n\n<!--ToolCallLog:Begin-->\n.*\n<!--ToolCallLog:End-->\Z", re.DOTALL)


def result_of(data: Any, **fields: Any) -> ToolExecutionResult:
    output = data if isinstance(data, dict) else {"result": data}
    return ToolExecutionResult(True, "fetch", output, **fields)


def tool_with(*names: str, **fields: Any) -> Tool:
    parameters = [ToolParameter(name=name, type="string", **fields) for name in names]
    return Tool(
        id="fetch",
        name="fetch",
        version="1.0.0",
        description="Fetches a page.",
        category=ToolCategory.CUSTOM,
        tags=[],
        parameters=parameters,
        implementation_config={},
    )


def shown(data: Any, limit: int | None = None, **fields: Any) -> Presented:
    return present_result(result_of(data), {}, None, Presentation(), limit, **fields)


# From data to text.


@pytest.mark.parametrize(
    ("data", "text"),
    [("as it is", "as it is"), (5, "5"), (None, "null"), ({"a": "好"}, '{"a": "好"}'), ({}, "{}")],
)
def test_the_default_text(data: Any, text: str) -> None:
    """S3, S15: what fits is read whole, as any model reads it."""
    assert shown(data) == Presented(text, text, False)


def test_a_failure_is_read_as_what_to_do() -> None:
    """S15: the formatter is for what the tool returned; a failure has a text of its own."""
    failed = ToolExecutionResult(False, "t", {}, "no such page", "execution_error")
    own = Presentation(format=lambda _data, _args: "fine", truncate=lambda _text, _args: "fine")
    assert present_result(failed, {}, None, own).final_text == "no such page"
    assert present_result(failed, {}, None, own, 10).final_text == "no such p…"


def test_a_formatter() -> None:
    """S3: it gets what the tool returned and the arguments."""
    own = Presentation(format=lambda data, args: f"{args['who']}: {data}")
    found = present_result(result_of([1, 2]), {"who": "me"}, None, own)
    assert (found.formatted_text, found.final_text) == ("me: [1, 2]", "me: [1, 2]")
    broken = Presentation(format=lambda _data, _args: "half \ud800")
    assert present_result(result_of(1), {}, None, broken).final_text == "half \\ud800"


async def later(*_args: Any) -> str:
    return "too late"


def raising(*_args: Any) -> str:
    raise KeyError("password=hunter2hunter2")


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (raising, "raised KeyError: 'password=[hidden]'"),
        (lambda *_args: 5, "returned int and no text"),
        (lambda _one: "", "raised TypeError"),
        (later, "returned coroutine and no text"),
    ],
)
def test_code_of_a_tool_that_does_not_work(function: Any, told: str) -> None:
    """S3, S4: the default is used instead, and nobody has to guess that it was."""
    found = present_result(result_of("text"), {}, None, Presentation(format=function))
    assert found.final_text == "text"
    assert found.findings[0].startswith("the formatter of 'fetch' ")
    assert told in found.findings[0]
    found = present_result(result_of("text " * 9), {}, None, Presentation(truncate=function), 20)
    assert found.final_text == "text text text text…"
    assert "the truncation of 'fetch' " in found.findings[0]
    assert told in found.findings[0]


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("format", 5, "a function, got 5"),
        ("truncate", "x", "a function, got 'x'"),
        ("compress_args", {}, "a function"),
        ("limit", "8000", "a whole number; 0 or -1 shows all, got '8000'"),
        ("limit", 1.5, "a whole number"),
        ("limit", True, "a whole number"),
        ("is_whole", 1, "true or false, got 1"),
        ("is_kept", "no", "true or false"),
        ("return_type", "string", "a ReturnType, got 'string'"),
    ],
)
def test_fields_of_another_type(field: str, value: Any, told: str) -> None:
    """S3-S9: a mistake in code is told where it is made, and not with the end of a call."""
    fields = {field: value}
    with pytest.raises(ConfigurationError, match=f"^{field} of a Presentation must be {told}"):
        Presentation(**fields)


def test_an_output_that_cannot_be_read() -> None:
    """Whatever a tool returned, there is a text."""

    class Hostile(dict[str, Any]):
        def __iter__(self) -> Any:
            raise RuntimeError("no")

        keys = items = __iter__

    found = shown({"a": Hostile({"b": 1}), "c": 2})
    assert found.final_text
    assert "the output of 'fetch' raised RuntimeError: no" in found.findings[0]


# What fits.


def test_the_flag_is_right_at_the_boundary() -> None:
    """U38: a text as long as the limit is whole; one character more, and it is cut."""
    assert shown("x" * 8_000) == Presented("x" * 8_000, "x" * 8_000, False)
    for length in (8_001, 8_010, 8_040):
        found = shown("x" * length)
        assert found.is_truncated
        assert len(found.final_text) <= 8_000
        assert found.formatted_text == "x" * length


@given(
    st.text(max_size=600),
    st.integers(1, 700),
    st.none() | st.sampled_from(["v", "fetch_1_result", "a/b." * 40]),
    st.sampled_from(["en", "zh"]),
)
def test_all_that_a_model_reads_is_in_the_limit(
    text: str, limit: int, variable: str | None, language: str
) -> None:
    """X4, S30: the marker and the hint count, too, and the flag says whether anything is gone."""
    found = shown(text, limit, variable=variable, language=language)
    assert len(found.final_text) <= limit
    assert found.is_truncated is (len(found.formatted_text) > limit)
    assert found.is_truncated is (found.final_text != found.formatted_text)
    again = shown(found.final_text, limit, variable=variable, language=language)
    assert again.final_text == found.final_text


@given(
    st.recursive(
        st.integers() | st.text(max_size=80) | st.booleans(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner),
        max_leaves=20,
    ),
    st.integers(1, 400),
    st.booleans(),
)
def test_no_result_reads_as_another_value(data: Any, limit: int, is_text: bool) -> None:
    """What is left of JSON is no JSON, whether a tool returned a value or the text of one."""
    found = shown({"data": json.dumps(data)} if is_text else {"data": data}, limit, variable="v")
    if found.is_truncated:
        with pytest.raises(json.JSONDecodeError):
            json.loads(found.final_text)
        with pytest.raises(json.JSONDecodeError):
            json.loads(BLOCK.sub("", found.final_text))


def test_a_secret_argument_is_not_cut_in_two() -> None:
    """A tool that tells the secret it was given does not tell half of it."""
    secret = "correct horse battery"
    text = ("x" * 15 + secret) * 40
    tool = tool_with("key", secret=True)
    for limit in range(1, 500, 7):
        found = present_result(result_of(text), {"key": secret}, tool, Presentation(), limit)
        rest = found.final_text.replace(secret, "").partition("… [")[0]
        assert not re.search("correct|horse|battery", rest)


# Which limit.


@pytest.mark.parametrize("limit", [0, -1, -(10**400), 0.0, "0", "-1", " -1 ", float("inf")])
def test_the_model_asks_for_all(limit: Any) -> None:
    """S28: `limit` 0 or -1 means all of it, whatever cuts it else."""
    text = "x" * 20_000
    own = Presentation(limit=10, truncate=lambda text, _args: text[:5])
    for presentation in (Presentation(), own):
        found = present_result(result_of(text), {"limit": limit}, None, presentation, 100)
        assert found == Presented(text, text, False)


@pytest.mark.parametrize("limit", [50, 50.0, 49.5, "50"])
def test_the_model_asks_for_more_or_less(limit: Any) -> None:
    """U39: every tool takes a `limit`; the text protocols send it as a text."""
    assert len(present_result(result_of("x " * 500), {"limit": limit}).final_text) in (49, 50)
    for enough in (9_000, 1e308, 10**400, "999999999", "9" * 15):
        assert not present_result(result_of("x" * 9_000), {"limit": enough}).is_truncated


@pytest.mark.parametrize("limit", [None, "all", "", True, False, [], {}, float("nan"), "1e3", "٣"])
def test_a_limit_that_is_no_number(limit: Any) -> None:
    """U38: it says nothing, and the default holds."""
    found = present_result(result_of("x" * 8_000), {"limit": limit})
    assert found.is_truncated is False
    assert [each for each in found.findings if "no number of characters" in each] == found.findings
    assert bool(found.findings) is (limit is not None)
    assert present_result(result_of("x" * 8_001), {"limit": limit}).is_truncated is True


def test_a_small_limit_hides_no_error() -> None:
    """U39: the `limit` of a call that failed was meant for its result, or for another tool."""
    failed = ToolExecutionResult(False, "serch", {}, "there is no tool 'serch'", "tool_not_found")
    for limit in (5, 0, -1):
        assert "'serch'" in present_result(failed, {"limit": limit}).final_text
    assert present_result(failed, {"limit": 9}, limit=20).is_truncated


def test_a_tool_with_a_limit_of_its_own() -> None:
    """U39: a declared parameter `limit` is the tool's: it says how many rows, not characters."""
    found = present_result(result_of("x" * 500), {"limit": 3}, tool_with("limit"))
    assert not found.is_truncated
    assert without_hidden_limit({"limit": 3, "a": 1}, tool_with("limit")) == {"limit": 3, "a": 1}
    assert present_result(result_of("x" * 500), {"limit": 3}, tool_with("a")).is_truncated
    params = {"limit": 3, "a": 1}
    assert without_hidden_limit(params, tool_with("a")) == {"a": 1}
    assert without_hidden_limit(params, None) == {"a": 1}
    assert params == {"limit": 3, "a": 1}
    assert without_hidden_limit({"a": 1}, tool_with("a")) == {"a": 1}


def test_the_limit_of_a_tool_goes_before_the_default() -> None:
    """S7: who calls says it, else the tool's presentation, else 8,000 characters."""
    own = Presentation(limit=20)
    assert len(present_result(result_of("x" * 500), {}, None, own).final_text) == 20
    assert len(present_result(result_of("x" * 500), {}, None, own, 30).final_text) == 30
    assert not present_result(result_of("x" * 9_000), {}, None, Presentation(limit=-1)).is_truncated
    assert not present_result(result_of("x" * 9_000), {}, None, own, 0).is_truncated


# Who cuts.


def test_who_cuts() -> None:
    """S5, S28: what is to be whole is not cut at all; else by the tool's own function, or ours."""
    text = "one two three four"
    own = Presentation(truncate=lambda text, args: text[args["begin"] :][: args["limit"]])
    args = {"begin": 4, "limit": 3}
    found = present_result(result_of(text), args, None, own, 5, variable="v")
    assert found.is_truncated
    assert found.final_text.startswith("two\n\n<!--ToolCallLog:Begin-->\nShortened: 3 of 18 ")
    assert '{"name": "v", "start": 0, "length": 18}' in found.final_text
    whole = Presentation(is_whole=True, truncate=lambda _text, _args: "", limit=3)
    assert present_result(result_of(text), args, None, whole, 5) == Presented(text, text, False)
    same = Presentation(truncate=lambda text, _args: text)
    assert present_result(result_of(text), {}, None, same, 5) == Presented(text, text, False)


def test_an_own_cut_is_read_on_where_it_ends() -> None:
    """S30: what a tool's function shows of the beginning is not read again."""
    own = Presentation(truncate=lambda text, _args: text[:4])
    found = present_result(result_of("one two three"), {}, None, own, variable="v")
    assert '{"name": "v", "start": 4, "length": 9}' in found.final_text


# How to get the rest.


def test_the_hint() -> None:
    """S30, U39: how much there is, where it is kept, and the call that reads on."""
    text = "".join(f"line {number}\n" for number in range(3_000))
    found = shown(text, variable="fetch_1_result")
    block = BLOCK.search(found.final_text)
    assert block is not None
    assert f"of {len(text):,} characters are shown." in block[0]
    assert "$VAR_REF{{fetch_1_result}}" in block[0]
    call = re.search(r"read_var\((.*)\)", block[0])
    assert call is not None
    arguments = json.loads(call[1])
    assert (arguments["name"], arguments["length"]) == ("fetch_1_result", 2_000)
    head = found.final_text.partition("\n… [")[0]
    assert head + text[arguments["start"] :] == text


def test_the_hint_reads_no_more_than_there_is() -> None:
    """U39: the last part is shorter than 2,000 characters."""
    found = shown("x" * 9_000, 8_500, variable="v")
    left_out = re.search(r"\[([\d,]+) characters left out\]", found.final_text)
    assert left_out is not None
    assert f'"length": {int(left_out[1].replace(",", ""))}' in found.final_text


def test_the_hint_of_what_the_variable_has_as_data() -> None:
    """S30: a text that a formatter made is not the variable's text: it is read from its start."""
    own = Presentation(format=lambda data, _args: " ".join(data))
    found = present_result(result_of(["word"] * 999), {}, None, own, 600, variable="v")
    assert '{"name": "v", "start": 0, "length": 2000}' in found.final_text


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 3_000,
        Decimal("1." + "2" * 9_000),
        ["half \ud800"] * 900,
        {1: [date(2026, 1, 2)] * 900},
        "half \ud800" * 900,
        '"' * 9_000,
        {"content": [{"type": "text", "text": "x" * 9_000}]},
    ],
)
def test_the_place_to_read_on_is_one_of_the_variable(data: Any) -> None:
    """S30, U39: what is no JSON has another text as a variable; nothing of it is skipped."""
    found = shown(data, variable="v")
    call = re.search(r'"start": (\d+)', found.final_text)
    assert call is not None
    start = int(call[1])
    kept = VariableStore().add(Variable(name="v", value=data_of(result_of(data).output))).text
    head = found.final_text.partition("\n… [")[0]
    assert start == 0 or head == found.formatted_text[:start] == kept[:start]


def test_the_hint_shrinks_before_the_text() -> None:
    """S30: first the call goes, then the variable, then the hint; the text is last."""
    texts = [shown("x" * 9_000, limit, variable="v").final_text for limit in (400, 260, 210, 90)]
    assert ["read_var" in text for text in texts] == [True, False, False, False]
    assert ["$VAR_REF{{v}}" in text for text in texts] == [True, True, False, False]
    assert ["Shortened" in text for text in texts] == [True, True, True, False]
    assert all("characters left out" in text for text in texts)


def test_a_hint_without_a_variable() -> None:
    """Nothing is promised that is not kept."""
    found = shown("x" * 9_000)
    assert "Shortened" in found.final_text
    assert "VAR_REF" not in found.final_text
    assert "read_var" not in found.final_text


def test_the_hint_in_chinese() -> None:
    """The session's language is that of all that it adds."""
    found = shown("x" * 9_000, variable="v", language="zh")
    assert "characters" not in found.final_text
    assert "省略" in found.final_text
    assert "完整内容: $VAR_REF{{v}}" in found.final_text


# What is large.


async def test_what_is_large_does_not_take_the_event_loop() -> None:
    """A thread formats what is large; what is small is not worth one."""
    threads: list[bool] = []

    def formatted(data: Any, _args: Any) -> str:
        threads.append(threading.current_thread() is threading.main_thread())
        return str(len(data))

    own = Presentation(format=formatted)
    for size in (10, 100_000):
        found = await present_in_time(result_of("x" * size), {}, None, own)
        assert found.final_text == str(size)
    assert threads == [True, False]


async def test_both_ways_come_to_the_same() -> None:
    """S15: whether a thread does it changes nothing."""
    for size in (10, 100_000):
        result = result_of("x" * size)
        expected = present_result(
            result, {}, None, Presentation(), 500, variable="v", language="zh"
        )
        found = await present_in_time(
            result, {}, None, Presentation(), 500, variable="v", language="zh"
        )
        assert found == expected


# What the model is told beforehand.


def test_the_return_type_is_told() -> None:
    """S9: it stands in the description, once."""
    tool = tool_with("url")
    told = with_return_type(tool, ReturnType("string", "the text of the page"))
    assert told.description == "Fetches a page. Returns string: the text of the page."
    assert with_return_type(told, ReturnType("string", "the text of the page")) is told
    assert with_return_type(tool, ReturnType("number[]")).description.endswith("Returns number[].")
    assert with_return_type(tool, None) is tool
    assert tool.description == "Fetches a page."
