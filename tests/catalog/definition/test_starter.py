"""Does every starter load, lint clean, and fit its name?"""

from __future__ import annotations

import ast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.catalog.definition.starter import (
    KINDS,
    SCHEMA_FILE,
    better_name,
    make_starter,
    schema_text,
)
from tool_engine.catalog.definition.structure import definition_schema
from tool_engine.catalog.lint import lint_text
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.executors.executor_registry import BUILTIN_EXECUTORS, ExecutorRegistry


@pytest.mark.parametrize("kind", KINDS)
def test_a_starter_is_a_good_definition(kind: str) -> None:
    """K3, R5: it loads without a warning, its entry is right, and the linter has nothing to say."""
    text = make_starter(kind, "my_tool").definition
    tool = ToolConfigLoader().load_text(text, "my_tool.yaml")
    assert (tool.name, tool.findings) == ("my_tool", [])
    # The module of a Python tool is written beside its file: see the tests of `tool-engine new`.
    assert kind == "python" or ExecutorRegistry().check(tool) == []
    assert [str(finding) for finding in lint_text(text, "my_tool.yaml")] == []
    assert tool.examples
    assert tool.tests
    assert text.count("#") >= 6
    assert text.splitlines()[0] == f"# yaml-language-server: $schema={SCHEMA_FILE}"
    assert max(map(len, text.splitlines())) <= 110


def test_every_executor_has_a_starter() -> None:
    """What runs a tool can be begun with `tool-engine new`."""
    assert set(BUILTIN_EXECUTORS) <= set(KINDS)
    handlers = {
        kind: ToolConfigLoader().load_text(make_starter(kind, "my_tool").definition).handler
        for kind in KINDS
    }
    assert handlers == {
        **{name: name for name in BUILTIN_EXECUTORS},
        "http": "my_tool",
        "mcp_tool": "my_tool",
        "python": "tools.my_tool:run",
    }


def test_only_a_tool_that_needs_code_gets_code() -> None:
    """The handler of a Python tool is Python, and has the function that the file names."""
    assert [kind for kind in KINDS if make_starter(kind, "x").handler is not None] == ["python"]
    handler = make_starter("python", "my_tool").handler
    assert handler is not None
    names = [each.name for each in ast.parse(handler).body if isinstance(each, ast.FunctionDef)]
    assert names == ["run"]


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("get_weather", None),
        ("GetWeather", "get_weather"),
        ("get weather!", "get_weather"),
        ("get__weather_", "get_weather"),
        ("getHTTPPage2", "get_httppage2"),
        ("2fast", "fast"),
        ("_x", "x"),
        ("天气", ""),
        ("", ""),
        ("../../etc/passwd", "etc_passwd"),
        ("a" * 65, "a" * 64),
        (f"{'a' * 63}_b", "a" * 63),
    ],
)
def test_a_bad_name_has_a_good_one_near(name: str, better: str | None) -> None:
    """K3, R4: what some provider refuses is not begun; the nearest good name is offered."""
    assert better_name(name) == better


@given(st.text(max_size=100))
def test_the_better_name_is_good(name: str) -> None:
    """R4: what is offered is good itself, so that a person types it once."""
    better = better_name(name)
    if better:
        assert better_name(better) is None


def test_the_published_schema_is_the_one_in_use() -> None:
    """K3: what editors are given is what the loader checks with, and ends with a line break."""
    assert msgspec.json.decode(schema_text()) == definition_schema()
    assert schema_text().endswith("}\n")
