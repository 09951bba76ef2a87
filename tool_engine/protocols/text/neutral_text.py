"""How is foreign text shown to a model without being read as a call?

A result may hold anything: a page that teaches VCP, a log with think tags, an attack. A mark of a
text protocol is changed by a character or two; all else stays as it is.
"""

from __future__ import annotations

import re
from typing import Final

from tool_engine.protocols.text.markdown import find_open_fence

_TAG: Final = re.compile(
    r"<(?=\s?/?\s?(?:think|tool_call|tool_list|tool\b|function_)"
    r"|\[(?:END_)?TOOL_|!--\s?VCP_TOOL_PAYLOAD)",
    re.IGNORECASE,
)
_BRACKET: Final = re.compile("([「{])(?=[始末])")
_KEY: Final = re.compile(r'(\{\s*"(?:tool|function))_(?=(?:name|call)"\s*:)')
_HEAD: Final = re.compile(r"^(?=[ \t]*(?:Function result|函数结果))", re.MULTILINE)
_MOST_LABEL: Final = 256
_SUMMARY: Final = re.compile("AIO(?=工具调用结果)")


def neutralize_text(text: str) -> str:
    """Return a text that reads the same, without any protocol's marks."""
    text = _TAG.sub("&lt;", text)
    text = _BRACKET.sub(r"\1 ", text)
    # For a reader of JSON, the escape is the same name.
    text = _KEY.sub(r"\1\\u005f", text)
    text = _SUMMARY.sub("AIO ", text)
    return _HEAD.sub("> ", text)


def write_label(text: str) -> str:
    """Return a name or id, which a model may invent, made neutral."""
    return neutralize_text(" ".join(text.split())[:_MOST_LABEL])


def find_closing_fence(text: str) -> str | None:
    """Return the line that closes an open fence, or None.

    Text after an open fence would only be quoted.
    """
    return find_open_fence(text) if "```" in text or "~~~" in text else None
