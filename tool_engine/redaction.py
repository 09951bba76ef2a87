"""What must never be seen in a record, an event or a log, and how is it hidden?

This is the one place that hides secrets: by the name of a key, by the shape of a text, and by the
value of every secret that was resolved in this process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["HIDDEN", "is_secret_key", "redact", "redact_text", "remember_secret"]

HIDDEN: Final = "[hidden]"
_MAX_DEPTH: Final = 64

_SECRET_KEY: Final = re.compile(
    r"(?:^|[_\-.\s])(?:password|passwd|pwd|secret|token|api[_\-.\s]?key|access[_\-.\s]?key|"
    r"private[_\-.\s]?key|authorization|auth|cookie|set[_\-.\s]?cookie|credentials?|session[_\-.\s]?id|"
    r"client[_\-.\s]?secret|x[_\-.\s]api[_\-.\s]key)(?:$|[_\-.\s])",
    re.IGNORECASE,
)
_CAMEL_CASE: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SECRET_TEXT: Final = re.compile(
    r"""
      \bsk-[A-Za-z0-9_\-]{16,}
    | \b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}
    | \bgithub_pat_[A-Za-z0-9_]{20,}
    | \bxox[abposr]-[A-Za-z0-9\-]{10,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \bAIza[A-Za-z0-9_\-]{35}
    | \beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----[\s\S]*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    | (?<=://)[^/\s:@]*:[^/\s@]+(?=@)
    | (?<=[Bb]earer\ )[A-Za-z0-9._~+/\-]{8,}=*
    """,
    re.VERBOSE,
)
_resolved: dict[str, None] = {}


def remember_secret(value: str) -> None:
    """Hides `value` from now on wherever it appears; values under 4 characters are too common."""
    if len(value) >= 4:
        _resolved[value] = None


def redact(value: Any, secret_names: frozenset[str] = frozenset()) -> Any:
    """A copy of `value` made of JSON values, with secrets replaced by `[hidden]`.

    Args:
        value: Anything; what JSON cannot hold is replaced by its `repr`.
        secret_names: Top-level keys whose value is hidden whatever it looks like.
    """
    if secret_names and isinstance(value, Mapping):
        value = {key: HIDDEN if key in secret_names else item for key, item in value.items()}
    return _redact(value, 0)


def redact_text(text: str) -> str:
    """`text` with everything that looks like a secret, or is a resolved one, hidden."""
    # All are looked for in the text as it is: one that is hidden first may be a part of another.
    spans = [found.span() for found in _SECRET_TEXT.finditer(text)]
    for secret in _resolved:
        at = text.find(secret)
        while at >= 0:
            spans.append((at, at + len(secret)))
            at = text.find(secret, at + 1)
    return _without(text, sorted(spans)) if spans else text


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    kept, end = [], 0
    for start, stop in spans:
        if start >= end:
            kept += [text[end:start], HIDDEN]
        end = max(end, stop)
    return "".join((*kept, text[end:]))


def is_secret_key(name: str) -> bool:
    """Whether a key of this name usually holds a secret."""
    return _SECRET_KEY.search(_CAMEL_CASE.sub("_", name)) is not None


def _redact(value: Any, depth: int) -> Any:
    if value is None or value is True or value is False or type(value) in (int, float):
        return value
    if isinstance(value, str):
        return redact_text(value)
    if depth >= _MAX_DEPTH:
        return "[too deep]"
    if isinstance(value, Mapping):
        return {
            str(key): HIDDEN
            if item is not None and is_secret_key(str(key))
            else _redact(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_redact(item, depth + 1) for item in value]
    return redact_text(repr(value))
