"""A mistake in `entry.request.auth` is found before the first call, with its place and cure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tool_engine.executors.http.auth import BasicAuth, KeyAuth, TokenAuth
from tool_engine.executors.http.auth_entry import AUTH_TYPES
from tool_engine.executors.http.http_entry import check_entry, compile_entry
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]

URL = "https://api.example/items"
KEY = "${env:KEY}"
CLIENT = {
    "type": "oauth2",
    "token_url": "https://login.example/token",
    "client_id": "me",
    "client_secret": KEY,
}
RIGHT: list[tuple[dict[str, Any], type]] = [
    ({"type": "bearer", "token": KEY}, KeyAuth),
    ({"type": "bearer", "token": "${file:/run/secrets/token}"}, KeyAuth),
    ({"type": "basic", "username": "me", "password": KEY}, BasicAuth),
    ({"type": "basic", "username": KEY, "password": ""}, BasicAuth),
    ({"type": "header", "name": "X-Key", "value": f"id={KEY}"}, KeyAuth),
    ({"type": "query", "name": "key", "value": KEY}, KeyAuth),
    (CLIENT, TokenAuth),
    (
        CLIENT
        | {"scope": "a b", "audience": "x", "fields": {"resource": "r"}, "client_auth": "body"},
        TokenAuth,
    ),
]


@pytest.mark.parametrize(("auth", "kind"), RIGHT)
def test_right(make: Make, auth: dict[str, Any], kind: type) -> None:
    """Each kind, with all of its keys."""
    tool = make({"request": {"url": URL, "auth": auth}})
    assert check_entry(tool) == []
    plan = compile_entry(tool).plan
    assert plan is not None
    assert isinstance(plan.auth, kind)
    assert len(plan.secrets) == 1


@pytest.mark.parametrize(
    ("auth", "problem"),
    [
        ("bearer", "auth: must be a mapping such as {type: bearer, ...}, got the text 'bearer'"),
        ({}, "auth.type: must be one of bearer, basic, header, query, oauth2, got nothing"),
        ({"type": ["bearer"]}, "auth.type: must be one of"),
        ({"type": "baerer"}, "got the text 'baerer'; did you mean 'bearer'?"),
        ({"type": "bearer"}, "auth.token: is missing; write it"),
        ({"type": "bearer", "token": 7}, "auth.token: must be a text, got the number 7"),
        (
            {"type": "bearer", "token": "abc"},
            "auth.token: is a secret that stands in the file; put",
        ),
        ({"type": "bearer", "token": "${x}"}, "auth.token: '${x}' is not a placeholder"),
        ({"type": "bearer", "token": "{t}"}, "a call does not choose who it is; write ${env:NAME}"),
        ({"type": "bearer", "tokn": KEY}, "auth.tokn: unknown key 'tokn'; did you mean 'token'?"),
        (
            {"type": "bearer", "value": KEY},
            "auth.value: unknown key 'value'; did you mean 'token'?",
        ),
        ({"type": "header", "name": "X", "token": KEY}, "key 'token'; did you mean 'value'?"),
        ({"type": "bearer", "token": KEY, "scope": "a"}, "auth.scope: unknown key 'scope'"),
        ({"type": "basic", "username": "me"}, "auth.password: is missing"),
        ({"type": "basic", "username": "me", "password": "pw"}, "auth.password: is a secret"),
        ({"type": "basic", "username": "me", "password": ""}, "auth.password: is a secret"),
        ({"type": "basic", "username": KEY, "password": "x"}, "auth.password: is a secret"),
        ({"type": "basic", "username": "a:b", "password": KEY}, "auth.username: has a ':'"),
        ({"type": "header", "value": KEY}, "auth.name: must be a plain text"),
        ({"type": "header", "name": "{n}", "value": KEY}, "auth.name: must be a plain text"),
        ({"type": "header", "name": "", "value": KEY}, "auth.name: must be a plain text"),
        ({"type": "header", "name": "Host", "value": KEY}, "set by the connection"),
        ({"type": "header", "name": "X A", "value": KEY}, "characters that a header name cannot"),
        ({"type": "header", "name": "X-A", "value": f"a\n{KEY}"}, "a control character"),
        ({"type": "query", "name": "key", "value": "abc"}, "auth.value: is a secret"),
        (CLIENT | {"token_url": "/token"}, "auth.token_url: must begin with http://"),
        (CLIENT | {"token_url": "https://h/{t}"}, "auth.token_url: takes a parameter"),
        (CLIENT | {"client_secret": "abc"}, "auth.client_secret: is a secret"),
        (CLIENT | {"client_id": "{t}"}, "auth.client_id: takes a parameter"),
        (CLIENT | {"scope": [1]}, "auth.scope: must be a text"),
        ({"type": "bearer", "token": ["abc"]}, "auth.token: must be a text, got a list"),
        (["type", "abc"], "auth: must be a mapping such as {type: bearer, ...}, got a list"),
        (CLIENT | {"client_auth": "query"}, "auth.client_auth: must be header or body"),
        (CLIENT | {"fields": "a"}, "auth.fields: must map names to texts"),
        (CLIENT | {"fields": {"scope": "a"}}, "auth.fields.scope: has a place of its own"),
        (CLIENT | {"fields": {"a": 1}}, "auth.fields.a: must be a text"),
        ({"type": "oauth2"}, "auth.client_id: is missing"),
    ],
)
def test_a_mistake(make: Make, auth: Any, problem: str) -> None:
    """Each names the place, what was found, and what to write; none repeats a secret's text."""
    tool = make({"request": {"url": URL, "headers": {"X-T": "{t}"}, "auth": auth}}, "t")
    problems = [f"{each.path}: {each.message}" for each in check_entry(tool)]
    assert any(problem in text for text in problems), problems
    assert all("abc" not in text for text in problems)


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (
            {"headers": {"authorization": KEY}, "auth": RIGHT[0][0]},
            "entry.request.headers.authorization: auth sets it; remove one",
        ),
        (
            {"headers": {"x-key": "a"}, "auth": RIGHT[4][0]},
            "entry.request.headers.x-key: auth sets it; remove one",
        ),
        (
            {"query": {"key": "a"}, "auth": RIGHT[5][0]},
            "entry.request.query.key: auth sets it; remove one",
        ),
    ],
)
def test_what_is_set_twice(make: Make, request_: dict[str, Any], problem: str) -> None:
    """Which of the two would win is not guessed."""
    tool = make({"request": {"url": URL, **request_}})
    assert [f"{each.path}: {each.message}" for each in check_entry(tool)] == [problem]


def test_credentials_for_any_url(make: Make) -> None:
    """Where the call names the URL, a credential would go wherever the call likes."""
    tool = make({"handler": "http_request", "request": {"auth": RIGHT[0][0]}}, "url")
    (problem,) = check_entry(tool)
    assert (problem.path, "needs entry.request.url" in problem.message) == (
        "entry.request.auth",
        True,
    )


def test_the_kinds_are_those_of_the_schema() -> None:
    """What editors offer is what is read."""
    from tool_engine.catalog.definition.structure import definition_schema

    request = definition_schema()["$defs"]["entry"]["properties"]["request"]["properties"]
    assert request["auth"]["properties"]["type"]["enum"] == list(AUTH_TYPES)
