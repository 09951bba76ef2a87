"""`schema` prints the JSON Schema of a definition."""

from collections.abc import Callable
from typing import Any


def test_schema_prints_the_schema_of_a_definition(command: Callable[..., Any]) -> None:
    """One JSON document, with or without `--json`."""
    kinds = command("schema").json["$defs"]
    assert kinds["tool"]["required"] == ["name", "description"]
    assert kinds["group"]["required"] == ["kind", "name"]
    assert command("schema", "--json").out == command("schema").out
