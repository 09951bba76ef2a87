"""Is a number that a request sends as text sent as its author wrote it?"""

from __future__ import annotations

import pytest

from tool_engine import DefinitionError, ToolConfigLoader

HEAD = "name: t\ndescription: d\n"


def request(text: str) -> str:
    return f"{HEAD}entry: {{type: http, request: {{url: 'https://x.example', {text}}}}}\n"


@pytest.mark.parametrize(
    ("text", "path", "written", "sent"),
    [
        ("query: {version: 1.10}", "query.version", "1.10", "1.1"),
        ("query: {v: [a, 0x1F]}", "query.v[1]", "0x1F", "31"),
        ("headers: {X-Version: 1e3}", "headers.X-Version", "1e3", "1000.0"),
        ("headers: {X-Version: +7}", "headers.X-Version", "+7", "7"),
    ],
)
def test_a_number_that_would_change_is_refused(
    text: str, path: str, written: str, sent: str
) -> None:
    """K4, X6: what the author sees is what a server gets, or an error."""
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().load_text(request(text), "t.yaml")
    (problem,) = caught.value.problems
    assert problem.path == f"entry.request.{path}"
    assert problem.got == f"the number {written}"
    assert repr(sent) in problem.message
    assert problem.message.endswith("quote it to send what is written")


@pytest.mark.parametrize(
    "text",
    [
        "query: {a: 1, b: -2.5, c: '1.10', d: true, e: [1.5]}",
        "headers: {X-Version: '1.10'}",
        "json: {price: 1.10, mask: 0x1F}, method: POST",
    ],
)
def test_what_is_sent_as_it_is_written(text: str) -> None:
    """X6: a number that reads the same, a text, and a number that stays one, may stand there."""
    assert ToolConfigLoader().load_text(request(text)).name == "t"


def test_other_forms_are_left_to_the_schema() -> None:
    """K3: a request of a wrong form has its own error, and no second one."""
    for text in ("entry: []\n", "entry: {type: http, request: 1.10}\n"):
        with pytest.raises(DefinitionError) as caught:
            ToolConfigLoader().load_text(HEAD + text)
        assert len(caught.value.problems) == 1
