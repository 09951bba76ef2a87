"""What do arguments that refer to variables become?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.errors import VariableError
from tool_engine.model.json.returned_value import to_text
from tool_engine.session.variables import references
from tool_engine.session.variables import store as variables
from tool_engine.session.variables.references import expand_references, write_reference
from tool_engine.session.variables.store import Variable, VariableStore


def store_of(**values: Any) -> VariableStore:
    store = VariableStore()
    for name, value in values.items():
        store.add(Variable(name=name, value=value, labels=frozenset({f"tool:{name}"})))
    return store


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$VAR_REF{{word}}", "hello"),
        ("$VAR_REF{{word:1}}", "ello"),
        ("$VAR_REF{{word:1:3}}", "ell"),
        ("$VAR_REF{{word:0:0}}", ""),
        ("$VAR_REF{{word:99}}", ""),
        ("$VAR_REF{{word:1:" + "9" * 30 + "}}", "ello"),
        ("$VAR_REF{{word:" + "9" * 1000 + "}}", ""),
        ("say $VAR_REF{{word}}!", "say hello!"),
        ("$VAR_REF{{word}}$VAR_REF{{word:4}}", "helloo"),
        ("$VAR_REF{{rows}}", [1, {"a": None}]),
        ("rows: $VAR_REF{{rows}}", 'rows: [1, {"a": null}]'),
        ("$VAR_REF{{rows:1:1}}", "1"),
        ("$VAR_REF{{number}}", 7),
        (" $VAR_REF{{number}}", " 7"),
        ("$$VAR_REF{{word}}", "$VAR_REF{{word}}"),
        ("$$VAR_REF{{ anything", "$VAR_REF{{ anything"),
        ("a $ b {{word}} $VAR_REF{word}", "a $ b {{word}} $VAR_REF{word}"),
        ("$$$VAR_REF{{word}}", "$$VAR_REF{{word}}"),
        ("$$VAR_REF{{word}}$VAR_REF{{word}}", "$VAR_REF{{word}}hello"),
        ("$VAR_REF{{emoji:1:1}}", "😀"),
        ("$VAR_REF{{none}}", None),
        ("", ""),
    ],
)
def test_a_reference_stands_for(text: str, expected: Any) -> None:
    """S25, U36: the whole, from a character on, or a part; alone it keeps its type."""
    store = store_of(word="hello", rows=[1, {"a": None}], number=7, emoji="a😀b", none=None)
    params = {"x": text, "deep": [{"y": [text, 1]}]}
    expanded = expand_references(params, store)
    assert expanded.params["x"] == expected
    assert expanded.params["deep"] == [{"y": [expected, 1]}]
    assert params == {"x": text, "deep": [{"y": [text, 1]}]}


@pytest.mark.parametrize("name", ["Rule/web/cite.v1", "a_b-c", "fetch.page_3_result"])
def test_names_with_signs(name: str) -> None:
    """U36: names with `/` and `.` can be referenced, too."""
    store = VariableStore()
    store.add(Variable(name=name, value="x"))
    assert expand_references({"a": write_reference(name)}, store).params == {"a": "x"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=share_of(100), deadline=None)
@given(value=JSON)
def test_a_whole_value_keeps_its_type(value: Any) -> None:
    """S25: alone, a reference stands for the value itself, with every type in it."""
    store = store_of(x=value)
    kept = store.get("x").value
    expanded = expand_references({"x": [write_reference("x")]}, store).params["x"][0]
    assert expanded == kept
    assert to_text(expanded) == to_text(kept)
    assert type(expanded) is type(kept)


@settings(max_examples=share_of(100), deadline=None)
@given(text=st.text(max_size=20), start=st.integers(0, 25), length=st.integers(0, 25))
def test_parts_are_counted_in_characters(text: str, start: int, length: int) -> None:
    """U36: from a character on, and that many characters, as Python counts them."""
    store = store_of(x=text)
    kept = store.get("x").text
    expanded = expand_references(
        {"a": write_reference("x", start), "b": write_reference("x", start, length)}, store
    )
    assert expanded.params == {"a": kept[start:], "b": kept[start : start + length]}


TEXTS = st.lists(
    st.sampled_from(["$VAR_REF{{", "a", "b", "}}", "$VAR_REF{{a}}", "$VAR_REF{{b}}", "$", ":1"])
).map("".join)


@settings(max_examples=share_of(200), deadline=None)
@given(a=TEXTS, b=TEXTS, head=st.text(max_size=3), tail=st.text(max_size=3))
def test_what_was_put_in_is_never_expanded(a: str, b: str, head: str, tail: str) -> None:
    """U37: a text that a tool brought in cannot pull another variable out."""
    store = store_of(a=a, b=b)
    text = f"{head}|{write_reference('a')}|{write_reference('b')}|{tail}"
    expanded = expand_references({"x": text, "y": write_reference("a")}, store).params
    assert expanded == {"x": f"{head}|{a}|{b}|{tail}", "y": a}


def test_labels_of_all_that_was_put_in() -> None:
    """Labels: the arguments carry where each part of them came from, each variable once."""
    store = store_of(a="1", b="2", c="3")
    expanded = expand_references(
        {"x": write_reference("b"), "y": [write_reference("a") + write_reference("b", 0, 1)]}, store
    )
    assert expanded.labels == {"tool:a", "tool:b"}
    assert [each.name for each in expanded.variables] == ["b", "a"]
    assert expand_references({"x": "plain"}, store).labels == frozenset()
    assert expand_references({"x": "$$VAR_REF{{a}}"}, store).labels == frozenset()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"x": "$VAR_REF{{gone}}"}, "x: there is no variable 'gone'; near are word"),
        ({"x": [{"y": "$VAR_REF{{wrod}}"}]}, r"x\[0\]\.y: there is no variable 'wrod'; near are"),
        ({"x": "$VAR_REF{{ word }}"}, r"x: '\$VAR_REF\{\{ word \}\}' is no reference"),
        ({"x": "$VAR_REF{{word:a}}"}, "is no reference"),
        ({"x": "$VAR_REF{{word:1:2:3}}"}, "is no reference"),
        ({"x": "$VAR_REF{{word:-1}}"}, "is no reference"),
        ({"x": "$VAR_REF{{word"}, "is no reference"),
        ({"x": {"$VAR_REF{{word}}": 1}}, "x: a key cannot refer to a variable"),
        ({"x": "$VAR_REF{{word:١}}"}, "is no reference"),
        ({"x": "$VAR_REF{{ｗord}}"}, "is no reference"),
        ({"x": "$VAR_REF{{word\u200b}}"}, "is no reference"),
        ({"x": "$VAR_REF{{}}"}, "is no reference"),
        ({"x": "$VAR_REF{{$VAR_REF{{word}}}}"}, "is no reference"),
    ],
)
def test_a_wrong_reference_is_an_error(params: dict[str, Any], message: str) -> None:
    """S25: nothing that looks like a reference is passed on as it is; the message has the cure."""
    with pytest.raises(VariableError, match=message):
        expand_references(params, store_of(word="hello"))


def test_a_value_is_not_shared() -> None:
    """A tool that changes its arguments does not change the variable."""
    store = store_of(rows=[1])
    expand_references({"x": "$VAR_REF{{rows}}"}, store).params["x"].append(2)
    assert store.get("rows").value == [1]


def test_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand references to a large variable end as an error, not in memory."""
    monkeypatch.setattr(references, "MAX_EXPANDED", 1000)
    store = store_of(page="x" * 300)
    assert len(expand_references({"x": write_reference("page") * 3}, store).params["x"]) == 900
    with pytest.raises(VariableError, match="come to more than 1000 characters"):
        expand_references({"x": write_reference("page") * 4}, store)
    with pytest.raises(VariableError, match="come to more than 1000 characters"):
        expand_references({"x": [write_reference("page")] * 4}, store)


def test_deep_arguments() -> None:
    """Depth is no crash: without references it is passed on, with one it is an error."""
    deep: Any = 1
    for _ in range(20_000):
        deep = [deep]
    assert expand_references({"x": deep}, VariableStore()).params["x"] is deep
    with pytest.raises(VariableError, match="nested too deep"):
        expand_references({"x": deep, "y": "$VAR_REF{{a}}"}, store_of(a=1))


def test_many_openings_take_linear_time() -> None:
    """D20: a megabyte of half references is refused at once."""
    with pytest.raises(VariableError, match="is no reference"):
        expand_references({"x": "$VAR_REF{{" * 100_000}, store_of(a=1))


def test_many_references_to_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """D20: a thousand small parts of a large value write its text once."""
    written = 0

    def count(value: Any) -> str:
        nonlocal written
        written += 1
        return to_text(value)

    store = store_of(rows=[0] * 100)
    monkeypatch.setattr(variables, "to_text", count)
    expanded = expand_references({"x": [write_reference("rows", 0, 1)] * 1000}, store)
    assert expanded.params["x"] == ["["] * 1000
    assert written == 1


def test_a_reference_is_a_use() -> None:
    """U40: what is referred to stays the longest."""
    store = VariableStore(2)
    for name in ("a", "b"):
        store.add(Variable(name=name, value=name))
    expand_references({"x": write_reference("a")}, store)
    store.add(Variable(name="c", value="c"))
    assert "a" in store
    assert "b" not in store


def test_keys_that_are_no_texts() -> None:
    """S25: they refer to nothing; what stands under them may."""
    store = VariableStore()
    store.add(Variable(name="a", value=1))
    params: Any = {1: "$VAR_REF{{a}}"}
    assert str(expand_references(params, store).params) == "{1: 1}"
    with pytest.raises(VariableError, match="x: a key cannot refer to a variable"):
        expand_references({"x": {"$VAR_REF{{a}}": 1}}, store)
    with pytest.raises(VariableError, match="arguments: a key cannot refer to a variable"):
        expand_references({"$VAR_REF{{a}}": 1}, store)
    assert expand_references({"x": [None, 2.5]}, store).params == {"x": [None, 2.5]}


def test_what_holds_itself() -> None:
    """S25: to look for references comes to an end; what is wrong is for the validation to say."""
    ring: list[Any] = ["x"]
    ring.append({"y": ring})
    store = store_of(word="w")
    assert expand_references({"x": ring}, store).params == {"x": ring}
    with pytest.raises(VariableError, match="nested too deep"):
        expand_references({"x": ring, "y": write_reference("word")}, store)


def test_many_dollars() -> None:
    """S25: only the last one before a reference makes it the characters themselves."""
    store = store_of(word="w")
    texts = ["$VAR_REF{{word}}", "$$VAR_REF{{word}}", "$$$VAR_REF{{word}}", "$ $VAR_REF{{word}}$"]
    found = [expand_references({"x": text}, store).params["x"] for text in texts]
    assert found == ["w", "$VAR_REF{{word}}", "$$VAR_REF{{word}}", "$ w$"]


class Text(str):
    """A text of a program's own kind."""

    __slots__ = ()


@pytest.mark.parametrize(
    "beside", [1, "x", "\ud800", 2**70, {1: 2}, ("x",), {"x"}, object(), Text("x"), float("nan")]
)
def test_references_are_found_whatever_stands_beside_them(beside: Any) -> None:
    """S25: also where JSON could not hold the arguments; what holds none is passed on as it is."""
    store = store_of(word="w")
    for text in ("$VAR_REF{{word}}", Text("$VAR_REF{{word}}")):
        found = expand_references({"x": [beside, {"y": (text,)}]}, store).params["x"]
        assert found[1] == {"y": ["w"]}
    params = {"x": [beside, {"y": ("word",)}]}
    assert expand_references(params, store).params is params
