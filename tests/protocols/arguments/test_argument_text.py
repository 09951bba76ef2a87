"""Arguments that a model wrote are read right, or refused with the place and the cure."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.protocols.arguments.argument_text import read_arguments
from tool_engine.protocols.arguments.json_tokens import MAX_DEPTH

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=8)
    | st.sampled_from(["{", "}", '"', "'", "//", "#", ",}", "\\", "\u2028", "\x00", "```", "None"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=4)


@settings(max_examples=share_of(150), deadline=None)
@given(OBJECTS, st.booleans())
@example({"a": "\ud800"}, True)
def test_valid_json_is_read_as_it_is(value: dict[str, Any], is_ascii: bool) -> None:
    """Strict JSON comes back equal, without a repair, whatever stands in its strings."""
    read = read_arguments(json.dumps(value, ensure_ascii=is_ascii))
    assert (read.value, read.repairs, read.error) == (value, (), None)


@settings(max_examples=share_of(150), deadline=None)
@given(OBJECTS.filter(bool), st.data())
def test_every_cut_is_truncated_and_never_run(value: dict[str, Any], data: st.DataObject) -> None:
    """A prefix of an object is never read, not even one that could be closed. U47."""
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    read = read_arguments(cut)
    assert read.value is None
    assert read.is_truncated
    assert read.error is not None


@pytest.mark.parametrize(
    "cut",
    [
        '{"a": "x',
        '{"a": "x\\',
        "{'a': 'x}",
        "{'a': 'it\\'s}",
        '{"a": 1, "b": [1, 2',
        '{"a": 1 /* half }',
        '{a: "}',
        '"{\\"a\\": 1',
        '"{\\"a\\": "',
        '{"a": 1} {"b"',
        "```json\n{'a': 1",
        '{"a":' * 100_000,
    ],
)
def test_what_ends_inside_a_value_is_truncated(cut: str) -> None:
    """Other quotes, comments and fences do not hide a cut; it is found in linear time."""
    read = read_arguments(cut)
    assert (read.value, read.is_truncated) == (None, True)


@pytest.mark.parametrize(
    ("text", "value", "repair"),
    [
        ('{"a": 1,}', {"a": 1}, "comma"),
        ('{"a": [1, 2,],}', {"a": [1, 2]}, "comma"),
        ("{'a': 'it\\'s'}", {"a": "it's"}, "single quotes"),
        ("{'say': 'a \"b\", \"c\": \"d\"'}", {"say": 'a "b", "c": "d"'}, "single quotes"),
        ('{a: 1, b_c: "x"}', {"a": 1, "b_c": "x"}, "keys without quotes"),
        ("{city: New York}", {"city": "New York"}, "'New York'"),
        ('{"a": True, "b": None, "c": False}', {"a": True, "b": None, "c": False}, "None"),
        ('{"a": 1 // why\n}', {"a": 1}, "comments"),
        ('{"a": /* why */ 1}', {"a": 1}, "comments"),
        ('# why\n{"a": 1}', {"a": 1}, "comments"),
        ('{"a": 1} // why', {"a": 1}, "comments"),
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}, "missing comma"),
        ('```json\n{"a": 1}\n```', {"a": 1}, "code fence"),
        ("```\n{'a': 1}```", {"a": 1}, "code fence"),
        ('\ufeff{"a": 1}', {"a": 1}, "byte order mark"),
        ('{"a": "x\ny\tz"}', {"a": "x\ny\tz"}, "control characters"),
        ('{"a": "x\ny",}', {"a": "x\ny"}, "control characters"),
        ('{"a": 1}}', {"a": 1}, "'}'"),
        ('{"a": "x\ny"}}', {"a": "x\ny"}, "control characters"),
        ('{"a": 1}</tool_call>', {"a": 1}, "</tool_call>"),
        ('{"a": 1}<|im_end|>\n', {"a": 1}, "<|im_end|>"),
        ('"{\\"a\\": 1}"', {"a": 1}, "inside a JSON string"),
        ("null", {}, "null"),
        ("", {}, "no arguments"),
        (" \n", {}, "no arguments"),
        # json-repair drops the last line break, and cuts the pair of surrogates in two.
        ('{"code": "x\\n", "face": "\\ud83d\\ude00",}', {"code": "x\n", "face": "😀"}, "comma"),
        ('{"re": "a\\\\d\\"", "u": "//#{,}",}', {"re": 'a\\d"', "u": "//#{,}"}, "comma"),
        ('{"n": -1.5e3, "big": 123456789012345678901234567890,}',
         {"n": -1500.0, "big": 123456789012345678901234567890}, "comma"),
        ("{}", {}, None),
    ],
)  # fmt: skip
def test_what_has_one_reading_is_repaired(text: str, value: Any, repair: str | None) -> None:
    """Finished but malformed: the one reading that is left, and each change is told. D12, D18."""
    read = read_arguments(text)
    assert (read.value, read.error) == (value, None)
    assert repair in "; ".join(read.repairs) if repair else read.repairs == ()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"a": 1}{"b": 2}', "two objects"),
        ('{"a": 1}\n{"a": 1}', "two objects"),
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ('{"a": {"b": 1, "b": 1}}', "'b' stands twice"),
        ('{"a": 1, "a": 2,}', "'a' stands twice"),
        ("{'a': 1, a: 2}", "'a' stands twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "Infinity"),
        ('{"a": NaN,}', "NaN"),
        ('{"a": 1e999}', "too large"),
        ('{"a": 1e999,}', "too large"),
        ("{a: 1e999}", "too large"),
        ("{a: " + "9" * 5000 + "}", "too many digits"),
        ('```\n{"a": 1, "a": 2}\n```', "'a' stands twice"),
        (json.dumps('{"a": ' + "[" * 600 + "]" * 600 + "}"), "got a string"),
        ('{"a": ' + "9" * 5000 + "}", "too many digits"),
        ('{"a": ' + "9" * 5000 + ",}", "too many digits"),
        ('{"a": ' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), "levels deep"),
        ('{"path": "C:\\dir"}', "backslash"),
        ('{"re": "\\d+"}', "backslash"),
        ('{"say": "he said "hi" to"}', "no valid JSON"),
        ('{"a": "x" + "y"}', "no valid JSON"),
        ('{"a": ["x" "y"]}', "no valid JSON"),
        ('{"a": [1 2]}', "no valid JSON"),
        ('{"a", "b"}', "no valid JSON"),
        ('{"a" "b"}', "no valid JSON"),
        ('{"a":}', "no valid JSON"),
        ('{"a": , "b": 1}', "no valid JSON"),
        ('{,"a": 1}', "no valid JSON"),
        ('{"a": 1,, "b": 2}', "no valid JSON"),
        ('{"a": 01}', "no valid JSON"),
        ('{"a": .5}', "no valid JSON"),
        ('{"a": +1}', "no valid JSON"),
        ('{"a": 0x10}', "no valid JSON"),
        ('{"a": 1_000}', "no valid JSON"),
        ("{day: 2025-03-20}", "no valid JSON"),
        ("{a: undefined}", "no valid JSON"),
        ("{True: 1}", "no valid JSON"),
        ("{1: 1}", "no valid JSON"),
        ('{"a": (1, 2)}', "no valid JSON"),
        ('{"a": [1}', "cut off"),
        ('I call {"a": 1}', "no valid JSON"),
        ('{"a": 1} thanks', "no valid JSON"),
        ("hello", "no valid JSON"),
        ("\x00", "no valid JSON"),
        ("[1]", "got a list"),
        ("1", "got a number"),
        ("true", "got a boolean"),
        ('"text"', "got a string"),
        ('"{1}"', "holds no JSON object"),
        ("[1,]", "got a list"),
        ("{" + "a " * 30_000 + "}", "too long"),
        ("{" + '"a" "b",' * 6_000 + "}", "too long"),
        ("{a:" * 400 + "1" + "}" * 400, "no valid JSON"),
    ],
)  # fmt: skip
def test_what_has_more_than_one_reading_is_refused(text: str, word: str) -> None:
    """Nothing is dropped, merged, invented or turned into something else, and `{}` is not run."""
    read = read_arguments(text)
    assert read.value is None
    assert read.error is not None
    assert word in read.error
    assert read.repairs == ()


@settings(max_examples=share_of(200), deadline=None)
@given(OBJECTS, st.sampled_from([",}", ", }", "\n,\n}"]))
def test_a_repair_changes_nothing_but_the_mistake(value: dict[str, Any], end: str) -> None:
    """An object with one comma too many is read as the object, or not at all."""
    text = json.dumps(value)[:-1] + end
    read = read_arguments(text)
    assert read.value in (value, None)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":2/*c*/}', {"a": 2}),
        ('{"a":-1.5e3/* c */,"b":null/**/}', {"a": -1500.0, "b": None}),
        ('{"a":[1/*x*/,2/*y*/]}', {"a": [1, 2]}),
        ('{"a":True// c\n}', {"a": True}),
        ('{"a":1# c\n}', {"a": 1}),
        ("{} /* foo ", {}),
    ],
)
def test_a_comment_right_behind_a_value_is_left_out(text: str, value: object) -> None:
    """A comment needs no space before it; one after all of the arguments need not be closed."""
    read = read_arguments(text)
    assert (read.value, read.is_truncated) == (value, False)
    assert "comments" in read.repairs[0]


@pytest.mark.parametrize(
    "text", ['{"a":10//3,\n"b":1}', '{"a": C#, "b": 1}', '{"a":src/*,"b":*/x}']
)
def test_what_may_be_more_than_a_comment_is_refused(text: str) -> None:
    """A division, a name and a pattern are no comments."""
    read = read_arguments(text)
    assert (read.value, read.is_truncated) == (None, False)


@pytest.mark.parametrize("text", ["{url:https://x.org/}", '{"a": {"u": http://x}}', '{"a": 1 // }'])
def test_finished_text_is_not_called_cut_off(text: str) -> None:
    """Where the closing brackets only look like a comment, the cure is not to write less."""
    read = read_arguments(text)
    assert (read.value, read.is_truncated) == (None, False)
    assert "shorter" not in str(read.error)


def test_many_brackets_are_not_deep() -> None:
    """Only how deep they nest counts, and brackets in strings do not."""
    value = {"a": [[]] * 1000, "b": "[" * 1000, "c": "{" * 1000}
    assert read_arguments(json.dumps(value)).value == value


@settings(max_examples=share_of(100), deadline=None)
@given(OBJECTS)
def test_python_literals(value: dict[str, Any]) -> None:
    """What Python prints of a mapping is read as the mapping, or refused. D12."""
    read = read_arguments(repr(value))
    assert read.value in (value, None)


@settings(max_examples=share_of(300), deadline=None)
@given(st.text(alphabet="{}[],:\"'\\ntx1 /*#`", max_size=25))
def test_garbage_never_raises(text: str) -> None:
    """Every text is read or refused."""
    read = read_arguments(text)
    assert (read.value is None) != (read.error is None)


@pytest.mark.parametrize("text", ['{"a": 1,}', '{"a": "x\ny"}', '```\n{"a": 1}\n```', "null"])
def test_repair_can_be_switched_off(text: str) -> None:
    """With `repair=False` only strict JSON is read."""
    read = read_arguments(text, repair=False)
    assert read.value is None
    assert not read.is_truncated


def test_the_place_is_named() -> None:
    """The error of malformed arguments says where, so that the model can mend it."""
    read = read_arguments('{"city": "Paris",\n "n": .5}')
    assert read.error is not None
    assert "line 2, column 7" in read.error
    assert "write one complete JSON object" in read.error


def test_without_the_extra() -> None:
    """Without json-repair the error names the place and the cure; what needs no library works."""
    code = """
import sys
sys.modules["json_repair"] = None
from tool_engine.protocols.arguments.argument_text import read_arguments
for _ in range(2):
    read = read_arguments('{"a": 1,}')
    # From 3.13 on Python points at the comma, before at what comes after it.
    column = 8 if sys.version_info >= (3, 13) else 9
    assert read.value is None and f"line 1, column {column} " in read.error, read
    assert "pip install 'tool-engine[repair]'" in read.error, read
assert read_arguments('{"a": 1}}').value == {"a": 1}
assert read_arguments('{"a": 1').is_truncated
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert ended.returncode == 0


def test_without_the_extra_in_a_program_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where the rest of the package was loaded before."""
    monkeypatch.setitem(sys.modules, "json_repair", None)
    monkeypatch.delitem(sys.modules, "tool_engine.protocols.arguments.repair", raising=False)
    read = read_arguments("{'a': 1}")
    assert read.error is not None
    assert "tool-engine[repair]" in read.error


def test_the_library_is_not_loaded_before_it_is_needed() -> None:
    """Good arguments cost no import."""
    code = """
import sys
from tool_engine.protocols.arguments.argument_text import read_arguments
assert read_arguments('{"a": 1}').value == {"a": 1}
assert "json_repair" not in sys.modules
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert ended.returncode == 0
