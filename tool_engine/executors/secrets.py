"""Where do `${env:NAME}` and `${file:/path}` get their values, and how are these kept hidden?

Only the text of a definition may name a secret. Each call resolves its secrets anew, in a
`SecretScope`, which hides them again in everything that the call brings back: a server that
echoes the request headers would otherwise hand a token to the model. The files are what containers
mount: short texts that may change while the program runs.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.redaction import HIDDEN, remember_secret, secret_forms

_MIN_LENGTH: Final = 4
_BARE_ORIGIN: Final = re.compile(r"(?:https?://)?[A-Za-z0-9.\-:\[\]]+/?", re.ASCII)
MAX_SECRET_BYTES: Final = 64 * 1024
# A pipe without a writer must not hold the call up; Windows has no such files.
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class SecretPart(msgspec.Struct, frozen=True):
    name: str
    """The name of an environment variable, or the absolute path of a file."""
    source: str = "env"
    """`env` or `file`."""


class SecretScope:
    __slots__ = ("_files", "_forms")

    def __init__(self) -> None:
        self._forms: dict[str, None] = {}
        self._files: dict[str, str] = {}

    @property
    def is_empty(self) -> bool:
        return not self._forms

    async def read_files(self, parts: Iterable[SecretPart]) -> None:
        """Read, in a thread, the files among `parts` before they are resolved."""
        paths = [part.name for part in parts if part.source == "file"]
        if paths:
            self._files |= await asyncio.to_thread(_read_all, paths)

    def resolve(self, part: SecretPart) -> str:
        """Return a secret's value, hidden from now on; blocks for an unread file."""
        value = self._read_value(part)
        self.hide_value(value)
        return value

    def resolve_address(self, part: SecretPart) -> str:
        """Resolve the start of a URL: a bare `http://host:port` is no secret."""
        value = self._read_value(part)
        if not _BARE_ORIGIN.fullmatch(value):
            self.hide_value(value)
        return value

    def hide_value(self, value: str) -> None:
        """Hide a secret from another source, in each form that is sent."""
        if len(value) < _MIN_LENGTH:
            return
        remember_secret(value)
        # The longest first: a secret may be a part of another one.
        found = sorted({*self._forms, *_cached_forms(value)}, key=len, reverse=True)
        self._forms = dict.fromkeys(found)

    def holds(self, text: str) -> bool:
        return any(form in text for form in self._forms)

    def hide_text(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text

    def hide(self, value: Any) -> Any:
        """Return a JSON value without the secrets of this call, keys included."""
        # Search one joined text first: a value has thousands of texts, and hardly ever a secret.
        if not self._forms or not self.holds("\0".join(_list_texts(value))):
            return value
        return self._hide_in(value)

    def _read_value(self, part: SecretPart) -> str:
        if part.source == "env":
            return read_variable(part.name, "the tool needs it")
        known = self._files.get(part.name)
        return read_secret_file(part.name) if known is None else known

    def _hide_in(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.hide_text(value)
        if isinstance(value, dict):
            return {self.hide_text(key): self._hide_in(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._hide_in(item) for item in value]
        return value


def _list_texts(value: Any) -> list[str]:
    found: list[str] = []
    left: list[Iterable[Any]] = [[value]]
    while left:
        for each in left.pop():
            if isinstance(each, str):
                found.append(each)
            elif isinstance(each, dict):
                found += each
                left.append(each.values())
            elif isinstance(each, list):
                left.append(each)
    return found


@lru_cache(maxsize=256)
def _cached_forms(value: str) -> tuple[str, ...]:
    return secret_forms(value)


def _read_all(paths: Iterable[str]) -> dict[str, str]:
    return {path: read_secret_file(path) for path in paths}


def read_variable(name: str, use: str) -> str:
    """Return an environment variable; `use` says in the error what it is for."""
    value = os.environ.get(name)
    if not value:
        state = "is not set" if value is None else "is empty"
        raise ToolExecutionError(
            f"the environment variable {name} {state}; {use}: set it before the engine starts"
        )
    return value


def read_secret_file(path: str) -> str:
    """Return the file's text, without line breaks at its end. Blocks.

    Raises:
        ToolExecutionError: It is missing, empty, larger than 64 KiB, or no text.
    """
    try:
        data = _read_bytes(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise _unusable_error(
            path, f"cannot be read ({reason})", "create it, or let the engine's user read it"
        ) from None
    if len(data) > MAX_SECRET_BYTES:
        raise _unusable_error(
            path, f"is larger than {MAX_SECRET_BYTES} bytes", "name the file of one secret"
        )
    try:
        text = data.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise _unusable_error(path, "is not text in UTF-8", "write the secret into it as text")
    if not text:
        raise _unusable_error(path, "is empty", "write the secret into it")
    return text


def _read_bytes(path: str) -> bytes:
    descriptor = os.open(path, _FLAGS)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file")
        return file.read(MAX_SECRET_BYTES + 1)


def _unusable_error(path: str, state: str, cure: str) -> ToolExecutionError:
    return ToolExecutionError(f"the secret file {path} {state}; the tool needs it: {cure}")
