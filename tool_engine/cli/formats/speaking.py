"""Which protocol, tools and findings does a command about formats work with?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from tool_engine.cli.broken import report_broken
from tool_engine.cli.console import as_text, make_console
from tool_engine.cli.failures import CommandError, suggest_name
from tool_engine.cli.files.checking import load_folder
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import make_table
from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import ToolCallingProtocol
from tool_engine.model.reply import ReplyFinding
from tool_engine.model.tool import Tool
from tool_engine.protocols.registry import PROTOCOLS, get_protocol

ProtocolOption = Annotated[
    str,
    typer.Option(
        "--protocol", "-p", metavar="P", help="How the model speaks, such as openai or vcp."
    ),
]


def tools_in(settings: Settings) -> dict[str, Tool]:
    """Return the folder's tools by name; report broken files on stderr."""
    folder = load_folder(settings)
    report_broken(settings, len(folder.errors))
    return folder.tools


def known_tools(settings: Settings) -> dict[str, Tool]:
    """Return the folder's tools; none if no folder is named or usual."""
    is_named = settings.chosen is not None or settings.read_file("tools") is not None
    is_there = is_named or Path(settings.tools).is_dir()
    return tools_in(settings) if is_there else {}


def chosen_tools(tools: dict[str, Tool], names: Sequence[str]) -> list[Tool]:
    """Return the named tools in order; without names, all enabled ones."""
    for name in names:
        if name not in tools:
            raise CommandError(
                f"there is no tool {name!r}{suggest_name(name, tools)}", error_type="tool_not_found"
            )
    enabled = [tool for tool in tools.values() if tool.is_enabled]
    return [tools[name] for name in dict.fromkeys(names)] if names else enabled


def make_protocol(name: str, tools: dict[str, Tool], **options: Any) -> ToolCallingProtocol:
    """Return the protocol of this name; those of this package know `tools`."""
    if name in PROTOCOLS:
        # From a list the protocol also learns the names that it sends; from a mapping not.
        options["tools"] = list(tools.values())
    try:
        return get_protocol(name, **{key: each for key, each in options.items() if each})
    except ConfigurationError as error:
        raise CommandError(str(error)) from error


def finding_facts(findings: Iterable[ReplyFinding]) -> list[dict[str, Any]]:
    return [msgspec.structs.asdict(finding) for finding in findings]


def has_errors(findings: Iterable[ReplyFinding]) -> bool:
    """Return True if something that the model wanted does not happen."""
    return any(finding.level == "error" for finding in findings)


def print_findings(findings: Sequence[ReplyFinding], *, stderr: bool = False) -> None:
    if not findings:
        return
    table = make_table("findings", "level", "type", "about", "message")
    for finding in findings:
        table.add_row(
            as_text(finding.level, "red" if finding.level == "error" else "yellow"),
            as_text(finding.error_type),
            as_text(finding.call_id or finding.tool_name or ""),
            as_text(finding.message),
        )
    make_console(stderr=stderr).print(table)


def prompt_of(protocol: Any, tools: Sequence[Tool]) -> str:
    """Return the system prompt about the tools, if the protocol has one."""
    make = getattr(protocol, "prompt", None)
    return str(make(tools)) if callable(make) else ""


def findings_of(protocol: Any, tools: Sequence[Tool]) -> list[ReplyFinding]:
    """Return what the format cannot express; formats of other packages report nothing."""
    find = getattr(protocol, "definition_findings", None)
    return list(find(tools)) if callable(find) else []
