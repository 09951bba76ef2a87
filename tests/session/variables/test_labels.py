"""Where does a content come from, and may it get to a tool?"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.tool import Tool
from tool_engine.session.variables import labels
from tool_engine.session.variables.copies import copies
from tool_engine.session.variables.labels import (
    labels_of_copies,
    labels_of_copies_in_time,
    labels_of_result,
    refusal_in_time,
    refusal_of_labels,
    refused_labels,
)
from tool_engine.session.variables.references import expand, reference
from tool_engine.session.variables.store import Variable, VariableKind, VariableStore

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
    return set(labels_of_result(tool, params, result, used))


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
    assert (refused_labels({label}, accepts) == []) is is_accepted


def test_each_origin_counts() -> None:
    """Labels: of a content with two origins both must be accepted."""
    accepts = ["user", "tool:calculator"]
    assert refused_labels({"user", SUM}, accepts) == []
    assert refused_labels({"user", SUM, WEB}, accepts) == [WEB]
    assert refused_labels({"rule", WEB}, ["tool:calculator"]) == ["rule", WEB]


def test_labels_of_a_plain_tool() -> None:
    """Labels: its name and its effect."""
    assert labels_of(make_tool("notes", effect="read"), {}) == {"tool:notes effect:read"}
    assert labels_of(make_tool("notes"), {}) == {"tool:notes effect:unknown"}
    result = ToolExecutionResult(True, "notes")
    assert labels_of_result(make_tool("notes"), "no mapping", result) == {
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
    labels = labels_of_result(make_tool(), {}, result)
    assert labels == {"tool:x_user_tool:calculator effect:unknown"}
    assert refused_labels(labels, ["user", "tool:calculator"])


def test_a_value_by_reference() -> None:
    """Labels: what a tool does not accept is refused; the message names all there is to know."""
    store = make_store(page=WEB, mine="user")
    mail = make_tool("mail", accepts=["user", "tool:calculator"])
    refusal = refusal_of_labels(mail, expand({"text": reference("page")}, store))
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
    assert refusal_of_labels(mail, expand({"text": reference("mine")}, store)) is None
    assert refusal_of_labels(mail, expand({"text": "hello"}, store)) is None
    both = expand({"text": reference("mine") + reference("page")}, store)
    assert refusal_of_labels(make_tool("mail"), both) is None
    assert refusal_of_labels(mail, both) is not None
    nothing = make_tool("mail", accepts=[])
    refusal = refusal_of_labels(nothing, expand({"text": reference("mine")}, store))
    assert refusal is not None
    assert "accepts no kept content at all" in refusal.error


@pytest.mark.parametrize("part", [(0, 1), (5, 3), (10**6, 1), (0, 0)])
def test_a_part_has_the_labels_of_the_whole(part: tuple[int, int]) -> None:
    """Labels: even a part of nothing, which tells the size."""
    store = make_store(page=WEB)
    expanded = expand({"text": f"> {reference('page', *part)}"}, store)
    assert refusal_of_labels(make_tool("mail", accepts=["user"]), expanded) is not None


def test_a_copy_that_was_typed() -> None:
    """Labels: a long piece that the model types is refused as well, and is not told again."""
    store = make_store(page=WEB)
    mail = make_tool("mail", accepts=["user"])
    refusal = refusal_of_labels(mail, expand({"text": f"FYI: {PAGE}"}, store))
    assert refusal is not None
    assert "a text of 69 letters and digits from the variable 'page'" in refusal.error
    assert "quarterly" not in refusal.error
    assert refusal_of_labels(mail, expand({"text": f"FYI: {PAGE[:40]}"}, store)) is None


def test_a_copy_of_what_is_gone() -> None:
    """Labels: to remove the variable does not set free what was in it, nor does a restart."""
    store = make_store(page=WEB)
    store.remove(["page"])
    mail = make_tool("mail", accepts=["user"])
    for each in (store, VariableStore.from_dict(store.to_dict())):
        refusal = refusal_of_labels(mail, expand({"text": f"FYI: {PAGE}"}, each))
        assert refusal is not None
        assert "letters and digits from the variable 'page'" in refusal.error
        assert WEB in refusal.error
        assert refusal_of_labels(make_tool("any"), expand({"text": PAGE}, each)) is None
        assert labels_of_copies(PAGE, each) == {WEB}


def test_a_copy_of_what_is_accepted() -> None:
    """Labels: a text belongs to the variable that held it first, whoever repeats it later."""
    store = make_store(written="user", echoed=WEB)
    mail = make_tool("mail", accepts=["user"])
    assert refusal_of_labels(mail, expand({"text": PAGE}, store)) is None
    assert refusal_of_labels(mail, expand({"text": reference("written")}, store)) is None
    store = make_store(page=WEB, echoed="user")
    assert refusal_of_labels(mail, expand({"text": PAGE}, store)) is not None
    assert refusal_of_labels(mail, expand({"text": reference("echoed")}, store)) is not None


def test_the_models_own_words() -> None:
    """Labels: what the model wrote itself it may write again, and rules are no secret."""
    store = make_store(draft="model", echoed="tool:mail effect:write")
    mail = make_tool("mail", accepts=["user"])
    assert refusal_of_labels(mail, expand({"text": PAGE}, store)) is None
    assert refusal_of_labels(mail, expand({"text": reference("draft")}, store)) is not None
    store = VariableStore()
    store.add(Variable(name="Rule/x", value=PAGE, kind=VariableKind.RULE))
    assert refusal_of_labels(mail, expand({"text": PAGE}, store)) is None


def test_arguments_of_a_part_of_a_call() -> None:
    """Labels: what got into a call must not get out of the calls that its tool makes."""
    store = make_store(page=WEB, mine="user")
    mail = make_tool("mail", accepts=["user"])
    outer = expand({"x": reference("page", 0, 4)}, store)
    assert refusal_of_labels(mail, outer, {"text": "something else"}) is not None
    outer = expand({"x": reference("mine", 0, 4)}, store)
    assert refusal_of_labels(mail, outer, {"text": "something else"}) is None
    assert refusal_of_labels(mail, outer, {"text": f"page: {PAGE}"}) is not None


def test_without_a_store() -> None:
    """Arguments that never met a store have nothing in them that could be refused."""
    mail = make_tool("mail", accepts=[])
    expanded = expand({"text": PAGE}, VariableStore())._replace(store=None)
    assert refusal_of_labels(mail, expanded) is None


def test_labels_of_copies() -> None:
    """Labels: a text that repeats kept ones has their labels, unless the model wrote it first."""
    store = make_store(draft="model", page=WEB)
    assert labels_of_copies(PAGE, store) == frozenset()
    store = make_store(page=WEB, draft="model", mine="user")
    assert labels_of_copies([f"page: {PAGE}"], store) == {WEB}
    assert labels_of_copies(["hello"], store) == frozenset()
    assert labels_of_copies({"a": PAGE, "b": OTHERS}, store) == {WEB, "user"}


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


@pytest.mark.parametrize("is_large", [False, True])
async def test_much_is_looked_through_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, *, is_large: bool
) -> None:
    """Labels: to look for copies in much text does not hold up other calls; the answer is one."""
    threads: list[threading.Thread] = []

    def seen(value: Any, variables: Any, traces: Any) -> Any:
        threads.append(threading.current_thread())
        # Another call writes meanwhile, and its variable takes the place of one that goes.
        store.remove("gone")
        return copies(value, variables, traces)

    monkeypatch.setattr(labels, "copies", seen)
    store = make_store(gone=WEB, page=WEB)
    store.add(Variable(name="more", value="x" * (300_000 if is_large else 3)))
    mail, nothing = make_tool("mail", accepts=["user"]), expand({"text": "hello"}, store)
    async with asyncio.timeout(10):
        assert await refusal_in_time(mail, nothing, {"text": "hello"}) is None
        assert await refusal_in_time(mail, nothing, {"text": PAGE}) is not None
        assert await labels_of_copies_in_time(PAGE, store) == {WEB}
        assert await refusal_in_time(make_tool("any"), nothing, {"text": PAGE}) is None
        assert await refusal_in_time(mail, expand({"x": reference("page")}, store), {}) is not None
    assert [each is threading.main_thread() for each in threads] == [not is_large] * 3
