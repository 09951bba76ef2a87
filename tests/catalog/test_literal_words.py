"""Is an author warned of what only a shell would put something in the place of?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tool_engine.catalog.literal_words import find_literals, find_server_literals
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.catalog.servers.config_file import read_config_file


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


SERVER = {"kind": "mcp_server", "name": "s"}
PROGRAM = {"command": "python"}


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("url", "https://$API_HOST/mcp", ("url",)),
        ("headers", {"Authorization": "Bearer $TOKN"}, ("headers", "Authorization")),
        ("env", {"API": "%TOKN%"}, ("env", "API")),
        ("env", {"API": "${env:TOKN}"}, None),
        ("env", {"PRICE": "$5", "PLACE": "/a%20b"}, None),
    ],
)
def test_texts_of_a_server(tmp_path: Path, key: str, value: Any, path: Any) -> None:
    """The same is said of a definition and of a file that other programs read."""
    more = {} if key == "url" else {"url": "https://h/mcp"} if key == "headers" else PROGRAM
    definition = {**SERVER, **more, key: value}
    found = list(find_server_literals(definition))
    assert [each for each, _, _ in found] == ([] if path is None else [path])
    (tmp_path / "s.yaml").write_text(json.dumps(definition))
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"s": {**more, key: value}}}))
    loader = ToolConfigLoader()
    loader.load_directory(str(tmp_path))
    (listed,) = read_config_file(str(tmp_path / ".mcp.json")).servers
    for server in (*loader.servers, listed):
        said = [each for each in server.findings if "is sent as it stands" in each]
        assert len(said) == len(found), server
    assert len(loader.servers) == 1


def test_a_secret_that_looks_like_a_variable_is_not_repeated() -> None:
    ((_, message, cure),) = find_server_literals({"env": {"PASSWORD": "$Summer24"}})
    assert "Summer" not in message + cure
