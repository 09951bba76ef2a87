"""Which app shows an engine in a browser?"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final

from tool_engine.access.heads import match_path
from tool_engine.access.open_requests import OpenRequests
from tool_engine.access.principal import Principal
from tool_engine.access.problem import Problem
from tool_engine.access.rates import Rates
from tool_engine.access.streams import leave_when_unknown
from tool_engine.logger import get_logger
from tool_engine.redaction import trace_of
from tool_engine.studio.api import API
from tool_engine.studio.door import BrowserRequest, Door
from tool_engine.studio.pages import (
    approvals_page,
    call_page,
    call_tree,
    choices_page,
    files_page,
    history_page,
    live_page,
    parser_page,
    sessions_page,
    tasks_page,
    tester_page,
    tool_page,
    tools_page,
)
from tool_engine.studio.path_parts import read_part
from tool_engine.studio.rendering import digest_static, list_static, load_pages, render_page
from tool_engine.studio.signing_in import SignIns
from tool_engine.studio.visit import (
    Download,
    Move,
    Page,
    PageAnswer,
    Pieces,
    Route,
    Visit,
    read_place,
    write_address,
)

_PAGES: Final = (
    live_page,
    history_page,
    call_page,
    call_tree,
    tools_page,
    tool_page,
    tester_page,
    parser_page,
    files_page,
    approvals_page,
    sessions_page,
    tasks_page,
    choices_page,
)
PANES: Final = (
    ("/", "Live", "read"),
    ("/history", "History", "read"),
    ("/tools", "Tools", "read"),
    ("/tester", "Tester", "call"),
    ("/parser", "Parser", "read"),
    ("/files", "Files", "operate"),
    ("/approvals", "Approvals", "approve"),
    ("/tasks", "Tasks", "call"),
    ("/sessions", "Sessions", "operate"),
)
"""Where the menu leads, what it says, and the scope that each takes."""
_OF_ALL_TOOLS: Final = frozenset(("/sessions",))
"""What one that may not use all tools is refused."""
_CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_ALWAYS: Final = {
    "content-security-policy": _CSP,
    "cross-origin-opener-policy": "same-origin",
    # With `no-referrer` a browser sends the forms of these pages as of no origin.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_KINDS: Final = {
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "txt": "text/plain",
}
_KEPT: Final = "public, max-age=31536000, immutable"
_YEAR: Final = 31_536_000
_SAID: Final = "said"
"""The parameter with the id of what a page says once. Words of an address are never shown as such
a notice: a link of another person could say that something was done."""
_log: Final = get_logger(__name__)


class Studio:
    """An ASGI app with the pages of the studio.

    Args:
        api: The app of the HTTP API, without the guard before it.
        auth: Knows tokens; None: none are asked for, and only this machine is heard.
        allowed_hosts: The names under which the server may be reached, beside this machine's.
        rates: How many requests a principal may send; None: any number.
        open_requests: How many of them may be open at once; None: any number.
        mount: The path at which it stands.
    """

    def __init__(
        self,
        api: Any,
        auth: Any,
        *,
        allowed_hosts: Collection[str] = (),
        rates: Rates | None = None,
        open_requests: OpenRequests | None = None,
        mount: str = "/studio",
    ) -> None:
        self._api = api
        self._mount = mount
        self._rates = rates
        self._open = open_requests or OpenRequests(None)
        self.sign_ins: SignIns | None = None if auth is None else SignIns(auth)
        """Who is signed in; None: no one has to."""
        load_pages()
        self._door = Door(mount, self.sign_ins, allowed_hosts)
        self._routes: list[Route] = [route for page in _PAGES for route in page.ROUTES]

    def make_link(self) -> str:
        """Return the path at which one browser may sign in, once, or where none has to."""
        if self.sign_ins is None:
            return f"{self._mount}/"
        return f"{self._mount}/sign-in/{self.sign_ins.make_code()}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        answer = _Sender(send, scope["method"] == "HEAD")
        try:
            request = await self._door.read_request(scope, receive)
        except Problem as problem:
            await answer.send_text(problem.status, str(problem), {"connection": "close"})
            return
        if request is None:
            return  # its browser has left
        try:
            await self._answer_request(request, answer)
        except Problem as problem:
            await self._show_problem(request, answer, problem)
        except Exception as error:  # noqa: BLE001 - a page that fails must not end the server
            await self._show_problem(request, answer, _note_failure(request.path, error))

    async def _answer_request(self, request: BrowserRequest, answer: _Sender) -> None:
        if request.path.startswith("/static/"):
            await _send_static(request, answer)
        elif request.path.startswith("/sign-in"):
            await self._answer_sign_in(request, answer)
        elif request.session is None:
            self._count_request(Principal("", frozenset()))
            await answer.send_move(request, _write_way_in(request))
        elif request.path == "/sign-out" and request.method == "POST":
            if self.sign_ins is not None:
                self.sign_ins.end(request.session_id)
            await answer.send_move(request, request.root + "/sign-in", _make_cookie(request, "", 0))
        else:
            await self._show_page(request, answer)

    async def _show_page(self, request: BrowserRequest, answer: _Sender) -> None:
        session = request.session
        assert session is not None  # noqa: S101 - the caller has looked
        principal = session.principal
        self._count_request(principal)
        first = next((path for path, _, scope in PANES if principal.may(scope)), "/")
        if request.path == "/" and first != "/":
            await answer.send_move(request, request.root + first)
            return
        route, parts = self._find_route(request)
        visit = self._make_visit(request, parts)
        if route.scope and not principal.may(route.scope):
            raise Problem(
                403,
                "not-allowed",
                f"{principal.name!r} may not do this; it takes the scope {route.scope!r}",
            )
        with self._open.hold_place(principal.name):
            found = await route.handler(visit)
            await self._send_answer(request, visit, found, answer)

    async def _send_answer(
        self, request: BrowserRequest, visit: Visit, found: PageAnswer, answer: _Sender
    ) -> None:
        if isinstance(found, Page):
            html = self._render_for(visit, found)
            await answer.send_html(found.status, html, found.headers)
        elif isinstance(found, Move):
            cookies = [("set-cookie", each) for each in found.cookies]
            query = dict(found.query)
            if found.notice is not None and request.session is not None:
                query[_SAID] = request.session.keep_notice(found.notice)
            await answer.send_move(request, visit.link(found.path, query), *cookies)
        elif isinstance(found, Download):
            name = f'attachment; filename="{found.file_name}"'
            headers = {"content-type": found.media_type, "content-disposition": name}
            await answer.send_bytes(200, found.data, headers)
        else:
            await self._send_pieces(visit, found, answer)

    async def _send_pieces(self, visit: Visit, found: Pieces, answer: _Sender) -> None:
        """Send pieces of pages as events, until they end or the browser has left."""
        await answer.start_stream()

        async def write() -> None:
            try:
                async for page in found.pages:
                    await answer.send_event(self._render_for(visit, page))
            except Problem:
                raise
            except Exception as error:  # noqa: BLE001 - a person must see that it has failed
                problem = _note_failure(visit.path, error)
                page = Page("problem_part.html", {"problem": problem})
                await answer.send_event(self._render_for(visit, page))
            if found.says_end:
                await answer.send_end()

        async def wait_for_end() -> None:
            while (await visit.receive())["type"] != "http.disconnect":
                pass

        tasks = {asyncio.create_task(write()), asyncio.create_task(wait_for_end())}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            # At a problem the stream ends; the browser asks again, and learns why.
            with suppress(Problem):
                for each in done:
                    each.result()
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await answer.end_stream()

    async def _show_problem(
        self, request: BrowserRequest, answer: _Sender, problem: Problem
    ) -> None:
        if answer.has_begun:
            return
        if request.session is None:
            await answer.send_text(problem.status, str(problem), {})
            return
        visit = self._make_visit(request, {})
        name = "problem_part.html" if request.is_partial else "problem.html"
        page = Page(name, {"problem": problem})
        await answer.send_html(problem.status, self._render_for(visit, page), {})

    async def _answer_sign_in(self, request: BrowserRequest, answer: _Sender) -> None:
        self._count_request(Principal("", frozenset()))
        code = request.path.removeprefix("/sign-in").removeprefix("/")
        said = request.form.get("next") or request.query.get("next", "/")
        go_on = write_address(request.root, *read_place(said))
        is_in = request.session is not None and not code and request.method == "GET"
        if self.sign_ins is None or is_in:
            await answer.send_move(request, go_on)
            return
        refused = ""
        if request.method == "POST":
            token = request.form.get("token").strip()
            session_id = (
                self.sign_ins.use_code(code) if code else await self.sign_ins.use_token(token)
            )
            if session_id is not None:
                self.sign_ins.end(request.session_id)
                cookie = _make_cookie(request, session_id, _YEAR)
                await answer.send_move(request, go_on, cookie)
                return
            refused = "code" if code else "token"
        elif code and not self.sign_ins.knows_code(code):
            refused = "code"
        page = Page(
            "sign_in.html",
            {
                "code": "" if refused else code,
                "refused": refused,
                "next": said,
                "go_on": go_on,
                "is_from_elsewhere": request.is_from_elsewhere,
                "who": None if request.session is None else request.session.principal.name,
            },
            403 if refused else 200,
        )
        values = {**page.values, **_list_common(request), "principal": None, "csrf": ""}
        await answer.send_html(page.status, render_page(page.template, values), {})

    def _find_route(self, request: BrowserRequest) -> tuple[Route, dict[str, str]]:
        """Return the route of a path, and what stands in its places.

        Raises:
            Problem: There is none.
        """
        parts = request.path.split("/")
        methods = []
        for route in self._routes:
            named = match_path(route.path.split("/"), parts)
            if named is not None and route.method == request.method:
                return route, {name: read_part(part) for name, part in named.items()}
            if named is not None:
                methods.append(route.method)
        if methods:
            raise Problem(405, "no-such-method", f"this takes {', '.join(methods)}")
        raise Problem(404, "unknown-path", "there is no such page")

    def _make_visit(self, request: BrowserRequest, parts: dict[str, str]) -> Visit:
        session, sign_ins = request.session, self.sign_ins
        assert session is not None  # noqa: S101 - the callers have looked

        async def is_known() -> bool:
            return sign_ins is None or await sign_ins.is_known(request.session_id)

        receive = leave_when_unknown(request.receive, is_known)
        return Visit(
            api=API(self._api, session.principal, is_known, receive),
            principal=session.principal,
            path=request.path,
            parts=parts,
            query=request.query,
            form=request.form,
            root=request.root,
            address=request.address,
            csrf=session.csrf,
            language=request.language,
            theme=request.theme,
            is_partial=request.is_partial,
            place=request.place,
            notice=session.take_notice(request.query.get(_SAID, "")),
            receive=receive,
            can_sign_out=sign_ins is not None,
        )

    def _render_for(self, visit: Visit, page: Page) -> str:
        may = visit.principal.may
        values = {
            "visit": visit,
            "link": visit.link,
            "may": may,
            "principal": visit.principal,
            "csrf": visit.csrf,
            "root": visit.root,
            "language": visit.language,
            "theme": visit.theme,
            "path": visit.path,
            "place": visit.place,
            "panes": [
                (path, name)
                for path, name, scope in PANES
                if may(scope) and (visit.principal.may_use_all or path not in _OF_ALL_TOOLS)
            ],
            **page.values,
        }
        return render_page(page.template, values)

    def _count_request(self, principal: Principal) -> None:
        """Count a request of a principal.

        Raises:
            Problem: It has sent too many.
        """
        if self._rates is not None:
            self._rates.check(principal.name)


class _Sender:
    """Sends one answer to a browser."""

    def __init__(self, send: Any, is_head: bool) -> None:
        self._send = send
        self._is_head = is_head
        self.has_begun = False

    async def send_html(self, status: int, html: str, headers: dict[str, str]) -> None:
        kind = {"content-type": "text/html; charset=utf-8", "cache-control": "no-store"}
        await self.send_bytes(status, html.encode("utf-8", "backslashreplace"), {**kind, **headers})

    async def send_text(self, status: int, text: str, headers: dict[str, str]) -> None:
        kind = {"content-type": "text/plain; charset=utf-8", "cache-control": "no-store"}
        await self.send_bytes(status, text.encode(), {**kind, **headers})

    async def send_move(
        self, request: BrowserRequest, address: str, *headers: tuple[str, str]
    ) -> None:
        """Send the browser to another page; a part of a page moves the whole."""
        if request.is_partial:
            await self._send_head(200, [("hx-redirect", address), *headers])
        else:
            await self._send_head(303, [("location", address), *headers])
        await self._send({"type": "http.response.body", "body": b""})

    async def send_bytes(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        said = [*headers.items(), ("content-length", str(len(data)))]
        await self._send_head(status, said)
        await self._send({"type": "http.response.body", "body": b"" if self._is_head else data})

    async def start_stream(self) -> None:
        kind = [("content-type", "text/event-stream"), ("cache-control", "no-store")]
        await self._send_head(200, [*kind, ("x-accel-buffering", "no")])

    async def send_event(self, html: str) -> None:
        lines = html.replace("\r", "").encode("utf-8", "backslashreplace").split(b"\n")
        body = b"".join(b"data: %s\n" % line for line in lines) + b"\n"
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def send_end(self) -> None:
        """Say that no piece comes any more: an element with `hx-sse:close="end"` asks for none."""
        body = b"event: end\ndata: \n\n"
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def end_stream(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def _send_head(self, status: int, headers: list[tuple[str, str]]) -> None:
        self.has_begun = True
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        raw += [(name.encode(), value.encode()) for name, value in _ALWAYS.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})


async def _send_static(request: BrowserRequest, answer: _Sender) -> None:
    _, _, digest, name = [*request.path.split("/"), "", ""][:4]
    data = list_static().get(name)
    if data is None or digest != digest_static(name):
        raise Problem(404, "unknown-path", "there is no such file; load the page again")
    kind = _KINDS[name.rpartition(".")[2]]
    headers = {"content-type": f"{kind}; charset=utf-8", "cache-control": _KEPT}
    await answer.send_bytes(200, data, headers)


def _note_failure(path: str, error: Exception) -> Problem:
    """Write to the log how a page has failed, and return what its reader is to know of it."""
    _log.error("request_failed", operation=path, error=trace_of(error))
    return Problem(500, "server-error", "the page has failed; the log of the server says how")


def _list_common(request: BrowserRequest) -> dict[str, Any]:
    return {
        "root": request.root,
        "language": request.language,
        "theme": request.theme,
        "panes": [],
        "path": request.path,
        "place": request.place,
    }


def _write_way_in(request: BrowserRequest) -> str:
    """Return the address to sign in at, from which one comes to the page that was asked for."""
    said = {} if request.place == "/" else {"next": request.place}
    return write_address(request.root, "/sign-in", said)


def _make_cookie(request: BrowserRequest, value: str, life: int) -> tuple[str, str]:
    secure = "; Secure" if request.is_secure else ""
    scope = f"Path={request.root}; Max-Age={life}; HttpOnly; SameSite=Strict{secure}"
    return "set-cookie", f"{request.cookie}={value}; {scope}"
