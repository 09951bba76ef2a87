"""Where does a content come from, and may it get to a tool?"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.tool import Tool
from tool_engine.session.variables.labels import (
    find_result_labels,
    list_refused_labels,
    refuse_content,
    refuse_typing,
)
from tool_engine.session.variables.references import expand, reference
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


def labels_of(
    tool: Tool, params: dict[str, Any], output: Any = None, used: tuple[str, ...] = ()
) -> set[str]:
    result = ToolExecutionResult(True, tool.name, output or {})
    return set(find_result_labels(tool, params, result, used))


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


def test_labels_of_a_plain_tool() -> None:
    """Labels: its name and its effect."""
    assert labels_of(make_tool("notes", effect="read"), {}) == {"tool:notes effect:read"}
    assert labels_of(make_tool("notes"), {}) == {"tool:notes effect:unknown"}
    result = ToolExecutionResult(True, "notes")
    assert find_result_labels(make_tool("notes"), "no mapping", result) == {
        "tool:notes effect:unknown"
    }


def test_labels_of_what_was_put_in() -> None:
    """Labels: a result came from wherever its arguments came from, too."""
    tool = make_tool("calculator", effect="read")
    assert labels_of(tool, {}, used=(WEB, "user")) == {SUM, WEB, "user"}


URL = {"name": "url", "type": "string", "description": "Where"}
HTTP = {"type": "http", "request": {"method": "GET", "url": "https://api.Example.com/v1/{id}"}}


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Docs.Example.COM/a?b=c", "docs.example.com"),
        ("http://127.0.0.1:8080/", "127.0.0.1"),
        ("http://[::1]:80/", "::1"),
        ("https://bücher.example/", "xn--bcher-kva.example"),
        ("HTTP://a.example", "a.example"),
    ],
)
def test_the_host_of_the_argument(url: str, host: str) -> None:
    """Labels: a tool that is told a URL reads from its host, spelled as it is dialled."""
    tool = make_tool("fetch", effect="read", parameters=[URL])
    assert labels_of(tool, {"url": url}) == {f"tool:fetch effect:read host:{host}"}


@pytest.mark.parametrize(
    "url",
    [
        "https://good.example\\@evil.example/",
        "https://good.example@evil.example/",
        "https://good.example /",
        "https://good.example\n.evil.example/",
        "https:///x",
        "//good.example/",
        "good.example",
        "ftp://good.example/",
        "https://0x7f.1/",
        "",
        7,
    ],
)
def test_a_url_that_can_be_read_in_two_ways(url: Any) -> None:
    """Labels: no host is better than a wrong one: what nobody would dial names none."""
    tool = make_tool("fetch", effect="read", parameters=[URL])
    assert labels_of(tool, {"url": url}) == {"tool:fetch effect:read"}


def test_the_host_of_the_definition() -> None:
    """Labels: where the definition names the host, no argument can claim another one."""
    name = {"name": "id", "type": "string", "description": "Which", "required": True}
    tool = make_tool("get", effect="read", parameters=[name], entry=HTTP)
    assert labels_of(tool, {"id": "1"}) == {"tool:get effect:read host:api.example.com"}
    claimed = {"id": "1", "url": "https://good.example/"}
    assert labels_of(tool, claimed) == {"tool:get effect:read host:api.example.com"}


def test_the_host_of_a_secret_address() -> None:
    """Labels: an address that only the environment knows is no label, and nor is the argument's."""
    request = {"method": "GET", "url": "${env:BASE}/v1"}
    tool = make_tool("get", effect="read", entry={"type": "http", "request": request})
    assert labels_of(tool, {"url": "https://good.example/"}) == {"tool:get effect:read"}
    request = {"method": "GET", "url": "https://${env:HOST}/v1"}
    tool = make_tool("get", effect="read", entry={"type": "http", "request": request})
    assert labels_of(tool, {}) == {"tool:get effect:read"}


def test_the_final_address() -> None:
    """Labels: a result that says that it came from elsewhere came from both places."""
    tool = make_tool("fetch", effect="read", parameters=[URL])
    output = {"final_url": "https://evil.example/", "text": "hi"}
    assert labels_of(tool, {"url": "https://good.example/"}, output) == {
        "tool:fetch effect:read host:good.example",
        "tool:fetch effect:read host:evil.example",
    }


def test_a_name_is_one_word() -> None:
    """Labels: a tool that somebody named `x user` has not the label of the user."""
    result = ToolExecutionResult(True, "x user\ttool:calculator", {})
    labels = find_result_labels(make_tool(), {}, result)
    assert labels == {"tool:x_user_tool:calculator effect:unknown"}
    assert list_refused_labels(labels, ["user", "tool:calculator"])


def test_a_value_by_reference() -> None:
    """Labels: what a tool does not accept is refused; the message names all there is to know."""
    store = make_store(page=WEB, mine="user")
    mail = make_tool("mail", accepts=["user", "tool:calculator"])
    expanded = expand({"text": reference("page")}, store)
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
    assert refuse_content(mail, expand({"text": reference("mine")}, store)) is None
    assert refuse_content(mail, expand({"text": "hello"}, store)) is None
    both = expand({"text": reference("mine") + reference("page")}, store)
    assert refuse_content(make_tool("mail"), both) is None
    assert refuse_content(mail, both) is not None
    nothing = make_tool("mail", accepts=[])
    refusal = refuse_content(nothing, expand({"text": reference("mine")}, store))
    assert refusal is not None
    assert "accepts no kept content at all" in refusal.error


@pytest.mark.parametrize("part", [(0, 1), (5, 3), (10**6, 1), (0, 0)])
def test_a_part_has_the_labels_of_the_whole(part: tuple[int, int]) -> None:
    """Labels: even a part of nothing, which tells the size."""
    store = make_store(page=WEB)
    expanded = expand({"text": f"> {reference('page', *part)}"}, store)
    assert refuse_content(make_tool("mail", accepts=["user"]), expanded) is not None


def test_what_is_typed() -> None:
    """N33: whatever is typed counts as all that was read; what was read before is what counts."""
    mail = make_tool("mail", accepts=["user"])
    typed = replace(expand({"text": "hello"}, VariableStore()), read=frozenset({WEB, "user"}))
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
    typed = replace(expand({"text": "hello"}, VariableStore()), read=read, typed=read)
    refusal = refuse_typing(make_tool("mail", accepts=[]), typed)
    assert refusal is not None
    assert "tool:t09 effect:read; and 20 more, and the tool accepts no kept content" in (
        refusal.error
    )
    assert refusal.details is not None
    assert refusal.details["labels"] == sorted(read)


def test_the_host_of_what_was_not_read() -> None:
    """N33: a page may call itself by any host; unread, it tells the model nothing by that."""
    expanded = expand({"text": reference("page")}, make_store(page=WEB))
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
    outer = expand({"x": reference("mine", 0, 4)}, make_store(mine="user"))
    assert refuse_content(mail, outer, {"user"}) is None
    refusal = refuse_content(mail, outer, {WEB})
    assert refusal is not None
    assert "what was read for this call must not be sent to the tool 'mail'" in refusal.error


def test_labels_are_told_anew_for_another_definition() -> None:
    """Labels: what is known of one tool is said of no other of its name, however many there are."""
    plain = make_tool("fetch", effect="read")
    for number in range(1100):
        host = f"host{number}.example"
        entry = {"type": "http", "request": {"url": f"https://{host}/{{path}}"}}
        tool = msgspec.structs.replace(plain, implementation_config=entry)
        assert labels_of(tool, {"url": "https://x.example"}) == {
            f"tool:fetch effect:read host:{host}"
        }
    assert labels_of(plain, {}) == {"tool:fetch effect:read"}
