"""Which context does a call have that a tool makes, and what does it take from the tool's call?"""

from __future__ import annotations

from collections.abc import Callable

from tool_engine.approval.scopes import narrow_scope
from tool_engine.calls.call import ANONYMOUS, Call
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.context_check import check_context, heard_by, is_of_own
from tool_engine.model.progress import ToolProgress


class _Unnamed(ToolExecutionContext):
    """The context of a call that comes with a listener alone."""


def nested_context(
    outer: ToolExecutionContext, context: ToolExecutionContext | None, timeout: float | None
) -> ToolExecutionContext:
    """Return the context of an inner call: by default its maker's, which no one hears."""
    # The maker's own listener hears of the maker alone: `bind` leaves it out.
    heard = None if context is None else context.on_progress
    if isinstance(context, _Unnamed) and context.bound_call is None:
        context = None
    source = outer if context is None else context
    check_context(source)
    # The maker may reveal what it learns there, however the call ends.
    outer.bound_call.note_inside()
    # Of what is bound to a call that has ended, or to another one, the deadline is its own.
    own = None if source.bound_call is not None else source.deadline
    deadlines = [each for each in (outer.deadline, own) if each is not None]
    return ToolExecutionContext(
        source.caller_id,
        source.caller_type,
        source.conversation_id,
        source.workflow_id,
        timeout if context is None else context.timeout,
        0,
        source.max_retries,
        source.variables,
        priority=outer.priority if source.priority is None else source.priority,
        parent_call_id=outer.call_id,
        task_id=outer.task_id,
        deadline=min(deadlines, default=None),
        session_id=source.session_id or outer.session_id,
        # A tool cannot do what its conversation forbids, nor act for another conversation.
        scope=outer.scope if source is outer else narrow_scope(outer.scope, source.scope),
        on_progress=heard,
        _is_for_tool=context is None,
        _is_of_own=source.bound_call is None and is_of_own(source),
    )


def context_of(
    context: ToolExecutionContext | None, listener: Callable[[ToolProgress], object] | None
) -> ToolExecutionContext:
    """Return the context of a call that `listener` hears; see `heard_by`."""
    if context is None:
        return ANONYMOUS if listener is None else _Unnamed(on_progress=listener)
    return context if listener is None and check_context(context) else heard_by(listener, context)


def inner_context(maker: Call, context: ToolExecutionContext) -> ToolExecutionContext:
    """Return the context of an inner call: its time while that runs, and all else for ever."""
    outer = maker.bind(None if maker.is_over else maker.deadline)
    return nested_context(outer, None if context is ANONYMOUS else context, None)


def joined_context(near: Call, inner: ToolExecutionContext) -> ToolExecutionContext:
    """Return the context of an inner call that is part of another call, too."""
    joined = nested_context(near.bind(near.deadline), inner, None)
    joined._is_for_tool = inner.is_for_tool  # noqa: SLF001 - the engine's own
    return joined
