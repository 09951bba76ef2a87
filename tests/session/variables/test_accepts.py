"""May a content get to a tool, by where it came from?"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.session.refused_labels import list_refused_labels
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.model.tool import Tool
from tool_engine.session.variables.accepts import refuse_content, refuse_typing
from tool_engine.session.variables.references import expand_references, write_reference
from tool_engine.session.variables.store import Variable, VariableStore

WEB = "tool:fetch_page effect:read host:evil.example"


SUM = "tool:calculator effect:read"


PAGE = "The quarterly figures of the northern branch are not to be shown to anybody outside."


def make_tool(name: str = "tool", **keys: Any) -> Tool:
    definition: dict[str, Any] = {"name": name, "version": "1.0.0", "description": "A sample tool."}
    definition["entry"] = {"type": "builtin", "handler": "echo"}
    return ToolConfigLoader().from_mapping({**definition, **keys})


OTHERS = "What the user wrote is about another matter, of which that page knows nothing at all."


def make_store(mine: str | None = None, **labels: str) -> VariableStore:
    """Variables of the same text, the oldest first; `mine` has a text of its own."""
    store = VariableStore()
    for name, label in labels.items():
        store.add(Variable(name=name, value=f"{name}: {PAGE}", labels=frozenset({label})))
    if mine is not None:
        store.add(Variable(name="mine", value=OTHERS, labels=frozenset({mine})))
    return store


@pytest.mark.parametrize(
    ("label", "accepts", "is_accepted"),
    [
        ("user", ["user"], True),
        ("user", [], False),
        ("user", None, True),
        ("user", ["use"], False),
        ("user", ["User"], False),
        (SUM, ["user", "tool:calculator"], True),
        (SUM, ["effect:read"], True),
        (SUM, ["tool:calc*"], True),
        (SUM, ["tool:calc"], False),
        (SUM, ["calculator"], False),
        (SUM, ["host:*"], False),
        (WEB, ["tool:calculator"], False),
        (WEB, ["host:evil.example"], True),
        (WEB, ["host:*.example"], True),
        (WEB, ["host:Evil.Example"], True),
        (WEB, ["host:example"], False),
        (WEB, ["effect:write"], False),
        ("unknown", ["user", "model", "tool:*"], False),
        ("anything", ["*"], True),
    ],
)
def test_one_word_is_enough(label: str, accepts: list[str] | None, is_accepted: bool) -> None:
    """Labels: an origin is accepted by its tool, its effect or its host, whichever is listed."""
    assert (list_refused_labels({label}, accepts) == []) is is_accepted


def test_each_origin_counts() -> None:
    """Labels: of a content with two origins both must be accepted."""
    accepts = ["user", "tool:calculator"]
    assert list_refused_labels({"user", SUM}, accepts) == []
    assert list_refused_labels({"user", SUM, WEB}, accepts) == [WEB]
    assert list_refused_labels({"rule", WEB}, ["tool:calculator"]) == ["rule", WEB]


def test_a_value_by_reference() -> None:
    """Labels: what a tool does not accept is refused; the message names all there is to know."""
    store = make_store(page=WEB, mine="user")
    mail = make_tool("mail", accepts=["user", "tool:calculator"])
    expanded = expand_references({"text": write_reference("page")}, store)
    refusal = refuse_content(mail, replace(expanded, read=frozenset({WEB})))
    assert refusal is not None
    assert refusal.error_type == "execution_rejected"
    assert refusal.error == (
        "the variable 'page' must not be sent to the tool 'mail': it came from tool:fetch_page "
        "effect:read host:evil.example, and the tool accepts only user, tool:calculator. Leave it "
        "out, or tell the user why it cannot be sent"
    )
    assert refusal.details is not None
    assert refusal.details["labels"] == [WEB]
    assert refusal.details["variable"] == "page"


def test_a_value_that_is_accepted() -> None:
    """Labels: a tool takes what it accepts, and a tool that says nothing takes everything."""
    store = make_store(page=WEB, mine="user")
    mail = make_tool("mail", accepts=["user"])
    assert refuse_content(mail, expand_references({"text": write_reference("mine")}, store)) is None
    assert refuse_content(mail, expand_references({"text": "hello"}, store)) is None
    both = expand_references({"text": write_reference("mine") + write_reference("page")}, store)
    assert refuse_content(make_tool("mail"), both) is None
    assert refuse_content(mail, both) is not None
    nothing = make_tool("mail", accepts=[])
    refusal = refuse_content(nothing, expand_references({"text": write_reference("mine")}, store))
    assert refusal is not None
    assert "accepts no kept content at all" in refusal.error


@pytest.mark.parametrize("part", [(0, 1), (5, 3), (10**6, 1), (0, 0)])
def test_a_part_has_the_labels_of_the_whole(part: tuple[int, int]) -> None:
    """Labels: even a part of nothing, which tells the size."""
    store = make_store(page=WEB)
    expanded = expand_references({"text": f"> {write_reference('page', *part)}"}, store)
    assert refuse_content(make_tool("mail", accepts=["user"]), expanded) is not None


def test_what_is_typed() -> None:
    """N33: whatever is typed counts as all that was read; what was read before is what counts."""
    mail = make_tool("mail", accepts=["user"])
    typed = replace(
        expand_references({"text": "hello"}, VariableStore()), read=frozenset({WEB, "user"})
    )
    assert refuse_typing(mail, typed) is None
    typed = replace(typed, typed=typed.read)
    refusal = refuse_typing(mail, typed)
    assert refusal is not None
    assert refusal.error_type == "execution_rejected"
    assert refusal.error == (
        "what you have read, and so what you type, must not be sent to the tool 'mail': it came "
        "from tool:fetch_page effect:read host:evil.example, and the tool accepts only user. Make "
        "an argument nothing but the reference to a variable that it accepts, or tell the user why "
        "it cannot be sent"
    )
    assert refusal.details is not None
    assert refusal.details["labels"] == [WEB]
    assert "variable" not in refusal.details
    assert refuse_typing(make_tool("any"), typed) is None
    assert refuse_typing(mail, replace(typed, read=frozenset(), typed=frozenset())) is None
    assert refuse_typing(make_tool("mail", accepts=["user", "host:*"]), typed) is None


def test_many_labels() -> None:
    """N33: a refusal names some of them, and the details have all."""
    read = frozenset(f"tool:t{number:02} effect:read" for number in range(30))
    typed = replace(expand_references({"text": "hello"}, VariableStore()), read=read, typed=read)
    refusal = refuse_typing(make_tool("mail", accepts=[]), typed)
    assert refusal is not None
    assert "tool:t09 effect:read; and 20 more, and the tool accepts no kept content" in (
        refusal.error
    )
    assert refusal.details is not None
    assert refusal.details["labels"] == sorted(read)


def test_the_host_of_what_was_not_read() -> None:
    """N33: a page may call itself by any host; unread, it tells the model nothing by that."""
    expanded = expand_references({"text": write_reference("page")}, make_store(page=WEB))
    mail = make_tool("mail", accepts=["user"])
    for read, is_told in ((frozenset[str](), False), (frozenset({WEB}), True)):
        refusal = refuse_content(mail, replace(expanded, read=read))
        assert refusal is not None
        assert ("host:evil.example" in refusal.error) is is_told
        assert refusal.details is not None
        assert refusal.details["labels"] == [WEB]


def test_what_a_tool_has_read_for_its_call() -> None:
    """Labels: what got into a call while it ran must not get out of the calls that it makes."""
    mail = make_tool("mail", accepts=["user"])
    outer = expand_references({"x": write_reference("mine", 0, 4)}, make_store(mine="user"))
    assert refuse_content(mail, outer, {"user"}) is None
    refusal = refuse_content(mail, outer, {WEB})
    assert refusal is not None
    assert "what was read for this call must not be sent to the tool 'mail'" in refusal.error
