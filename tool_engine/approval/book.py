"""Who was asked for consent, to which call, and what was the answer?

A request is bound to one call: the tool's version and definition, and the exact arguments. It is
answered once, before it expires; an answer that is late, second or for a changed tool is an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, Self, TypeAlias

import msgspec

from tool_engine.approval.scopes import IS_SHARED
from tool_engine.approval.waiting import Waiting
from tool_engine.clock import read_time
from tool_engine.errors import ApprovalError, RecordsUnavailableError
from tool_engine.interfaces import ApprovalStorage
from tool_engine.logger import get_logger
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest, is_plain
from tool_engine.model.call import check_timeout
from tool_engine.model.checks.field_types import convert_value
from tool_engine.model.foreign import ends_caller
from tool_engine.model.json.returned_value import safe_repr
from tool_engine.model.newest import keep_newest
from tool_engine.model.tool import Tool
from tool_engine.redaction import OwnSecrets, secrets_asked, secrets_of, words_of

DEFAULT_TIMEOUT: Final = 300.0
"""Seconds after which a request without an answer is refused. U32."""
MOST_REMEMBERED: Final = 10_000
"""Decisions that one conversation remembers; the oldest are dropped first."""

_log = get_logger(__name__)


class Desk(Protocol):
    """What an engine keeps and publishes of the questions about its tools."""

    def tell_request(self, request: ApprovalRequest) -> None:
        """Publish that a person is asked."""

    def tell_answer(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        """Publish what was answered."""

    async def keep_standing(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        """Keep a decision for the request's principal, whatever the conversation."""

    async def find_standing(self, *decision_ids: str) -> ApprovalDecision | None:
        """Return the first of the decisions that holds, or None."""


FindDesk: TypeAlias = Callable[[str], Desk | None]


def _find_none(engine: str) -> None:
    del engine


class ApprovalBook:
    """The open requests and the remembered decisions of one conversation.

    A request is open while its call waits for the answer, and, if there is no answer now, from the
    end of its call until it expires: then it is *deferred*, and `answer` takes the answer.

    Args:
        session_id: The conversation.
        timeout: Seconds until a request expires.
        clock: Unix time in seconds; None: that of the storage where it has one, else that of this
            program.
        storage: Keeps deferred requests and remembered decisions for other processes; None:
            a program that goes on elsewhere takes them along with `to_dict`.
        find_desk: Returns the approvals of the engine with a key, or None.
        is_of_all: Whether all who call an engine share it: then what is remembered of a call holds
            for its principal alone.
        timekeeper: The storage whose time holds, where another one than `storage` does.

    Raises:
        ConfigurationError: The timeout is not a positive number of seconds.
    """

    def __init__(
        self,
        session_id: str,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        clock: Callable[[], float] | None = None,
        storage: ApprovalStorage | None = None,
        find_desk: FindDesk = _find_none,
        is_of_all: bool = False,
        timekeeper: Any = None,
    ) -> None:
        check_timeout("timeout", timeout)
        self.session_id = session_id
        self.timeout = timeout
        self.storage = storage
        self._timekeeper: Any = storage if timekeeper is None else timekeeper
        if clock is None:
            clock = getattr(self._timekeeper, "read_clock", read_time)
        self._clock: Callable[[], float] = clock
        self._is_of_all = is_of_all
        self.find_desk = find_desk
        self.waits: dict[str, Waiting] = {}
        """Request token -> what takes the answer that its call waits for."""
        self.questions: dict[Any, Any] = {}
        """The questions being asked now, shared by all gates of the conversation."""
        self._open: dict[str, ApprovalRequest] = {}
        self._waiting: set[str] = set()
        self._unannounced: set[str] = set()
        """The tokens of requests that no event was about yet."""
        self._remembered: OrderedDict[str, ApprovalDecision] = OrderedDict()
        self._undoing: set[asyncio.Future[None]] = set()
        self._brought: frozenset[str] = frozenset()
        """The tokens of requests that came with the data of another process."""

    def __repr__(self) -> str:
        return f"ApprovalBook({len(self._open)} open, {len(self._remembered)} remembered)"

    # Requests.

    async def learn_time(self) -> None:
        """Learn what time it is for all who may answer; else this program's goes on."""
        if hasattr(self._timekeeper, "learn_time"):
            with contextlib.suppress(RecordsUnavailableError):
                await self._timekeeper.learn_time()

    def ask(
        self, tool: Tool, params: Mapping[str, Any], *, is_waiting: bool = False, **said: Any
    ) -> ApprovalRequest:
        """Open a request about one call.

        Args:
            tool: The tool.
            params: The exact arguments.
            is_waiting: Whether the call waits for the answer, which `settle` then takes.
            **said: More fields of the `ApprovalRequest`, such as `kind`, `call_id` or `preview`.
        """
        now = self._clock()
        self._drop_oldest()
        hidden = secrets_of(tool, params)
        request = ApprovalRequest(
            token=secrets.token_hex(24),  # no word of a command line that begins with a hyphen
            session_id=self.session_id,
            tool_name=tool.name,
            tool_version=tool.version,
            definition_hash=tool.definition_hash,
            params=dict(params),
            effect=tool.effect,
            title=tool.title or "",
            description=tool.description,
            asked_at=now,
            expires_at=now + self.timeout,
            secret_names=tuple(sorted(hidden.names | hidden.parts)),
            is_shared=IS_SHARED.get(),
            **said,
        )
        self._open[request.token] = request
        if is_waiting:
            self._waiting.add(request.token)
        self._unannounced.add(request.token)
        return request

    def announce(self, request: ApprovalRequest) -> None:
        """Publish, once, that a person is asked: from now on the request can be answered."""
        if request.token in self._unannounced:
            self._unannounced.discard(request.token)
            desk = self.find_desk(request.engine)
            if desk is not None:
                desk.tell_request(request)

    def pending(self) -> list[ApprovalRequest]:
        """Return this process's open requests, oldest first; drop expired ones.

        Expired ones are dropped.
        """
        self._open = {token: each for token, each in self._open.items() if self.is_open(token)}
        self._waiting &= self._open.keys()
        self._unannounced &= self._open.keys()
        return list(self._open.values())

    def list_open(self) -> list[tuple[ApprovalRequest, bool]]:
        """Return the open requests and whether each call waits; from any thread."""
        now = self._clock()
        found = [each for each in list(self._open.values()) if now < each.expires_at]
        return [(each, each.token in self._waiting) for each in found]

    def is_brought(self, token: str) -> bool:
        """Return True if a request came with the data of another process."""
        return token in self._brought

    def is_open(self, token: str) -> bool:
        request = self._open.get(token)
        return request is not None and self._clock() < request.expires_at

    async def find(self, token: str) -> ApprovalRequest | None:
        """Return the request with this token, of any process, or None."""
        request = self._open.get(token)
        if request is None and self.storage is not None:
            kept = await self.storage.pending(self.session_id)
            request = next((each for each in kept if each.token == token), None)
        return request

    async def defer(self, token: str) -> None:
        """Keep an open request for a later answer, as its call ends."""
        if self.storage is not None:
            try:
                await self.storage.put(self._open[token])
            except BaseException:
                # The storage may have kept it, although the call will not end as deferred.
                await self._undo_put(self.storage, token)
                raise
        self._waiting.discard(token)

    async def take_back(self, token: str) -> None:
        """Close a deferred request that must not be answered any more."""
        self.withdraw(token)
        if self.storage is not None:
            await self._undo_put(self.storage, token)

    async def _undo_put(self, storage: ApprovalStorage, token: str) -> None:
        async def claim() -> None:
            with contextlib.suppress(Exception):
                await storage.claim(token)

        undoing = asyncio.ensure_future(claim())
        # It goes on if the task that waits for it is cancelled once more.
        self._undoing.add(undoing)
        undoing.add_done_callback(self._undoing.discard)
        await asyncio.shield(undoing)

    def settle(self, token: str, decision: ApprovalDecision, tool: Tool) -> ApprovalRequest:
        """Take the answer that a waiting call needs, and close the request.

        Raises:
            ApprovalError: As for `answer`.
        """
        self._waiting.discard(token)
        request = self._open.pop(token, None)
        if request is None:
            raise _make_unknown_error()
        self._check_decision(request, decision, tool)
        self._tell_answer(request, decision)
        return request

    async def answer(
        self, token: str, decision: ApprovalDecision, tool: Tool | None
    ) -> ApprovalRequest:
        """Take the one answer to a deferred request, and close it.

        If it is a yes, the caller of this method runs the request's call, once.

        Args:
            token: The request's.
            decision: The answer.
            tool: The tool as it is now; None: it is gone.

        Raises:
            ApprovalError: There is no such open request, a call waits for its answer, it has
                expired, it was answered in another process, or the tool or the arguments are
                not what the consent is for; a refusal of those is taken. A tool that is gone, and
                arguments that were not kept whole, leave it open for where they are.
        """
        if token in self._waiting:
            raise ApprovalError(
                f"a call of {self._open[token].tool_name!r} is waiting for this answer; give it to "
                "the approver that was asked"
            )
        request = await self.find(token)
        if request is None:
            raise _make_unknown_error()
        if decision.is_approved and not request.is_whole:
            raise ApprovalError(
                f"the arguments of {request.tool_name!r} were not kept whole, because they hold "
                "secrets, or what JSON cannot say: answer where the tool was called, or call it "
                "again"
            )
        if decision.is_approved and tool is None and self._clock() < request.expires_at:
            raise ApprovalError(
                f"{request.tool_name!r} is not what was approved: it is not there now; register or "
                "load it first, or refuse; the request stays open"
            )
        await self._close_request(request)
        self._check_decision(request, decision, tool)
        self._tell_answer(request, decision)
        await self.remember(request, decision)
        return request

    def _tell_answer(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        self.announce(request)
        desk = self.find_desk(request.engine)
        if desk is not None:
            desk.tell_answer(request, decision)

    def withdraw(self, token: str) -> None:
        """Close a request whose call has ended; a closed one is left alone."""
        self._unannounced.discard(token)
        self._open.pop(token, None)
        self._waiting.discard(token)

    def _drop_oldest(self) -> None:
        """Drop expired requests, so that they do not pile up."""
        while self._open and not self.is_open(oldest := next(iter(self._open))):
            self.withdraw(oldest)

    async def _close_request(self, request: ApprovalRequest) -> None:
        """Close a request unless another task or process closed it first."""
        is_here = self._open.pop(request.token, None) is not None
        if self.storage is None or self._clock() >= request.expires_at:
            return
        try:
            if request.token in self._brought:
                # A storage that did not know the request must record that it was answered.
                await self.storage.put(request)
            is_ours = await self.storage.claim(request.token)
        except BaseException:
            # The answer was not passed on, so it can be given again.
            if is_here:
                self._open[request.token] = request
            raise
        if not is_ours:
            raise _make_unknown_error()

    def _check_decision(
        self, request: ApprovalRequest, decision: ApprovalDecision, tool: Tool | None
    ) -> None:
        if self._clock() >= request.expires_at:
            raise ApprovalError(
                f"the approval of {request.tool_name!r} came too late: it was asked for "
                f"{self._clock() - request.asked_at:.0f} s ago and expired; call the tool again"
            )
        if decision.is_approved and not request.is_about(tool):
            raise ApprovalError(
                f"{request.tool_name!r} is not what was approved: here its definition is another "
                f"one than that of version {request.tool_version} that was asked about, since it "
                "has changed or another tool has the name; call it again to be asked again"
            )

    # Decisions.

    async def remember(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        """Remember a decision for later identical calls if its request is `is_once`.

        Nothing is remembered for arguments that JSON cannot express: they cannot be compared.
        """
        is_wanted = request.is_once and decision.is_remembered is not False
        if not is_wanted or request.kind != "execution":
            return
        if decision.always is not None and request.principal and request.engine:
            # Not in the conversation, where others may be behind the next call.
            await self._keep_standing(request, decision)
            return
        if not is_plain(request.params):
            return
        kept = msgspec.structs.replace(decision, is_remembered=True)
        self._remember_decision(self._make_key(request.fingerprint, request.principal), kept)
        if self.storage is not None:
            try:
                await self.storage.remember(request, kept)
            except BaseException as error:  # this process knows it all the same
                if ends_caller(error):
                    raise
                said = words_of(error, secrets_asked(request))
                _log.warning("decision_not_kept", tool_name=request.tool_name, error=said)

    async def _keep_standing(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        desk = self.find_desk(request.engine)
        if desk is None or not (decision.always == "tool" or is_plain(request.params)):
            return
        try:
            await desk.keep_standing(request, decision)
        except BaseException as error:  # then it holds for this one call
            if ends_caller(error):
                raise
            said = words_of(error, secrets_asked(request))
            _log.warning("decision_not_kept", tool_name=request.tool_name, error=said)

    async def find_standing(
        self, engine: str, ids: tuple[str, str], find_secrets: Callable[[], OwnSecrets | None]
    ) -> ApprovalDecision | None:
        """Return what stands for a principal's call: on the call itself, else on its tool.

        Args:
            engine: The key of the engine that has the tool.
            ids: What `standing_ids` gives.
            find_secrets: As in `remembered`.
        """
        desk = self.find_desk(engine)
        if desk is None:
            return None
        try:
            return await desk.find_standing(*ids)
        except BaseException as error:  # then the approver is asked once more
            if ends_caller(error):
                raise
            _log.warning("decision_not_found", error=words_of(error, find_secrets()))
            return None

    def decided(self, fingerprint: str, principal: str = "") -> ApprovalDecision | None:
        return self._remembered.get(self._make_key(fingerprint, principal))

    async def remembered(
        self,
        fingerprint: str,
        principal: str = "",
        find_secrets: Callable[[], OwnSecrets | None] = lambda: None,
    ) -> ApprovalDecision | None:
        """Return the remembered decision about a call's fingerprint, or None.

        Args:
            fingerprint: The call's fingerprint.
            principal: Who is behind the call; empty: not known.
            find_secrets: Returns the secrets to hide in the error of a failing storage.
        """
        known = self.decided(fingerprint, principal)
        if known is not None or self.storage is None:
            return known
        try:
            known = await self.storage.remembered(self.session_id, fingerprint)
        except BaseException as error:  # then the approver is asked once more
            if ends_caller(error):
                raise
            _log.warning("decision_not_found", error=words_of(error, find_secrets()))
            return None
        if known is not None:
            self._remember_decision(self._make_key(fingerprint, principal), known)
        return known

    def _make_key(self, fingerprint: str, principal: str) -> str:
        return f"{principal} {fingerprint}" if self._is_of_all else fingerprint

    def _remember_decision(self, key: str, decision: ApprovalDecision) -> None:
        keep_newest(self._remembered, key, decision, MOST_REMEMBERED)

    async def forget(self) -> None:
        self._remembered.clear()
        if self.storage is not None:
            await self.storage.forget(self.session_id)

    # Restarts.

    def to_dict(self) -> dict[str, Any]:
        """Return open requests and remembered decisions as JSON values.

        The arguments are included whole, with secrets: store the data as carefully as those.
        Arguments that JSON cannot express become their `repr`, and cannot be approved elsewhere.
        """
        kept = _Kept(
            self.session_id,
            self.timeout,
            list(self._open.values()),
            self._remembered,
            sorted(self._waiting),
        )
        return dict(msgspec.to_builtins(kept, str_keys=True, enc_hook=safe_repr))

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        *,
        clock: Callable[[], float] | None = None,
        storage: ApprovalStorage | None = None,
        find_desk: FindDesk = _find_none,
    ) -> Self:
        """Restore a book from the data that `to_dict` returned.

        No call waits for the requests any more. With a storage, only deferred requests stay open;
        without one, all do. Processes that share a storage answer a request once; a program with
        two copies of the data and no shared storage must make sure that only one is used.

        Raises:
            ApprovalError: The data is not what `to_dict` writes; the message names the place.
        """
        try:
            kept = convert_value(data, _Kept)
        except msgspec.ValidationError as error:
            raise ApprovalError(f"these are no kept approvals: {error}") from error
        book = cls(kept.session_id, kept.timeout, clock=clock, storage=storage, find_desk=find_desk)
        gone = kept.waiting if storage is not None else ()
        book._open = {each.token: each for each in kept.open if each.token not in gone}
        book._brought = frozenset(book._open)
        book._remembered = OrderedDict(kept.remembered)
        return book


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    session_id: str
    timeout: float
    open: list[ApprovalRequest]
    remembered: dict[str, ApprovalDecision]
    waiting: list[str] = []
    """Tokens of the requests that calls of the writing process waited for."""


def _make_unknown_error() -> ApprovalError:
    return ApprovalError(
        "no approval is awaited under this token: it was answered or withdrawn before, it has "
        "expired, or it belongs to another conversation"
    )
