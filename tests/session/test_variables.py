"""What does one conversation keep under a name?"""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tool_engine.errors import ConfigurationError, VariableError
from tool_engine.session.variables import Variable, VariableKind, VariableStore


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


VARIABLES = st.builds(
    Variable,
    name=st.text(alphabet="ab/.-_1", min_size=1, max_size=4),
    value=st.one_of(st.text(max_size=5), st.integers(-(2**63), 2**63), st.lists(st.booleans())),
    kind=st.sampled_from([VariableKind.USER_ADD, VariableKind.LLM_ADD]),
    desc=st.text(max_size=5),
    tags=st.lists(st.text(max_size=3), max_size=2).map(tuple),
    labels=st.frozensets(st.sampled_from(["tool:a", "host:b"])),
)


@settings(max_examples=50, deadline=None)
@given(variables=st.lists(VARIABLES, max_size=8), capacity=st.integers(1, 5))
def test_a_conversation_survives_its_process(variables: list[Variable], capacity: int) -> None:
    """`from_dict` of the JSON of `to_dict` is the same store, in the same order of use."""
    store = VariableStore(capacity)
    for variable in variables:
        store.add(variable)
    again = VariableStore.from_dict(json.loads(json.dumps(store.to_dict())))
    assert list(again) == list(store)
    assert (again.capacity, again.evicted) == (store.capacity, store.evicted)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "missing required field"),
        ({"capacity": 1, "evicted": 0, "variables": [{"name": 1}]}, r"variables\[0\].name"),
        ({"capacity": 1, "evicted": 0, "variables": [], "x": 1}, "unknown field"),
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
