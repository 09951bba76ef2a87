"""How do tools, results, findings and facts look as tables?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from rich import box
from rich.table import Table

from tool_engine.cli.console import as_text, json_text
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.content.blocks import read_content, write_text
from tool_engine.model.event import ToolEngineEvent
from tool_engine.model.group import ToolGroup
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool
from tool_engine.redaction import redact

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s|(?<=[。！？])|\n")
_WHOLE_NAME: Final = 24
"""Characters of a name that a narrow terminal does not break, so that it can be copied."""
OUTCOME_STYLES: Final = {"succeeded": "green", "rejected": "yellow", "cancelled": "yellow"}


def make_table(title: str, *columns: str, title_style: str = "bold") -> Table:
    table = Table(
        title=title or None, title_justify="left", title_style=title_style, box=box.SIMPLE
    )
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def tools_table(tools: Iterable[Tool], title: str = "") -> Table:
    table = make_table(title, "name", "version", "category", "effect", "description")
    for tool in tools:
        table.add_row(
            as_text(tool.name, "bold cyan"),
            as_text(tool.version),
            as_text(tool.category.value),
            as_text(tool.effect),
            as_text(f"{tool.title}: " if tool.title else "")
            + as_text(first_sentence(tool.description)),
        )
        _keep_whole(table, 0, tool.name)
    return table


def groups_table(groups: Mapping[str, ToolGroup], tools: Iterable[Tool]) -> Table:
    table = make_table(count_text(len(groups), "group"), "name", "version", "on", "tools", "skills")
    known = list(tools)
    for group in groups.values():
        table.add_row(
            as_text(group.name, "bold cyan"),
            as_text(group.version),
            "yes" if group.is_enabled else "no",
            as_text(", ".join(tool.name for tool in group.members(known))),
            as_text(", ".join(skill.name for skill in group.skills)),
        )
        _keep_whole(table, 0, group.name)
    return table


def parameters_table(parameters: Iterable[ToolParameter]) -> Table:
    table = make_table("parameters", "name", "type", "required", "default", "rules", "description")
    for parameter in parameters:
        default = ""
        if parameter.has_default:
            names = frozenset({parameter.name} if parameter.secret else ())
            shown = redact({parameter.name: parameter.default}, names)[parameter.name]
            default = json_text(shown, indent=None)
        table.add_row(
            as_text(parameter.name, "bold cyan"),
            as_text(parameter.type),
            "yes" if parameter.required else "no",
            as_text(default),
            as_text(rules_text(parameter)),
            as_text(parameter.description),
        )
    return table


def rules_text(parameter: ToolParameter) -> str:
    rules = dict(parameter.validation)
    if parameter.schema:
        rules["schema"] = parameter.schema
    if parameter.secret:
        rules["secret"] = True
    return "\n".join(f"{key}: {_value_text(value)}" for key, value in rules.items())


def findings_table(findings: Iterable[Mapping[str, Any]], title: str = "findings") -> Table:
    table = make_table(title, "level", "path", "type", "message")
    for finding in findings:
        level = str(finding.get("level", "error"))
        table.add_row(
            as_text(level, "yellow" if level == "warning" else "red"),
            as_text(str(finding.get("path") or finding.get("parameter") or "")),
            as_text(str(finding.get("error_type", ""))),
            as_text(str(finding.get("message", ""))),
        )
    return table


def result_text(result: ToolExecutionResult) -> str:
    """Return the output or error of a call as one short line."""
    if result.is_success:
        parts = read_content(result.output)
        return _shorten_text(write_text(parts) if parts else json_text(result.output, indent=None))
    return _shorten_text(f"{result.error_type}: {result.error or ''}")


def results_table(
    results: Iterable[ToolExecutionResult],
    title: str = "",
    *,
    text_of: Callable[[ToolExecutionResult], str] = result_text,
) -> Table:
    table = make_table(title, "#", "tool", "outcome", "waited", "ran", "output or error")
    for number, result in enumerate(results, 1):
        outcome = result.outcome.value
        table.add_row(
            str(number),
            as_text(result.tool_name, "bold cyan"),
            as_text(outcome, OUTCOME_STYLES.get(outcome, "red")),
            _show_milliseconds(result.metadata.get("queue_wait")),
            _show_milliseconds(result.execution_time),
            as_text(text_of(result)),
        )
        _keep_whole(table, 1, result.tool_name)
    return table


def event_text(event: ToolEngineEvent) -> str:
    if event.error:
        return " ".join(event.error.split())
    if event.tool is not None:
        level = event.data.get("level")
        return f"version {event.tool.version}" + (f", {level}" if level else "")
    return ", ".join(
        f"{key}: {_data_text(value)}"
        for key, value in event.data.items()
        # The file stands in a column of its own.
        if value not in ([], {}, "", None) and key != "file"
    )


def _data_text(value: Any) -> str:
    """Return a value of an event as text, and a list with blanks between."""
    if isinstance(value, list):
        return " ".join(map(_data_text, value))
    return value if isinstance(value, str) else json_text(value, indent=None)


def count_text(number: int, noun: str) -> str:
    """Return `1 tool`, `2 tools`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def fact_table(title: str, facts: Mapping[str, Any]) -> Table:
    table = make_table(title, "", "")
    table.show_header = False
    for name, value in facts.items():
        table.add_row(as_text(name, "bold cyan"), as_text(_value_text(value)))
    return table


def first_sentence(text: str) -> str:
    # A list has no room for the sentences on when to use the tool and when not.
    return _SENTENCE_END.split(text.strip(), maxsplit=1)[0]


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.4g}"
    return json_text(value, indent=None)


def _keep_whole(table: Table, column: int, name: str) -> None:
    width = table.columns[column].min_width or 0
    table.columns[column].min_width = max(width, min(len(name), _WHOLE_NAME))


def _shorten_text(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def _show_milliseconds(seconds: Any) -> str:
    return "" if seconds is None else f"{float(seconds) * 1000:.1f} ms"
