"""Which part of a list comes next?"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, TypeAlias

from msgspec import Meta

from tool_engine.access.problem import Problem

Limit: TypeAlias = Annotated[int, Meta(ge=1, le=1000, description="The most items of one answer.")]
Cursor: TypeAlias = Annotated[
    str, Meta(max_length=1000, description="`next` of the answer before; left out: the first.")
]


def make_cursor(last: str) -> str:
    """Return what stands for a place in a list: behind the item of this name."""
    return base64.urlsafe_b64encode(last.encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> str:
    """Return the name behind which a list goes on.

    Raises:
        Problem: No answer gave this cursor.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        name = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise _make_refusal(cursor) from None
    if not name or make_cursor(name) != cursor:
        raise _make_refusal(cursor)
    return name


def _make_refusal(cursor: str) -> Problem:
    detail = f"no answer gave the cursor {cursor[:80]!r}; take `next` of the one before"
    return Problem(404, "unknown-cursor", detail)
