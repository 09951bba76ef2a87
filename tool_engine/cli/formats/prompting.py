"""Which text or definitions describe the tools to a model?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from tool_engine.cli.console import json_text, print_json, visible
from tool_engine.cli.failures import EXIT_OK
from tool_engine.cli.formats.speaking import (
    chosen_tools,
    finding_facts,
    make_protocol,
    print_findings,
    tools_in,
)
from tool_engine.cli.settings import Settings
from tool_engine.model.reply import ReplyFinding
from tool_engine.model.tool import Tool


def print_prompt(
    settings: Settings,
    protocol_name: str,
    names: Sequence[str],
    *,
    language: str | None,
    as_json: bool,
) -> int:
    """Print the text of the system prompt, or definitions as JSON.

    What the format cannot express goes to stderr.
    """
    known = tools_in(settings)
    tools = chosen_tools(known, names)
    protocol = make_protocol(protocol_name, known, language=language)
    definitions = protocol.definitions(tools)
    prompt = prompt_of(protocol, tools)
    findings = findings_of(protocol, tools)
    if as_json:
        facts = {"definitions": definitions, "prompt": prompt, "findings": finding_facts(findings)}
        print_json({"protocol": protocol_name, **facts})
        return EXIT_OK
    text = prompt or (definitions if isinstance(definitions, str) else json_text(definitions))
    # A pipe gets the text as it is; a description must not steer a terminal.
    sys.stdout.write((visible(text) if sys.stdout.isatty() else text).rstrip("\n") + "\n")
    print_findings(findings, stderr=True)
    return EXIT_OK


def prompt_of(protocol: Any, tools: Sequence[Tool]) -> str:
    """Return the system prompt about the tools, if the protocol has one."""
    make = getattr(protocol, "prompt", None)
    return str(make(tools)) if callable(make) else ""


def findings_of(protocol: Any, tools: Sequence[Tool]) -> list[ReplyFinding]:
    """Return what the format cannot express; formats of other packages report nothing."""
    find = getattr(protocol, "definition_findings", None)
    return list(find(tools)) if callable(find) else []
