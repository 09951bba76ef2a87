"""Which words about a reply quote what may be a secret, in arguments that could not be read?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tool_engine.model.call import ToolCall
from tool_engine.model.foreign import ends_caller
from tool_engine.model.reply import ParsedReply
from tool_engine.redaction import hide_quotes


def takes_secrets(get: Callable[[str], Any], tool_name: str) -> bool:
    """Return True if a tool declares secrets, or is not known."""
    try:
        tool = get(tool_name)
    except BaseException as error:  # a foreign engine may raise anything
        if ends_caller(error):
            raise
        return True
    return tool is None or bool(tool.secret_names or tool.secret_parts)


def hide_in_call(call: ToolCall) -> ToolCall:
    """Return a call without the quotes in its error and repairs."""
    error = None if call.error is None else hide_quotes(call.error)
    return replace(call, error=error, repairs=tuple(map(hide_quotes, call.repairs)))


def hide_unread(reply: ParsedReply, get: Callable[[str], Any]) -> ParsedReply:
    """Return a reply without quotes in what is said of calls that take secrets.

    A finding that names no call is about any of them.

    Args:
        reply: The reply, as a protocol has read it.
        get: Returns the tool of a name, or None.
    """
    hidden = {
        place: hide_in_call(call)
        for place, call in enumerate(reply.calls)
        if (call.error is not None or call.repairs) and takes_secrets(get, call.tool_name)
    }
    if not hidden:
        return reply
    others = {call.call_id for place, call in enumerate(reply.calls) if place not in hidden}
    others -= {call.call_id for call in hidden.values()}
    return replace(
        reply,
        calls=[hidden.get(place, call) for place, call in enumerate(reply.calls)],
        findings=[
            each if each.call_id in others else replace(each, message=hide_quotes(each.message))
            for each in reply.findings
        ],
    )
