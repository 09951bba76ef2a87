"""What does `entry.request.auth` say, and is it right?

A credential comes from the environment or a file: one that is written out is a mistake of the
definition, and so is one that a call would choose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tool_engine.executors.entry_reader import EntryReader
from tool_engine.executors.http.auth import AuthPlan, BasicAuth, KeyAuth, TokenAuth
from tool_engine.executors.http.headers import header_problem
from tool_engine.executors.http.template import URLTemplate
from tool_engine.executors.templates import TemplateError, TextTemplate
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.redaction import describe_value

AUTH_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "bearer": ("token",),
    "basic": ("username", "password"),
    "header": ("name", "value"),
    "query": ("name", "value"),
    "oauth2": (
        "token_url",
        "client_id",
        "client_secret",
        "scope",
        "audience",
        "fields",
        "client_auth",
    ),
}

_HABITS: Final = (
    *(("value", "token"), ("key", "token"), ("token", "value"), ("key", "value")),
    *(("user", "username"), ("url", "token_url"), ("scopes", "scope"), ("header", "name")),
)
"""What others call a key -> the key, where its type has it."""
_PATH: Final = "entry.request.auth"
_CLIENT_AUTH: Final = ("header", "body")
_OWN_FIELDS: Final = (
    "grant_type",
    "client_id",
    "client_secret",
    "client_assertion",
    "scope",
    "audience",
)


def read_auth(reader: EntryReader[Any], auth: Any) -> AuthPlan | None:
    if not isinstance(auth, Mapping):
        reader.problem(
            _PATH, f"must be a mapping such as {{type: bearer, ...}}, got {describe_value(auth)}"
        )
        return None
    kind = auth.get("type")
    if not isinstance(kind, str) or kind not in AUTH_TYPES:
        hint = suggest_near(str(kind), AUTH_TYPES)
        reader.problem(
            f"{_PATH}.type",
            f"must be one of {', '.join(AUTH_TYPES)}, got {describe_value(kind)}{hint}",
        )
        return None
    known = len(reader.problems)
    keys = ("type", *AUTH_TYPES[kind])
    habits = {word: key for word, key in _HABITS if key in keys and word not in keys}
    reader.keys(auth, keys, _PATH, habits)
    plan = _READERS[kind](_AuthReader(reader, auth))
    return plan if len(reader.problems) == known else None


class _AuthReader:
    def __init__(self, reader: EntryReader[Any], auth: Mapping[str, Any]) -> None:
        self._reader = reader
        self._auth = auth

    def bearer(self) -> AuthPlan:
        token = self._read_secret("token")
        return KeyAuth("Authorization", TextTemplate(("Bearer ", *token.parts)))

    def basic(self) -> AuthPlan:
        username, password = self._read_text("username"), self._read_text("password")
        if any(isinstance(part, str) and ":" in part for part in username.parts):
            self._add_problem("username", "has a ':', where a server takes it to end; correct it")
        # Some services take a key as the user name, without a password.
        is_key = username.has_secret and not password.parts
        if not is_key:
            self._check_secret("password", password)
        return BasicAuth(username, password)

    def header(self) -> AuthPlan:
        value, name = self._read_secret("value"), self._read_name()
        literal = "".join(part for part in value.parts if isinstance(part, str))
        if name and (problem := header_problem(name, literal)) is not None:
            self._add_problem("name", problem)
        return KeyAuth(name, value)

    def query(self) -> AuthPlan:
        return KeyAuth(self._read_name(), self._read_secret("value"), is_in_query=True)

    def oauth2(self) -> AuthPlan:
        form = self._read_scope()
        if "audience" in self._auth:
            form.append(("audience", self._read_text("audience")))
        form += self._read_fields()
        how = self._auth.get("client_auth", "header")
        if how not in _CLIENT_AUTH:
            self._add_problem("client_auth", f"must be header or body, got {describe_value(how)}")
        return TokenAuth(
            token_url=self._token_url(),
            client_id=self._read_text("client_id"),
            client_secret=self._read_secret("client_secret"),
            form=tuple(form),
            is_in_body=how == "body",
        )

    def _token_url(self) -> URLTemplate:
        try:
            template = URLTemplate.parse(self._auth.get("token_url"))
        except TemplateError as error:
            self._add_problem("token_url", str(error))
            return _NO_URL
        if template.parameters:
            self._add_problem("token_url", f"{_NO_PARAMETER}; remove it")
        return template

    def _read_scope(self) -> list[tuple[str, TextTemplate]]:
        scope = self._auth.get("scope")
        if isinstance(scope, list) and all(isinstance(each, str) for each in scope):
            scope = " ".join(scope)
        if scope is None:
            return []
        return [("scope", self._parse_template("scope", scope))]

    def _read_fields(self) -> list[tuple[str, TextTemplate]]:
        fields = self._auth.get("fields", {})
        if not isinstance(fields, Mapping):
            self._add_problem("fields", f"must map names to texts, got {describe_value(fields)}")
            return []
        for name in fields:
            if name in _OWN_FIELDS:
                self._add_problem(f"fields.{name}", "has a place of its own, or is always sent")
        return [
            (str(name), self._parse_template(f"fields.{name}", fields[name])) for name in fields
        ]

    def _read_name(self) -> str:
        name = self._auth.get("name")
        if not isinstance(name, str) or not name or TextTemplate.parse(name).parts != (name,):
            self._add_problem(
                "name", f"must be a plain text, such as X-API-Key, got {describe_value(name)}"
            )
            return ""
        return name

    def _read_text(self, key: str) -> TextTemplate:
        if key in self._auth:
            return self._parse_template(key, self._auth[key])
        self._add_problem(key, "is missing; write it")
        return TextTemplate(())

    def _read_secret(self, key: str) -> TextTemplate:
        known = len(self._reader.problems)
        template = self._read_text(key)
        if len(self._reader.problems) == known:
            self._check_secret(key, template)
        return template

    def _check_secret(self, key: str, template: TextTemplate) -> None:
        if not template.has_secret:
            self._add_problem(
                key,
                "is a secret that stands in the file; put it into an environment variable and "
                "write ${env:NAME}, or into a file and write ${file:/path}",
            )

    def _parse_template(self, key: str, text: Any) -> TextTemplate:
        if not isinstance(text, str):
            self._add_problem(key, f"must be a text, got {describe_value(text)}")
            return TextTemplate(())
        try:
            template = TextTemplate.parse(text)
        except TemplateError as error:
            self._add_problem(key, str(error))
            return TextTemplate(())
        if template.parameters:
            self._add_problem(key, f"{_NO_PARAMETER}; write ${{env:NAME}} or ${{file:/path}}")
        return template

    def _add_problem(self, key: str, message: str) -> None:
        self._reader.problem(f"{_PATH}.{key}", message)


_NO_PARAMETER: Final = "takes a parameter, but a call does not choose who it is"
_NO_URL: Final = URLTemplate(origin=("",), path=TextTemplate(()), query=None)
_READERS: Final[Mapping[str, Callable[[_AuthReader], AuthPlan]]] = {
    "bearer": _AuthReader.bearer,
    "basic": _AuthReader.basic,
    "header": _AuthReader.header,
    "query": _AuthReader.query,
    "oauth2": _AuthReader.oauth2,
}
