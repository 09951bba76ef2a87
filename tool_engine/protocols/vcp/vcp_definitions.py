"""How does VCP describe tools to a model, and how to call them?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tool_engine.model.json.returned_value import to_text
from tool_engine.model.reply import ReplyFinding
from tool_engine.model.tool import Tool
from tool_engine.protocols.text.listed_parameters import (
    ListedParameter,
    find_unsaid,
    list_parameters,
)
from tool_engine.protocols.text.neutral_text import neutralize_text
from tool_engine.protocols.vcp.vcp_markers import DEFINITION

KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")
"""The names that a parameter can have in VCP."""
_SAID: Final = frozenset({"type", "default", "description"})
_UNSAID: Final = "the style 'lines' does not say {} of {}; the style 'json' does"
_WORDS: Final = {
    "en": ("required", "optional", "default: "),
    "zh": ("必填", "可选", "默认值: "),
}


def _write_json_style(tool: Tool, language: str) -> list[tuple[str, str]]:
    parameters = [_describe_parameter(parameter) for parameter in list_parameters(tool)]
    return [
        ("description", tool.description),
        ("parameters", json.dumps(parameters, ensure_ascii=False, separators=(",", ":"))),
    ]


def _write_line_style(tool: Tool, language: str) -> list[tuple[str, str]]:
    lines = [(each.name, _write_sentence(each, language)) for each in list_parameters(tool)]
    return [("description", tool.description), *lines]


DEFINITION_STYLES: Final[Mapping[str, Callable[[Tool, str], list[tuple[str, str]]]]] = {
    "json": _write_json_style,
    "lines": _write_line_style,
}
"""Style -> its writer of a definition: A22, and one line per parameter."""


def write_definition(tool: Tool, style: str, language: str) -> str:
    fields = [
        ("tool_name", tool.name),
        ("command", _find_command(tool)),
        *DEFINITION_STYLES[style](tool, language),
        ("example", _write_example(tool)),
    ]
    lines = [f"{key}:「始」{neutralize_text(value)}「末」" for key, value in fields]
    return "\n".join([DEFINITION[0], *lines, DEFINITION[1]])


def find_losses(tool: Tool, style: str) -> Iterator[ReplyFinding]:
    """Yield what the definition leaves out, or VCP cannot carry."""
    for parameter in list_parameters(tool):
        name = parameter.name
        if KEY.fullmatch(name) is None or name in ("tool_name", "request_id"):
            yield ReplyFinding(
                error_type="dropped",
                level="error",
                tool_name=tool.name,
                message=f"no call in VCP can carry the parameter {name!r}: a name has 1 to 256 of "
                "the characters a-z, A-Z, 0-9, _ and -, and is not tool_name or request_id",
            )
        if style == "lines":
            yield from find_unsaid(tool, parameter, _SAID, _UNSAID)


def _describe_parameter(parameter: ListedParameter) -> dict[str, Any]:
    name, schema, is_required = parameter
    head = {"name": name, "type": schema.get("type", "any"), "required": is_required}
    rest = {key: value for key, value in schema.items() if key != "type"}
    # The keywords of an object's own schema would seem to be the parameter's.
    return {**head, "schema": dict(schema)} if head.keys() & rest.keys() else {**head, **rest}


def _write_sentence(parameter: ListedParameter, language: str) -> str:
    _, schema, is_required = parameter
    required, optional, default = _WORDS[language]
    said = required if is_required else optional
    parts = [f"({to_text(schema.get('type', 'any'))}, {said})"]
    if "default" in schema:
        parts.append(default + to_text(schema["default"]))
    return " ".join([*parts, str(schema.get("description", ""))]).rstrip()


def _find_command(tool: Tool) -> str:
    """Return the tool's command, or the method of `toolId_methodName`, or its name. A22, A35."""
    return tool.vcp_command or tool.name.rpartition("_")[2] or tool.name


def _write_example(tool: Tool) -> str:
    """Return the tool's first example, or one with the required parameters."""
    if not tool.examples:
        return f"{tool.name}({', '.join(tool.parameters_schema.get('required', ()))})"
    params = tool.examples[0].get("params") or {}
    listed = (f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in params.items())
    return f"{tool.name}({', '.join(listed)})"


INSTRUCTIONS: Final = {
    "en": """\
You can call tools. To call one, write a block of exactly this form:

<<<[TOOL_REQUEST]>>>
tool_name:「始」name of the tool「末」,
name_of_a_parameter:「始」its value「末」
<<<[END_TOOL_REQUEST]>>>

- Write each value between 「始」 and 「末」. It may have several lines. Objects and lists are JSON.
- Write a value that holds 「始」, 「末」 or one of the marks above as \
name:「始ESCAPE」value「末ESCAPE」.
- Write one block for each call. To call one tool several times in one block, number its \
parameters: command1, path1, command2, path2.
- Write the block as plain text, not in a code block, and wait for the results after it.

These are your tools:""",
    "zh": """\
你可以调用工具。调用时，请严格按照以下格式输出：

<<<[TOOL_REQUEST]>>>
tool_name:「始」工具名「末」,
参数名:「始」参数值「末」
<<<[END_TOOL_REQUEST]>>>

- 每个参数值都必须写在「始」和「末」之间，可以有多行。对象和数组请写成 JSON。
- 如果参数值本身含有「始」、「末」或上面的标记，请写成 参数名:「始ESCAPE」参数值「末ESCAPE」。
- 每次调用写一个块。在一个块中多次调用同一工具时，请给参数编号：command1、path1、command2、path2。
- 请直接输出块，不要放进代码块；输出后等待结果。

可用的工具：""",
}
