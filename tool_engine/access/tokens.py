"""Whose tokens does a server take, and for what?"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISREG
from time import monotonic
from typing import Any, Final

import msgspec

from tool_engine.access.principal import (
    Principal,
    is_name,
    read_patterns,
    read_priority,
    read_scopes,
)
from tool_engine.catalog.strict_yaml import load_all
from tool_engine.errors import ConfigurationError, ToolEngineError
from tool_engine.logger import get_logger
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.settings.concurrency import DEFAULT_PRIORITY
from tool_engine.named_file import read_named, why_unread

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_FORM: Final = '- {name: ann, sha256: "..."}, with what `printf %s TOKEN | sha256sum` prints'
_PAUSE: Final = 1.0
"""Seconds between two looks at the file."""
_HOLDS: Final = 60.0
"""Seconds for which tokens are taken while their file cannot be read: it may be half written, or
be meant to take them back."""
_FIELDS: Final = frozenset({"name", "sha256", "scopes", "tools", "priority", "expires"})
_USUAL: Final = ("call", "read")
"""The scopes of an entry that names none."""
_LONGEST: Final = 1_024
"""The most characters of a token that is looked at."""

_log: Final = get_logger(__name__)


class _Entry(msgspec.Struct, frozen=True):
    principal: Principal
    expires: datetime | None


class NoTokens:
    """No token at all is taken: who gets in, gets in by another door."""

    async def find_principal(self, _token: str) -> Principal | None:
        """Return None."""
        return None


class TokenFile:
    """The tokens whose requests are taken, read again when the file has changed.

    The file holds no token, only the SHA-256 of each: a YAML list of `{name: ..., sha256: ...}`,
    with `scopes`, `tools` (patterns of names), `priority` (the most urgent that calls may ask for)
    and `expires` where they differ from `[call, read]`, all, 5 and never; `[]` takes all of them
    back. While it cannot be read, what was read last counts for a minute, and then no token is
    taken.

    Args:
        path: The file.

    Raises:
        ConfigurationError: It cannot be read, or holds something else.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._is_file = True
        """Whether it can be read again: a pipe gives what it has once."""
        self._text: bytes | None = self._read_text()
        self._entries = self._read_entries(self._text or b"")
        self._next_look = monotonic() + _PAUSE
        self._good_until = monotonic() + _HOLDS

    async def find_principal(self, token: str) -> Principal | None:
        """Return who a token belongs to; None: it is not taken."""
        if monotonic() >= self._next_look:
            self._next_look = monotonic() + _PAUSE
            await asyncio.to_thread(self._look_again)
        if len(token) > _LONGEST:
            return None
        sent = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        found = None
        for known, entry in self._entries.items():
            # Each is compared, so that the time says nothing about which one was near.
            if hmac.compare_digest(known, sent):
                found = entry
        if found is None or (found.expires is not None and found.expires <= datetime.now(UTC)):
            return None
        return found.principal

    def list_principals(self) -> list[Principal]:
        """Return who has tokens, in the order of the file."""
        return [each.principal for each in self._entries.values()]

    def _look_again(self) -> None:
        try:
            text = self._read_text()
            # Not by its size and times: those of a file that is written anew may be the same.
            if text is not None and text != self._text:
                self._entries, self._text = self._read_entries(text), text
            self._good_until = monotonic() + _HOLDS
        except ToolEngineError as error:
            _log.warning("token_file_unread", path=str(self._path), error=str(error))
            if monotonic() >= self._good_until:
                self._entries, self._text = {}, None

    def _read_text(self) -> bytes | None:
        """Return what the file holds; None: it is a pipe, which was read before."""
        try:
            is_file = S_ISREG(self._path.stat().st_mode)
            if not (is_file or self._is_file):
                return None
            text = read_named(self._path)
        except OSError as error:
            raise self._explain_unread(why_unread(error)) from error
        self._is_file = is_file
        return text

    def _read_entries(self, text: bytes) -> Mapping[str, _Entry]:
        documents = load_all(text, str(self._path))
        listed = documents[0] if len(documents) == 1 else None
        if not isinstance(listed, list):
            raise self._explain_empty()
        entries: dict[str, _Entry] = {}
        for place, each in enumerate(listed):
            known, entry = self._read_entry(f"{self._path}, entry {place + 1}", each)
            if known in entries:
                raise ConfigurationError(
                    f"{self._path}: the token of {entry.principal.name!r} is also that of "
                    f"{entries[known].principal.name!r}; give each a token of its own"
                )
            entries[known] = entry
        return entries

    def _explain_empty(self) -> ConfigurationError:
        return ConfigurationError(
            f"the token file {str(self._path)!r} holds no tokens; write a list of {_FORM}"
        )

    def _explain_unread(self, why: str) -> ConfigurationError:
        path = str(self._path)
        return ConfigurationError(
            f"the token file {path!r} cannot be read: {why}; it is a list of {_FORM}"
        )

    def _read_entry(self, where: str, entry: Any) -> tuple[str, _Entry]:
        if not isinstance(entry, Mapping) or not {"name", "sha256"} <= set(entry):
            raise ConfigurationError(f"{where}: an entry is {_FORM}")
        for key in entry:
            if key not in _FIELDS:
                raise ConfigurationError(
                    f"{where}: {key!r} is no field of an entry{suggest_near(key, _FIELDS)}; "
                    f"write {', '.join(sorted(_FIELDS))}"
                )
        name, known = entry["name"], entry["sha256"]
        if not is_name(name):
            raise ConfigurationError(
                f"{where}: name must be a text of characters that can be seen, without blanks "
                f"around it, got {name!r:.80}; write one such as 'ann'"
            )
        if not isinstance(known, str) or _SHA256.fullmatch(known) is None:
            raise ConfigurationError(
                f"{where}: sha256 must be 64 of the characters 0-9 and a-f, in quotes; get it with "
                "`printf %s TOKEN | sha256sum`"
            )
        scopes = read_scopes(entry.get("scopes", list(_USUAL)), where)
        tools = read_patterns(entry.get("tools", ["*"]), where)
        priority = read_priority(entry.get("priority", DEFAULT_PRIORITY), where)
        return known, _Entry(
            Principal(name, scopes, tools, priority), _read_time(entry.get("expires"), where)
        )


def _read_time(value: Any, where: str) -> datetime | None:
    if value is None:
        return None
    text = value.isoformat() if isinstance(value, datetime) else value
    try:
        read = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        read = None
    if read is None or read.tzinfo is None:
        raise ConfigurationError(
            f"{where}: expires must be a time with its zone, such as 2027-01-31T12:00:00Z, got "
            f"{value!r}"
        )
    return read
