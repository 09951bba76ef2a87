"""In whose name does a session's call run, and how much time does it have?"""

from __future__ import annotations

from typing import Final

import msgspec

from tool_engine.interfaces import CallScope
from tool_engine.model.call import DEFAULT_TIMEOUT, ToolExecutionContext
from tool_engine.model.caller import check_context
from tool_engine.model.tool import Tool
from tool_engine.session.narrowing import of_reply
from tool_engine.session.state import SessionState

_CALLER: Final = "conversation_agent"
_UNSET: Final = 30.0
"""The default `timeout`, at which the tool's own timeout decides."""


def context_of(
    session: SessionState,
    context: ToolExecutionContext | None,
    tool: Tool | None,
    scope: CallScope,
) -> ToolExecutionContext:
    """Return a copy of the context that names the conversation of a call.

    Args:
        session: The conversation.
        context: Who calls, and within which limits; None: the conversation itself.
        tool: What is called; None: it is not known.
        scope: What the conversation adds to the call.

    Raises:
        ConfigurationError: The context is none.
    """
    if context is None:
        return ToolExecutionContext(
            caller_id=session.agent_id,
            caller_type=_CALLER,
            conversation_id=session.conversation_id,
            session_id=session.session_id,
            timeout=_timeout(session, tool),
            scope=scope,
        )
    check_context(context)
    timeout = context.timeout
    if timeout is DEFAULT_TIMEOUT or timeout is None:
        timeout = _timeout(session, tool)
    elif of_reply(session) is not None:
        timeout = min(timeout, _timeout(session, tool))
    is_anonymous = context.caller_id is None and context.caller_type == "unknown"
    return msgspec.structs.replace(
        context,
        caller_id=session.agent_id if is_anonymous else context.caller_id,
        caller_type=_CALLER if is_anonymous else context.caller_type,
        conversation_id=context.conversation_id or session.conversation_id,
        session_id=session.session_id,
        timeout=timeout,
        scope=scope,
    )


def _timeout(session: SessionState, tool: Tool | None) -> float:
    own = None if tool is None else tool.timeout
    shortest = _limit(session, own)
    above = session.parent
    # A helper has no more time than the session that it works for.
    while above is not None:
        shortest = min(shortest, _limit(above, own))
        above = above.parent
    return shortest


def _limit(session: SessionState, own: float | None) -> float:
    limit = session.config.timeout
    if own is None:
        return limit
    return own if limit == _UNSET else min(own, limit)
