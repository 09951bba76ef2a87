"""How are requests for consent seen and answered?"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tool_engine.access.problem import Problem
from tool_engine.approval.describe import shown_fields
from tool_engine.errors import ApprovalError, ConfigurationError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.call import ToolExecutionResult
from tool_engine.server.operation import Asked, serve_at
from tool_engine.server.problems import make_unknown


class OpenRequest(msgspec.Struct, kw_only=True):
    """A call, or its result, that waits for consent."""

    token: str
    kind: str
    """`execution`: may the call run; `result`: may the model read its result."""
    tool_name: str
    tool_version: str
    definition_hash: str
    title: str
    description: str
    effect: str
    arguments: dict[str, Any]
    """With secrets hidden."""
    preview: str | None
    """What would change."""
    result: str | None
    error_type: str | None
    call_id: str
    session_id: str
    conversation_id: str
    principal: str
    """Who is behind the call; empty: not known."""
    asked_at: float
    expires_at: float
    """Unix time, in seconds."""
    may_be_remembered: bool
    """Whether an answer also holds for the same call later on, unless it says otherwise."""


class OpenRequests(msgspec.Struct):
    items: list[OpenRequest]
    """The oldest of each principal first: they take turns."""


class AnswerRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The answer to a request for consent."""

    is_allowed: bool
    reason: Annotated[str, Meta(max_length=2000, description="Why not, for the caller.")] | None = (
        None
    )
    is_remembered: (
        Annotated[bool, Meta(description="False: it holds for this one call.")] | None
    ) = None
    always: (
        Annotated[
            Literal["call", "tool"],
            Meta(
                description="It holds for this principal in all conversations, until it is "
                "revoked: for the same call, or for all calls of the tool."
            ),
        ]
        | None
    ) = None
    definition_hash: (
        Annotated[
            str, Meta(description="That of the request that was read; another one is refused.")
        ]
        | None
    ) = None


class Answered(msgspec.Struct, kw_only=True):
    token: str
    is_allowed: bool
    by: str
    result: ToolExecutionResult | None = None
    """How the call ended that went on with the answer; null: its own caller gets that."""


@serve_at("GET", "/v1/approvals", scope="approve", answer=OpenRequests)
async def list_approvals(asked: Asked) -> Any:
    """List the open requests about tools that the principal may use."""
    found = await asked.engine.approvals.pending()
    return OpenRequests(
        [_describe_request(each) for each in found if asked.principal.may_use(each.tool_name)]
    )


@serve_at(
    "POST",
    "/v1/approvals/{token}",
    scope="approve",
    answer=Answered,
    body=AnswerRequest,
    errors=(404, 409),
)
async def answer_approval(asked: Asked) -> Any:
    """Allow or refuse what waits for consent; the first answer decides."""
    token, body = asked.path["token"], asked.body
    found = await asked.engine.approvals.get(token)
    if found is None or not asked.principal.may_use(found.tool_name):
        raise make_unknown(
            "open request", token, ": it was answered, it expired, or its call ended"
        )
    if body.definition_hash not in (None, found.definition_hash):
        detail = f"the definition of {found.tool_name!r} has changed; read the request again"
        raise Problem(409, "changed-meanwhile", detail)
    try:
        decision = ApprovalDecision(
            is_approved=body.is_allowed,
            reason=body.reason,
            is_remembered=body.is_remembered,
            always=body.always,
        )
    except ConfigurationError as error:
        raise Problem(422, "invalid-body", f"the body does not fit: {error}") from error
    try:
        answered = await asked.engine.approvals.answer(token, decision, by=asked.principal.name)
    except ApprovalError as error:
        raise Problem(409, "not-answered", str(error)) from error
    result = None if answered.result is None else answered.result.to_dict()
    return {
        "token": token,
        "is_allowed": body.is_allowed,
        "by": asked.principal.name,
        "result": result,
    }


def _describe_request(request: ApprovalRequest) -> OpenRequest:
    shown = shown_fields(request)
    return OpenRequest(
        token=request.token,
        kind=request.kind,
        tool_name=request.tool_name,
        tool_version=request.tool_version,
        definition_hash=request.definition_hash,
        title=request.title,
        description=request.description,
        effect=request.effect,
        arguments=shown["params"],
        preview=shown["preview"],
        result=shown["result"],
        error_type=request.error_type,
        call_id=request.call_id,
        session_id=request.session_id,
        conversation_id=request.conversation_id,
        principal=request.principal,
        asked_at=request.asked_at,
        expires_at=request.expires_at,
        may_be_remembered=request.is_once,
    )


OPERATIONS = (list_approvals, answer_approval)
