"""Is the context that a caller passes valid?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

from msgspec.structs import replace

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.progress import ToolProgress


def check_context(context: object) -> TypeGuard[ToolExecutionContext]:
    """True for a context.

    Raises:
        ConfigurationError: It is no context (None included), or a field has a forbidden value.
    """
    if isinstance(context, ToolExecutionContext):
        if context._is_changed:  # noqa: SLF001 - of the same room
            # It was right when it was made, and would fail deep inside now.
            context.__post_init__()
        return True
    raise ConfigurationError(
        f"context must be a ToolExecutionContext, got {type(context).__name__}: pass "
        "ToolExecutionContext(caller_id=..., timeout=...), or leave it out"
    )


def is_of_own(context: object) -> bool:
    """Return True if the call is of a tool that only its conversation has.

    It goes past what else bears the name, in views and in the engine.
    """
    return isinstance(context, ToolExecutionContext) and context._is_of_own  # noqa: SLF001 - of the same room


def heard_by(
    listener: Callable[[ToolProgress], object] | None, context: ToolExecutionContext | None
) -> ToolExecutionContext:
    """Return the context of a call that `listener` hears the progress of.

    Args:
        listener: The `on_progress` of `execute`; None: that of the context.
        context: Who calls; None: an unnamed caller.

    Raises:
        ConfigurationError: It is no context, or the listener is no plain function.
    """
    given = ToolExecutionContext() if context is None else context
    check_context(given)
    return given if listener is None else replace(given, on_progress=listener)
