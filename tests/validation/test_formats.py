"""Are the formats that a definition may ask for held, and explained in words?"""

from __future__ import annotations

from typing import Final

import pytest

from tool_engine import Tool, ToolCategory, ToolParameter, ToolParameterValidator
from tool_engine.catalog.definition.keywords import FORMATS

VALUES: Final[dict[str, tuple[str, str]]] = {
    "date": ("2026-01-31", "2026-02-31"),
    "date-time": ("2026-01-31T09:30:00Z", "2026-01-31 09:30"),
    "duration": ("PT1H30M", "90 minutes"),
    "email": ("ann@example.com", "ann at example.com"),
    "hostname": ("api.example.com", "-api.example.com"),
    "idn-email": ("änn@example.com", "änn"),
    "idn-hostname": ("bücher.example", "-bücher"),
    "ipv4": ("192.0.2.1", "192.0.2.256"),
    "ipv6": ("2001:db8::1", "192.0.2.1"),
    "iri": ("https://example.com/ä", "example"),
    "iri-reference": ("../ä", "\\\\"),
    "json-pointer": ("/items/0", "items"),
    "regex": ("^a+$", "("),
    "relative-json-pointer": ("1/items", "items"),
    "time": ("09:30:00Z", "9:30"),
    "uri": ("https://example.com/path", "example.com"),
    "uri-reference": ("../path", "\\\\"),
    "uri-template": ("/users/{id}", "/users/{id"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000", "123e4567"),
}
"""For each format a value that has it and one that has not."""


def tool_of(format_name: str) -> Tool:
    """A tool with one parameter of the format."""
    declared = ToolParameter("value", "string", schema={"format": format_name})
    return Tool("t", "t", "1.0", "", ToolCategory.CUSTOM, [], [declared], {})


def test_none_is_left_out() -> None:
    """K8: every format that a definition may name has its cases here."""
    assert VALUES.keys() == FORMATS


@pytest.mark.parametrize("name", sorted(VALUES))
def test_format(name: str) -> None:
    """K8: a value without the format is refused, in words that say what was expected."""
    right, wrong = VALUES[name]
    validator = ToolParameterValidator()
    assert validator.validate(tool_of(name), {"value": right}).is_valid
    (finding,) = validator.validate(tool_of(name), {"value": wrong}).errors
    assert (finding.error_type, finding.expected) == ("constraint_violation", name)
    assert finding.message.startswith(("'value' must be a ", "'value' must be an "))
    assert "format" not in finding.message
