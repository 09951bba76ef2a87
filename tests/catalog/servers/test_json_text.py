"""JSON as people write it: comments and last commas, each place known, no key twice."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.catalog.servers.json_text import read_json
from tool_engine.errors import DefinitionError

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([None, 2, "\t"]))
def test_every_json_is_read_as_python_reads_it(value: Any, indent: Any) -> None:
    text = json.dumps(value, indent=indent)
    assert read_json(text.encode(), "f").value == json.loads(text)


def test_comments_and_last_commas_are_passed_over() -> None:
    text = """// of mine
    {"a": [1, 2,], /* not "b" */ "c": "// no comment, }", // end
    }"""
    assert read_json(text.encode(), "f").value == {"a": [1, 2], "c": "// no comment, }"}


def test_places_are_those_of_the_text() -> None:
    text = '{\n  "a": {"b": [10,\n    20]}}'
    document = read_json(text.encode(), "f")
    marks = document.marks([(("a",), True), (("a", "b", 1), False), (("a", "gone"), False)])
    assert [(mark.line, mark.column) for mark in marks] == [(1, 2), (2, 4), (1, 2)]


def test_a_mark_of_bytes_is_no_text_of_the_file() -> None:
    assert read_json(b"\xef\xbb\xbf{}", "f").value == {}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"a": 1,\n "a": 2}', "f:2:2: the key 'a' stands here a second time; remove one"),
        (b'{"a": }', "f:1:7: this is no JSON: Expecting value; correct it"),
        (b'{"a": "x\n"}', "f:1:7: this is a text that does not end; correct it"),
        (b'{"a": NaN}', "f: this is no JSON: NaN is no number; correct it"),
        (b'{"\\x": 1}', "f:1:2: this is no JSON: Invalid \\escape; correct it"),
        (
            '{"a": "é"}'.encode("latin-1"),
            "f: the file is not UTF-8 text (byte 7); save it as UTF-8",
        ),
        (b"\n", 'f: the file is empty; write servers into it: {"mcpServers": {...}}'),
        (b"[" * 200, "f:1:101: it is more than 100 levels deep; make it flatter"),
        (b" " * 2**20 + b"{}", "f: the file has 1048578 bytes; it may have 1048576"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(data: bytes, said: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        read_json(data, "f")
    assert str(caught.value) == said
