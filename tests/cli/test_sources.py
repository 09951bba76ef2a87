"""A person at the command line names databases too."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
DEFINITION = """
name: find_item
description: Finds an item by its number
category: database
effect: read
parameters:
  - {name: id, type: integer, required: true, description: Its number}
entry: {type: builtin, source: shop, sql: "SELECT name FROM items WHERE id = :id"}
tests:
  - {name: it is a lamp, params: {id: 1}, expect_part: {rows: [{name: lamp}]}}
"""


@pytest.fixture
def shop(tools: Path, tmp_path: Path) -> str:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE items AS SELECT 1 AS id, 'lamp' AS name")
    (tools / "find_item.yaml").write_text(DEFINITION, encoding="utf-8")
    return f"shop=sqlite:///{path}"


def test_a_source_is_named_before_the_command(
    command: Command, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--source` and its variable serve every command that runs tools."""
    ended = command("--source", shop, "call", "find_item", "id=1", "--json")
    assert ended.json["output"]["rows"] == [{"name": "lamp"}]
    assert command("--source", shop, "test", "find_item").code == 0
    monkeypatch.setenv("TOOL_ENGINE_SOURCES", f"other=sqlite:///x.db {shop}")
    assert command("call", "find_item", "id=1").code == 0


def test_without_its_source_a_tool_is_there_and_says_what_is_missing(
    command: Command, shop: str
) -> None:
    """It can be checked and shown without a database; a call names the cure."""
    assert command("validate").code == 0
    assert command("show", "find_item").code == 0
    ended = command("call", "find_item", "id=1")
    assert ended.code == 1
    assert "the engine has no source 'shop'" in ended.err + ended.out


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("postgresql://u:s3cret@h/d", "--source takes NAME=URL, such as shop=sqlite:///shop.db"),
        ("=sqlite:///x.db", "--source takes NAME=URL"),
        ("shop=mysql://u:s3cret@h/d", "got the scheme 'mysql'"),
    ],
)
def test_a_source_that_is_none(command: Command, text: str, part: str) -> None:
    """The command line is wrong, and its password is not printed."""
    ended = command("--source", text, "call", "echo", "message=x")
    assert ended.code == 2
    assert part in ended.err
    assert "s3cret" not in ended.err + ended.out


def test_a_source_that_the_project_does_not_name(
    command: Command, tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`validate` says it where the settings name some; without any, a program has its own."""
    monkeypatch.chdir(tmp_path)
    definition = DEFINITION.replace("source: shop", "source: shp")
    (tools / "find_item.yaml").write_text(definition, encoding="utf-8")
    assert "has no source" not in command("validate").out
    said = command("--source", "shop=sqlite:///shop.db", "validate")
    assert said.code == 0
    assert (
        "find_item.yaml: entry.source: the engine has no source 'shp'; did you mean 'shop'?"
        in said.out
    )
    (tmp_path / "tool-engine.toml").write_text('[sources]\nshp = "sqlite:///shop.db"\n')
    assert "has no source" not in command("validate").out
