"""Where is a source's database, once the secrets in its URL are known?"""

from __future__ import annotations

import os
from collections.abc import Iterable
from urllib.parse import quote, unquote

from tool_engine.errors import ConfigurationError, ToolExecutionError
from tool_engine.executors.secret_file import read_secret_file
from tool_engine.executors.secrets import SecretScope
from tool_engine.executors.templates import (
    ParameterPart,
    Part,
    TemplateError,
    TextTemplate,
)
from tool_engine.model.settings.source import DatabaseSource


def resolved(name: str, source: DatabaseSource) -> tuple[str, SecretScope]:
    """Return the source's URL with its secrets, and their scope. Blocks.

    A URL that is one secret is used unchanged. Elsewhere a secret before the last `@` is a user or
    a password, and is percent-encoded.

    Raises:
        ToolExecutionError: A variable is not set, a file cannot be read, or the result is no URL of
            a database. The message never holds a password.
    """
    scope = SecretScope()
    try:
        parts = TextTemplate.parse(source.url).parts
        url = _fill_parts(parts, name)
        # Checked again: the value of a URL that is one secret is known only now.
        found = DatabaseSource(url=url)
    except (TemplateError, ConfigurationError) as error:
        raise ToolExecutionError(f"the engine's source {name!r}: {error}") from None
    for secret in _find_passwords(url):
        scope.hide_value(secret)
    return found.url, scope


def _fill_parts(parts: Iterable[Part], name: str) -> str:
    parts = tuple(parts)
    if len(parts) == 1:
        return _resolve_part(parts[0], name)
    last = max((at for at, part in enumerate(parts) if "@" in str(_literal_of(part))), default=-1)
    return "".join(
        text if isinstance(part, str) or at > last else quote(text, safe="")
        for at, (part, text) in enumerate((part, _resolve_part(part, name)) for part in parts)
    )


def _literal_of(part: Part) -> str:
    return part if isinstance(part, str) else ""


def _resolve_part(part: Part, name: str) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, ParameterPart):
        raise TemplateError(f"takes the parameter {part.name!r}; a call does not choose a database")
    if part.source == "file":
        return read_secret_file(part.name)
    value = os.environ.get(part.name)
    if not value:
        state = "is not set" if value is None else "is empty"
        raise ToolExecutionError(
            f"the environment variable {part.name} {state}; the engine's source {name!r} needs it: "
            "set it before the engine starts"
        )
    return value


def _find_passwords(url: str) -> Iterable[str]:
    """Return a URL's password, as written and as sent."""
    user, mark, _ = url.partition("://")[2].rpartition("@")
    password = user.partition(":")[2]
    if mark and password:
        yield from {password, unquote(password)}
    for option in url.partition("?")[2].split("&"):
        key, _, value = option.partition("=")
        if "password" in key and value:
            yield from {value, unquote(value)}
