"""Where does `${env:NAME}` get its value, and how is that value kept out of what a call returns?

Only the text of a definition may name a secret. Each call resolves its secrets anew, in a
`SecretScope`, which hides them again in everything that the call brings back: a server that
echoes the request headers would otherwise hand a token to the model.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final
from urllib.parse import quote, quote_plus

from tool_engine.errors import ToolExecutionError
from tool_engine.redaction import HIDDEN, remember_secret

__all__ = ["SecretScope"]

_MIN_LENGTH: Final = 4
_BARE_ORIGIN: Final = re.compile(r"(?:https?://)?[A-Za-z0-9.\-:\[\]]+/?", re.ASCII)


class SecretScope:
    """The secrets that one call has resolved."""

    __slots__ = ("_forms",)

    def __init__(self) -> None:
        self._forms: dict[str, None] = {}

    def resolve(self, name: str) -> str:
        """The value of the environment variable `name`, hidden from now on.

        Raises:
            ToolExecutionError: The variable is not set, or empty.
        """
        value = _read(name)
        self._hide(value)
        return value

    def resolve_address(self, name: str) -> str:
        """Like `resolve`, for the start of a URL: a bare `http://host:port` is no secret."""
        value = _read(name)
        if not _BARE_ORIGIN.fullmatch(value):
            self._hide(value)
        return value

    def holds(self, text: str) -> bool:
        """Whether a resolved secret appears in `text`."""
        return any(form in text for form in self._forms)

    def hide_text(self, text: str) -> str:
        """`text` without the secrets of this call, in any form in which they were sent."""
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text

    def hide(self, value: Any) -> Any:
        """A JSON value without the secrets of this call, keys included."""
        if not self._forms:
            return value
        return self._hide_in(value)

    def _hide_in(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.hide_text(value)
        if isinstance(value, dict):
            return {self.hide_text(key): self._hide_in(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._hide_in(item) for item in value]
        return value

    def _hide(self, value: str) -> None:
        if len(value) < _MIN_LENGTH:
            return
        # Longest first would not matter: each form is replaced wherever the others left it.
        for form in (value, quote(value, safe=""), quote(value, safe="/"), quote_plus(value)):
            self._forms[form] = None
            remember_secret(form)


def _read(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        state = "is not set" if value is None else "is empty"
        raise ToolExecutionError(
            f"the environment variable {name} {state}; the tool needs it: set it before the "
            "engine starts"
        )
    return value
