"""A mistake in `entry` is found before the first call, with its place and cure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tool_engine.errors import DefinitionError
from tool_engine.executors.http.http_entry import DEFAULT_MAX_BYTES, check_entry, compile_entry
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]

URL = "https://api.example/items"
LIST = ToolParameter("ids", "array", required=True)


def found(make: Make, entry: dict[str, Any], *parameters: Any) -> list[str]:
    return [f"{p.path}: {p.message}" for p in check_entry(make(entry, *parameters))]


def test_a_whole_entry(make: Make) -> None:
    """Every key at once."""
    entry = {
        "type": "http",
        "request": {
            "method": "POST",
            "url": URL + "/{id}?v=1",
            "query": {"ids": "{ids}", "page": 1, "on": True, "many": ["a", "{id}"]},
            "headers": {"X-Key": "${env:K}", "X-Version": 2},
            "json": {"ids": "{ids}", "text": "for {id}"},
            "max_bytes": 1000,
        },
        "response": {"select": "items[].name"},
        "allow": ["10.0.0.1:80"],
    }
    tool = make(entry, "id", LIST)
    assert check_entry(tool) == []
    compiled = compile_entry(tool)
    assert compiled.plan is not None
    assert compiled.plan.method == "POST"
    assert compiled.max_bytes == 1000
    assert compiled.select is not None


def test_an_entry_without_request(make: Make) -> None:
    """K14: `http_request` needs no request; the call's own parameter names the URL."""
    compiled = compile_entry(make({"type": "builtin", "handler": "http_request"}, "url"))
    assert compiled.plan is None
    assert compiled.max_bytes == DEFAULT_MAX_BYTES
    assert compile_entry(make({"request": {"max_bytes": 5}}, "url")).max_bytes == 5


@pytest.mark.parametrize(
    ("entry", "parameters", "problem"),
    [
        ({"alow": []}, ["url"], "entry.alow: unknown key 'alow'; did you mean 'allow'?"),
        ({"zzz": 1}, ["url"], "entry.zzz: unknown key 'zzz'; known are type, handler"),
        ({"request": 7}, ["url"], "entry.request: must be a mapping, got the number 7"),
        ({"request": {"uri": URL}}, ["url"], "entry.request.uri: unknown key 'uri'"),
        ({"request": {"json": 1}}, ["url"], "entry.request.json: needs entry.request.url"),
        ({}, [], "entry.request.url: is missing"),
        ({"request": {"url": 7}}, [], "entry.request.url: must be a text"),
        ({"request": {"url": "https://{a}/"}}, ["a"], "entry.request.url: must begin with"),
        ({"request": {"url": URL, "method": "get"}}, [], "did you mean 'GET'?"),
        ({"request": {"url": URL, "method": "{m}"}}, ["m"], "entry.request.method: must be one"),
        ({"request": {"url": URL, "json": {}}}, [], "GET sends no body; write method: POST"),
        ({"request": {"url": URL + "/{a}"}}, [], "'a', which is not declared; declare it"),
        ({"request": {"url": URL + "/{idd}"}}, ["ident", "id"], "did you mean 'id'?"),
        ({"request": {"url": URL}}, ["a"], "never uses the parameter 'a'"),
        (
            {"request": {"url": URL + "/{o}"}},
            [ToolParameter("o", "string")],
            "'o', which a call may leave out",
        ),
        ({"request": {"url": URL + "/{ids}"}}, [LIST], "'ids' of type array"),
        ({"request": {"url": URL, "query": {"q": "x{ids}"}}}, [LIST], "'ids' of type array"),
        ({"request": {"url": URL, "query": {"q": {"a": 1}}}}, [], "entry.request.query.q: must"),
        ({"request": {"url": URL, "query": {"q": [[1]]}}}, [], "entry.request.query.q: must"),
        ({"request": {"url": URL, "query": {"q": {1}}}}, [], "entry.request.query.q: holds a set"),
        ({"request": {"url": URL, "query": 7}}, [], "entry.request.query: must map names"),
        ({"request": {"url": URL, "query": {7: "a"}}}, [], "entry.request.query.7: a name must"),
        ({"request": {"url": URL, "query": {"{a}": "a"}}}, ["a"], "a name must be a plain text"),
        ({"request": {"url": URL, "headers": {"A": None}}}, [], "headers.A: must be a text"),
        ({"request": {"url": URL, "headers": {"A": True}}}, [], "headers.A: must be a text"),
        ({"request": {"url": URL, "headers": {"A": "${x}"}}}, [], "headers.A: '${x}' is not"),
        ({"request": {"url": URL, "headers": {"A": "a\nb"}}}, [], "a control character"),
        ({"request": {"url": URL, "headers": {"Host": "h"}}}, [], "set by the connection"),
        ({"request": {"url": URL, "headers": {"A": "{ids}"}}}, [LIST], "'ids' of type array"),
        (
            {"request": {"url": URL, "method": "POST", "json": "a {ids}"}},
            [LIST],
            "'ids' of type array",
        ),
        ({"request": {"url": URL, "method": "POST", "json": "${a}"}}, [], "entry.request.json: "),
        ({"response": {"selct": "a"}}, ["url"], "unknown key 'selct'; did you mean 'select'?"),
        ({"response": 7}, ["url"], "entry.response: must be a JMESPath expression"),
        ({"response": "a..b"}, ["url"], "entry.response: 'a..b' is not JMESPath"),
        ({"response": "$.a"}, ["url"], "Unknown token $; leave out the $. at its beginning"),
        ({"allow": ["localhost"]}, ["url"], "'localhost' is not host:port; write 'localhost:*'"),
        ({"allow": ["http://a.b:80/x"]}, ["url"], "is not host:port; write 'a.b:80'"),
        ({"allow": ["10.0.0.0/8"]}, ["url"], "is not host:port; write '127.0.0.1:8080', '*.corp"),
        ({"response": "(" * 5000}, ["url"], "is not JMESPath: nested too deep"),
        ({"allow": "127.0.0.1:80"}, ["url"], "entry.allow: must be a list"),
        ({"allow": ["127.0.0.1"]}, ["url"], "entry.allow: '127.0.0.1' is not host:port"),
        ({"request": {"max_bytes": 0}}, ["url"], "entry.request.max_bytes: must be a whole"),
        ({"request": {"max_bytes": True}}, ["url"], "entry.request.max_bytes: must be a whole"),
        ({"request": {"max_bytes": 1.5}}, ["url"], "entry.request.max_bytes: must be a whole"),
    ],
)
def test_a_mistake(make: Make, entry: dict[str, Any], parameters: Any, problem: str) -> None:
    """Each names the place, what was found, and what to write."""
    problems = found(make, entry, *parameters)
    assert any(problem in text for text in problems), problems
    with pytest.raises(DefinitionError):
        compile_entry(make(entry, *parameters))


def test_all_mistakes_at_once(make: Make) -> None:
    """One look finds all; the file is named."""
    import msgspec

    tool = make({"request": {"url": URL, "metod": 1, "query": 1}, "allow": [1], "respons": ""})
    tool = msgspec.structs.replace(tool, source="tools/x.yaml")
    problems = check_entry(tool)
    assert len(problems) == 4
    assert {problem.file for problem in problems} == {"tools/x.yaml"}
