"""What is said of a key that is right in another mapping of the definition?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.catalog.definition.building import tool_of_mapping
from tool_engine.errors import DefinitionError, DefinitionProblem


def problems_of(definition: dict[str, Any]) -> list[DefinitionProblem]:
    with pytest.raises(DefinitionError) as raised:
        tool_of_mapping(definition, "t.yaml")
    return list(raised.value.problems)


HTTP: dict[str, Any] = {"url": "http://x.org", "entry": {"type": "http"}}
HANDLER: dict[str, Any] = {"handler": "echo", "entry": {"type": "builtin"}}
RETRY: dict[str, Any] = {"effect": "read", "retry": {"attempts": 2, "key": "tool"}}


@pytest.mark.parametrize(
    ("more", "path", "cure"),
    [
        ({"bucket": "web"}, "bucket", "`concurrency: {bucket: ...}`"),
        (HTTP, "url", "`entry: {request: {url: ...}}`"),
        (HANDLER, "handler", "`entry: {handler: ...}`"),
        (RETRY, "retry.key", "`concurrency: {key: ...}`"),
        ({"retries": 3, "effect": "read"}, "retries", "`retry: {attempts: ...}`"),
        ({"select": "a"}, "select", "`result: {select: ...}`"),
        ({"entry": {"type": "http", "method": "GET"}}, "entry.method", "{request: {method: "),
        ({"entry": {"type": "http", "timeout": 3}}, "entry.timeout", "to the top of"),
        ({"entry": {"type": "builtin", "argv": ["a"], "env": {}}}, "entry.env", "{config: {env: "),
        ({"entry": {"type": "builtin", "sql": "x", "max_rows": 3}}, "entry.max_rows", "{config: {"),
        (
            {"entry": {"type": "mcp", "url": "http://a"}},
            "entry.url",
            "kind: mcp_server; write serv",
        ),
        ({"entry": {"type": "python", "module": "a.b"}}, "entry.module", "handler: a.b:function"),
        ({"entry": {"type": "python", "code": "x"}}, "entry.code", "function of a module, and han"),
        (
            {"entry": {"type": "builtin", "handler": "echo", "prompt": "x"}},
            "entry.prompt",
            "no ent",
        ),
        ({"entry": {"type": "http", "verify": False}}, "entry.verify", "SSL_CERT_FILE names those"),
    ],
)
def test_a_key_in_the_wrong_mapping(more: dict[str, Any], path: str, cure: str) -> None:
    """K3: it is said where it belongs, and how that is written."""
    (problem,) = problems_of({"name": "t", "description": "d", **more})
    assert problem.path == path
    assert f"unknown key {path.rpartition('.')[2]!r}" in problem.message
    assert cure in problem.cure


@pytest.mark.parametrize(
    ("more", "nearest"),
    [
        (
            {"retries": {"attempts": 3}, "effect": "read"},
            "retry",
        ),  # the mapping itself, under another name
        ({"concurrency": {"timeout": 3}}, "queue_timeout"),
        (
            {"effect": "read", "timeout": 3, "retry": {"attempts": 2, "timeout": 3}},
            "",
        ),  # is given where it belongs
        *(
            ({"entry": {"type": "builtin", "handler": handler, key: "x"}}, nearest)
            for handler, key, nearest in (
                ("sql_query", "query", "sql"),
                ("sql_query", "statement", "sql"),
                ("sql_query", "database", "source"),
                ("read_folder", "path", "root"),
                ("read_file", "directory", "root"),
                ("run_command", "workdir", "cwd"),
            )
        ),
        ({"entry": {"type": "mcp", "server": "files", "name": "x"}}, "tool"),
        *(
            ({"entry": {"type": "http", "request": {"auth": {"type": word}}}}, near)
            for word, near in (("api_key", "header"), ("jwt", "bearer"), ("oauth", "oauth2"))
        ),  # a word of others for what this handler reads
    ],
)
def test_a_key_that_is_better_renamed(more: dict[str, Any], nearest: str) -> None:
    (problem,) = problems_of({"name": "t", "description": "d", **more})
    assert (problem.nearest, "write it in" in problem.message) == (nearest, False)


def test_a_handler_as_a_type_says_what_the_keys_mean() -> None:
    """K3: `type: sql` is what runs the entry, so `query` is its statement, and nothing else."""
    entry = {"type": "sql", "query": "SELECT 1", "source": "shop"}
    found = problems_of({"name": "t", "description": "d", "entry": entry})
    assert {(each.path, each.nearest) for each in found} == {
        ("entry.type", ""),
        ("entry.query", "sql"),
    }


def test_a_server_that_does_not_say_its_kind() -> None:
    """K3: what another program reads, or a server without its kind, is one mistake."""
    for definition, path, cure in (
        ({"name": "files", "command": "npx", "args": ["-y"]}, "command", "add kind: mcp_server"),
        ({"mcpServers": {"files": {"command": "npx"}}}, "mcpServers", "save it as .mcp.json, or"),
    ):
        (problem,) = problems_of(definition)
        assert (problem.path, problem.cure.startswith(cure)) == (path, True)


def test_an_entry_that_would_ask_a_model() -> None:
    """K3: no type does; a function may, and nothing follows from that cure."""
    (problem,) = problems_of({"name": "t", "description": "d", "entry": {"type": "agent"}})
    assert problem.cure.startswith("write type: python, handler: module:function, a function")


def test_what_stands_in_the_wrong_mapping_is_judged() -> None:
    """K3: under its own rules, at the place where it is written, and at once."""
    entry = {"type": "http", "method": "GOT", "request": {"url": "http://x.org"}}
    found = problems_of({"name": "t", "description": "d", "weight": "many", "entry": entry})
    assert {(each.path, each.nearest, each.expected[:7]) for each in found} == {
        ("weight", "", ""),
        ("weight", "", "a whole"),
        ("entry.method", "", ""),
        ("entry.method", "GET", "one of "),
    }
