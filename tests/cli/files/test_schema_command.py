"""`schema` prints the JSON Schema of a definition."""

import tomllib
from collections.abc import Callable
from typing import Any

from jsonschema import Draft202012Validator

from tests.cli.test_settings_file import WRONG
from tool_engine.cli.settings_file import known_settings


def test_schema_prints_the_schema_of_a_definition(command: Callable[..., Any]) -> None:
    """One JSON document, with or without `--json`."""
    kinds = command("schema").json["$defs"]
    assert kinds["tool"]["required"] == ["name", "description"]
    assert kinds["group"]["required"] == ["kind", "name"]
    assert command("schema", "--json").out == command("schema").out


def test_the_schema_of_settings_takes_what_the_command_line_takes(
    command: Callable[..., Any],
) -> None:
    """And refuses what it refuses by name or kind; ranges and addresses it leaves to it."""
    schema = command("schema", "settings").json
    Draft202012Validator.check_schema(schema)
    check = Draft202012Validator(schema)
    assert set(schema["properties"]) == set(known_settings())
    good = """
    tools = "tools"
    recursive = true
    lock = "enforce"
    mcp_servers = ".mcp.json"
    records = "none"
    [concurrency]
    strategy = "fair"
    bucket_rates = {http = "10/s", ai = {calls = 1, period = 2.0}}
    key_limits = {key = "caller_id", limit = 2}
    [sources]
    shop = "sqlite:///shop.db"
    other = {url = "sqlite:///a.db", readonly = true}
    """
    assert list(check.iter_errors(tomllib.loads(good))) == []
    by_value = ("max_concurrent = 0", "mysql:", '"calls.db"')
    for text, _, message in WRONG:
        is_left = any(each in text for each in by_value)
        assert check.is_valid(tomllib.loads(text)) == is_left, (text, message)


def test_the_catalog_leads_to_both_schemas(command: Callable[..., Any]) -> None:
    """As editors read it: names of files, and the address of their schema."""
    catalog = command("schema", "catalog", "--address", "https://tools.example/v1/").json
    assert {name for each in catalog["schemas"] for name in each["fileMatch"]} == {
        *("*.tool.yaml", "*.tool.yml", "tool-engine.toml")
    }
    assert [each["url"] for each in catalog["schemas"]] == [
        "https://tools.example/v1/tool.schema.json",
        "https://tools.example/v1/settings.schema.json",
    ]
    for words in (("catalog",), ("tool", "--address", "x")):
        wrong = command("schema", *words)
        assert (wrong.code, "schema catalog --address URL" in wrong.err) == (2, True)
    assert "did you mean 'settings'?" in command("schema", "setting").err
