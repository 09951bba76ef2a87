"""In whose name does a session's call run, and how much time does it have?"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import force_setattr as set_field

from tool_engine.interfaces import CallScope
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.context_check import check_context
from tool_engine.model.context_copy import DEFAULT_TIMEOUT
from tool_engine.model.tool import Tool
from tool_engine.session.narrowing import find_replies
from tool_engine.session.toolbox.toolbox import Toolbox

_CALLER: Final = "conversation_agent"
_copy: Final = ToolExecutionContext.__copy__
"""Copies a context, without the detour of `copy.copy`."""
_UNSET: Final = 30.0
"""The default `timeout`, at which the tool's own timeout decides."""


class Caller:
    """The name in which one conversation calls, and its time.

    Args:
        session_id: Names the conversation.
        agent_id: Who calls.
        conversation_id: Of its calls.
        principal: Who is behind it; empty: that of the session that it works for, or not known.
        toolbox: Its tools, with its settings.
        parent: That of the session that it works for.
    """

    __slots__ = (
        "_parent",
        "_toolbox",
        "_unnamed",
        "agent_id",
        "conversation_id",
        "principal",
        "session_id",
    )

    def __init__(
        self,
        session_id: str,
        agent_id: str,
        conversation_id: str,
        principal: str,
        toolbox: Toolbox,
        parent: Caller | None,
    ) -> None:
        self.session_id = session_id
        self.agent_id = agent_id
        self.conversation_id = conversation_id
        self.principal: str = principal or ("" if parent is None else parent.principal)
        self._toolbox = toolbox
        self._parent = parent
        self._unnamed = ToolExecutionContext(
            caller_id=agent_id,
            caller_type=_CALLER,
            conversation_id=conversation_id,
            session_id=session_id,
        )
        """The context of its own calls, without what differs between them."""

    @property
    def is_alone(self) -> bool:
        """Return True if the conversation works for no other one."""
        return self._parent is None

    @property
    def root_id(self) -> str:
        """The id of the conversation that all others above it work for."""
        return self.session_id if self._parent is None else self._parent.root_id

    def bind(
        self,
        context: ToolExecutionContext | None,
        tool: Tool | None,
        scope: CallScope,
        *,
        is_own: bool = False,
        timeout: float | None = None,
    ) -> ToolExecutionContext:
        """Return a copy of a context that names the conversation.

        Args:
            context: Who calls, and within which limits; None: the conversation itself.
            tool: What is called; None: it is not known.
            scope: What the conversation adds to the call.
            is_own: Whether only the conversation has the tool.
            timeout: Its seconds where the caller says nothing; None: they are found.

        Raises:
            ConfigurationError: The context is none.
        """
        if context is None:
            # A copy is not checked again: what is set in it was checked where it comes from.
            made: ToolExecutionContext = _copy(self._unnamed)
            set_field(made, "timeout", self.find_timeout(tool) if timeout is None else timeout)
            set_field(made, "variables", {})
            set_field(made, "scope", scope)
            set_field(made, "_is_of_own", is_own)
            return made
        check_context(context)
        seconds = context.timeout
        if seconds is DEFAULT_TIMEOUT or seconds is None:
            seconds = self.find_timeout(tool)
        elif self._toolbox in find_replies():
            seconds = min(seconds, self.find_timeout(tool))
        is_anonymous = context.caller_id is None and context.caller_type == "unknown"
        return msgspec.structs.replace(
            context,
            caller_id=self.agent_id if is_anonymous else context.caller_id,
            caller_type=_CALLER if is_anonymous else context.caller_type,
            conversation_id=context.conversation_id or self.conversation_id,
            session_id=self.session_id,
            timeout=seconds,
            scope=scope,
            _is_of_own=is_own,
        )

    def find_timeout(self, tool: Tool | None) -> float:
        """Return the seconds for a call whose caller says nothing."""
        own, limit = None if tool is None else tool.timeout, self._toolbox.config.timeout
        if own is not None:
            limit = own if limit == _UNSET else min(own, limit)
        # A helper has no more time than the session that it works for.
        return limit if self._parent is None else min(limit, self._parent.find_timeout(tool))
