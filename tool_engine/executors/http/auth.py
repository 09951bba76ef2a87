"""How does a request prove who sends it?

The definition names the kind and the secrets; a call cannot change them. A credential goes to the
host of the definition and to no other.
"""

from __future__ import annotations

import base64
from typing import Final

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.template import URLTemplate, query_text
from tool_engine.executors.secrets import SecretPart, SecretScope
from tool_engine.executors.templates import TextTemplate


class Credential(msgspec.Struct, frozen=True):
    header: tuple[str, str] | None = None
    query: str | None = None
    """`name=value`, percent-encoded."""


class KeyAuth(msgspec.Struct, frozen=True):
    """A secret, such as a bearer token, in a header or the query."""

    name: str
    value: TextTemplate
    is_in_query: bool = False

    @property
    def secrets(self) -> list[SecretPart]:
        return self.value.secrets

    @property
    def header_name(self) -> str | None:
        return None if self.is_in_query else self.name

    def credential(self, secrets: SecretScope) -> Credential:
        value = filled_in(self.value, secrets)
        if self.is_in_query:
            return Credential(query=query_text(self.name, value))
        return Credential(header=(self.name, value))


class BasicAuth(msgspec.Struct, frozen=True):
    """User name and password (RFC 7617)."""

    username: TextTemplate
    password: TextTemplate

    @property
    def secrets(self) -> list[SecretPart]:
        return [*self.username.secrets, *self.password.secrets]

    @property
    def header_name(self) -> str | None:
        return "Authorization"

    def credential(self, secrets: SecretScope) -> Credential:
        """Return the header; raise `ToolExecutionError` for a user name with a colon."""
        username = filled_in(self.username, secrets)
        if ":" in username:
            raise ToolExecutionError(
                "the user name of entry.request.auth has a ':', where a server takes it to end; "
                "correct the user name"
            )
        value = basic_value(username, filled_in(self.password, secrets), secrets)
        return Credential(header=("Authorization", value))


class TokenAuth(msgspec.Struct, frozen=True):
    """An access token for the tool itself (client credentials: RFC 6749, 4.4)."""

    token_url: URLTemplate
    client_id: TextTemplate
    client_secret: TextTemplate
    form: tuple[tuple[str, TextTemplate], ...]
    is_in_body: bool

    @property
    def secrets(self) -> list[SecretPart]:
        texts = (self.client_id, self.client_secret, *(text for _, text in self.form))
        return [part for text in texts for part in text.secrets] + self.token_url.secrets

    @property
    def header_name(self) -> str | None:
        return "Authorization"

    def credential(self, secrets: SecretScope) -> Credential:
        del secrets
        return NO_CREDENTIAL


NO_CREDENTIAL: Final = Credential()
AuthPlan = KeyAuth | BasicAuth | TokenAuth


def filled_in(template: TextTemplate, secrets: SecretScope) -> str:
    return template.render({}, secrets) or ""


def basic_value(username: str, password: str, secrets: SecretScope) -> str:
    """Return the value of an `Authorization` header, hidden from now on."""
    encoded = base64.b64encode(f"{username}:{password}".encode()).decode("ascii")
    secrets.hide_value(encoded)
    return f"Basic {encoded}"
