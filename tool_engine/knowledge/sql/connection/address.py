"""Where is the database of the setting `records`, once the secrets in its URL are known?"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.json.data import show_repr
from tool_engine.model.settings.databases import DatabaseSource
from tool_engine.redaction import redact_text, remember_secret

_SECRET: Final = re.compile(r"\$\{(env|file):([^}]*)\}")


class Address(msgspec.Struct, frozen=True):
    """A database that can be connected to; its `repr` hides who connects."""

    kind: str
    place: str
    """The absolute path of the SQLite file, or the PostgreSQL URL."""

    def __repr__(self) -> str:
        return f"<Address {self.kind} {self.shown}>"

    __rich_repr__ = show_repr

    @property
    def shown(self) -> str:
        if self.kind == "sqlite":
            return self.place
        return self.place.partition("://")[2].rpartition("@")[2].partition("?")[0]

    @classmethod
    def of(cls, url: str) -> Address:
        """Return the address behind a URL with its secrets filled in; may block.

        Raises:
            ConfigurationError: A secret is missing, or what comes out is no URL of a database.
        """
        filled = fill_secrets(url)
        source = _make_source(filled)
        if source.kind == "sqlite":
            path = unquote(filled.partition("://")[2][1:])
            return cls("sqlite", str(Path(path).expanduser().absolute()))
        return cls("postgresql", f"postgresql://{filled.partition('://')[2]}")


def _make_source(url: str) -> DatabaseSource:
    try:
        source = DatabaseSource(url=url)
    except ConfigurationError as error:
        raise ConfigurationError(f"records: {error}") from None
    if source.kind is None:
        raise ConfigurationError("records: the secret is no URL of a database")
    return source


def fill_secrets(url: str, setting: str = "records") -> str:
    """Return the URL with its secrets filled in, which are hidden from then on; may block.

    Args:
        url: What the setting holds.
        setting: Its name, for errors.

    Raises:
        ConfigurationError: A secret is missing.
    """
    whole, end = _SECRET.fullmatch(url), url.rfind("@")

    def fill(found: re.Match[str]) -> str:
        value = _find_value(found, setting)
        # Before the last `@` stands a user or a password, which may hold anything.
        return quote(value, safe="") if whole is None and found.end() <= end else value

    filled = _SECRET.sub(fill, url)
    for secret in _find_passwords(filled):
        remember_secret(secret)
    return filled


def _find_value(found: re.Match[str], setting: str) -> str:
    source, name = found.groups()
    if source == "env":
        value = os.environ.get(name, "")
    else:
        try:
            value = Path(name).expanduser().read_text().strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise ConfigurationError(f"{setting}: the file {name!r}: {reason}") from None
    if not value and source == "env":
        raise ConfigurationError(
            f"{setting}: the environment variable {name!r} is not set or empty; set it before the "
            "engine starts"
        )
    if not value:
        raise ConfigurationError(f"{setting}: the file {name!r} is empty; write the secret into it")
    remember_secret(value)
    return value


def _find_passwords(url: str) -> list[str]:
    user, mark, _ = url.partition("://")[2].rpartition("@")
    password = user.partition(":")[2] if mark else ""
    return [each for each in {password, unquote(password)} if each]


def explain_silence(error: BaseException) -> str:
    """Return why a database does not answer, and what to do where nothing listens there."""
    cure = "; start the database, or correct its URL" if isinstance(error, ConnectionError) else ""
    return f"{explain_error(error)}{cure}"


def explain_error(error: BaseException) -> str:
    """Return a database's message in one line, with secrets hidden."""
    text = " ".join(str(error).split()) or "no reason given"
    return redact_text(f"{type(error).__name__}: {text}")[:500]
