"""What a definition says about answers, read right or refused with its place."""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.executors.http.http_entry import check_entry, compile_entry
from tool_engine.model.parameter import ToolParameter

PAGES = {"next": "link"}
SAVE_TO = {"root": "data", "path": "{name}.txt"}


def entry(response: Any, **request: Any) -> dict[str, Any]:
    return {"request": {"url": "https://h/", **request}, "response": response}


def test_pages(make: Any) -> None:
    """What is left out has its default."""
    plan = compile_entry(make(entry({"pages": PAGES}))).pages
    assert plan is not None
    assert (plan.next, plan.cursor_param, plan.max_pages) == (None, None, 5)
    assert plan.items.search([1]) == [1]
    whole = {"next": "a.b", "cursor_param": "c", "items": "rows", "max_pages": 100}
    plan = compile_entry(make(entry({"select": "[0]", "pages": whole}))).pages
    assert plan is not None
    assert plan.next is not None
    assert (plan.next.search({"a": {"b": 1}}), plan.cursor_param, plan.max_pages) == (1, "c", 100)
    assert plan.items.search({"rows": [2]}) == [2]


def test_a_key_that_is_named_link(make: Any) -> None:
    """`link` is the header; the key of this name in the body is `@.link`."""
    plan = compile_entry(make(entry({"pages": {"next": "@.link"}}))).pages
    assert plan is not None
    assert plan.next is not None
    assert plan.next.search({"link": "x"}) == "x"


def test_save_to(make: Any) -> None:
    """A parameter that only the path takes is used."""
    plan = compile_entry(make(entry({"save_to": SAVE_TO}), "name")).save_to
    assert plan is not None
    assert (plan.create_only, plan.create_folders) == (True, False)
    assert plan.open().path.endswith("/data")
    assert plan.open().guarded is None


@pytest.mark.parametrize(
    ("response", "path", "reason"),
    [
        (5, "", "must be a JMESPath expression as a text, got the number 5"),
        ("a[", "", "'a[' is not JMESPath"),
        ({"select": "(" * 5000}, ".select", "is not JMESPath"),
        ({"page": {}}, ".page", "unknown key 'page'; did you mean 'pages'?"),
        (
            {"pages": "link"},
            ".pages",
            "must be a mapping such as {next: link}, got the text 'link'",
        ),
        ({"pages": {}}, ".pages.next", "is missing; write link"),
        ({"pages": {"next": 1}}, ".pages.next", "must be a JMESPath expression"),
        ({"pages": {"next": "a["}}, ".pages.next", "is not JMESPath"),
        ({"pages": PAGES | {"items": "a["}}, ".pages.items", "is not JMESPath"),
        ({"pages": PAGES | {"item": "a"}}, ".pages.item", "did you mean 'items'?"),
        ({"pages": {"next": "a", "cursor_param": " "}}, ".pages.cursor_param", "must be the name"),
        ({"pages": {"next": "a", "cursor_param": 1}}, ".pages.cursor_param", "must be the name"),
        ({"pages": PAGES | {"cursor_param": "c"}}, ".pages.cursor_param", "got 'link'"),
        (
            {"pages": PAGES | {"max_pages": 0}},
            ".pages.max_pages",
            "1 and 100, got the number 0",
        ),
        ({"pages": PAGES | {"max_pages": 101}}, ".pages.max_pages", "got the number 101"),
        ({"pages": PAGES | {"max_pages": True}}, ".pages.max_pages", "got true"),
        ({"save_to": "data"}, ".save_to", "must be a mapping such as"),
        ({"save_to": {"path": "x"}}, ".save_to.root", "is missing; write the folder"),
        ({"save_to": {"root": "x"}}, ".save_to.path", "is missing; write the path"),
        ({"save_to": SAVE_TO | {"root": " "}}, ".save_to.root", "must be the folder"),
        ({"save_to": SAVE_TO | {"path": 5}}, ".save_to.path", "must be the path of the file"),
        ({"save_to": SAVE_TO | {"root": "${x}"}}, ".save_to.root", "is not a placeholder"),
        ({"save_to": SAVE_TO | {"root": "{name}"}}, ".save_to.root", "must not hold a {parameter}"),
        ({"save_to": SAVE_TO | {"root": "${file:/x}"}}, ".save_to.root", "no ${file:...}"),
        ({"save_to": SAVE_TO | {"path": "${env:A}"}}, ".save_to.path", "must not hold a secret"),
        ({"save_to": SAVE_TO | {"path": "{nam}"}}, ".save_to.path", "did you mean 'name'?"),
        ({"save_to": SAVE_TO | {"path": "{rows}"}}, ".save_to.path", "of type array"),
        ({"save_to": SAVE_TO | {"path": "{maybe}"}}, ".save_to.path", "a call may leave out"),
        ({"save_to": SAVE_TO | {"create_only": "no"}}, ".save_to.create_only", "true or false"),
        ({"save_to": SAVE_TO | {"creat_only": True}}, ".save_to.creat_only", "'create_only'?"),
        ({"save_to": SAVE_TO, "select": "a"}, ".save_to", "goes with no other key"),
    ],
)
def test_mistakes(make: Any, response: Any, path: str, reason: str) -> None:
    """Each mistake is found before the first call, at its place."""
    names = (
        "name",
        ToolParameter("rows", "array", required=True),
        ToolParameter("maybe", "string"),
    )
    made = entry(response, query={"r": "{rows}", "m": "{maybe}", "n": "{name}"})
    found = {problem.path: problem.message for problem in check_entry(make(made, *names))}
    assert list(found) == [f"entry.response{path}"], found
    assert reason in found[f"entry.response{path}"]


@pytest.mark.parametrize("response", [{"pages": PAGES}, {"save_to": SAVE_TO | {"path": "a"}}])
def test_other_methods(make: Any, response: Any) -> None:
    """Following pages and saving files belong to reading: a write is not sent again and again."""
    (name,) = response
    (problem,) = check_entry(make(entry(response, method="POST")))
    assert (problem.path, problem.message) == (
        f"entry.response.{name}",
        "needs the method GET, got POST",
    )
    (problem,) = check_entry(make({"handler": "http_request", "response": response}, "url"))
    assert problem.message == "needs entry.request.url beside it"
