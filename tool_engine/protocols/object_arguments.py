"""Which arguments are in a value that a provider sends as an object, not as text?"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from tool_engine.model.json.plain import Unreadable, name_of
from tool_engine.model.json.returned_value import stand_in, to_text
from tool_engine.protocols.arguments.json_tokens import MAX_DEPTH
from tool_engine.protocols.chunks import AmbiguousObject, dump_object, join_surrogates
from tool_engine.protocols.reply_builder import CallInProgress, ReplyBuilder

_AS_TEXT: Final = "the arguments were sent as a text: read as JSON"
_AS_LIST: Final = "the arguments were sent as an empty list: read as {}"
_MAX_BITS: Final = 14_000
_HALF: Final = re.compile("[\ud800-\udfff]")


def take_object(builder: ReplyBuilder, call: CallInProgress, value: Any) -> None:
    """Set a call's arguments from one value; None leaves them unknown.

    A mapping is taken as it is. Servers that are only compatible also send an object as a text, and
    the empty one as `[]`: these are read, with a finding. With anything else the call is refused.
    """
    if value is None:
        return
    if isinstance(value, str):
        call.repairs.append(_AS_TEXT)
        call.parts.append(value)
        return
    if isinstance(value, list | tuple) and not value:
        call.repairs.append(_AS_LIST)
        value = {}
    fault = find_fault(value)
    if fault is None:
        call.value = _copy_plain(value)
        return
    call.value = {}
    call.raw = to_text(value)
    builder.refuse(call, fault)


def find_fault(value: Any) -> str | None:
    """Return why a value cannot be arguments; None: it can."""
    if not isinstance(value, Mapping):
        got = value.words if isinstance(value, Unreadable) else f"a {name_of(value)}"
        return f"the arguments must be a JSON object, got {got}"
    waiting: list[tuple[Any, int]] = [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        if _is_no_number(item):
            return "the arguments are no valid JSON: JSON has no NaN, Infinity or such number"
        if not isinstance(item, Mapping | list | tuple):
            continue
        if isinstance(item, AmbiguousObject):
            return "the arguments say a key twice in one object: write each key once"
        if depth > MAX_DEPTH:
            return f"the arguments nest more than {MAX_DEPTH} levels deep: write them flatter"
        if isinstance(item, Mapping) and not all(isinstance(key, str) for key in item):
            return "the arguments are no valid JSON: there is a key that is no text"
        inner = item.values() if isinstance(item, Mapping) else item
        waiting.extend((each, depth + 1) for each in inner)
    return None


def is_sendable(value: Any) -> bool:
    """Return True for an object that every JSON writer can write."""
    return find_fault(value) is None


def make_sendable(value: Any) -> Any:
    """Copy a plain value with lone surrogates escaped, for sending.

    No client can encode such a text as UTF-8: one of them would block the conversation.
    """
    text = json.dumps(value, ensure_ascii=False, skipkeys=True, default=stand_in)
    if not _is_writable(text):
        text = _HALF.sub(lambda half: f"\\\\u{ord(half[0]):04x}", join_surrogates(text))
    return json.loads(text)


def make_readable(text: str) -> str:
    """Return encodable text: surrogate pairs joined, lone ones escaped."""
    return text if _is_writable(text) else str(make_sendable(text))


def _is_writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _copy_plain(value: Mapping[str, Any]) -> Any:
    try:
        return json.loads(json.dumps(value))
    except TypeError:
        return dump_object(value)


def _is_no_number(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    # Python refuses to write integers of more than 4,300 digits.
    return isinstance(value, int) and value.bit_length() > _MAX_BITS
