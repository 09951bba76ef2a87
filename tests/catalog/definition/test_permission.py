"""Does a definition say who is asked and what a tool takes, in each of the ways to write it?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.session.refused_labels import list_refused_labels
from tool_engine.approval.policy import PermissionRule
from tool_engine.catalog.definition.permission import build_permission, permission_spec
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import ConfigurationError, DefinitionError
from tool_engine.model.group import ToolGroup
from tool_engine.model.permission import ExecutionPolicy, Permission, ResultPolicy
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig

HEAD = "name: t\ndescription: d\n"


def load(text: str) -> Tool:
    return ToolConfigLoader().load_text(HEAD + text, "t.yaml")


@pytest.mark.parametrize(
    ("written", "execution", "result"),
    [
        ("ask_always", "ask_always", None),
        ("ask-once", "ask_once", None),
        ("auto", "auto", None),
        ("deny", "deny", None),
        ("public", "auto", None),
        ("moderate", "ask_once", None),
        ("sensitive", "ask_always", None),
        ("{execution: ask-always, result: on-error}", "ask_always", "on_error"),
        ("{result: always}", None, "always"),
        ("{execution: deny}", "deny", None),
    ],
)
def test_every_way_to_write_it(written: str, execution: str | None, result: str | None) -> None:
    """S2, X3, U34: the short form, the words of other formats and '-' mean the same policies."""
    permission = load(f"permission: {written}\n").permission
    assert permission is not None
    assert permission.execution == (execution and ExecutionPolicy(execution))
    assert permission.result == (result and ResultPolicy(result))


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("permission: ask_alway\n", "t.yaml:3:13: permission:", "did you mean 'ask_always'?"),
        ("permission: yes\n", "t.yaml:3:13: permission:", "expected one of auto, ask_once"),
        ("permission: {}\n", "t.yaml:3:13: permission:", "must not be empty"),
        ("permission: {execution: public}\n", "t.yaml:3:25: permission.execution:", "expected one"),
        ("permission: {exec: deny}\n", "t.yaml:3:14: permission.exec:", "mean 'execution'?"),
        ("permission: {result: deny}\n", "t.yaml:3:22: permission.result:", "never, on_error"),
        ("accepts: user\n", "t.yaml:3:10: accepts:", "write it as a list: [user]"),
        ("accepts: ['a b']\n", "t.yaml:3:11: accepts[0]:", "write a label such as tool:NAME"),
        ("max_uses: 0\n", "t.yaml:3:11: max_uses:", "expected at least 1"),
        ("max_uses: 1.5\n", "t.yaml:3:11: max_uses:", "expected a whole number"),
        ("result: {limit: -2}\n", "t.yaml:3:17: result.limit:", "expected at least -1"),
        ("result: {limit: all}\n", "t.yaml:3:17: result.limit:", "expected a whole number"),
    ],
)
def test_a_slip_is_told_with_its_place(text: str, place: str, words: str) -> None:
    """S2, S7: a wrong word has file, line, column, key and cure; no policy is guessed."""
    with pytest.raises(DefinitionError) as caught:
        load(text)
    assert str(caught.value).startswith(place)
    assert words in str(caught.value)


def test_a_client_may_answer_where_a_definition_says_so() -> None:
    """It comes back in the export; a group cannot say it, nor a tool whose calls are not asked."""
    spec = {"execution": "ask_always", "client_may_answer": True}
    permission = load("permission: {execution: ask-always, client_may_answer: true}\n").permission
    assert permission is not None
    assert permission.client_may_answer
    assert permission_spec(permission) == spec
    (finding,) = load("permission: {execution: auto, client_may_answer: true}\n").findings
    assert finding.startswith("t.yaml:3:")
    assert "no call of the tool is asked about; write execution: ask_once" in finding
    group = f"kind: group\nname: g\ntools: [t]\npermission: {spec}\n".replace("True", "true")
    with pytest.raises(DefinitionError, match="client_may_answer"):
        ToolConfigLoader().load_definitions(group, "g.yaml")


@pytest.mark.parametrize(
    "make",
    [
        lambda said: ToolGroup(name="g", tools=("t",), permission=said),
        lambda said: PermissionRule("pay_*", said),
        lambda said: ToolCallConfig(permission=said),
        lambda said: ToolCallConfig(tool_permissions={"pay": said}),
    ],
)
def test_only_a_definition_lets_clients_answer(make: Callable[[Permission], object]) -> None:
    with pytest.raises(ConfigurationError, match="cannot let clients answer; write client_may"):
        make(Permission(execution="ask_always", client_may_answer=True))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("usr", "no value carries the label 'usr'; did you mean 'user'?"),
        ("effct:read", "did you mean 'effect:read'?"),
        ("effect:raed", "no tool has the effect 'raed'; did you mean 'effect:read'?"),
        ("whatever:x", "the labels are user, model, rule, tool:NAME, effect:NAME, host:NAME"),
        ("Tool:x", "did you mean 'tool:x'?"),
        ("USER", "did you mean 'user'?"),
        ("effect:READ", "no tool has the effect 'READ'; did you mean 'effect:read'?"),
        ("effect:x*", "the effects are read, write, unknown"),
        ("Tool*", "no value carries the label 'Tool*'; did you mean 'tool*'?"),
        ("HOST?*", "did you mean 'host?*'?"),
        ("web*", "the labels are user, model, rule, tool:NAME"),
        ("tool:a/b", "no tool can be named 'a/b'; a name has letters"),
        ("tool:9", "no tool can be named '9'"),
    ],
)
def test_a_label_that_nothing_carries_is_told(label: str, words: str) -> None:
    """A slip in a label refuses every value, so it is a warning; a program may make own labels."""
    tool = load(f"accepts: [user, '{label}']\n")
    assert tool.accepts == ["user", label]
    (finding,) = tool.findings
    assert finding.startswith("t.yaml:3:17: accepts[1]:")
    assert words in finding


@pytest.mark.parametrize(
    ("host", "near"),
    [
        ("HTTP://x", "x"),
        ("https://Example.com/a?b=c", "Example.com"),
        ("https://me:pw@example.com:8080/#top", "example.com"),
        ("example.com:8080", "example.com"),
        ("example.com/path", "example.com"),
        ("http://*.example.com", "*.example.com"),
        ("*.example.com:8080", "*.example.com"),
        ("http://[::1]:8080/", "::1"),
        ("[::1]", "::1"),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
        ("https://", ""),
    ],
)
def test_a_host_that_no_label_spells_so(host: str, near: str) -> None:
    """A label has the host alone; the cure is written in its place and brings no finding."""
    tool = load(f"accepts: ['host:{host}']\n")
    (finding,) = tool.findings
    assert f"no host is spelled '{host.replace('me:pw', '[hidden]')}'" in finding
    if not near:
        assert "write the host alone, such as host:example.com" in finding
        return
    assert f"did you mean 'host:{near}'?" in finding
    assert load(f"accepts: ['host:{near}']\n").findings == []
    label = f"tool:web effect:read host:{near.replace('*', 'www').lower()}"
    assert list_refused_labels([label], [f"host:{host}"]) == [label]
    assert list_refused_labels([label], [f"host:{near}"]) == []


def test_right_labels_are_no_findings() -> None:
    """Labels of all kinds and globs are right, and an empty list is not the same as none."""
    labels = "user, model, rule, 'tool:*', 'effect:r*', 'host:*.example.com', 'h?st:x', '*'"
    labels += ", 'tool:source-2:web', 'host:EXAMPLE.com', 'host:::1', 'host:*:80'"
    labels += ", 'us*', 'host:[ab]'"
    assert load(f"accepts: [{labels}]\n").findings == []
    assert (load("accepts: []\n").accepts, load("").accepts) == ([], None)


@pytest.mark.parametrize(
    "keys",
    [
        {"permission": "ask_once"},
        {"permission": {"execution": "deny", "result": "on_error"}},
        {"accepts": []},
        {"accepts": ["user", "tool:*"]},
        {"max_uses": 3},
        {"result": {"limit": 0}},
        {"result": {"limit": -1, "max_chars": 500}},
    ],
)
def test_export_loads_as_the_same_tool(keys: dict[str, Any]) -> None:
    """S2, S7: what is written again says the same, and each key makes another definition."""
    loader = ToolConfigLoader()
    bare = loader.from_mapping({"name": "t", "description": "d"})
    tool = loader.from_mapping({"name": "t", "description": "d", **keys})
    assert loader.load_text(loader.export_to_yaml(tool)).definition_hash == tool.definition_hash
    assert tool.definition_hash != bare.definition_hash


def test_nothing_said_is_no_permission() -> None:
    """A permission that says nothing is no key: a definition cannot write an empty one."""
    assert permission_spec(None) is None
    assert permission_spec(Permission()) is None
    assert permission_spec(build_permission("ask-once")) == {"execution": "ask_once"}
