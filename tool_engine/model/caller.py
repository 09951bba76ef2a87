"""Is the context that a caller passes valid?"""

from __future__ import annotations

from typing import TypeGuard

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolExecutionContext


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
