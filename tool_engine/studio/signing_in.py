"""Who is signed in to the studio, and how does one sign in?

By a link that holds a code, which is taken once, or by a token of the API. A browser then holds the
id of a session, and nothing else.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

import msgspec

from tool_engine.access.principal import SCOPES, Principal

OPERATOR: Final = Principal("operator", frozenset(SCOPES))
"""Who signs in by a link: it is printed for those that run the server."""
_MOST_SESSIONS: Final = 1_000
_MOST_CODES: Final = 100
_IDLE: Final = 12 * 3600.0
"""Seconds without a request after which a session ends."""
_MOST_NOTICES: Final = 100
"""Notices of one session that are not read yet; older ones are forgotten."""
_CODE_LIFE: Final = 3600.0
"""Seconds for which a link can be used."""


class SignedIn(msgspec.Struct):
    """A session of one browser."""

    principal: Principal
    token: str | None
    """The token that it began with, which must still be taken; None: it began with a link."""
    csrf: str
    """Stands in each form of its pages, and of no other's."""
    used_at: float
    notices: OrderedDict[str, Any] = msgspec.field(default_factory=OrderedDict)
    """What its next pages say once, by the ids that stand in their addresses."""

    def keep_notice(self, notice: Any) -> str:
        """Keep what one page is to say, and return its id: of no use in another session."""
        notice_id = secrets.token_urlsafe(12)
        self.notices[notice_id] = notice
        if len(self.notices) > _MOST_NOTICES:
            self.notices.popitem(last=False)
        return notice_id

    def take_notice(self, notice_id: str) -> Any:
        """Return what is to be said, once; None: it was said, or this session has no such id."""
        return self.notices.pop(notice_id, None)


class SignIns:
    """The sessions of browsers, in memory: they end with the server.

    Args:
        auth: Knows tokens; None: none are asked for.
        clock: Seconds, never going back.
    """

    def __init__(self, auth: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._auth = auth
        self._clock = clock
        self._codes: OrderedDict[bytes, float] = OrderedDict()
        self._sessions: OrderedDict[bytes, SignedIn] = OrderedDict()
        self.on_code_used: Callable[[], None] | None = None
        """Called after a link was used."""

    def make_code(self) -> str:
        """Return a code that signs in one browser, within an hour."""
        code = secrets.token_urlsafe(24)
        self._codes[_digest_secret(code)] = self._clock() + _CODE_LIFE
        if len(self._codes) > _MOST_CODES:
            self._codes.popitem(last=False)
        return code

    def knows_code(self, code: str) -> bool:
        """Return True if a code can still be used."""
        return self._codes.get(_digest_secret(code), 0.0) > self._clock()

    def use_code(self, code: str) -> str | None:
        """Return the id of a new session; None: the code was used, is too old, or was never one."""
        if self._codes.pop(_digest_secret(code), 0.0) <= self._clock():
            return None
        if self.on_code_used is not None:
            self.on_code_used()
        return self._begin_session(OPERATOR, None)

    async def use_token(self, token: str) -> str | None:
        """Return the id of a new session; None: the token is not taken."""
        principal = None if self._auth is None else await self._auth.find_principal(token)
        return None if principal is None else self._begin_session(principal, token)

    async def find(self, session_id: str) -> SignedIn | None:
        """Return the session of a browser; None: it has ended, or never was."""
        key = _digest_secret(session_id)
        session = self._sessions.get(key)
        if session is None:
            return None
        now = self._clock()
        if session.used_at + _IDLE <= now or not await self._is_taken(session):
            self._sessions.pop(key, None)
            return None
        session.used_at = now
        if key in self._sessions:
            self._sessions.move_to_end(key)
        return session

    async def is_known(self, session_id: str) -> bool:
        """Return True while a session has not ended."""
        session = self._sessions.get(_digest_secret(session_id))
        return session is not None and await self._is_taken(session)

    def end(self, session_id: str) -> None:
        """End a session: the browser is signed out."""
        self._sessions.pop(_digest_secret(session_id), None)

    def _begin_session(self, principal: Principal, token: str | None) -> str:
        session_id = secrets.token_urlsafe(24)
        session = SignedIn(principal, token, secrets.token_urlsafe(18), self._clock())
        self._sessions[_digest_secret(session_id)] = session
        if len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session_id

    async def _is_taken(self, session: SignedIn) -> bool:
        if session.token is None:
            return True
        found: Principal | None = await self._auth.find_principal(session.token)
        return found == session.principal


def is_same_secret(sent: str, kept: str) -> bool:
    """Return True if two secrets are the same, in the same time."""
    return hmac.compare_digest(sent.encode(), kept.encode())


def _digest_secret(secret: str) -> bytes:
    # Looked up by its digest: how long that takes says nothing about the secret.
    return sha256(secret.encode()).digest()
