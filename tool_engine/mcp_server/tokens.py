"""Whose requests does a server take over HTTP?"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Final

from tool_engine.catalog.yaml.strict_yaml import load_all
from tool_engine.errors import ConfigurationError, ToolEngineError
from tool_engine.logger import get_logger
from tool_engine.named_file import read_named, why_unread

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_FORM: Final = '- {name: ann, sha256: "..."}, with what `printf %s TOKEN | sha256sum` prints'
_PAUSE: Final = 1.0
"""Seconds between two looks at the file."""
_LONGEST: Final = 1_024
"""The most characters of a token that is looked at."""

_log: Final = get_logger(__name__)


class TokenFile:
    """The tokens whose requests are taken, read again when the file has changed.

    The file holds no token, only the SHA-256 of each: a YAML list of `{name: ..., sha256: ...}`.
    While it cannot be read, what was read last counts.

    Args:
        path: The file.

    Raises:
        ConfigurationError: It cannot be read, or holds something else.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._state = self._read_state()
        self._names = self._read_names()
        self._next_look = monotonic() + _PAUSE

    async def find_name(self, token: str) -> str | None:
        """Return who a token belongs to; None: it is not taken."""
        if monotonic() >= self._next_look:
            self._next_look = monotonic() + _PAUSE
            await asyncio.to_thread(self._look_again)
        if len(token) > _LONGEST:
            return None
        sent = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        found = None
        for known, name in self._names.items():
            # Each is compared, so that the time says nothing about which one was near.
            if hmac.compare_digest(known, sent):
                found = name
        return found

    def _look_again(self) -> None:
        try:
            state = self._read_state()
            if state != self._state:
                self._names, self._state = self._read_names(), state
        except ToolEngineError as error:
            _log.warning("token_file_unread", path=str(self._path), error=str(error))

    def _read_state(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError as error:
            raise self._explain_unread(why_unread(error)) from error
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read_names(self) -> Mapping[str, str]:
        try:
            text = read_named(self._path)
        except OSError as error:
            raise self._explain_unread(why_unread(error)) from error
        documents = load_all(text, str(self._path))
        entries = documents[0] if len(documents) == 1 else None
        if not isinstance(entries, list) or not entries:
            raise ConfigurationError(
                f"the token file {str(self._path)!r} holds no tokens; write a list of {_FORM}"
            )
        names: dict[str, str] = {}
        for place, entry in enumerate(entries):
            name, known = self._read_entry(place, entry)
            if known in names:
                raise ConfigurationError(
                    f"{self._path}: the token of {name!r} is also that of {names[known]!r}; "
                    "give each a token of its own"
                )
            names[known] = name
        return names

    def _explain_unread(self, why: str) -> ConfigurationError:
        path = str(self._path)
        return ConfigurationError(
            f"the token file {path!r} cannot be read: {why}; it is a list of {_FORM}"
        )

    def _read_entry(self, place: int, entry: Any) -> tuple[str, str]:
        where = f"{self._path}, entry {place + 1}"
        if not isinstance(entry, Mapping) or set(entry) != {"name", "sha256"}:
            raise ConfigurationError(f"{where}: an entry is {_FORM}")
        name, known = entry["name"], entry["sha256"]
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(f"{where}: name must be a text that is not empty")
        if not isinstance(known, str) or _SHA256.fullmatch(known) is None:
            raise ConfigurationError(
                f"{where}: sha256 must be 64 of the characters 0-9 and a-f, in quotes; get it with "
                "`printf %s TOKEN | sha256sum`"
            )
        return name, known
