"""Can every client read an answer, whatever a tool put into it?

Half of a surrogate pair, as names of files have it that are not UTF-8, is no text for others: most
readers of JSON refuse the whole answer, and its client waits for ever.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError

from tool_engine.model.json.halves import escape_halves

_ODD: Final = re.compile("[\x85\u2028\u2029\ud800-\udfff]")
"""Halves of surrogate pairs, and what some readers take for the end of a line."""
_encode: Final = msgspec.json.Encoder().encode


async def send_readable(ctx: Any, call_next: CallNext) -> HandlerResult:
    """Return what a handler answers, as a text that all can read: a middleware of the SDK."""
    try:
        answer: HandlerResult = make_sendable(await call_next(ctx))
        return answer
    except MCPError as error:
        found = error.error
        if can_send((found.message, found.data)):
            raise
        message, data = escape_halves(found.message), escape_halves(found.data)
        raise MCPError(found.code, message, data) from error


def can_send(value: Any) -> bool:
    """Return True if a value is certainly one that UTF-8 can hold."""
    try:
        _encode(value)
    except Exception:  # noqa: BLE001 - integers of any size are sent, too
        return False
    return True


def make_sendable(value: Any) -> Any:
    """Return a value with halves of surrogate pairs written as their escapes, as texts have it."""
    return value if can_send(value) else escape_halves(value)


def encode_json(text: str) -> bytes:
    """Return a piece of JSON as one line of UTF-8."""
    return (text if text.isascii() else _ODD.sub(_write_escape, text)).encode()


def _write_escape(found: re.Match[str]) -> str:
    # In JSON a backslash stands twice: the half becomes six letters, the others stay what they are.
    return f"{'' if ord(found[0]) < 0xD800 else chr(92)}{chr(92)}u{ord(found[0]):04x}"
