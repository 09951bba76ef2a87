"""Where does a content come from, and where has a model read from, however much it was?"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.session.refused_labels import list_refused_labels
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.tool import Tool
from tool_engine.session.variables.labels import ReadLabels, find_result_labels, without_host

WEB = "tool:fetch_page effect:read host:evil.example"


SUM = "tool:calculator effect:read"


def make_tool(name: str = "tool", **keys: Any) -> Tool:
    definition: dict[str, Any] = {"name": name, "version": "1.0.0", "description": "A sample tool."}
    definition["entry"] = {"type": "builtin", "handler": "echo"}
    return ToolConfigLoader().from_mapping({**definition, **keys})


def labels_of(
    tool: Tool, params: dict[str, Any], output: Any = None, used: tuple[str, ...] = ()
) -> set[str]:
    result = ToolExecutionResult(True, tool.name, output or {})
    return set(find_result_labels(tool, params, result, used))


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


def test_what_is_noted() -> None:
    """N33: each origin once; the model's own words and rules are none."""
    read = ReadLabels()
    for labels in ([WEB], ["user", "model"], ["rule"], [WEB]):
        read.note(labels)
    assert read.labels == {WEB, "user"}
    assert repr(read) == f"<ReadLabels {WEB}, user>"
    assert repr(ReadLabels()) == "<ReadLabels none>"


def test_those_above() -> None:
    """N33: what the conversation reads, its helpers know, also later; not the other way round."""
    above = ReadLabels()
    below = ReadLabels(ReadLabels(above))
    above.note(["user"])
    below.note([WEB])
    assert below.labels == {"user", WEB}
    assert above.labels == {"user"}


@pytest.mark.parametrize("kinds", [1, 300])
def test_many_origins(kinds: int) -> None:
    """N33: thousands of hosts take no room, and no tool accepts more of them than before."""
    read = ReadLabels()
    for number in range(5_000):
        read.note([f"tool:t{number % kinds} effect:read host:h{number}.example"])
        assert len(read.labels) <= 100
    assert list_refused_labels(read.labels, ["host:h1.example", "user"])
    assert list_refused_labels(read.labels, ["*"]) == []
    assert bool(list_refused_labels(read.labels, ["tool:t*"])) is (kinds > 100)


@pytest.mark.parametrize(
    ("label", "without"),
    [
        (WEB, "tool:fetch_page effect:read"),
        ("host:x", "host:x"),
        ("user", "user"),
        ("a\thost:b c", "a c"),
    ],
)
def test_without_a_host(label: str, without: str) -> None:
    """N33: the other words stay; a label of one word has no other."""
    assert without_host(label) == without
