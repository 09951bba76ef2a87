"""What does a definition's `entry` say about its HTTP request, and is it right?

`check_entry` finds every mistake before the first call; `compile_entry` makes the executor's plan.
Nothing here needs a network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from jmespath.parser import ParsedResult

from tool_engine.executors.entry_reader import EntryReader
from tool_engine.executors.http.addresses import AllowList
from tool_engine.executors.http.plan_entry import PLAN_KEYS, RequestPlan, read_plan
from tool_engine.executors.http.response_entry import PagesPlan, SavePlan, read_response
from tool_engine.redaction import describe_value

DEFAULT_MAX_BYTES: Final = 5 * 1024 * 1024
"""The most bytes of an answer that are read, after decompression."""
_ENTRY_KEYS: Final = ("type", "handler", "request", "response", "allow")
_REQUEST_KEYS: Final = ("url", *PLAN_KEYS, "max_bytes")
_MAX_BYTES_LIMIT: Final = 1024 * 1024 * 1024


class HTTPEntry(msgspec.Struct, frozen=True):
    plan: RequestPlan | None
    """None: the call's own parameters name the URL, as in `http_request`."""
    select: ParsedResult | None
    allow: AllowList
    max_bytes: int
    pages: PagesPlan | None = None
    save_to: SavePlan | None = None
    resent: frozenset[str] = frozenset()
    """The methods whose requests may be sent again when the server hangs up."""


class _Reader(EntryReader[HTTPEntry]):
    def read(self) -> HTTPEntry | None:
        entry = self.tool.implementation_config
        self.keys(entry, _ENTRY_KEYS, "entry")
        request = entry.get("request", {})
        if not isinstance(request, Mapping):
            self.problem("entry.request", f"must be a mapping, got {describe_value(request)}")
            return None
        self.keys(request, _REQUEST_KEYS, "entry.request")
        is_declarative = "url" in request
        method = request.get("method", "GET") if is_declarative else None
        response = read_response(self, entry.get("response"), method)
        plan = read_plan(self, request, response.parameters) if is_declarative else None
        if not is_declarative:
            self._check_no_plan(request)
        allow = self._read_allow(entry.get("allow", ()))
        max_bytes = self._max_bytes(request.get("max_bytes", DEFAULT_MAX_BYTES))
        return HTTPEntry(
            plan=plan,
            select=response.select,
            allow=allow,
            max_bytes=max_bytes,
            pages=response.pages,
            save_to=response.save_to,
        )

    def _check_no_plan(self, request: Mapping[str, Any]) -> None:
        for key in PLAN_KEYS:
            if key in request:
                self.problem(f"entry.request.{key}", "needs entry.request.url beside it")
        if "url" not in self.parameters:
            self.problem(
                "entry.request.url", "is missing; write it, or declare a parameter named 'url'"
            )

    def _read_allow(self, lines: Any) -> AllowList:
        if isinstance(lines, str) or not isinstance(lines, list | tuple):
            self.problem(
                "entry.allow",
                f"must be a list such as ['127.0.0.1:8080'], got {describe_value(lines)}",
            )
            return AllowList()
        try:
            return AllowList.parse(lines)
        except ValueError as error:
            self.problem("entry.allow", str(error))
            return AllowList()

    def _max_bytes(self, value: Any) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if is_whole and 0 < value <= _MAX_BYTES_LIMIT:
            return int(value)
        self.problem(
            "entry.request.max_bytes",
            f"must be a whole number between 1 and {_MAX_BYTES_LIMIT}, got {describe_value(value)}",
        )
        return DEFAULT_MAX_BYTES


check_entry = _Reader.check
compile_entry = _Reader.compile
