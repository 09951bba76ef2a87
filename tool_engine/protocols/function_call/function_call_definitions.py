"""How does the tag protocol describe tools, and how to call them?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from xml.sax.saxutils import quoteattr

from tool_engine.model.reply import ReplyFinding
from tool_engine.model.tool import Tool
from tool_engine.protocols.text.listed_parameters import (
    ListedParameter,
    find_unsaid,
    list_parameters,
)
from tool_engine.protocols.text.neutral_text import neutralize_text

_SAID: Final = frozenset({"type", "description", "default", "enum"})
_UNSAID: Final = "the style 'function' does not say {} of {}; the styles 'xml' and 'json' do"
_WORDS: Final = {
    "en": ("Description", "Parameters", "optional", "default: ", "one of: "),
    "zh": ("描述", "参数", "可选", "默认值: ", "可选值: "),
}


def _write_functions(tools: Iterable[Tool], language: str) -> str:
    return "\n\n".join(_write_function(tool, language) for tool in tools)


def _write_function(tool: Tool, language: str) -> str:
    description, parameters, *_ = _WORDS[language]
    listed = ", ".join(
        f"{name}{'' if is_required else '?'}: {_write_type(schema)}"
        for name, schema, is_required in list_parameters(tool)
    )
    lines = [f"function {tool.name}({listed}){_write_returned(tool)}"]
    lines.append(f"{description}: {tool.description}")
    details = [_write_line(each, language) for each in list_parameters(tool)]
    if details:
        lines += [f"{parameters}:", *details]
    return neutralize_text("\n".join(lines))


def _write_line(parameter: ListedParameter, language: str) -> str:
    name, schema, is_required = parameter
    _, _, optional, default, one_of = _WORDS[language]
    notes = [] if is_required else [optional]
    if "default" in schema:
        notes.append(default + _write_json(schema["default"]))
    if "enum" in schema:
        notes.append(one_of + ", ".join(map(_write_json, schema["enum"])))
    said = f" [{'; '.join(notes)}]" if notes else ""
    return f"  - {name}: {schema.get('description', '')}".rstrip() + said


def _write_xml(tools: Iterable[Tool], language: str) -> str:
    listed = [_write_xml_tool(tool) for tool in tools]
    # The list's own marks are not neutralized.
    return "\n".join(["<tool_list>", *listed, "</tool_list>"]) if listed else ""


def _write_xml_tool(tool: Tool) -> str:
    attributes = f"name={_quote_text(tool.name)} description={_quote_text(tool.description)}"
    lines = [f"<tool {attributes}>"]
    for name, schema, is_required in list_parameters(tool):
        rest = {key: value for key, value in schema.items() if key not in ("type", "description")}
        more = f" schema={_quote_text(_write_json(rest))}" if rest else ""
        lines.append(
            f"<parameter name={_quote_text(name)} required={_quote_text(str(is_required).lower())} "
            f"description={_quote_text(str(schema.get('description', '')))} "
            f"type={_quote_text(_write_type(schema))}{more}/>"
        )
    return "\n".join([*lines, "</tool>"])


def _quote_text(text: str) -> str:
    return quoteattr(neutralize_text(text))


def _write_json_list(tools: Iterable[Tool], language: str) -> str:
    lines = [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters_schema,
        }
        for tool in tools
    ]
    return "\n".join(neutralize_text(_write_json(line)) for line in lines)


DEFINITION_STYLES: Final[Mapping[str, Callable[[Iterable[Tool], str], str]]] = {
    "function": _write_functions,
    "xml": _write_xml,
    "json": _write_json_list,
}
"""Style -> its writer: D13, U44, and one JSON object for each tool."""


def find_losses(tool: Tool, style: str) -> Iterator[ReplyFinding]:
    """Yield what the definition leaves out."""
    for parameter in list_parameters(tool) if style == "function" else ():
        yield from find_unsaid(tool, parameter, _SAID, _UNSAID)


def _write_type(schema: Mapping[str, Any]) -> str:
    found = schema.get("type", "any")
    return found if isinstance(found, str) else " | ".join(map(str, found))


def _write_returned(tool: Tool) -> str:
    found = (tool.output or {}).get("type")
    return f": {found}" if isinstance(found, str) else ""


def _write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


_TAG: Final = (
    '<function_call>\n{"name": "NAME", "arguments": {"PARAMETER": VALUE}}\n</function_call>'
)
_JSON: Final = '{"tool_name": "NAME", "parameters": {"PARAMETER": VALUE}}'
INSTRUCTIONS: Final = {
    ("function_call", "en"): f"""\
You can use these tools:

{{tools}}

To call a tool, write its name and its arguments as JSON in this form:

{_TAG}

Write one tag for each call, as plain text and not in a code block. Then wait for the results.""",
    ("function_call", "zh"): f"""\
当需要时，你可以使用以下工具帮助回答问题:

{{tools}}

使用工具时，请使用以下格式:

{_TAG}

每次调用写一个标签，直接输出，不要放进代码块，然后等待函数结果。""",
    ("json", "en"): f"""\
You can use these tools:

{{tools}}

To call a tool, answer with nothing but a JSON object of this form:

{_JSON}

Write one object on a line of its own for each call, not in a code block.""",
    ("json", "zh"): f"""\
你可以使用以下工具:

{{tools}}

需要调用工具时，请只输出如下格式的 JSON:

{_JSON}

每次调用单独写一行，不要放进代码块。""",
}
WRAPPER: Final = {"en": "The request of the user:", "zh": "用户的请求:"}
"""The text before the user's own in a wrapped prompt. D9."""
