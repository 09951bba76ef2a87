"""How is a tool written as a definition of the same tool?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec
import yaml

from tool_engine.catalog.definition.group_definition import GROUP
from tool_engine.catalog.definition.permission import permission_spec
from tool_engine.catalog.definition.server_definition import SERVER
from tool_engine.catalog.definition.short_form import short_form
from tool_engine.catalog.kinds import Definition, ServerDefinition
from tool_engine.catalog.yaml.scalars import UnreadableScalarError, resolve_plain
from tool_engine.errors import ConfigurationError
from tool_engine.model.group import Skill, ToolGroup
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.result import CutStrategy, ResultLimits
from tool_engine.model.schema import output_schema
from tool_engine.model.settings.concurrency import ToolConcurrency, ToolRate
from tool_engine.model.tool import EVERYONE, RetryPolicy, Tool

_PLAIN: Final = re.compile(r"[\w./][\w ./_-]*", re.ASCII)
_BLOCK: Final = re.compile(
    r"[^\s\x7f-\x9f\u2028\u2029\ufeff][^\x00-\x09\x0b-\x1f\x7f-\x9f"
    r"\u2028\u2029\ufeff\ufffe\uffff]*\n[^\x00-\x09\x0b-\x1f\x7f-\x9f"
    r"\u2028\u2029\ufeff\ufffe\uffff]*"
)
_UNITS: Final = {1.0: "s", 60.0: "min", 3600.0: "h", 86400.0: "d"}


def export_to_yaml(tool: Definition) -> str:
    """Write a definition as YAML; raise ConfigurationError if impossible."""
    return write_mapping(mapping_of(tool))


def write_mapping(definition: Mapping[str, Any]) -> str:
    """Write what `mapping_of` returns as YAML; raise ConfigurationError if impossible."""
    try:
        text: str = yaml.dump(
            dict(definition),
            Dumper=_Dumper,
            allow_unicode=True,
            sort_keys=False,
            default_flow_style=False,
            width=100,
        )
    except yaml.YAMLError as error:
        raise ConfigurationError(
            f"the {definition.get('kind', 'tool')} {definition['name']!r} cannot be written as "
            f"YAML: {error}; use JSON values only"
        ) from error
    return text


def definition_of(tool: Tool) -> dict[str, Any]:
    """Return the tool's definition as a mapping without keys at their default."""
    optional = {
        "tags": list(tool.tags),
        "parameters": (
            [_export_parameter(each) for each in tool.parameters]
            if tool.input_schema is None
            else tool.input_schema
        ),
        "entry": tool.implementation_config,
        "output": _export_output(tool.output),
        "output_mode": _none_if_default(tool.output_mode, "enforce"),
        "title": tool.title,
        "audience": None if tool.audience == EVERYONE else list(tool.audience),
        "aliases": list(tool.aliases),
        "vcp_command": tool.vcp_command,
        "author": tool.author,
        "icon": tool.icon,
        "shareable_scope": _none_if_default(tool.shareable_scope, "private"),
        "status": _none_if_default(tool.status, "published"),
        "timeout": tool.timeout,
        "retry": _export_retry(tool.retry),
        "effect": _none_if_default(tool.effect, "unknown"),
        "idempotent": tool.idempotent or None,
        "concurrency": _export_concurrency(tool.concurrency),
        "rate": _export_rate(tool.rate),
        "result": _export_limits(tool.result),
        "permission": permission_spec(tool.permission),
        "max_uses": tool.max_uses,
        "background": _none_if_default(tool.background, "allowed"),
        "examples": tool.examples,
        "tests": tool.tests,
    }
    said = {key: value for key, value in optional.items() if value not in (None, [], {})}
    if tool.accepts is not None:
        # An empty list has a meaning: nothing is taken by reference.
        said["accepts"] = tool.accepts
    if tool.annotations is not None:
        said["annotations"] = tool.annotations
    return {
        "name": tool.name,
        "version": tool.version,
        "description": tool.description,
        "category": tool.category.value,
        **said,
    }


def mapping_of(definition: Definition) -> dict[str, Any]:
    """Return what its file says of a tool, group or server."""
    if isinstance(definition, Tool):
        return definition_of(definition)
    if isinstance(definition, ToolGroup):
        return group_definition_of(definition)
    return server_definition_of(definition)


def server_definition_of(server: ServerDefinition) -> dict[str, Any]:
    said: dict[str, Any] = {"kind": SERVER, "name": server.name, "version": server.version}
    if server.description:
        said["description"] = server.description
    if not server.is_enabled:
        said["enabled"] = False
    return {**said, **server.content}


def group_definition_of(group: ToolGroup) -> dict[str, Any]:
    optional = {
        "description": group.description,
        "enabled": group.is_enabled,
        "tools": list(group.tools),
        "tags": list(group.tags),
        "categories": list(group.categories),
        "off": list(group.disabled_tools),
        "rules": group.rules,
        "skills": [_export_skill(skill) for skill in group.skills],
        "permission": permission_spec(group.permission),
    }
    said = {key: value for key, value in optional.items() if value}
    return {"kind": GROUP, "name": group.name, "version": group.version, **said}


def _export_skill(skill: Skill) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.structs.asdict(skill)
    return {key: value for key, value in values.items() if value}


def _export_parameter(parameter: ToolParameter) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": parameter.name, "type": parameter.type}
    if parameter.required:
        spec["required"] = True
    if parameter.has_default:
        spec["default"] = parameter.default
    spec["description"] = parameter.description
    if parameter.validation:
        spec["validation"] = parameter.validation
    if parameter.schema is not None:
        spec["schema"] = parameter.schema
    if parameter.secret:
        spec["secret"] = True
    return spec


def _export_output(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    if schema is None:
        return None
    spec = short_form(schema, is_output=True)
    return spec if output_schema(spec) == schema else {"schema": schema}


def _export_retry(retry: RetryPolicy | None) -> dict[str, Any] | None:
    if retry is None:
        return None
    return {"attempts": retry.attempts, "backoff": retry.backoff, "on": list(retry.on)}


def _export_concurrency(concurrency: ToolConcurrency) -> dict[str, Any]:
    values = {name: getattr(concurrency, name) for name in ToolConcurrency.__struct_fields__}
    # Backwards: of two keys that imply each other's value, the first one stays.
    for name in reversed(ToolConcurrency.__struct_fields__):
        fewer = {key: value for key, value in values.items() if key != name}
        if ToolConcurrency(**fewer) == concurrency:
            values = fewer
    if "collision" in values:
        values["collision"] = concurrency.collision.value
    if "breaker" in values:
        values["breaker"] = msgspec.structs.asdict(values["breaker"])
    return values


def _export_rate(rate: ToolRate | None) -> str | None:
    if rate is None:
        return None
    if rate.period in _UNITS:
        return f"{rate.calls}/{_UNITS[rate.period]}"
    # Unlike str(rate), this does not round.
    return f"{rate.calls}/{Decimal(repr(rate.period)):f}s"


def _export_limits(limits: ResultLimits | None) -> dict[str, Any] | None:
    if limits is None:
        return None
    values = {
        "max_chars": limits.max_chars,
        "max_items": limits.max_items,
        "strategy": _none_if_default(limits.strategy.value, CutStrategy.HEAD_TAIL.value),
        "select": limits.select,
        "limit": limits.limit,
        "show": None if limits.show is None else limits.show.value,
    }
    return {key: value for key, value in values.items() if value is not None}


def _none_if_default(value: str, default: str) -> str | None:
    return None if value == default else value


class _Dumper(yaml.SafeDumper):
    """Writes text so that `strict_yaml` reads the same text again."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if _PLAIN.fullmatch(text) and not text.endswith(" ") and _is_text(text):
        style = None
    else:
        style = "|" if _BLOCK.fullmatch(text) and " \n" not in text else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_text(text: str) -> bool:
    try:
        return isinstance(resolve_plain(text), str)
    except UnreadableScalarError:
        return False


_Dumper.add_representer(str, _represent_text)
