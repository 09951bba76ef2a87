"""Is an author warned of what only a shell would put something in the place of?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.catalog.literal_words import find_literals


@pytest.mark.parametrize(
    ("words", "places"),
    [
        (["ls", "$HOME", "|", "sort", ">", "out"], [1, 2, 4]),
        (["make", "&&", "run", "2>&1", ";", "||", "<", ">>"], [1, 3, 4, 5, 6, 7]),
        (["awk", "{print $1}", "a$", "x|y", "->", "--", "$5"], []),
        (["$HOME", "\\$HOME", "$$HOME", "{q}", 5, None], []),
        (["/bin/sh", "-c", "ls", "|"], []),
    ],
)
def test_words_of_a_program(words: list[Any], places: list[int]) -> None:
    """An operator is a word of its own; a pattern, an amount and the words of a shell are none."""
    found = list(find_literals({"argv": words}))
    assert [path for path, _, _ in found] == [("entry", "argv", place) for place in places]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Bearer $MY_TOKEN", "MY_TOKEN"),
        ("https://$API_HOST/x", "API_HOST"),
        ("$TOKEN", "TOKEN"),
        ("Bearer $TOKN", "TOKN"),
        ("Token %TOKN%", "TOKN"),
        ("$env:TOKN", "TOKN"),
        ("$TENANT", "TENANT"),
        ("%20", ""),
        ("%E2%82", ""),
        ("${env:MY_TOKEN}", ""),
        ("costs $5 or $USD", ""),
        ("$filter=a", ""),
    ],
)
def test_texts_of_a_request(text: str, name: str) -> None:
    for key in ("url", "query", "headers", "json", "auth"):
        for value, more in ((text, ()), ({"a": [text]}, ("a", 0))):
            found = list(find_literals({"request": {key: value}}))
            assert len(found) == bool(name)
            for path, _, cure in found:
                assert path == ("entry", "request", key, *more)
                assert cure.startswith(f"write ${{env:{name}}}")


@pytest.mark.parametrize("entry", [None, [], {}, {"argv": "ls |"}, {"request": []}, {"argv": []}])
def test_what_is_no_entry(entry: object) -> None:
    assert list(find_literals(entry)) == []
