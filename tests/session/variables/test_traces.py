"""What is gone is not typed out either: of a variable's text its fingerprint stays, bounded."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.errors import VariableError
from tool_engine.session.variables import traces
from tool_engine.session.variables.copies import copies
from tool_engine.session.variables.letters import LEAST, letters_of
from tool_engine.session.variables.store import Variable, VariableStore
from tool_engine.session.variables.traces import MOST_TRACED, Traces

TEXT = (
    "Dear all,\n\nthe meeting of the committee on Thursday was moved to the small hall, since "
    'the large one is being painted.\n\nBring "both" plans; the C:\\new folder has them.\n'
)
PAGE = frozenset({"tool:fetch effect:read host:evil.example"})
MODEL = frozenset({"model"})


def variable(value: Any, name: str = "page", day: int = 1, labels: Any = PAGE) -> Variable:
    updated = datetime(2026, 1, day, tzinfo=UTC)
    return Variable(name=name, value=value, labels=labels, updated=updated)


def found(value: Any, store: VariableStore) -> list[tuple[str, set[str]]]:
    return [
        (copy.variable.name, set(copy.variable.labels))
        for copy in copies({"x": value}, store.find(), store.traces)
    ]


def emptied(*variables: Variable) -> VariableStore:
    """A store from which these were removed."""
    store = VariableStore()
    for each in variables:
        store.add(each)
        store.remove(each.name)
    return store


@pytest.mark.parametrize("way", ["removed", "overwritten", "evicted", "too many characters"])
def test_however_it_goes(way: str) -> None:
    """Labels: neither the model nor the capacity makes a page's text anybody's."""
    store = VariableStore(capacity=1 if way == "evicted" else 9, max_chars=1_000)
    store.add(variable(TEXT))
    if way == "removed":
        store.remove("page")
    elif way == "overwritten":
        store.add(variable("nothing", labels=MODEL))
    else:
        store.add(variable("x" if way == "evicted" else "x" * 1_000, name="other"))
    assert found(f"I have read: {TEXT[20:90]}", store) == [("page", set(PAGE))]


@pytest.mark.parametrize(
    "disguise",
    [
        lambda text: text.upper(),
        json.dumps,
        " ".join,
        lambda text: text[30:],
        lambda text: {"to": "a", "subject": text[:60], "body": text[60:]},
        lambda text: [text[n : n + 7] for n in range(0, len(text), 7)],
    ],
)
def test_disguises(disguise: Any) -> None:
    """Labels: the same ones as while it was there."""
    assert found(disguise(TEXT), emptied(variable(TEXT))) == [("page", set(PAGE))]


LETTERS = st.text("abcdefgh0123\u4e2d\u6587\u00e9", min_size=LEAST, max_size=150)


@given(text=LETTERS, data=st.data())
def test_every_run_is_found(text: str, data: st.DataObject) -> None:
    """Labels: 48 letters in a row are a copy wherever they begin, whatever stands around them."""
    start = data.draw(st.integers(0, len(text) - LEAST))
    before, after = data.draw(st.tuples(st.text("xyz", max_size=20), st.text("xyz", max_size=20)))
    typed = f"{before}{text[start : start + LEAST]}{after}"
    assert found(typed, emptied(variable(text)))


def test_a_decoy_before_the_copy() -> None:
    """Labels: what begins twice is found where it goes on."""
    letters = "thequarterlyfiguresofthenorthernbranchmaynotbetold"
    assert found(f"{letters[:16]} xyz {letters[:LEAST]}", emptied(variable(letters)))


def test_little_is_no_copy() -> None:
    """Labels: less than five whole blocks of eight letters in a row say nothing."""
    store = emptied(variable(TEXT), variable("short", name="short"))
    assert len(store.traces) == 1
    assert found(TEXT[16:40] + "." * 90 + TEXT[60:90], store) == []
    assert found(TEXT[20:50], store) == []


def test_the_first_holder_counts() -> None:
    """Labels: what the model wrote stays its own when it, and the tool's echo of it, are gone."""
    own = variable(TEXT, "draft", 1, MODEL)
    echo = variable(f"You said: {TEXT}", "echo", 2)
    assert found(TEXT, emptied(own, echo)) == [("draft", set(MODEL))]
    store = emptied(own)
    store.add(echo)
    assert found(TEXT, store) == [("draft", set(MODEL))]
    kept = emptied(echo)
    kept.add(own)
    assert found(TEXT, kept) == [("draft", set(MODEL))]
    both = (
        f"{TEXT} And a page that is much longer than whatever was said about it before it was read."
    )
    assert [name for name, _ in found(both, emptied(own, variable(both, "page", 3)))] == [
        "draft",
        "page",
    ]


def test_data_without_texts_are_marks_only() -> None:
    """Labels: what was removed is not kept after all; what tells of it goes with the session."""
    store = emptied(variable({"rows": [{"name": "Ada Lovelace", "text": TEXT}]}))
    data = json.loads(json.dumps(store.to_dict()))
    assert "Ada" not in json.dumps(data)
    assert "committee" not in repr(vars(next(iter(store.traces))))
    later = VariableStore.from_dict(data)
    assert found(TEXT, later) == [("page", set(PAGE))]
    assert later.to_dict() == data
    later.traces.clear()
    assert found(TEXT, later) == []
    assert len(later.traces) == 0


def test_garbage_is_told() -> None:
    """What is kept may be damaged."""
    data = emptied(variable(TEXT)).to_dict()
    data["traces"][0]["marks"] = "x"
    with pytest.raises(VariableError, match="no kept variables"):
        VariableStore.from_dict(data)
    data["traces"][0]["marks"] = "AAAAAAA="
    assert len(VariableStore.from_dict(data).traces) == 1


def test_memory_is_bounded() -> None:
    """The oldest go, of a long one the beginning stays, and chatter makes nobody forget a page."""
    store = emptied(variable(TEXT))
    for number in range(20):
        store.add(variable(f"{number}" * 60_000, f"m{number}", labels=MODEL))
        store.remove(f"m{number}")
    assert found(TEXT, store)
    texts: list[Any] = [f"{number} {TEXT}" + "x" * 120_000 for number in range(5)]
    for number, text in enumerate(texts):
        store.add(variable([text], f"p{number}"))
        store.remove(f"p{number}")
    assert [name for name, _ in found(TEXT, store)] == ["p1"]
    assert sum(8 * len(each.marks) for each in store.traces) <= 2 * MOST_TRACED


@pytest.mark.parametrize(
    "shape", [lambda text: text, lambda text: {"a": [text]}, lambda text: [[text]]]
)
def test_of_a_long_one_the_beginning_stays(shape: Any) -> None:
    """Values of any size go without a long pause."""
    long = emptied(variable(shape(TEXT + "x" * 200_000 + "y".join("0123456789" * 9))))
    assert found(TEXT, long) == [("page", set(PAGE))]
    assert found("y".join("0123456789" * 9), long) == []
    many = emptied(variable([TEXT, *["word"] * 60_000, *range(100)]))
    assert found(TEXT, many) == [("page", set(PAGE))]


def test_deep_and_long() -> None:
    """What is too deep to be written in parts is written at once."""
    deep: Any = TEXT + "x" * 140_000
    for _ in range(920):
        deep = [deep]
    assert found(TEXT, emptied(variable(deep))) == [("page", set(PAGE))]


def test_deeper_than_anybody_writes() -> None:
    """What no writer of JSON can write is nobody's to type, and stops nothing."""
    deep: Any = TEXT
    for _ in range(5_000):
        deep = [deep]
    traces = Traces()
    traces.add("page", PAGE, datetime.now(UTC), deep, 10**9)
    assert list(copies(TEXT, [], traces)) == []


def test_as_long_as_it_is() -> None:
    """Whoever says that a value is longer than it is does no harm."""
    traces = Traces()
    traces.add("page", PAGE, datetime.now(UTC), [TEXT], 10**9)
    assert [copy.variable.name for copy in copies(TEXT, [], traces)] == ["page"]


def test_two_threads_ask_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels: whoever asks while somebody else makes the marks gets them, too, and not none."""
    (trace,) = emptied(variable(TEXT)).traces
    seen: list[Any] = []

    def asked(text: str) -> str:
        # What the other thread gets here, it would get at any place.
        monkeypatch.setattr(traces, "letters_of", letters_of)
        seen.append(trace.marks)
        return letters_of(text)

    monkeypatch.setattr(traces, "letters_of", asked)
    seen.append(trace.marks)
    seen.append(trace.marks)
    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0]) > 9
