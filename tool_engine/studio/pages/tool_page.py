"""What is one tool, who may call it, and does it do what its definition says?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tool_engine.access.problem import Problem
from tool_engine.studio.visit import Page, Visit, show_at

_LONGEST_LINK: Final = 4_000
"""Characters of arguments that an address holds."""
_MOST_LISTED: Final = 200
"""Arguments, and cases of a test, on the page."""
_MOST_SHOWN: Final = 20
"""Examples on the page."""


@show_at("GET", "/tools/{name}", scope="read")
async def show_tool(visit: Visit) -> Page:
    """Show a tool, and to those that operate also its definition."""
    return await _show_page(visit)


@show_at("POST", "/tools/{name}/tests", scope="operate")
async def run_tests(visit: Visit) -> Page:
    """Run the tests of a tool's definition, and show what has come of each."""
    name, report, problem = visit.parts["name"], None, None
    try:
        report = await visit.api.post("/v1/tools/{}/tests", name)
    except Problem as error:
        problem = error
    if visit.is_partial:
        values = {"report": report, "problem": problem, "most": _MOST_LISTED}
        return Page("tool_tests.html", values)
    return await _show_page(visit, report, problem)


async def _show_page(visit: Visit, report: Any = None, problem: Problem | None = None) -> Page:
    tool = await visit.api.get("/v1/tools/{}", visit.parts["name"])
    name = tool["name"]
    statistics, unread = await visit.api.find("/v1/statistics", query={"tool_name": name})
    definition = None
    if visit.principal.may("operate"):
        definition = await visit.api.get("/v1/tools/{}/definition", name)
    arguments = list_arguments(tool["input_schema"])
    values = {
        "tool": tool,
        "statistics": statistics,
        "unread": unread,
        "arguments": arguments[:_MOST_LISTED],
        "more_arguments": max(0, len(arguments) - _MOST_LISTED),
        "examples": [_link_example(visit, name, each) for each in tool["examples"][:_MOST_SHOWN]],
        "definition": definition,
        "report": report,
        "problem": problem,
        "most": _MOST_LISTED,
    }
    return Page("tool.html", values, 200 if problem is None else problem.status)


def list_arguments(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the arguments that a schema names, those first that are needed."""
    properties = schema.get("properties")
    needed = schema.get("required") or []
    found = [
        {
            "name": name,
            "type": _describe_type(each),
            "is_needed": name in needed,
            "is_secret": isinstance(each, Mapping) and each.get("writeOnly") is True,
            "default": _describe_default(each),
            "description": each.get("description", "") if isinstance(each, Mapping) else "",
        }
        for name, each in (properties.items() if isinstance(properties, Mapping) else ())
    ]
    return sorted(found, key=lambda each: not each["is_needed"])


def _describe_type(schema: Any) -> str:
    """Return the kinds of values that a schema takes, in a few words."""
    if not isinstance(schema, Mapping):
        return ""
    if isinstance(schema.get("enum"), list):
        return " | ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"][:8])
    kinds = schema.get("type", [])
    said = [kinds] if isinstance(kinds, str) else [str(each) for each in kinds]
    if said == ["array"]:
        inner = _describe_type(schema.get("items"))
        return f"array of {inner}" if inner and len(inner) < 60 else "array"
    return " | ".join(said)


def _describe_default(schema: Any) -> str | None:
    if not isinstance(schema, Mapping) or "default" not in schema:
        return None
    if schema.get("writeOnly") is True:
        return "[hidden]"
    return json.dumps(schema["default"], ensure_ascii=False)


def _link_example(visit: Visit, name: str, example: Mapping[str, Any]) -> dict[str, Any]:
    """Return an example with the place where it is ready to be tried."""
    arguments = json.dumps(example.get("params", {}), ensure_ascii=False)
    is_short = len(arguments) <= _LONGEST_LINK
    link = visit.link("/tester", {"tool": name, "arguments": arguments}) if is_short else None
    return {
        "description": example.get("description", ""),
        "params": example.get("params", {}),
        "output": example.get("output"),
        "link": link if visit.principal.may("call") else None,
    }


ROUTES = (show_tool, run_tests)
