"""Who was asked for consent, to what exactly, and what did they say?

A request is bound to one call as it is: the tool's version and definition, and the exact arguments.
It is answered once, before it expires; an answer that comes later, twice, or for a tool that has
changed meanwhile, changes nothing and says so.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, Self

import msgspec

from tool_engine.errors import ApprovalError
from tool_engine.model.call import check_timeout
from tool_engine.model.output import to_text
from tool_engine.model.tool import Tool

__all__ = ["ApprovalBook", "ApprovalDecision", "ApprovalRequest", "Approver"]

DEFAULT_TIMEOUT: Final = 300.0
"""Seconds after which a request that nobody answered is refused. U32."""


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody is asked to consent to."""

    token: str
    """Names the request; nobody can guess it, and it is good for one answer."""
    session_id: str
    kind: str = "execution"
    """`execution`: may the call run; `result`: may the model read its result."""
    tool_name: str
    tool_version: str
    definition_hash: str
    params: dict[str, Any]
    """The arguments, whole: every reference replaced, every default filled in."""
    effect: str = "unknown"
    """What the tool's definition says of it: read, write or unknown."""
    description: str = ""
    result: str | None = None
    """Of a `result` request: the text that the model would read."""
    asked_at: float
    expires_at: float
    """Unix time, in seconds."""

    @property
    def fingerprint(self) -> str:
        """What a remembered decision is good for: this definition with these arguments."""
        return _fingerprint(self.tool_name, self.definition_hash, self.params)


class ApprovalDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody said."""

    is_approved: bool
    reason: str | None = None
    """Why it was refused; the model is told, unless a rule is silent."""
    is_remembered: bool = False
    """Whether it also holds for the same call later on."""


class Approver(Protocol):
    """Asks somebody.

    `approve` may take its time: the call holds no slot meanwhile. It is cancelled when the request
    expires. What it raises is a refusal. It returns None when it cannot answer now: the call ends
    as `approval_required`, and may be resumed with the request's token.
    """

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """The decision about one request."""
        ...


class ApprovalBook:
    """The open requests and the remembered decisions of one conversation.

    Args:
        session_id: The conversation.
        timeout: Seconds until a request expires.
        clock: Unix time in seconds.

    Raises:
        ConfigurationError: The timeout is not a positive number of seconds.
    """

    def __init__(
        self,
        session_id: str,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_timeout("timeout", timeout)
        self.session_id = session_id
        self.timeout = timeout
        self._clock = clock
        self._open: dict[str, ApprovalRequest] = {}
        self._remembered: dict[str, ApprovalDecision] = {}

    def __repr__(self) -> str:
        return f"ApprovalBook({len(self._open)} open, {len(self._remembered)} remembered)"

    def ask(
        self,
        tool: Tool,
        params: Mapping[str, Any],
        *,
        kind: str = "execution",
        result: str | None = None,
    ) -> ApprovalRequest:
        """Opens a request about one call."""
        now = self._clock()
        request = ApprovalRequest(
            token=secrets.token_urlsafe(24),
            session_id=self.session_id,
            kind=kind,
            tool_name=tool.name,
            tool_version=tool.version,
            definition_hash=tool.definition_hash,
            params=dict(params),
            effect=tool.effect,
            description=tool.description,
            result=result,
            asked_at=now,
            expires_at=now + self.timeout,
        )
        self._open[request.token] = request
        return request

    def pending(self) -> list[ApprovalRequest]:
        """The requests that wait for an answer, the oldest first; expired ones are dropped."""
        now = self._clock()
        self._open = {token: each for token, each in self._open.items() if now < each.expires_at}
        return list(self._open.values())

    def answer(self, token: str, decision: ApprovalDecision, tool: Tool | None) -> ApprovalRequest:
        """Takes the one answer to a request, and closes it.

        Args:
            token: The request's.
            decision: The answer.
            tool: The tool as it is now; None: it is gone.

        Raises:
            ApprovalError: There is no such open request, it has expired, or the tool is not what
                the consent was for; a refusal is taken in any case.
        """
        request = self._open.pop(token, None)
        if request is None:
            raise ApprovalError(
                "no approval is awaited under this token: it was answered or withdrawn before, or "
                "belongs to another conversation"
            )
        if self._clock() >= request.expires_at:
            raise ApprovalError(
                f"the approval of {request.tool_name!r} came too late: it was asked for "
                f"{self._clock() - request.asked_at:.0f} s ago and expired; call the tool again"
            )
        if decision.is_approved and not _is_same(request, tool):
            raise ApprovalError(
                f"{request.tool_name!r} is not what was approved: its definition has changed since "
                f"version {request.tool_version}; call it again to be asked again"
            )
        if decision.is_remembered:
            self.remember(request, decision)
        return request

    def withdraw(self, token: str) -> None:
        """Closes a request whose call has ended; nothing happens if it is closed."""
        self._open.pop(token, None)

    def remember(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        """Lets a decision hold for the same definition with the same arguments."""
        self._remembered[request.fingerprint] = msgspec.structs.replace(
            decision, is_remembered=True
        )

    def remembered(self, tool: Tool, params: Mapping[str, Any]) -> ApprovalDecision | None:
        """What was decided about the same call before; None: nothing."""
        return self._remembered.get(_fingerprint(tool.name, tool.definition_hash, params))

    def forget(self) -> None:
        """Forgets all remembered decisions."""
        self._remembered.clear()

    def to_dict(self) -> dict[str, Any]:
        """Open requests and remembered decisions, as JSON values."""
        kept = _Kept(self.session_id, self.timeout, list(self._open.values()), self._remembered)
        return dict(msgspec.to_builtins(kept))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, clock: Callable[[], float] = time.time) -> Self:
        """The book that `to_dict` wrote, in another process or at another time.

        Raises:
            ApprovalError: The data is not what `to_dict` writes; the message names the place.
        """
        try:
            kept = msgspec.convert(data, _Kept)
        except msgspec.ValidationError as error:
            raise ApprovalError(f"these are no kept approvals: {error}") from error
        book = cls(kept.session_id, kept.timeout, clock=clock)
        book._open = {each.token: each for each in kept.open}
        book._remembered = dict(kept.remembered)
        return book


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    """What `to_dict` writes."""

    session_id: str
    timeout: float
    open: list[ApprovalRequest]
    remembered: dict[str, ApprovalDecision]


def _is_same(request: ApprovalRequest, tool: Tool | None) -> bool:
    return (
        tool is not None
        and tool.version == request.tool_version
        and tool.definition_hash == request.definition_hash
    )


def _fingerprint(tool_name: str, definition_hash: str, params: Mapping[str, Any]) -> str:
    """One text for one call: the whole of it goes in, and no two calls share it."""
    said = to_text([tool_name, definition_hash, _sorted(params)])
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value, key=str)}
    return [_sorted(item) for item in value] if isinstance(value, list | tuple) else value
