"""What does one conversation keep under a name?"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.errors import ConfigurationError, VariableError
from tool_engine.model.json.returned_value import to_text
from tool_engine.session.variables.store import Variable, VariableKind, VariableStore, copy_value


def store_of(*names: str, capacity: int = 10) -> VariableStore:
    store = VariableStore(capacity)
    for name in names:
        store.add(Variable(name=name, value=name.upper()))
    return store


def names(store: VariableStore) -> list[str]:
    return [each.name for each in store]


def test_a_value_is_read_as_it_was_kept() -> None:
    """S18: text and data alike; the text of data is its JSON."""
    store = VariableStore()
    store.add(Variable(name="page", value="hello"))
    store.add(Variable(name="rows", value=[{"n": 1}]))
    assert store.get("page").text == "hello"
    assert store.get("rows").value == [{"n": 1}]
    assert store.get("rows").text == '[{"n": 1}]'


def test_the_longest_unused_one_goes() -> None:
    """U40: beyond the capacity the one goes that was neither read nor written the longest."""
    store = store_of("a", "b", "c", capacity=3)
    store.get("a")
    store.add(Variable(name="b", value="again"))
    store.add(Variable(name="d", value="new"))
    assert names(store) == ["a", "b", "d"]
    assert store.evicted == 1
    assert len(store) == 3
    assert "c" not in store


def test_rules_stay() -> None:
    """U40, S21: rules are never evicted, removed or written over, and take up no room."""
    store = VariableStore(1)
    store.add(Variable(name="Rule/web/cite", value="Cite.", kind=VariableKind.RULE))
    for name in ("a", "b"):
        store.add(Variable(name=name, value=1))
    assert names(store) == ["Rule/web/cite", "b"]
    assert store.get("Rule/web/cite").value == "Cite."
    with pytest.raises(VariableError, match="'Rule/web/cite' is a rule, which cannot be written"):
        store.add(Variable(name="Rule/web/cite", value="!", kind=VariableKind.LLM_ADD))
    with pytest.raises(VariableError, match="'Rule/web/cite' is a rule, which cannot be removed"):
        store.remove(["b", "Rule/web/cite"])
    assert names(store) == ["Rule/web/cite", "b"]
    store.add(Variable(name="Rule/web/cite", value="Cite all.", kind=VariableKind.RULE))
    assert store.get("Rule/web/cite").value == "Cite all."


def test_rules_of_groups_that_are_off() -> None:
    """S21: the conversation itself takes rules out, and nothing else that way."""
    store = store_of("a")
    store.add(Variable(name="Rule/web/cite", value="Cite.", kind=VariableKind.RULE))
    store.forget_rules(["Rule/web/cite", "a", "gone"])
    assert names(store) == ["a"]


def test_writing_again_keeps_when_it_was_made() -> None:
    """A variable of the same name is replaced; only its beginning is the old one's."""
    store = VariableStore()
    first = store.add(Variable(name="a", value=1, tags=("x",)))
    again = store.add(Variable(name="a", value=2))
    assert again.created == first.created
    assert (again.value, again.tags) == (2, ())
    assert len(store) == 1


def test_a_rule_may_take_a_name_over() -> None:
    """A rule replaces a variable of its name, which is not counted twice."""
    store = store_of("a")
    store.add(Variable(name="a", value="Rule.", kind=VariableKind.RULE))
    assert len(store) == 1
    assert store.get("a").is_kept


def test_unknown_names_list_near_ones() -> None:
    """S25: the message helps the model to find the name."""
    with pytest.raises(VariableError, match="there is no variable 'fetch_result'; near are fetch"):
        store_of("fetch_results", "other").get("fetch_result")
    with pytest.raises(VariableError, match="near are b, c, d"):
        store_of("a", "b", "c", "d").get("zzzzz")
    with pytest.raises(VariableError, match="nothing is kept yet"):
        VariableStore().get("a")


def test_names_that_are_no_texts() -> None:
    """What is asked for by mistake is an error that says so, and a text is one name."""
    store = store_of("a", "ab")
    with pytest.raises(VariableError, match="there is no variable '5'"):
        store.get(5)  # type: ignore[arg-type]
    assert store.remove("ab") == ["ab"]
    assert [each.name for each in store] == ["a"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 5),
        ("kind", "user"),
        ("desc", None),
        ("tags", "abc"),
        ("labels", "crm"),
        ("labels", {5}),
        ("labels", [""]),
        ("created", "yesterday"),
    ],
)
def test_fields_of_another_type(field: str, value: Any) -> None:
    """S18: what could not be read back, or would have another label, is refused when it is kept."""
    store = store_of("a")
    fields = {"name": "a", "value": 1, field: value}
    with pytest.raises(VariableError, match=rf"cannot be kept: .*\$\.{field}"):
        store.add(Variable(**fields))
    with pytest.raises(VariableError, match="no dict can be kept: pass Variable"):
        store.add(fields)  # type: ignore[arg-type]
    assert store.get("a").value == "A"


def test_fields_that_mean_the_same() -> None:
    """S18: sets, lists and the words of kinds are taken for what they say, a rule too."""
    fields: dict[str, Any] = {"kind": "RULE", "tags": ["t"], "labels": {"crm"}}
    kept = VariableStore().add(Variable(name="a", value=1, **fields))
    assert (kept.tags, kept.labels) == (("t",), frozenset({"crm"}))
    assert kept.is_kept


@pytest.mark.parametrize("name", ["", "a b", "ä", "a}}", "a:1", "x" * 201, "a\n"])
def test_names_that_nobody_can_refer_to(name: str) -> None:
    """U36: a name that no reference can hold is refused when it is kept, not when it is used."""
    with pytest.raises(VariableError, match="no variable can be named"):
        VariableStore().add(Variable(name=name, value=1))


def test_removing() -> None:
    """U40: tells what was there, each once."""
    store = store_of("a", "b", "c")
    assert store.remove(["b", "b", "x", "a"]) == ["b", "a"]
    assert names(store) == ["c"]


def test_finding() -> None:
    """U40: by kind, tag and words; the last used first."""
    store = store_of("a", "b")
    store.add(
        Variable(name="web/page", value=1, desc="The Page", tags=("t",), kind=VariableKind.LLM_ADD)
    )
    store.add(Variable(name="r", value=1, kind=VariableKind.RULE))
    store.get("a")
    assert [each.name for each in store.find()] == ["a", "web/page", "b", "r"]
    assert [each.name for each in store.find(kind=VariableKind.LLM_ADD)] == ["web/page"]
    assert [each.name for each in store.find(tag="t")] == ["web/page"]
    assert [each.name for each in store.find(search="the PAGE")] == ["web/page"]
    assert [each.name for each in store.find(search="WEB/")] == ["web/page"]
    assert store.find(search="nothing") == []


def test_long_values_make_room() -> None:
    """U40: the characters of all variables are bounded, too; the newest stays however long."""
    store = VariableStore(10, max_chars=100)
    for name in ("a", "b", "c"):
        store.add(Variable(name=name, value="x" * 40))
    assert names(store) == ["b", "c"]
    store.add(Variable(name="b", value="x"))
    store.add(Variable(name="d", value="x" * 59))
    assert names(store) == ["c", "b", "d"]
    store.remove(["c"])
    store.add(Variable(name="rule", value="x" * 1000, kind=VariableKind.RULE))
    store.add(Variable(name="e", value="x" * 40))
    assert names(store) == ["rule", "b", "d", "e"]
    store.add(Variable(name="f", value="x" * 101))
    assert names(store) == ["rule", "f"]
    assert store.evicted == 4


def test_a_value_is_a_copy() -> None:
    """What a program does to a value that it gave to a session changes no variable."""
    rows = [{"n": 1}]
    store = VariableStore()
    store.add(Variable(name="rows", value=rows))
    rows[0]["n"] = 2
    assert store.get("rows").value == [{"n": 1}]


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"day": date(2026, 1, 2), "at": datetime(2026, 1, 2, tzinfo=UTC)}, None),
        ((1, (2,)), [1, [2]]),
        ({"x": {3}}, {"x": [3]}),
        ({1: Decimal("1.10")}, {"1": "1.10"}),
        ([float("nan")], ["NaN"]),
        (b"ab", "b'ab'"),
        ("\ud800", "\\ud800"),
        (["\ud800", "\\ud800", "\ud83d\ude00"], ["\\ud800", "\\ud800", "\\ud83d\\ude00"]),
        (10**400, 10**400),
        (None, None),
    ],
)
def test_only_json_values_are_kept(value: Any, kept: Any) -> None:
    """Anything else is kept as a model reads it, so that it survives its process as it is."""
    store = VariableStore()
    variable = store.add(Variable(name="x", value=value))
    if isinstance(value, dict) and "day" in value:
        kept = {"day": "2026-01-02", "at": "2026-01-02T00:00:00+00:00"}
    assert variable.value == kept
    assert variable.chars == len(variable.text)
    again = VariableStore.from_dict(json.loads(json.dumps(store.to_dict())))
    assert again.get("x").value == kept


def test_values_that_are_too_deep() -> None:
    """A value that nests thousands deep is kept as far as a model can read it."""
    for depth in (500, 900, 100_000):
        deep: Any = 1
        for _ in range(depth):
            deep = [deep]
        assert VariableStore().add(Variable(name="x", value=deep)).text.startswith("[[[[")


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        (VariableKind.USER_ADD, "user"),
        (VariableKind.LLM_ADD, "model"),
        (VariableKind.RULE, "rule"),
        (VariableKind.TOOL_CALL_RESULT, "unknown"),
        (VariableKind.MESSAGE_CACHE, "unknown"),
    ],
)
def test_nothing_is_without_a_label(kind: VariableKind, label: str) -> None:
    """Labels: what nobody labelled is labelled by its kind, never taken for harmless."""
    store = VariableStore()
    assert store.add(Variable(name="x", value=1, kind=kind)).labels == {label}
    labelled = Variable(name="x", value=1, kind=kind, labels=frozenset({"tool:a"}))
    assert store.add(labelled).labels == {"tool:a"}


def test_the_same_variables_make_the_same_data() -> None:
    """What is saved depends on the variables alone: sets have an order when they are written."""
    labels = frozenset(f"tool:t{number}" for number in range(20))
    store = VariableStore()
    store.add(Variable(name="x", value=1, labels=labels))
    assert store.to_dict()["variables"][0]["labels"] == sorted(labels)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "rule", "get", "remove", "find", "save"]),
        st.sampled_from("abcdef"),
        st.integers(0, 40),
    ),
    max_size=40,
)


@settings(max_examples=share_of(200), deadline=None)
@given(steps=STEPS, capacity=st.integers(1, 4))
def test_the_same_as_a_list_in_the_order_of_use(
    steps: list[tuple[str, str, int]], capacity: int
) -> None:
    """U40: whatever is done, what is kept is what a plain list in the order of use would keep."""
    store = VariableStore(capacity, max_chars=100)
    used: dict[str, int] = {}
    rules: set[str] = set()
    for step, name, size in steps:
        if step == "rule":
            store.add(Variable(name=name, value="x" * size, kind=VariableKind.RULE))
            used.pop(name, None)
            rules.add(name)
        elif step == "add" and name not in rules:
            store.add(Variable(name=name, value="x" * size))
            used.pop(name, None)
            used[name] = size
            while len(used) > capacity or (sum(used.values()) > 100 and len(used) > 1):
                del used[next(iter(used))]
        elif step == "get" and name in store:
            assert store.get(name).name == name
            if name in used:
                used[name] = used.pop(name)
        elif step == "remove" and name not in rules:
            assert store.remove([name]) == ([name] if used.pop(name, None) is not None else [])
        elif step == "find":
            assert [each.name for each in store.find()][: len(used)] == [*reversed(used)]
        elif step == "save":
            store = VariableStore.from_dict(json.loads(json.dumps(store.to_dict())))
        assert names(store)[len(rules) :] == [*used]
        assert {each.name for each in store if each.is_kept} == rules


VARIABLES = st.builds(
    Variable,
    name=st.text(alphabet="ab/.-_1", min_size=1, max_size=4),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=4,
    ),
    kind=st.sampled_from([VariableKind.USER_ADD, VariableKind.LLM_ADD]),
    desc=st.text(max_size=5),
    tags=st.lists(st.text(max_size=3), max_size=2).map(tuple),
    labels=st.frozensets(st.sampled_from(["tool:a", "host:b"])),
)


@settings(max_examples=share_of(50), deadline=None)
@given(variables=st.lists(VARIABLES, max_size=8), capacity=st.integers(1, 5))
@example(variables=[Variable(name="v", value={"z": 1, "a": {"c": 2, "b": 3}})], capacity=1)
def test_a_conversation_survives_its_process(variables: list[Variable], capacity: int) -> None:
    """`from_dict` of the JSON of `to_dict` is the same store, in the same order of use, and the
    same texts: where a model was told to read on, it reads on. S30, U36.
    """
    store = VariableStore(capacity)
    for variable in variables:
        store.add(variable)
    again = VariableStore.from_dict(json.loads(json.dumps(store.to_dict())))
    assert list(again) == list(store)
    assert [each.text for each in again] == [each.text for each in store]
    assert (again.capacity, again.evicted) == (store.capacity, store.evicted)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "missing required field"),
        ({"capacity": 1, "evicted": 0, "variables": [{"name": 1}]}, r"variables\[0\].name"),
        ({"capacity": 1, "evicted": 0, "variables": [], "x": 1}, "unknown field"),
        ({"capacity": 0, "evicted": 0, "variables": []}, "capacity"),
        ({"capacity": 1, "evicted": -1, "variables": []}, "evicted"),
        ({"capacity": 1, "evicted": 0, "max_chars": 0, "variables": []}, "max_chars"),
        ({"capacity": 1, "evicted": 0, "variables": [{"name": "a b", "value": 1}]}, "'a b'"),
    ],
)
def test_data_of_something_else(data: dict[str, object], message: str) -> None:
    """What was not written by `to_dict` is refused, with the place."""
    with pytest.raises(VariableError, match=message):
        VariableStore.from_dict(data)


def test_capacity() -> None:
    """A store that could keep nothing is a mistake."""
    with pytest.raises(ConfigurationError, match="capacity"):
        VariableStore(0)


def test_repr() -> None:
    """The whole state at a glance."""
    assert repr(store_of("a")) == "VariableStore(1 of 10, 0 rules)"


_SINGLE = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@settings(max_examples=share_of(200))
@given(_SINGLE | st.dictionaries(st.text(), _SINGLE, max_size=4) | st.lists(_SINGLE, max_size=3))
@example("\ud800")
@example({"a": "\ud800"})
@example({"\ud800": 1})
@example({"a": 2**64})
@example({"a": 10**400})
@example({"a": '\x7f\x1f"\\/\u2028\u2029'})
@example({"a": 1e22})
@example({})
def test_the_short_way_is_the_long_way(value: Any) -> None:
    """What is plain is neither written nor read to be copied; nobody can tell by what is kept."""
    kept, chars = copy_value(value)
    if "\\ud" not in to_text(value):
        assert kept == (value if isinstance(value, str) else json.loads(to_text(value)))
    assert chars == len(to_text(kept))
    assert type(kept) is type(json.loads(json.dumps(kept)))
    assert kept is not value or not isinstance(value, dict | list)


def test_what_only_looks_plain() -> None:
    """Keys and values of other types become what their text says, as anywhere else."""

    class Name(str):
        __slots__ = ()

    kept, chars = copy_value({Name("a"): Name("b"), 1: True})
    assert (kept, chars) == ({"a": "b", "1": True}, len('{"a": "b", "1": true}'))
    assert [type(key) for key in kept] == [str, str]
    (key,) = copy_value({Name("a"): 1})[0]
    assert type(key) is str
    assert copy_value({1: True}) == ({"1": True}, len('{"1": true}'))
