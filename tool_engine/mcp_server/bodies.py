"""Does what a client sends mean the same to all who read it?

Of a key that stands twice most readers take the last value, and some the first: a check and a call
must not see two different calls.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import mcp_types as types

from tool_engine.protocols.arguments.strict_json import RefusedJSONError, read_json

_AT_ONCE: Final = 1 << 16
"""Bytes of a message that is checked on the event loop."""


class Refused(Exception):  # noqa: N818 - a message for a client, not a failure of this program
    """A message that is not taken, and the JSON-RPC error that says so."""

    def __init__(self, code: int, why: str, request_id: str | int | None = None) -> None:
        super().__init__(why)
        self.code = code
        self.request_id = request_id

    def to_dict(self) -> dict[str, Any]:
        error = {"code": self.code, "message": str(self)}
        return {"jsonrpc": "2.0", "id": self.request_id, "error": error}


async def check_message(message: bytes) -> Any:
    """Return what a message says, which is one JSON value that can be read in one way only.

    Raises:
        Refused: It is not.
    """
    if len(message) <= _AT_ONCE:
        return _read_message(message)
    return await asyncio.to_thread(_read_message, message)


def check_id(message: Any) -> None:
    """Check that a request has an id under which it can be answered.

    Raises:
        Refused: It has none. The SDK would take it for a notification, and its client would wait.
    """
    if isinstance(message, dict) and "method" in message and not is_id(message.get("id", 0)):
        raise Refused(types.INVALID_REQUEST, "Invalid request: 'id' is not as JSON-RPC has it")


def is_id(value: Any) -> bool:
    """Return True if a value is an id as JSON-RPC has it."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def _read_message(message: bytes) -> Any:
    try:
        return read_json(message.decode())
    except RefusedJSONError as error:
        request_id = _find_id(message)
        raise Refused(types.INVALID_REQUEST, f"Invalid request: {error}", request_id) from error
    except RecursionError as error:
        raise Refused(types.PARSE_ERROR, "Parse error: it nests too deep") from error
    except ValueError as error:
        raise Refused(types.PARSE_ERROR, f"Parse error: {error}") from error


def _find_id(message: bytes) -> str | int | None:
    """Return the id under which the client waits for an answer; None: it has none."""
    try:
        found = json.loads(message)
    except (ValueError, RecursionError):
        return None
    request_id = found.get("id") if isinstance(found, dict) else None
    return request_id if is_id(request_id) else None
