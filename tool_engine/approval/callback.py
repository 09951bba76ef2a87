"""How does a function of the program answer, or is the answer left open?"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from tool_engine.approval.answers import Answer, decision_from
from tool_engine.errors import ConfigurationError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.checks.known_fields import KnownArguments
from tool_engine.model.json.returned_value import safe_repr


class CallbackApprover(KnownArguments):
    """Asks a function of the program for each decision.

    Args:
        function: Called with the `ApprovalRequest`; sync or async. A sync function is called on the
            event loop and must not wait for a person: to call one that does, such as `input`, pass
            an async function that awaits `asyncio.to_thread(...)`.

    Raises:
        ConfigurationError: It is no function.

    Example:
        >>> approver = CallbackApprover(lambda request: request.effect == "read")
    """

    def __init__(self, function: Callable[[ApprovalRequest], Answer | Awaitable[Answer]]) -> None:
        if not callable(function):
            raise ConfigurationError(
                f"CallbackApprover takes a function of one request, got {safe_repr(function)[:80]}"
            )
        self._function = function

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """Return the function's answer as a decision.

        Raises:
            ApprovalError: It is no answer; nothing but True and a decision lets a call run.
        """
        answer = self._function(request)
        if inspect.isawaitable(answer):
            answer = await answer
        return decision_from(answer)


class DeferredApprover:
    """Ends each call that needs consent as `approval_required`, to be answered later."""

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """Return None: there is no answer now."""
        del request
        return None
