"""What of a request for approval is kept, and where, without a database?"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec

from tool_engine.clock import read_time
from tool_engine.errors import SessionError
from tool_engine.knowledge.conversation import copy_data
from tool_engine.knowledge.frozen_session import run_aside, size_of
from tool_engine.knowledge.snapshot import restore_value, take_snapshot
from tool_engine.model.approval import (
    ApprovalDecision,
    ApprovalRequest,
    StandingDecision,
    standing_ids,
)
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.checks.field_types import convert_value
from tool_engine.model.checks.known_fields import KnownArguments
from tool_engine.model.checks.setting_kinds import check_function
from tool_engine.model.json.copying import copied_whole
from tool_engine.model.newest import keep_newest
from tool_engine.model.session import check_session_id
from tool_engine.redaction import secrets_asked

_Kept = TypeVar("_Kept")
_REQUEST: Final = "the request for approval"
_STANDING: Final = "the standing decision"


def is_key(text: object) -> bool:
    """Whether every storage takes it as a token or a fingerprint."""
    return isinstance(text, str) and 0 < len(text) <= 512 and text.isascii() and "\0" not in text


def shown_of(request: ApprovalRequest) -> dict[str, Any]:
    """What of a request may be kept, as JSON values.

    Where it has secret arguments, or some that JSON cannot say, they are replaced, and its
    `fingerprint` is all that is left of them: `is_whole` says so.

    Raises:
        SessionError: It belongs to no session, or has no token.
    """
    check_session_id(request.session_id)
    if not is_key(request.token):
        raise SessionError(f"{_REQUEST} has no token that can be kept: {request.token!r}")
    if not request.secret_names:
        with suppress(SessionError):
            return copy_data(msgspec.structs.asdict(request), _REQUEST)
    # As it looks: what it was stays hidden from others.
    looks = msgspec.structs.replace(request, params=restore_value(take_snapshot(request.params)))
    secrets = secrets_asked(looks)
    shown = msgspec.structs.replace(
        looks,
        params=secrets.params(looks.params),
        result=None if request.result is None else secrets.text(request.result),
        preview=None if request.preview is None else secrets.text(request.preview),
    )
    return copy_data(msgspec.structs.asdict(shown), _REQUEST)


def request_of(data: object, session_id: str) -> ApprovalRequest:
    """The request of a session of which `shown_of` gave `data`.

    Raises:
        SessionError: It is none.
    """
    return _convert_kept(data, ApprovalRequest, session_id)


def said_of(decision: ApprovalDecision) -> dict[str, Any]:
    """A decision as JSON values."""
    remembered = msgspec.structs.replace(decision, is_remembered=True)
    return copy_data(msgspec.structs.asdict(remembered), "the decision")


def decision_of(data: object, session_id: str) -> ApprovalDecision:
    """The decision in a session of which `said_of` gave `data`.

    Raises:
        SessionError: It is none.
    """
    return _convert_kept(data, ApprovalDecision, session_id)


def standing_of(
    request: ApprovalRequest, decision: ApprovalDecision, now: float
) -> StandingDecision:
    """The decision that holds for the principal of a request from now on.

    Raises:
        SessionError: The request belongs to no session, or has no token.
    """
    making = request.making or request.definition_hash
    place = request.principal, request.engine, request.tool_name, making, request.fingerprint
    on_call, on_tool = standing_ids(*place)
    is_whole_tool = decision.always == "tool"
    return StandingDecision(
        decision_id=on_tool if is_whole_tool else on_call,
        principal=request.principal,
        engine=request.engine,
        tool_name=request.tool_name,
        tool_version=request.tool_version,
        definition_hash=request.definition_hash,
        params=None if is_whole_tool else shown_of(request)["params"],
        is_approved=decision.is_approved,
        reason=decision.reason,
        by=decision.by,
        decided_at=now,
    )


def standing_from(data: object, decision_id: str) -> StandingDecision:
    """The standing decision that was kept under an id.

    Raises:
        SessionError: It is none.
    """
    try:
        found = convert_value(data, StandingDecision)
    except msgspec.ValidationError as error:
        raise damaged_standing(decision_id, str(error)) from error
    if found.decision_id != decision_id:
        raise damaged_standing(decision_id, f"it is {found.decision_id!r}")
    return found


def damaged_standing(decision_id: object, why: str) -> SessionError:
    """The error of a standing decision that cannot be read."""
    return SessionError(
        f"{_STANDING} {decision_id!r} (a row of tool_standing) cannot be read: {why}; it holds for "
        "no principal: revoke it"
    )


def _convert_kept(data: object, kind: type[_Kept], session_id: str) -> _Kept:
    try:
        return convert_value(data, kind)
    except msgspec.ValidationError as error:
        raise SessionError(
            f"what is kept is no {kind.__name__} of this version: {error}; delete the session "
            f"{session_id!r}"
        ) from error


@copied_whole
class MemoryApprovalStorage(KnownArguments):
    """Keeps the newest requests and decisions in memory; the oldest go first.

    Args:
        max_requests: The most requests that are kept, and the most decisions.
        clock: Unix time in seconds; as a rule the one that goes on however that of the machine is
            set.

    Raises:
        ConfigurationError: The bound is not a whole number of 1 or more, or the clock no function.
    """

    def __init__(
        self, max_requests: int = 10_000, *, clock: Callable[[], float] = read_time
    ) -> None:
        check_count("max_requests", max_requests, minimum=1)
        check_function("clock", clock, "that returns seconds")
        self.max_requests = max_requests
        self._clock = clock
        # None: it was answered, and cannot be put again.
        self._requests: OrderedDict[str, ApprovalRequest | None] = OrderedDict()
        self._decisions: OrderedDict[tuple[str, str], ApprovalDecision] = OrderedDict()
        self._standing: OrderedDict[str, StandingDecision] = OrderedDict()

    def __repr__(self) -> str:
        is_open = sum(each is not None for each in self._requests.values())
        return f"<MemoryApprovalStorage {is_open} open, {len(self._decisions)} decisions>"

    def read_clock(self) -> float:
        """The time by which requests expire, Unix time in seconds."""
        return self._clock()

    async def put(self, request: ApprovalRequest) -> None:
        """Keeps an open request; one that was put before, answered or not, is left as it is.

        Raises:
            SessionError: It belongs to no session, or has no token.
        """
        shown = await run_aside(size_of(request.params), lambda: _copy_of(request))
        self._requests.setdefault(request.token, shown)
        while len(self._requests) > self.max_requests:
            self._requests.popitem(last=False)

    async def claim(self, token: str) -> bool:
        """Closes an open request; True for exactly one caller, before it expires."""
        request = self._requests.get(token)
        if request is None:
            return False
        self._requests[token] = None
        return self._clock() < request.expires_at

    async def pending(self, session_id: str | None = None) -> list[ApprovalRequest]:
        """The open requests that have not expired, oldest first; None: of every session."""
        if session_id is not None:
            check_session_id(session_id)
        now = self._clock()
        found = [
            each
            for each in self._requests.values()
            if each is not None
            and now < each.expires_at
            and (session_id is None or each.session_id == session_id)
        ]
        found.sort(key=_request_age)
        size = sum(size_of(each.params) for each in found)
        return await run_aside(size, lambda: list(map(_copy_of, found)))

    async def remember(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        """Keeps a decision for the same call of the same session."""
        key = (check_session_id(request.session_id), request.fingerprint)
        self._decisions[key] = decision_of(said_of(decision), key[0])
        self._decisions.move_to_end(key)
        while len(self._decisions) > self.max_requests:
            self._decisions.popitem(last=False)

    async def remembered(self, session_id: str, fingerprint: str) -> ApprovalDecision | None:
        """What was decided about a call with this `ApprovalRequest.fingerprint`."""
        return self._decisions.get((check_session_id(session_id), fingerprint))

    async def forget(self, session_id: str) -> int:
        """Forget the decisions of a session; return how many there were."""
        check_session_id(session_id)
        found = [key for key in self._decisions if key[0] == session_id]
        for key in found:
            del self._decisions[key]
        return len(found)

    async def keep_standing(
        self, request: ApprovalRequest, decision: ApprovalDecision
    ) -> StandingDecision:
        """Keeps a decision for the request's principal, in place of the one before."""
        standing = standing_of(request, decision, self._clock())
        keep_newest(self._standing, standing.decision_id, standing, self.max_requests)
        return _copy_standing(standing)

    async def find_standing(self, decision_ids: Sequence[str]) -> list[StandingDecision]:
        """The decisions with these ids, in this order."""
        found = (self._standing.get(each) for each in decision_ids)
        return [_copy_standing(each) for each in found if each is not None]

    async def list_standing(self, principal: str | None = None) -> list[StandingDecision]:
        """The decisions, oldest first; None: of every principal."""
        found = [each for each in self._standing.values() if principal in (None, each.principal)]
        found.sort(key=lambda each: (each.decided_at, each.decision_id))
        return list(map(_copy_standing, found))

    async def revoke_standing(self, decision_id: str) -> bool:
        """Forgets a decision; False: there was none."""
        return self._standing.pop(decision_id, None) is not None

    def drop(self, session_id: str) -> int:
        """Forget the open requests of a session; return how many there were."""
        found = [
            token
            for token, each in self._requests.items()
            if each is not None and each.session_id == session_id
        ]
        for token in found:
            self._requests[token] = None
        return len(found)


def _copy_of(request: ApprovalRequest) -> ApprovalRequest:
    return request_of(shown_of(request), request.session_id)


def _copy_standing(standing: StandingDecision) -> StandingDecision:
    return standing_from(
        copy_data(msgspec.structs.asdict(standing), _STANDING), standing.decision_id
    )


def _request_age(request: ApprovalRequest) -> tuple[float, str]:
    return request.asked_at, request.token
