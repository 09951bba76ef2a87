"""Are the rules of one definition bounded in number and in size?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine import DefinitionError, ToolConfigLoader
from tool_engine.catalog.definition.workload import Workload
from tool_engine.catalog.limits import (
    MAX_LARGE_PATTERNS,
    MAX_PATTERN_LENGTH,
    MAX_PATTERNS,
    MAX_SCHEMAS,
)


def load(parameters: list[dict[str, Any]]) -> list[str]:
    """The messages of a definition with these parameters."""
    named = [
        {"name": f"p{number}", "type": "string", "description": "d", **parameter}
        for number, parameter in enumerate(parameters)
    ]
    try:
        ToolConfigLoader().from_mapping({"name": "t", "description": "d", "parameters": named})
    except DefinitionError as error:
        return [f"{problem.path}: {problem.message}" for problem in error.problems]
    return []


def patterns(count: int, pattern: str) -> list[dict[str, Any]]:
    return [{"pattern": pattern.replace("N", str(number))} for number in range(count)]


def test_number_of_patterns() -> None:
    """K8: so many patterns may be; the next is one too many."""
    assert load(patterns(MAX_PATTERNS, "^aN$")) == []
    (message,) = load(patterns(MAX_PATTERNS + 1, "^aN$"))
    assert message.startswith(f"parameters[{MAX_PATTERNS}].pattern: ")
    assert f"at most {MAX_PATTERNS} patterns" in message


def test_number_of_large_patterns() -> None:
    r"""K8: `\p{L}{1,100}` may stand a few times, because it takes megabytes."""
    assert load(patterns(MAX_LARGE_PATTERNS, r"^\p{L}{1,100}N$")) == []
    (message,) = load(patterns(MAX_LARGE_PATTERNS + 1, r"^\p{L}{1,100}N$"))
    assert f"at most {MAX_LARGE_PATTERNS} large patterns" in message


def test_length_of_a_pattern() -> None:
    """K8: a pattern is not a book."""
    assert load(patterns(1, "a" * MAX_PATTERN_LENGTH)) == []
    (message,) = load(patterns(1, "a" * (MAX_PATTERN_LENGTH + 1)))
    assert f"has {MAX_PATTERN_LENGTH + 1} characters" in message


@pytest.mark.parametrize("parameters", [1, 2])
def test_number_of_schemas(parameters: int) -> None:
    """K8: the schemas of all parameters count together, and one fault says so."""
    each = MAX_SCHEMAS // parameters - 1
    schemas: list[dict[str, Any]] = [{"schema": {"anyOf": [{}] * each}} for _ in range(parameters)]
    assert load(schemas) == []
    schemas[-1]["schema"]["anyOf"] = [{}] * (each + 9)
    (message,) = load(schemas)
    assert f"at most {MAX_SCHEMAS} raw schemas" in message


def test_reading_stops_after_too_many_schemas() -> None:
    """K8: whoever walks through the schemas is told to stop, and says so once."""
    workload = Workload()
    assert [workload.schema_fault(()) for _ in range(MAX_SCHEMAS)] == [None] * MAX_SCHEMAS
    assert workload.is_bearable
    assert workload.schema_fault(("schema",)) is not None
    assert not workload.is_bearable
    assert workload.schema_fault(("schema",)) is None


def test_each_definition_counts_anew() -> None:
    """K8: one definition's rules do not count against the next one."""
    for _ in range(3):
        assert load(patterns(MAX_PATTERNS - 1, "^bN$")) == []
    assert Workload().pattern_fault("a", ()) is None
