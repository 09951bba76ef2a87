"""Which requests reach a page of the studio, and for whom?

Pages are asked for by browsers: a cookie says who is signed in, and what is sent comes from the
forms of these pages only.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from tool_engine.access.bodies import LONGEST, has_body, read_body, replay_body
from tool_engine.access.heads import check_address, find_path, read_headers
from tool_engine.access.hosts import Hosts, is_of_this_machine
from tool_engine.access.pages import check_own
from tool_engine.access.principal import SCOPES, Principal
from tool_engine.access.problem import Problem
from tool_engine.studio.rendering import LANGUAGES
from tool_engine.studio.signing_in import SignedIn, SignIns, is_same_secret
from tool_engine.studio.visit import Form

LOCAL: Final = Principal("local", frozenset(SCOPES))
"""Who asks where no tokens are asked for."""
_FORMS: Final = (b"application/x-www-form-urlencoded", b"multipart/form-data")
_MOST_FILES: Final = 50
_MOST_FIELDS: Final = 5_000
_PORT: Final = re.compile(r":(\d+)$")
_OWN_SITE: Final = (b"none", b"same-origin")
_THEMES: Final = ("light", "dark")
_FOR_EVER: Final = float("inf")


class BrowserRequest(msgspec.Struct, kw_only=True):
    """A request that may reach a page, or the page to sign in at."""

    method: str
    path: str
    """Below that of the studio."""
    root: str
    query: dict[str, str]
    form: Form
    session: SignedIn | None
    """None: no one is signed in."""
    session_id: str
    cookie: str
    """The name of the cookie of sessions: servers at other ports of this host have others."""
    address: str
    """Where the server stands for its browser, such as `http://127.0.0.1:8930`."""
    is_secure: bool
    is_partial: bool
    is_from_elsewhere: bool
    """Whether a page of another site led here, by which no one is signed in."""
    place: str
    """The page that its browser shows then, with its query; see `read_place`."""
    language: str
    theme: str
    receive: Any


class Door:
    """Reads the requests of browsers, and refuses those of other pages.

    Args:
        mount: The path of the studio, such as `/studio`.
        sign_ins: Who is signed in; None: all of this machine are, without signing in.
        allowed_hosts: The names under which the server may be reached, beside this machine's.
    """

    def __init__(
        self, mount: str, sign_ins: SignIns | None, allowed_hosts: Collection[str]
    ) -> None:
        self._mount = mount
        self._sign_ins = sign_ins
        self._hosts = Hosts(allowed_hosts)
        self._local = SignedIn(LOCAL, None, secrets.token_urlsafe(18), _FOR_EVER)

    async def read_request(self, scope: Any, receive: Any) -> BrowserRequest | None:
        """Return a request; None: its browser has left.

        Raises:
            Problem: It is refused.
        """
        sent = read_headers(scope["headers"])
        host = self._hosts.check_name(sent.get(b"host", b""))
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        if method not in ("GET", "POST"):
            raise Problem(
                405, "no-such-method", "pages take GET and POST", headers={"allow": "GET, POST"}
            )
        if not _is_followed_link(method, sent):
            check_own(sent, host)
        check_address(scope["query_string"])
        if self._sign_ins is None and not is_of_this_machine(scope, sent):
            raise Problem(403, "not-local", "without tokens only this machine is heard")
        request = Request(scope)
        root = scope.get("root_path", "").rstrip("/")
        path = find_path(scope).removeprefix(self._mount) or "/"
        port = _PORT.search(host)
        cookie = f"studio_{port[1] if port else 'session'}"
        session_id = request.cookies.get(cookie, "")
        session = await self._find_session(session_id, sent)
        form = Form([])
        if method == "POST":
            found = await _read_form(scope, sent, receive)
            if found is None:
                return None
            form = found
            # What signs in may come from a page of another session, or of none: of this origin.
            if session is not None and not path.startswith("/sign-in"):
                _check_form(form, sent, session)
        return BrowserRequest(
            method=method,
            path=path,
            root=root + self._mount,
            query=dict(request.query_params),
            form=form,
            session=session,
            session_id=session_id,
            cookie=cookie,
            address=f"{scope.get('scheme', 'http')}://{host}{root}",
            is_secure=scope.get("scheme") == "https",
            is_partial=b"hx-request" in sent,
            is_from_elsewhere=_is_from_elsewhere(sent),
            place=self._find_place(path, scope, sent),
            language=_choose_language(request.cookies, sent),
            theme=_take_known(request.cookies.get("studio_theme", ""), _THEMES),
            receive=receive,
        )

    def _find_place(self, path: str, scope: Any, sent: Mapping[bytes, bytes]) -> str:
        if b"hx-request" in sent:
            shown = urlsplit(sent.get(b"hx-current-url", b"").decode("latin-1"))
            # `quote` is undone: an address is written anew from its place.
            path, query = unquote(shown.path).partition(self._mount)[2] or "/", shown.query
        else:
            query = scope["query_string"].decode("latin-1")
        is_page = scope["method"] != "POST" and not path.startswith("/sign-")
        return path + (f"?{query}" if query else "") if is_page else "/"

    async def _find_session(self, session_id: str, sent: Mapping[bytes, bytes]) -> SignedIn | None:
        if self._sign_ins is None:
            return self._local
        # A page of another site may lead here, but not with what is signed in here.
        is_own = not _is_from_elsewhere(sent)
        return await self._sign_ins.find(session_id) if session_id and is_own else None


def _is_from_elsewhere(sent: Mapping[bytes, bytes]) -> bool:
    return sent.get(b"sec-fetch-site", b"none") not in _OWN_SITE


def _is_followed_link(method: str, sent: Mapping[bytes, bytes]) -> bool:
    """Return True if a person has come here by a link, in a window of their own."""
    return (
        method == "GET"
        and sent.get(b"sec-fetch-mode") == b"navigate"
        and sent.get(b"sec-fetch-dest") == b"document"
    )


async def _read_form(scope: Any, sent: Mapping[bytes, bytes], receive: Any) -> Form | None:
    """Return what was sent; None: the browser has left.

    Raises:
        Problem: It is too large, or no form.
    """
    kind = sent.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if not has_body(scope, sent):
        return Form([])
    if kind not in _FORMS:
        raise Problem(415, "wrong-type", "only forms of these pages are taken")
    body = await read_body(receive)
    if body is None:
        return None
    request = Request(scope, replay_body(body, receive))
    form = Form([])
    files: dict[str, list[tuple[str, bytes]]] = {}
    try:
        found = await request.form(
            max_files=_MOST_FILES, max_fields=_MOST_FIELDS, max_part_size=LONGEST
        )
    except (MultiPartException, ValueError) as error:
        raise Problem(400, "invalid-form", f"the form cannot be read: {error}") from error
    for name, value in found.multi_items():
        if isinstance(value, str):
            form.fields.append((name, value))
        else:
            files.setdefault(name, []).append((value.filename or "", await value.read()))
    await found.close()
    form.files = files
    return form


def _check_form(form: Form, sent: Mapping[bytes, bytes], session: SignedIn) -> None:
    """Check that a form is of a page that was made for this session.

    Raises:
        Problem: It is of another one.
    """
    said = sent.get(b"x-csrf-token", b"").decode("latin-1") or form.get("csrf")
    if not is_same_secret(said, session.csrf):
        raise Problem(403, "old-form", "this form is of an earlier session; load the page again")
    form.fields = [each for each in form.fields if each[0] != "csrf"]


def _choose_language(cookies: Mapping[str, str], sent: Mapping[bytes, bytes]) -> str:
    chosen = _take_known(cookies.get("studio_language", ""), tuple(LANGUAGES))
    if chosen:
        return chosen
    for each in sent.get(b"accept-language", b"").decode("latin-1").split(","):
        language = each.partition(";")[0].strip().partition("-")[0].lower()
        if language in LANGUAGES:
            return language
    return "en"


def _take_known(said: str, known: tuple[str, ...]) -> str:
    return said if said in known else ""
