"""Which two requests with one key are the same?"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.task import fields_of

_SECRET: Final = secrets.token_bytes(16)
"""Without it, a reader of the database could find a short secret by trying."""
_OF_REQUEST: Final = (
    *("conversation_id", "workflow_id", "session_id", "timeout", "priority", "max_retries"),
    "variables",
)
"""What of a context is a part of what is asked for; who asks has keys of their own, and which try
it is, or over which way it comes, makes no other request of it."""


def digest_request(asked: Sequence[Any], context: ToolExecutionContext, *, is_secret: bool) -> str:
    """Return what distinguishes a request from another one with the same key.

    Args:
        asked: What is asked for, the key among it.
        context: Who asks.
        is_secret: Whether arguments are secret: then no other process can make the same.
    """
    said = fields_of(context)
    whole = [*asked, *(said[name] for name in _OF_REQUEST)]
    try:
        parts = msgspec.msgpack.Encoder(order="deterministic", enc_hook=repr).encode(whole)
    except Exception:  # noqa: BLE001 - a foreign value, and MessagePack has no numbers beyond 64 bits
        parts = repr(whole).encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(parts, digest_size=16, key=_SECRET if is_secret else b"").hexdigest()
    return f"{_name_process()}:{digest}" if is_secret else digest


def is_of_another_process(digest: str) -> bool:
    """Return True for that of secret arguments which were given to another process."""
    return ":" in digest and not digest.startswith(f"{_name_process()}:")


def _name_process() -> str:
    return hashlib.blake2b(_SECRET, digest_size=4).hexdigest()
