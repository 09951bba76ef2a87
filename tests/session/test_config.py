"""What may one conversation do, and how much of it?"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tool_engine.approval.policy import PermissionRule
from tool_engine.errors import ConfigurationError
from tool_engine.model.permission import ExecutionPolicy, Permission, ResultPolicy
from tool_engine.session.config import ToolCallConfig


def test_the_fields_of_the_document_come_first() -> None:
    """A5-A12: in its order, under Python names."""
    names = msgspec.structs.fields(ToolCallConfig)[:9]
    assert [each.name for each in names] == [
        *("enabled", "mode", "tool_toggles", "default_tool_enabled", "max_iterations", "timeout"),
        *("require_confirmation", "parallel_execution", "protocol"),
    ]
    config = ToolCallConfig()
    assert (config.enabled, config.mode, config.protocol, config.timeout) == (
        *(True, "auto", "vcp", 30.0),
    )


def test_the_names_of_the_document_are_taken() -> None:
    """A7-A11: with them the timeout is in milliseconds. A9."""
    config = ToolCallConfig.from_dict(
        {
            "enabled": True,
            "toolToggles": {"a": False},
            "defaultToolEnabled": False,
            "maxIterations": 5,
            "timeout": 30000,
            "requireConfirmation": True,
            "parallelExecution": False,
            "protocol": "vcp",
        }
    )
    assert (config.timeout, config.max_iterations, config.tool_toggles) == (30.0, 5, {"a": False})
    assert (config.default_tool_enabled, config.asks_always) == (False, True)
    assert not config.parallel_execution
    assert ToolCallConfig.from_dict({"timeout": 3}).timeout == 3.0


def test_a_word_is_a_permission() -> None:
    """X3: wherever a permission stands, also in the spelling of the originals."""
    config: Any = ToolCallConfig
    made = config(
        permission="deny",
        rules={"a": "ask-once", "b": {"result": "always"}},
        tool_permissions={"c": Permission(execution=ExecutionPolicy.AUTO)},
    )
    assert made.permission == Permission(execution=ExecutionPolicy.DENY)
    assert made.rules["a"].execution is ExecutionPolicy.ASK_ONCE
    assert made.rules["b"].result is ResultPolicy.ALWAYS
    assert ToolCallConfig.from_dict(json.loads(json.dumps(made.to_dict()))) == made


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "sometimes"},
        {"language": "de"},
        {"enabled": "yes"},
        {"default_tool_enabled": 1},
        {"max_iterations": 0},
        {"max_calls": 0},
        {"max_calls_per_turn": -1},
        {"max_tokens": 1.5},
        {"max_seconds": 0},
        {"timeout": -1},
        {"approval_timeout": float("nan")},
        {"hint_at": 1},
        {"stop_at": 4, "hint_at": 5},
        {"capacity": 0},
        {"rules": {"a b": "deny"}},
        {"rules": {"a": "perhaps"}},
        {"rules": {"a": 7}},
        {"rules": ["a"]},
        {"rules": {"a": {"nonsense": 1}}},
        {"permission": 7},
        {"limit": "8000"},
        {"limit": 1.5},
        {"tool_limits": {"a": None}},
        {"max_uses": {"a": 0}},
        {"tool_toggles": {"a": "yes"}},
        {"tool_toggles": ["a"]},
        {"group_toggles": {"a": 1}},
        {"protocol": ""},
        {"default_group_enabled": "no"},
        {"default_group_enabled": {"a": None}},
        {"enabled": {"a": True}},
    ],
    ids=str,
)
def test_what_cannot_be_is_told(wrong: dict[str, Any]) -> None:
    """A setting that cannot be is a ConfigurationError that names it, in code and from JSON."""
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        ToolCallConfig(**wrong)
    with pytest.raises(ConfigurationError):
        ToolCallConfig.from_dict(wrong)


def test_rules_as_a_list() -> None:
    """X3: rules that code has made say the same as those that are written; none is lost."""
    rule = PermissionRule.parse("w:path=x*::SilentReject", Permission(execution="deny"))  # type: ignore[arg-type]
    other = PermissionRule("r", Permission(result="always"))  # type: ignore[arg-type]
    settings = ToolCallConfig(rules=[rule, other])  # type: ignore[arg-type]
    assert settings.permission_rules() == [rule, other]
    assert ToolCallConfig.from_dict(settings.to_dict()) == settings
    with pytest.raises(ConfigurationError, match="rules has 'r' twice"):
        ToolCallConfig(rules=[other, rule, other])  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="rules must be a mapping"):
        ToolCallConfig(rules=["r"])  # type: ignore[arg-type]


def test_the_place_of_a_mistake_is_told() -> None:
    """In a mapping it is the key, so that one of a hundred toggles is found."""
    with pytest.raises(ConfigurationError, match=r"^tool_toggles\['b'\]: Expected `bool`, got"):
        ToolCallConfig(tool_toggles={"a": True, "b": 1})  # type: ignore[dict-item]
    with pytest.raises(ConfigurationError, match=r"^max_uses\[5\]: Expected `str`"):
        ToolCallConfig(max_uses={5: 1})  # type: ignore[dict-item]


def test_nobody_changes_it_from_outside() -> None:
    """What was checked stays: who passed a mapping may go on using it. S35."""
    toggles = {"a": False}
    config = ToolCallConfig(tool_toggles=toggles)
    toggles["a"] = True
    assert config.tool_toggles == {"a": False}


def test_defaults_of_groups_and_tools() -> None:
    """S33: `groupDefaults` and `toolDefaults` are what is on from the start."""
    config = ToolCallConfig.from_dict({"groupDefaults": {"g": True}, "toolDefaults": {"a": False}})
    assert (config.group_toggles, config.tool_toggles) == ({"g": True}, {"a": False})


TWICE: list[Any] = [
    {"toolToggles": {"a": False}, "toolDefaults": {"a": True}},
    {"toolToggles": {"a": False}, "tool_toggles": {"a": True}},
    {"requireConfirmation": True, "require_confirmation": False},
    {"maxIterations": 5, "timeout": 10**400},
]


@pytest.mark.parametrize(
    "wrong", [{"nonsense": 1}, {"toolToggles": {}, "timeout": "soon"}, [], 7, *TWICE]
)
def test_what_is_none_is_told(wrong: Any) -> None:
    """What is no mapping of settings is told, too."""
    with pytest.raises(ConfigurationError):
        ToolCallConfig.from_dict(wrong)
