"""Does a tool that was written as YAML load as the same tool?"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.catalog.definition.export import definition_of, export_to_yaml
from tool_engine.catalog.definition.structure import definition_schema
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import ConfigurationError
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.settings.concurrency import (
    BreakerPolicy,
    CollisionPolicy,
    ToolConcurrency,
    ToolRate,
)
from tool_engine.model.tool import RetryPolicy, Tool

TOOL = definition_schema()["$defs"]["tool"]["properties"]
TEXTS = st.one_of(
    st.text(
        alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30
    ),
    st.text(alphabet="ab :-#\n'\"|>\t!&*%@`{}[],?~.\\", max_size=20),
    st.sampled_from(
        [
            "no",
            "1.10",
            "1e3",
            "0o7",
            "012",
            "0x1F",
            "~",
            "null",
            "true",
            ".inf",
            "<<",
            "=",
            "1:30",
            "a: b",
            "- a",
            "a #b",
            " a",
            "a ",
            "a\n",
            "\na",
            "a\n b\n",
            "\u2028",
            "\x85",
            "\ufeffa",
            "",
        ]
    ),
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def again(tool: Tool) -> Tool:
    loaded = ToolConfigLoader().load_text(export_to_yaml(tool))
    return msgspec.structs.replace(loaded, source=tool.source, findings=tool.findings)


def make(**changes: Any) -> Tool:
    tool = ToolConfigLoader().from_mapping({"name": "t", "description": "d"})
    return msgspec.structs.replace(tool, **changes)


def test_every_key_survives() -> None:
    """U20: load(export(tool)) equals tool, hash included, for every key that there is."""
    tool = ToolConfigLoader().from_mapping(
        {
            "name": "t",
            "version": "1.10",
            "description": "first\n\n  second: line\n",
            "category": "ai",
            "tags": ["no", "a b"],
            "author": "A",
            "icon": "🔧",
            "shareable_scope": "public",
            "status": "draft",
            "timeout": 1.5,
            "retry": {"attempts": 2},
            "effect": "read",
            "idempotent": True,
            "concurrency": {
                "bucket": "b",
                "priority": 1,
                "weight": 2,
                "queue_timeout": 3,
                "key": "params.p",
                "key_limit": 4,
                "collision": "keep_newest_queued",
                "breaker": {"failures": 2, "reset_after": 1.5, "probes": 3},
            },
            "rate": "7/3min",
            "title": "T",
            "audience": ["code"],
            "aliases": ["u"],
            "vcp_command": "c",
            "annotations": {"title": "T"},
            "result": {"max_chars": 500, "show": "summary"},
            "permission": "ask_always",
            "accepts": ["user"],
            "max_uses": 3,
            "background": "never",
            "examples": [{"params": {"p": "a1"}}],
            "tests": [{"params": {"p": "a1"}, "expect_error": "timeout"}],
            "output_mode": "warn",
            "output": {"type": "object", "properties": {"a": {"type": "array", "items": "string"}}},
            "entry": {"type": "http", "request": {"url": "https://x", "json": {"a": [1, None]}}},
            "parameters": [
                {
                    "name": "p",
                    "type": "string",
                    "description": "d",
                    "required": True,
                    "pattern": "^a\\d$",
                    "secret": True,
                },
                {
                    "name": "q",
                    "type": "string",
                    "description": "d",
                    "default": None,
                    "schema": {"type": ["string", "null"]},
                },
            ],
        }
    )
    assert again(tool) == tool
    # `returns` is another word for `output`, and a tool is what has no `kind`.
    assert definition_of(tool).keys() == TOOL.keys() - {"returns", "kind"}


def test_defaults_are_left_out() -> None:
    """U20: an exported definition says only what its author did."""
    assert definition_of(make()) == {
        "name": "t",
        "version": "1.0.0",
        "description": "d",
        "category": "custom",
        "entry": {"type": "custom"},
    }


@given(TEXTS)
def test_any_text_survives(text: str) -> None:
    """U20: a text that YAML could read otherwise is written so that it does not."""
    tool = make(description=f"x{text}", author=text)
    assert (again(tool).description, again(tool).author) == (f"x{text}", text)


@given(VALUES)
def test_any_value_survives(value: Any) -> None:
    """U20: whatever an entry holds is read back as it was."""
    tool = make(implementation_config={"type": "custom", "config": {"value": value}})
    assert again(tool).implementation_config == tool.implementation_config


@pytest.mark.parametrize(
    "rate",
    [
        ToolRate(1, 1.0),
        ToolRate(9, 0.125),
        ToolRate(3, 1234567.0),
        ToolRate(2, 90.0),
        ToolRate(1, 1 / 3),
    ],
)
def test_rates_survive(rate: ToolRate) -> None:
    """U20: a rate is written exactly."""
    assert again(make(rate=rate)).rate == rate


@st.composite
def limits(draw: st.DrawFn) -> ToolConcurrency:
    weight = draw(st.integers(1, 4))
    collision = draw(st.sampled_from(CollisionPolicy))
    least = draw(st.none() | st.integers(weight, 2**53 - 1))
    seconds = st.floats(0, 1e300, exclude_min=True)
    counts = st.integers(1, 2**53 - 1)
    return ToolConcurrency(
        draw(st.none() | TEXTS.filter(bool)),
        draw(st.integers(-(2**53) + 1, 2**53 - 1)),
        weight,
        draw(st.none() | seconds),
        draw(st.sampled_from([None, "tool", "conversation_id", "params", "params.no"])),
        None if collision is CollisionPolicy.SINGLE_FLIGHT else least,
        collision,
        draw(st.none() | st.builds(BreakerPolicy, counts, seconds, counts)),
    )


@given(limits())
def test_any_limits_survive(concurrency: ToolConcurrency) -> None:
    """C22, U20: whatever a tool's `concurrency` says, it loads as the same again."""
    parameter = ToolParameter("no", "string", description="d")
    tool = make(concurrency=concurrency, parameters=[parameter], effect="read")
    assert again(tool).concurrency == concurrency


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({}, None),
        ({"key": "tool"}, {"key": "tool"}),
        ({"key": "tool", "key_limit": 1}, {"key": "tool"}),
        ({"key_limit": 3, "weight": 3}, {"weight": 3, "key": "tool"}),
        ({"key_limit": 3}, {"key_limit": 3}),
        ({"collision": CollisionPolicy.REJECT}, {"collision": "reject"}),
        ({"collision": CollisionPolicy.SINGLE_FLIGHT}, {"collision": "single_flight"}),
        (
            {"collision": CollisionPolicy.SINGLE_FLIGHT, "key": "tool"},
            {"key": "tool", "collision": "single_flight"},
        ),
        (
            {"breaker": BreakerPolicy(probes=2)},
            {"breaker": {"failures": 5, "reset_after": 30.0, "probes": 2}},
        ),
    ],
)
def test_filled_in_limits_are_left_out(
    given: dict[str, Any], written: dict[str, Any] | None
) -> None:
    """U20: what follows from the other limits is not written."""
    assert definition_of(make(concurrency=ToolConcurrency(**given))).get("concurrency") == written


def test_policies_survive() -> None:
    """U20: policies are written with the values they have."""
    tool = make(
        retry=RetryPolicy(3, 0.0, ("timeout",)),
        idempotent=True,
    )
    assert again(tool).retry == tool.retry


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "string"},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
    ],
)
def test_any_output_survives(schema: dict[str, Any]) -> None:
    """K7: an output schema that the short keys cannot say is written raw."""
    assert again(make(output=schema)).output == schema


def test_foreign_values_are_refused() -> None:
    """U20: what YAML cannot say is an error that names the tool."""
    with pytest.raises(ConfigurationError, match="'t' cannot be written"):
        export_to_yaml(make(implementation_config={"type": "custom", "config": object()}))
