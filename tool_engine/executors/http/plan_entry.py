"""What does `entry.request` of a declarative tool say, and is it right?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from tool_engine.executors.entry_reader import EntryReader
from tool_engine.executors.http.auth import AuthPlan, KeyAuth
from tool_engine.executors.http.auth_entry import read_auth
from tool_engine.executors.http.headers import header_problem
from tool_engine.executors.http.idempotency import (
    CALL_ID,
    IDEMPOTENCY_HEADER,
    parse_idempotency_key,
)
from tool_engine.executors.http.template import URLTemplate
from tool_engine.executors.secrets import SecretPart
from tool_engine.executors.templates import (
    JSONTemplate,
    TemplateError,
    TextTemplate,
    find_foreign_forms,
)
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.redaction import describe_value

METHODS: Final = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")
PLAN_KEYS: Final = ("method", "query", "headers", "json", "auth", "idempotency_key")
"""Keys of `entry.request` that need a `url`."""
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110, 9.2.1), and so have no body to send."""

_Query = tuple[tuple[str, JSONTemplate], ...]
_Headers = tuple[tuple[str, TextTemplate], ...]
_LONGEST_URL: Final = 32_768
"""Characters of a URL with its placeholders, most of which are longer than what fills them."""


class RequestPlan(msgspec.Struct, frozen=True):
    """The request of a declarative tool, with its placeholders."""

    method: str
    url: URLTemplate
    query: _Query
    headers: _Headers
    json: JSONTemplate | None
    auth: AuthPlan | None = None
    idempotency_key: TextTemplate | None = None
    private_headers: frozenset[str] = frozenset()
    """Lower-case names of headers with a secret: they stay with the host."""
    is_body_secret: bool = False
    secrets: tuple[SecretPart, ...] = ()


def read_plan(
    reader: EntryReader[Any], request: Mapping[str, Any], used: Collection[str] = ()
) -> RequestPlan | None:
    """Read `entry.request` with a `url`; `used` are parameters used elsewhere in the entry."""
    return _PlanReader(reader, used).plan(request)


class _PlanReader:
    def __init__(self, reader: EntryReader[Any], used: Collection[str]) -> None:
        self._reader = reader
        self._parameters = reader.parameters
        self._problem = reader.problem
        self._used: set[str] = set(used)

    def plan(self, request: Mapping[str, Any]) -> RequestPlan | None:
        method = self._read_method(request.get("method", "GET"))
        url = self._read_url(request["url"])
        query = self._read_query(request.get("query", {}))
        headers = self._read_headers(request.get("headers", {}))
        json = self._read_json(request["json"]) if "json" in request else None
        if json is not None and method in SAFE_METHODS:
            self._problem("entry.request.json", f"{method} sends no body; write method: POST")
        key = self._idempotency_key(request.get("idempotency_key"), method)
        auth = read_auth(self._reader, request["auth"]) if "auth" in request else None
        self._check_set_twice(auth, key, query, headers)
        self._check_unused(request)
        if url is None or self._reader.problems:
            return None
        plan = RequestPlan(
            method=method,
            url=url,
            query=query,
            headers=headers,
            json=json,
            auth=auth,
            idempotency_key=key,
        )
        return self._with_secrets(plan)

    def _with_secrets(self, plan: RequestPlan) -> RequestPlan:
        auth, body = plan.auth, [] if plan.json is None else plan.json.texts
        private = [name for name, text in plan.headers if self._is_secret(text)]
        texts = [text for _, text in plan.headers] + body
        texts += [text for _, entry in plan.query for text in entry.texts]
        secrets = plan.url.secrets + [part for text in texts for part in text.secrets]
        if auth is not None:
            secrets += auth.secrets
            private += [auth.header_name] if auth.header_name else []
        return msgspec.structs.replace(
            plan,
            private_headers=frozenset(name.lower() for name in private),
            is_body_secret=any(map(self._is_secret, body)),
            secrets=tuple(dict.fromkeys(secrets)),
        )

    def _is_secret(self, text: TextTemplate) -> bool:
        return text.has_secret or any(self._parameters[name].secret for name in text.parameters)

    def _read_method(self, method: Any) -> str:
        if method not in METHODS:
            hint = suggest_near(str(method).upper(), METHODS)
            self._problem(
                "entry.request.method",
                f"must be one of {', '.join(METHODS)}, got {describe_value(method)}{hint}",
            )
        return str(method)

    def _read_url(self, text: Any) -> URLTemplate | None:
        path = "entry.request.url"
        if isinstance(text, str) and len(text) > _LONGEST_URL:
            # Whatever fills it in, reading it would take long at each call.
            self._problem(path, f"is {len(text):,} characters long; the most is {_LONGEST_URL:,}")
            return None
        try:
            template = URLTemplate.parse(text)
        except TemplateError as error:
            self._problem(path, str(error))
            return None
        for name in sorted(template.parameters):
            self._use_needed(name, path, "send it in entry.request.query")
        return template

    def _read_query(self, query: Any) -> _Query:
        entries = []
        for name, value in self._read_named(query, "entry.request.query"):
            path = f"entry.request.query.{name}"
            items = value if isinstance(value, list) else [value]
            if any(isinstance(item, list | dict) for item in items):
                self._problem(
                    path,
                    f"must be a text, a number or a list of these, got {describe_value(value)}",
                )
                continue
            if (template := self._read_template(value, path)) is not None:
                entries.append((name, template))
        return tuple(entries)

    def _read_headers(self, headers: Any) -> _Headers:
        entries = []
        for name, value in self._read_named(headers, "entry.request.headers"):
            path = f"entry.request.headers.{name}"
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                self._problem(path, f"must be a text, got {describe_value(value)}")
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
                self._note_use(parameter, path, is_scalar=True)
            entries.append((name, template))
        return tuple(entries)

    def _read_named(self, mapping: Any, path: str) -> list[tuple[str, Any]]:
        if not isinstance(mapping, Mapping):
            self._problem(path, f"must map names to values, got {describe_value(mapping)}")
            return []
        named = []
        for name, value in mapping.items():
            if not isinstance(name, str) or TextTemplate.parse(name).parts != (name,):
                self._problem(f"{path}.{name}", "a name must be a plain text, without placeholder")
            else:
                named.append((name, value))
        return named

    def _read_json(self, value: Any) -> JSONTemplate | None:
        return self._read_template(value, "entry.request.json", is_scalar=False)

    def _read_template(
        self, value: Any, path: str, *, is_scalar: bool = True
    ) -> JSONTemplate | None:
        try:
            template = JSONTemplate.parse(value)
        except TemplateError as error:
            self._problem(path, str(error))
            return None
        for text in template.texts:
            for name in sorted(text.parameters):
                # A list that is the whole value of a query entry repeats the entry.
                is_list_fine = is_scalar and text.whole is not None
                self._note_use(
                    name,
                    path,
                    is_scalar=is_scalar or text.whole is None,
                    allowed=("array",) if is_list_fine else (),
                )
        return template

    def _idempotency_key(self, value: Any, method: str) -> TextTemplate | None:
        path = "entry.request.idempotency_key"
        if value is None:
            return None
        if method in SAFE_METHODS:
            self._problem(path, f"{method} changes nothing, so it needs none; remove it")
        try:
            template = parse_idempotency_key(value)
        except TemplateError as error:
            self._problem(path, str(error))
            return None
        for name in sorted(template.parameters):
            if name != CALL_ID or name in self._parameters:
                self._use_needed(name, path, f"write {{{CALL_ID}}} instead")
        return template

    def _check_set_twice(
        self, auth: AuthPlan | None, key: TextTemplate | None, query: _Query, headers: _Headers
    ) -> None:
        setters = {} if key is None else {IDEMPOTENCY_HEADER.lower(): "idempotency_key"}
        if auth is not None and auth.header_name is not None:
            setters[auth.header_name.lower()] = "auth"
        for name, _ in headers:
            if (setter := setters.get(name.lower())) is not None:
                self._problem(f"entry.request.headers.{name}", f"{setter} sets it; remove one")
        if isinstance(auth, KeyAuth) and auth.is_in_query and auth.name in dict(query):
            self._problem(f"entry.request.query.{auth.name}", "auth sets it; remove one")

    def _use_needed(self, name: str, path: str, other: str) -> None:
        self._note_use(name, path, is_scalar=True)
        parameter = self._parameters.get(name)
        if parameter is not None and not (parameter.required or parameter.has_default):
            self._problem(
                path,
                f"takes the parameter {name!r}, which a call may leave out; make it required, "
                f"give it a default, or {other}",
            )

    def _note_use(
        self, name: str, path: str, *, is_scalar: bool, allowed: Collection[str] = ()
    ) -> None:
        self._used.add(name)
        parameter = self._parameters.get(name)
        if parameter is None:
            hint = suggest_near(name, self._parameters) or "; declare it under parameters"
            self._problem(path, f"takes the parameter {name!r}, which is not declared{hint}")
        elif is_scalar and parameter.type in {"array", "object"}.difference(allowed):
            self._problem(
                path,
                f"takes the parameter {name!r} of type {parameter.type}; only a string, number, "
                "integer or boolean can be sent here",
            )

    def _check_unused(self, request: Mapping[str, Any]) -> None:
        forms = {} if self._used.issuperset(self._parameters) else find_foreign_forms(request)
        has_problems = bool(self._reader.problems)
        for name in self._parameters:
            # A place in what could not be read is there once that is mended.
            is_unread = has_problems and forms.get(name) == f"{{{name}}}"
            if name not in self._used and not is_unread:
                where = f"in place of {forms[name]}" if name in forms else "somewhere"
                self._problem(
                    "entry.request",
                    f"never uses the parameter {name!r}; send it {where} as {{{name}}}, or "
                    "remove it",
                )
