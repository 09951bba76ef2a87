"""What of a foreign exception's words may be logged, kept and shown?

What a hook, a listener or a tool raises may quote the arguments of its call. Every exception that
is not the engine's own is put into words here.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from os.path import commonprefix
from traceback import walk_tb
from typing import Any, Final

from tool_engine.model.approval import ApprovalRequest
from tool_engine.model.tool import Tool
from tool_engine.redaction.own import NO_SECRETS, OwnSecrets
from tool_engine.redaction.own_code import find_place, read_name, read_trace
from tool_engine.redaction.text import HIDDEN, redact_text
from tool_engine.redaction.tool_secrets import secrets_of

_MOST: Final = 2_000
"""Longest message that is shown, in characters."""
_FOLDERS: Final = re.compile(r".*[/\\]")
_MOST_TRACED: Final = 16_000
_BEGINNING: Final = 128
"""Characters by which `OwnSecrets.beginning` recognises a longer secret."""
_MOST_READ: Final = 32_768
"""Characters that are searched: no message may hold up the loop, however long it is."""
_BEYOND: Final = 4_096
"""Characters behind them that are looked at; private keys are about as long."""


_QUOTED: Final = re.compile(
    r"(?<!\w)(?:'[^'\\]*(?:\\.?[^'\\]*)*(?:'|\Z)|\"[^\"\\]*(?:\\.?[^\"\\]*)*(?:\"|\Z))", re.DOTALL
)
"""What `repr` makes of a text; one that does not end goes on to the end."""
_SIGNS: Final = re.compile(r"['\"][^\w\s]{0,2}['\"]")
"""A quoted sign or two, such as the comma that a reader expected."""


def words_of(error: BaseException, *secrets: OwnSecrets | None, most: int = _MOST) -> str:
    """Return kind and message of an exception, cut after hiding its secrets.

    Args:
        error: What was raised; its `__str__` may raise, too.
        secrets: The secrets of each call that the message may quote; None: a call whose secrets are
            not known, so that only the exception's kind is shown.
        most: Longest text returned, in characters.
    """
    kind = kind_of(error)
    if None in secrets:
        return f"{kind}: {HIDDEN}{_place_of(error)}"
    text = message_of(error)
    return shorten_words(f"{kind}: {text}" if text else kind, *secrets, most=most)


def message_of(error: BaseException) -> str:
    """Return the message of an exception, or why there is none; secrets are not hidden."""
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - any exception class may have a broken __str__
        return f"its message cannot be shown ({kind_of(broken)})"


def trace_of(error: BaseException, *secrets: OwnSecrets | None) -> str:
    """Return the traceback of an exception with its causes, as `words_of` does."""
    if None in secrets:
        return words_of(error, None)
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - attributes of an exception may be properties that raise
        return words_of(error, *secrets)
    return shorten_words(text, *secrets, most=_MOST_TRACED)


def shorten_words(
    text: str, *secrets: OwnSecrets | None, most: int = _MOST, read: int = _MOST_READ
) -> str:
    """Return foreign text, cut after all secrets in it are hidden.

    Args:
        text: What is to be shown.
        secrets: As for `words_of`.
        most: Longest text returned, in characters.
        read: Characters that are searched, some more than `most`; the rest is not shown.
    """
    if None in secrets:
        return HIDDEN

    known = [each for each in secrets if each is not None] or [NO_SECRETS]

    def hide(part: str) -> str:
        for each in known:
            part = each.text(part)
        return part

    if len(text) <= read:
        end, shown = len(text), hide(text)
        if len(shown) <= most:
            return shown
    else:
        # The far end is not read. Where the cut splits a secret, a later cut shows that, and one
        # that is too long for that is known by its beginning, of which the last characters may
        # hold a part.
        end = read
        parts = hide(text[:end]), hide(text[: end + _BEYOND])
        shown = commonprefix(parts)  # noqa: RUF071 - texts, character by character
        for each in known:
            shown = each.beginning(shown)
        shown = shown[:-_BEGINNING]
    more = len(shown) + len(text) - end - most
    return f"{shown[:most]}… ({max(1, more)} characters more)"


def hide_quotes(text: str) -> str:
    """Return a message of the engine without its quotes of an unreadable text.

    In unreadable arguments no part can be distinguished from a secret.
    """
    return _QUOTED.sub(lambda quoted: quoted[0] if _SIGNS.fullmatch(quoted[0]) else HIDDEN, text)


def kind_of(error: BaseException) -> str:
    """Return the exception's class name, which may be made of a sent value."""
    return redact_text(read_name(type(error))[:_MOST])


def _place_of(error: BaseException) -> str:
    """Return file and line of the raise, which contain no value."""
    frames = [*walk_tb(read_trace(error))][-1:]
    places = (f"{_FOLDERS.sub('', frame.f_code.co_filename)}:{line}" for frame, line in frames)
    return redact_text("".join(f" (raised at {place})" for place in places)[:_MOST])


def place_in_own_code(error: BaseException) -> str:
    """Return folder, file and line of the author's code that raised; empty: of none."""
    return redact_text(find_place(error)[:_MOST])


def secrets_asked(request: ApprovalRequest) -> OwnSecrets:
    """Return the secrets of the call that a request is about."""
    return OwnSecrets(request.params, request.secret_names, request.secret_names)


def secrets_if_known(tool: Tool | None, params: Any) -> OwnSecrets | None:
    """Return the secrets of a tool's call; None: these arguments do not show them."""
    if tool is None or not (tool.secret_names or tool.secret_parts):
        return NO_SECRETS
    if not isinstance(params, Mapping):
        return None
    try:
        return secrets_of(tool, params)
    except Exception:  # noqa: BLE001 - foreign objects among the arguments may raise anything
        return None
