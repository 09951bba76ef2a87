"""Who is asked for consent to a client's call: an operator, or the client itself?"""

from __future__ import annotations

from typing import Any, Final

from tool_engine.approval.describe import describe
from tool_engine.errors import ApprovalError
from tool_engine.interfaces import Source
from tool_engine.interfaces.approver import Behind
from tool_engine.mcp_server.asking import ClientRequest, InputRequiredError, find_request
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest

OPERATOR: Final = "operator"
CLIENT: Final = "client"
REFUSE: Final = "refuse"
MODES: Final = (OPERATOR, CLIENT, REFUSE)
_ALLOW: Final = "allow"
_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {_ALLOW: {"type": "boolean", "title": "Allow this call", "default": False}},
    "required": [_ALLOW],
}


class ClientConsents:
    """Stands in front of the operator, for the calls of clients: `engine.approvals` asks it.

    Each client's request says how its server has consent asked; all other calls wait behind.

    Args:
        engine: Whose tools are called.
    """

    def __init__(self, engine: Source) -> None:
        self._engine = engine

    async def approve(self, request: ApprovalRequest, behind: Behind) -> ApprovalDecision | None:
        """Return the decision about one request; None: the client comes back with it.

        Raises:
            ApprovalError: Nothing could answer.
        """
        asking = find_request()
        if asking is None:
            return await behind.approve(request)
        if request.fingerprint in asking.granted:
            # It was asked in the round before, about this very call.
            by = asking.granted[request.fingerprint]
            return ApprovalDecision(is_approved=True, by=by, is_remembered=False)
        if asking.approvals == REFUSE:
            raise ApprovalError(
                f"{request.tool_name!r} needs a person's consent, and this server asks no one"
            )
        if asking.approvals == CLIENT and self._may_answer(request) and asking.can("elicitation"):
            behind.note_asked(request)
            return await _ask_client(asking, request)
        asking.waits += 1
        try:
            return await behind.approve(request)
        finally:
            asking.waits -= 1

    def note_answer(self, request: ApprovalRequest, decision: ApprovalDecision | None) -> None:
        """Remember for the next round what was allowed in this one."""
        asking = find_request()
        if asking is not None and decision is not None and decision.is_approved:
            asking.granted[request.fingerprint] = decision.by

    def _may_answer(self, request: ApprovalRequest) -> bool:
        tool = self._engine.get(request.tool_name)
        if tool is None or tool.permission is None or not request.is_about(tool):
            return False
        return tool.permission.client_may_answer


async def _ask_client(asking: ClientRequest, request: ApprovalRequest) -> ApprovalDecision | None:
    key = f"consent-{request.fingerprint[:16]}"
    if request.fingerprint not in asking.asked:
        # What the client was not asked, it has not answered.
        asking.forget_answer(key)
    asking.asked.append(request.fingerprint)
    message = f"May this call run?\n\n{describe(request)}"
    try:
        answer = await asking.elicit(key, message, _FORM)
    except InputRequiredError:
        return None
    content = answer.get("content") or {}
    # It may have been made up: it holds for this call, and for no equal one.
    return ApprovalDecision(
        is_approved=answer["action"] == "accept" and content.get(_ALLOW) is True,
        reason=None
        if answer["action"] != "cancel"
        else "the question was closed without an answer",
        is_remembered=False,
        by=f"mcp-client:{asking.principal}" if asking.principal else "mcp-client",
    )
