"""What does a definition's `entry` say about its HTTP request, and is it right?

`check_entry` finds every mistake, for the loader or the engine to report before the first call;
`compile_entry` makes the plan that the HTTP executor runs. Nothing here needs a network.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any, Final

import jmespath
import msgspec
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult

from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.executors.addresses import AllowList
from tool_engine.executors.http_headers import header_problem
from tool_engine.executors.http_template import URLTemplate
from tool_engine.executors.templates import JSONTemplate, TemplateError, TextTemplate
from tool_engine.model.tool import Tool

__all__ = ["DEFAULT_MAX_BYTES", "HTTPEntry", "RequestPlan", "check_entry", "compile_entry"]

DEFAULT_MAX_BYTES: Final = 5 * 1024 * 1024
"""The most bytes of an answer that are read, after decompression."""
METHODS: Final = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")
_ENTRY_KEYS: Final = ("type", "handler", "request", "response", "allow")
_REQUEST_KEYS: Final = ("method", "url", "query", "headers", "json", "max_bytes")
_MAX_BYTES_LIMIT: Final = 1024 * 1024 * 1024


class RequestPlan(msgspec.Struct, frozen=True):
    """The request of a declarative tool, ready to be filled in."""

    method: str
    url: URLTemplate
    query: tuple[tuple[str, JSONTemplate], ...]
    headers: tuple[tuple[str, TextTemplate], ...]
    json: JSONTemplate | None


class HTTPEntry(msgspec.Struct, frozen=True):
    """What the HTTP executor reads in a definition."""

    plan: RequestPlan | None
    """None: the call's own parameters name the URL, as in `http_request`."""
    select: ParsedResult | None
    """The JMESPath expression that picks the output."""
    allow: AllowList
    max_bytes: int


def check_entry(tool: Tool) -> list[DefinitionProblem]:
    """Everything that is wrong with the `entry` of an HTTP tool; empty when it can run."""
    reader = _EntryReader(tool)
    reader.read()
    return reader.problems


def compile_entry(tool: Tool) -> HTTPEntry:
    """The entry of `tool`, ready to run; raises `DefinitionError` with all that is wrong."""
    reader = _EntryReader(tool)
    entry = reader.read()
    if entry is None:
        raise DefinitionError(*reader.problems)
    return entry


class _EntryReader:
    """Reads one entry, and goes on after a mistake so that all are found at once."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._parameters = {parameter.name: parameter for parameter in tool.parameters}
        self._used: set[str] = set()
        self.problems: list[DefinitionProblem] = []

    def read(self) -> HTTPEntry | None:
        entry = self._tool.implementation_config
        self._keys(entry, _ENTRY_KEYS, "entry")
        request = entry.get("request", {})
        if not isinstance(request, Mapping):
            self._problem("entry.request", f"must be a mapping, got {request!r}")
            return None
        self._keys(request, _REQUEST_KEYS, "entry.request")
        is_declarative = "url" in request
        plan = self._plan(request) if is_declarative else None
        if not is_declarative:
            self._check_no_plan(request)
        select = self._select(entry.get("response"))
        allow = self._allow(entry.get("allow", ()))
        max_bytes = self._max_bytes(request.get("max_bytes", DEFAULT_MAX_BYTES))
        if is_declarative:
            self._unused()
        if self.problems:
            return None
        return HTTPEntry(plan=plan, select=select, allow=allow, max_bytes=max_bytes)

    def _problem(self, path: str, message: str) -> None:
        file = self._tool.source or f"tool {self._tool.name!r}"
        self.problems.append(DefinitionProblem(message, file=file, path=path))

    def _keys(self, mapping: Mapping[Any, Any], known: tuple[str, ...], path: str) -> None:
        for key in mapping:
            if key not in known:
                hint = _nearest(str(key), known) or f"; known are {', '.join(known)}"
                self._problem(f"{path}.{key}", f"unknown key {key!r}{hint}")

    def _check_no_plan(self, request: Mapping[str, Any]) -> None:
        for key in ("method", "query", "headers", "json"):
            if key in request:
                self._problem(f"entry.request.{key}", "needs entry.request.url beside it")
        if "url" not in self._parameters:
            self._problem(
                "entry.request.url", "is missing; write it, or declare a parameter named 'url'"
            )

    def _plan(self, request: Mapping[str, Any]) -> RequestPlan | None:
        method = self._method(request.get("method", "GET"))
        url = self._url(request["url"])
        query = self._query(request.get("query", {}))
        headers = self._headers(request.get("headers", {}))
        json = self._json(request["json"]) if "json" in request else None
        if json is not None and method in ("GET", "HEAD", "OPTIONS"):
            self._problem("entry.request.json", f"{method} sends no body; write method: POST")
        if url is None:
            return None
        return RequestPlan(method=method, url=url, query=query, headers=headers, json=json)

    def _method(self, method: Any) -> str:
        if method not in METHODS:
            hint = _nearest(str(method).upper(), METHODS)
            self._problem(
                "entry.request.method", f"must be one of {', '.join(METHODS)}, got {method!r}{hint}"
            )
        return str(method)

    def _url(self, text: Any) -> URLTemplate | None:
        path = "entry.request.url"
        try:
            template = URLTemplate.parse(text)
        except TemplateError as error:
            self._problem(path, str(error))
            return None
        for name in sorted(template.parameters):
            self._use(name, path, is_scalar=True)
            parameter = self._parameters.get(name)
            if parameter is not None and not (parameter.required or parameter.has_default):
                self._problem(
                    path,
                    f"takes the parameter {name!r}, which a call may leave out; make it required, "
                    "give it a default, or send it in entry.request.query",
                )
        return template

    def _query(self, query: Any) -> tuple[tuple[str, JSONTemplate], ...]:
        entries = []
        for name, value in self._named(query, "entry.request.query"):
            path = f"entry.request.query.{name}"
            items = value if isinstance(value, list) else [value]
            if any(isinstance(item, list | dict) for item in items):
                self._problem(path, f"must be a text, a number or a list of these, got {value!r}")
                continue
            if (template := self._template(value, path)) is not None:
                entries.append((name, template))
        return tuple(entries)

    def _headers(self, headers: Any) -> tuple[tuple[str, TextTemplate], ...]:
        entries = []
        for name, value in self._named(headers, "entry.request.headers"):
            path = f"entry.request.headers.{name}"
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                self._problem(path, f"must be a text, got {value!r}")
                continue
            try:
                template = TextTemplate.parse(str(value))
            except TemplateError as error:
                self._problem(path, str(error))
                continue
            literal = "".join(part for part in template.parts if isinstance(part, str))
            if (problem := header_problem(name, literal)) is not None:
                self._problem(path, problem)
            for parameter in sorted(template.parameters):
                self._use(parameter, path, is_scalar=True)
            entries.append((name, template))
        return tuple(entries)

    def _named(self, mapping: Any, path: str) -> list[tuple[str, Any]]:
        if not isinstance(mapping, Mapping):
            self._problem(path, f"must map names to values, got {mapping!r}")
            return []
        named = []
        for name, value in mapping.items():
            if not isinstance(name, str) or TextTemplate.parse(name).parts != (name,):
                self._problem(f"{path}.{name}", "a name must be a plain text, without placeholder")
            else:
                named.append((name, value))
        return named

    def _json(self, value: Any) -> JSONTemplate | None:
        return self._template(value, "entry.request.json", is_scalar=False)

    def _template(self, value: Any, path: str, *, is_scalar: bool = True) -> JSONTemplate | None:
        try:
            template = JSONTemplate.parse(value)
        except TemplateError as error:
            self._problem(path, str(error))
            return None
        for text in template.texts:
            for name in sorted(text.parameters):
                # A list that is the whole value of a query entry repeats the entry.
                is_list_fine = is_scalar and text.whole is not None
                self._use(
                    name,
                    path,
                    is_scalar=is_scalar or text.whole is None,
                    allowed=("array",) if is_list_fine else (),
                )
        return template

    def _use(self, name: str, path: str, *, is_scalar: bool, allowed: Collection[str] = ()) -> None:
        self._used.add(name)
        parameter = self._parameters.get(name)
        if parameter is None:
            hint = _nearest(name, self._parameters) or "; declare it under parameters"
            self._problem(path, f"takes the parameter {name!r}, which is not declared{hint}")
        elif is_scalar and parameter.type in {"array", "object"}.difference(allowed):
            self._problem(
                path,
                f"takes the parameter {name!r} of type {parameter.type}; only a string, number, "
                "integer or boolean can be sent here",
            )

    def _unused(self) -> None:
        for name in self._parameters:
            if name not in self._used:
                self._problem(
                    "entry.request",
                    f"never uses the parameter {name!r}; send it somewhere as {{{name}}}, or "
                    "remove it",
                )

    def _select(self, response: Any) -> ParsedResult | None:
        if isinstance(response, Mapping):
            self._keys(response, ("select",), "entry.response")
            response = response.get("select")
        if response is None:
            return None
        if not isinstance(response, str):
            self._problem(
                "entry.response", f"must be a JMESPath expression as a text, got {response!r}"
            )
            return None
        try:
            return jmespath.compile(response)
        except JMESPathError as error:
            message = str(error).partition("\n")[0]
        except RecursionError:
            message = "nested too deep"
        self._problem("entry.response", f"{response[:80]!r} is not JMESPath: {message}")
        return None

    def _allow(self, lines: Any) -> AllowList:
        if isinstance(lines, str) or not isinstance(lines, list | tuple):
            self._problem(
                "entry.allow", f"must be a list such as ['127.0.0.1:8080'], got {lines!r}"
            )
            return AllowList()
        try:
            return AllowList.parse(lines)
        except ValueError as error:
            self._problem("entry.allow", str(error))
            return AllowList()

    def _max_bytes(self, value: Any) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if is_whole and 0 < value <= _MAX_BYTES_LIMIT:
            return int(value)
        self._problem(
            "entry.request.max_bytes",
            f"must be a whole number between 1 and {_MAX_BYTES_LIMIT}, got {value!r}",
        )
        return DEFAULT_MAX_BYTES


def _nearest(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
