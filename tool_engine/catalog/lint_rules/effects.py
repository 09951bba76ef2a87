"""Is a definition honest about writing, and free of secrets?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tool_engine.catalog.lint_rules.rule import ERROR, WARNING, Flaw, LintRule
from tool_engine.catalog.yaml.document import list_leaves
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.redaction import is_secret_key, redact_text

_WRITING_METHODS: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_WRITING_NAME: Final = re.compile(
    r"(?:send|post|create|delete|remove|update|write|upload|submit|publish|pay|book|cancel|insert"
    r"|drop|rename|edit|modify|overwrite|notify)(?:_|$)"
)
_WRITING_TEXT: Final = re.compile(
    r"(?:sends?|posts?|creates?|deletes?|removes?|updates?|writes?|uploads?|submits?|publish(?:es)?"
    r"|pays?|books?|cancels?|inserts?|drops?|renames?|edits?|modif(?:y|ies)|overwrites?)\b"
    r"|(?:发送|发布|发帖|创建|新建|删除|移除|更新|修改|写入|上传|提交|支付|预订|取消|插入|重命名)",
    re.IGNORECASE,
)
_PAGING: Final = re.compile(r"(?:page|next|cursor|continuation|sync)_?token", re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(r"\$?\{[^{}]*\}")


def _effect_not_said(tool: Tool) -> Iterator[Flaw]:
    evidence = _evidence_of_writing(tool)
    if tool.effect == "unknown" and evidence:
        path, sign = evidence
        message = (
            f"{sign}, and effect is not said; add effect: write, or effect: read if nothing is "
            "changed"
        )
        yield path, message


def _effect_denied(tool: Tool) -> Iterator[Flaw]:
    method = _method_of(tool)
    if tool.effect == "read" and method in _WRITING_METHODS:
        message = (
            f"effect is read and the request is a {method}; write effect: write, or put "
            "`# lint: ignore L302` behind the line if the request only asks"
        )
        yield ("effect",), message


def _evidence_of_writing(tool: Tool) -> Flaw | None:
    method = _method_of(tool)
    if method in _WRITING_METHODS:
        return ("entry", "request", "method"), f"the request is a {method}"
    if "sql" in tool.implementation_config:
        is_readonly = tool.implementation_config.get("readonly", True)
        return None if is_readonly else (("entry", "readonly"), "its statement may write")
    # A request declared as reading is stronger than a word in a name.
    return None if method else _choice_of_method(tool) or _writing_words(tool)


def _choice_of_method(tool: Tool) -> Flaw | None:
    for number, parameter in enumerate(tool.parameters):
        allowed = parameter.validation.get("enum") or []
        chosen = [value for value in allowed if value in _WRITING_METHODS]
        if parameter.name == "method" and chosen:
            return ("parameters", number), f"the model may choose {chosen[0]}"
    return None


def _writing_words(tool: Tool) -> Flaw | None:
    if tool.category is ToolCategory.NOTIFICATION:
        return ("category",), "its category is notification"
    if _WRITING_NAME.match(tool.name):
        return ("name",), "its name is that of a tool that writes"
    if _WRITING_TEXT.match(tool.description.strip()):
        return ("description",), "its description is that of a tool that writes"
    return None


def _method_of(tool: Tool) -> str:
    request = tool.implementation_config.get("request")
    return str(request.get("method", "GET")) if isinstance(request, Mapping) else ""


def _open_secret(tool: Tool) -> Iterator[Flaw]:
    for number, parameter in enumerate(tool.parameters):
        is_text = parameter.type == "string" and not parameter.secret
        if is_text and is_secret_key(parameter.name) and not _PAGING.search(parameter.name):
            message = (
                f"{parameter.name!r} is named like a secret and would be recorded; add secret: "
                "true, or read it from the environment in entry"
            )
            yield ("parameters", number), message


def _secret_in_default(tool: Tool) -> Iterator[Flaw]:
    for number, parameter in enumerate(tool.parameters):
        if parameter.default in (None, "", [], {}):
            continue
        is_secret = parameter.secret or (
            isinstance(parameter.default, str)
            and is_secret_key(parameter.name)
            and not _PAGING.search(parameter.name)
        )
        if is_secret or _has_secret(parameter.default):
            message = (
                "a default is told to every model and every reader of this file; remove the "
                "secret, and read it from the environment in entry"
            )
            yield ("parameters", number, "default"), message


def _secret_in_entry(tool: Tool) -> Iterator[Flaw]:
    for path, text in list_leaves(tool.implementation_config, ("entry",)):
        if not isinstance(text, str):
            continue
        is_header = path[1:3] == ("request", "headers") and is_secret_key(str(path[-1]))
        is_written_out = not _PLACEHOLDER.search(text) and text.strip() != ""
        if _has_secret(text) or (is_header and is_written_out):
            message = (
                "a secret is written into the file; put it into an environment variable and "
                "write ${env:NAME} here"
            )
            yield path, message


def _has_secret(value: Any) -> bool:
    leaves = (leaf for _, leaf in list_leaves(value) if isinstance(leaf, str))
    texts = (_PLACEHOLDER.sub("", text) for text in leaves)
    return any(redact_text(text) != text for text in texts)


EFFECT_RULES: Final = (
    LintRule(
        "L301",
        WARNING,
        "A tool that looks like one that writes does not say its effect",
        "What `effect` says decides about approval, retries and shared results.",
        _effect_not_said,
    ),
    LintRule(
        "L302",
        WARNING,
        "The effect is read, and the request is one that writes",
        "A tool that reads may be run twice and shared between callers: twice paid, twice sent.",
        _effect_denied,
    ),
    LintRule(
        "L303",
        WARNING,
        "A parameter that is named like a secret is not marked as one",
        "Without `secret: true` its value stands in records and events.",
        _open_secret,
    ),
    LintRule(
        "L304",
        ERROR,
        "A default holds a secret",
        "Every model is told the default, and every reader of the file has it.",
        _secret_in_default,
    ),
    LintRule(
        "L305",
        ERROR,
        "The entry holds a secret",
        "Files are copied, committed and shown; environment variables are not.",
        _secret_in_entry,
    ),
)
