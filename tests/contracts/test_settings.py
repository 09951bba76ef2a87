"""Does every setting refuse what it cannot hold, when it is made, by the name of its field?"""

from __future__ import annotations

import math
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from types import UnionType
from typing import Any, Final

import msgspec
import pytest

from tool_engine import (
    AdaptivePolicy,
    BreakerPolicy,
    ConcurrencyConfig,
    ConfigurationError,
    CycleOptions,
    KeyLimits,
    OverloadPolicy,
    Permission,
    PermissionRule,
    Presentation,
    ResultLimits,
    RetryPolicy,
    ReturnType,
    Skill,
    ToolCallConfig,
    ToolConcurrency,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolGroup,
    ToolRate,
)
from tool_engine.executors.mcp.server_settings import MCPServerSettings
from tool_engine.model.record import RecordQuery
from tool_engine.model.settings.databases import DatabaseSource
from tool_engine.model.settings.retention import RecordRetention

SETTINGS: Final[dict[type[msgspec.Struct], dict[str, Any]]] = {
    AdaptivePolicy: {},
    BreakerPolicy: {},
    ConcurrencyConfig: {},
    CycleOptions: {},
    DatabaseSource: {"url": "sqlite:///shop.db"},
    KeyLimits: {},
    MCPServerSettings: {"name": "s"},
    OverloadPolicy: {},
    Permission: {},
    PermissionRule: {"tool": "pay", "permission": Permission()},
    Presentation: {},
    RecordQuery: {},
    RecordRetention: {},
    ResultLimits: {},
    RetryPolicy: {"attempts": 2},
    ReturnType: {"type": "string"},
    Skill: {"name": "s", "desc": "d", "prompt": "p"},
    ToolCallConfig: {},
    ToolConcurrency: {},
    ToolEngineConfig: {},
    ToolExecutionContext: {},
    ToolGroup: {"name": "g"},
    ToolRate: {"calls": 1, "period": 1.0},
}
"""Every type of settings, and the fields that it cannot be made without."""

VALUES: Final[dict[str, Any]] = {
    "object": object(),
    "text": "Ünknown",
    "word for no": "false",
    "bytes": b"x",
    "number": 1.5,
    "whole number": 3,
    "switch": True,
    "not a number": math.nan,
    "list": [object()],
    "mapping": {"a": object()},
    "mapping of numbers": {1: 2},
}
KINDS: Final[dict[type, type | tuple[type, ...]]] = {
    float: (float, int),
    tuple: (tuple, list),
    frozenset: (frozenset, set, list, tuple),
}
"""What is taken beside the kind itself."""


def kinds_of(annotation: Any) -> Iterator[type]:
    """The kinds of values that an annotation names."""
    origin = typing.get_origin(annotation) or annotation
    if origin in (UnionType, typing.Union):
        for each in typing.get_args(annotation):
            yield from kinds_of(each)
    elif isinstance(origin, type) and origin is not Any:
        yield origin


def may_hold(annotation: Any, value: Any) -> bool:
    """Whether a value is of one of the kinds that an annotation names."""
    for kind in kinds_of(annotation):
        if isinstance(value, bool) and kind is not bool:
            continue
        if isinstance(value, KINDS.get(kind, kind)):
            return True
        # A word stands for a choice, and a mapping of its fields for a structure.
        if issubclass(kind, Enum | msgspec.Struct | Mapping) and isinstance(value, str | Mapping):
            return True
        if kind.__name__ == "Callable" and callable(value):
            return True
    return False


FIELDS: Final = [
    pytest.param(kind, field, id=f"{kind.__name__}.{field.name}")
    for kind in SETTINGS
    for field in msgspec.structs.fields(kind)
    if not field.name.startswith("_")
]


def refusal_of(kind: type[msgspec.Struct], fields: dict[str, Any]) -> str:
    """Why the setting was refused; empty: it was taken."""
    try:
        kind(**{**SETTINGS[kind], **fields})
    except ConfigurationError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_wrong_kinds(kind: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> None:
    """A value of another kind is refused when the setting is made; the error names the field."""
    for name, value in VALUES.items():
        if may_hold(field.type, value):
            continue
        message = refusal_of(kind, {field.name: value})
        assert field.name.split("_")[-1] in message, f"{name}: {message}"


RANGES: Final[list[tuple[type[msgspec.Struct], dict[str, Any], str]]] = [
    (ToolCallConfig, {"limit": -5}, r"limit must be a whole number >= -1, got -5"),
    (ToolCallConfig, {"limit": 10**400}, "limit must be a whole number from -1 to"),
    (ToolCallConfig, {"tool_limits": {"a": -2}}, r"tool_limits\['a'\] must be a whole number >="),
    (ToolCallConfig, {"protocol": "OpenAI"}, r"protocol .*did you mean 'openai'\?"),
    (ToolCallConfig, {"protocol": "soap"}, "protocol must be one of openai, .*, got 'soap'"),
    (ToolEngineConfig, {"max_threads": 2**63}, "max_threads must be a whole number from 1 to"),
    (ToolEngineConfig, {"keep_generations": 10**400}, "keep_generations must be"),
    (ConcurrencyConfig, {"bypass_caller_types": {"a": 1}}, "bypass_caller_types must be a set"),
    (CycleOptions, {"tools": [3]}, "tools"),
    (CycleOptions, {"aliases": {"a": 3}}, "aliases"),
    (CycleOptions, {"format_results": "no"}, "format_results must be True or False"),
    (RetryPolicy, {"attempts": 0}, "attempts must be a whole number >= 1, got 0"),
    (RetryPolicy, {"backoff": -1.0}, "backoff"),
    (RetryPolicy, {"on": "timeout"}, "on"),
    (RetryPolicy, {"on": ("time_out",)}, r"did you mean 'timeout'\?"),
    (ToolGroup, {"is_enabled": "false"}, "is_enabled must be True or False"),
    (ToolGroup, {"skills": ["read"]}, "skills"),
    (Skill, {"always_load": "no"}, "always_load must be True or False"),
    (PermissionRule, {"permission": "deny"}, "permission"),
    (ToolExecutionContext, {"priority": 10**400}, "priority must be a whole number from"),
    (ToolExecutionContext, {"timeout": math.nan}, "timeout must be a positive"),
    (RecordQuery, {"limit": 2**63}, "limit must be a whole number from 0 to"),
]


@pytest.mark.parametrize(("kind", "fields", "message"), RANGES)
def test_out_of_range(kind: type[msgspec.Struct], fields: dict[str, Any], message: str) -> None:
    """A value that no engine could keep to is refused, with what is allowed or meant."""
    with pytest.raises(ConfigurationError, match=message):
        kind(**{**SETTINGS[kind], **fields})


def test_least_and_most() -> None:
    """What stands at the edge is taken: no limit is 0 or -1, and an own protocol has its name."""
    for limit in (-1, 0, 1):
        assert ToolCallConfig(limit=limit, tool_limits={"a": limit}).limit == limit
    assert ToolCallConfig(protocol="openai_responses").protocol == "openai_responses"
    assert RetryPolicy(1, 0.0, ("timeout",)).attempts == 1
