"""Which error does a caller get when a provider fails?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tool_engine.errors import ChatModelError
from tool_engine.protocols.chunks import read_field
from tool_engine.redaction import redact_text

_TRANSIENT: Final = frozenset({408, 409, 425, 429})
_TRANSIENT_CODES: Final = frozenset(
    {
        *("overloaded_error", "api_error", "rate_limit_error", "timeout_error"),
        *("server_error", "rate_limit_exceeded", "internal_server_error", "overloaded"),
    }
)
"""Error codes of temporary failures that providers send in the middle of a stream."""
_FINAL_CODES: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
"""Codes of rate limits that waiting does not lift."""
REFUSAL_CODES: Final = frozenset(
    {
        *("content_filter", "content_policy_violation", "invalid_prompt", "moderation_blocked"),
        *("data_inspection_failed", "responsible_ai_policy_violation"),
    }
)
"""Codes with which a provider's filter refuses the conversation."""
_CONNECTION: Final = frozenset(
    {"APIConnectionError", "TransportError", "ClientConnectionError", "ClientPayloadError"}
)
CURES: Final[Mapping[int, str]] = {
    401: "check the key",
    403: "check the key, and that it may use this model",
    404: (
        "check the model's name and the server's address: that of OpenAI's API ends in /v1, that "
        "of Anthropic's has no path"
    ),
}
"""What helps after a status of HTTP."""
_LONGEST: Final = 600


def failure_of(error: BaseException, model: str, address: str) -> ChatModelError:
    """Return the error for the caller of a model, without secrets."""
    status = _find_status(error)
    body = getattr(error, "body", None) or getattr(error, "details", None)
    codes = _find_codes(error, body)
    if status is not None:
        head = f"{model}: {address} answered {status}"
    elif _is_connection(error):
        head = f"{model}: no answer from {address}"
    else:
        head = f"{model}: {address} gave no reply that can be read"
    is_transient = _is_transient(error, status, codes)
    cure = _find_cure(error, status, codes, is_transient=is_transient)
    words = redact_text(_find_words(error, body))
    return ChatModelError(
        f"{head}: {words.rstrip('.')}; {cure}" if cure else f"{head}: {words}",
        status=status,
        is_transient=is_transient,
        is_refusal=not codes.isdisjoint(REFUSAL_CODES),
    )


def _find_cure(
    error: BaseException, status: int | None, codes: set[str], *, is_transient: bool
) -> str:
    """Return what helps; empty where only the provider's own words say it."""
    if _is_connection(error):
        return "check that it runs and can be reached from here, or try again"
    if codes & _FINAL_CODES:
        return "raise the quota at the provider, or use another key"
    if status is not None:
        return CURES.get(status, "try again later" if is_transient else "")
    if codes:
        return "try again later" if is_transient else ""
    return "check that its address is that of a model's API, as its provider writes it"


def _find_status(error: BaseException) -> int | None:
    for name in ("status_code", "code", "status"):
        value = getattr(error, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _find_codes(error: BaseException, body: object) -> set[str]:
    inner = read_field(body, "error", {}) if isinstance(body, Mapping) else {}
    found = [getattr(error, "code", None), getattr(error, "type", None)]
    for each in (body, inner):
        if isinstance(each, Mapping):
            found += [each.get("type"), each.get("code")]
    return {each for each in found if isinstance(each, str)}


def _is_transient(error: BaseException, status: int | None, codes: set[str]) -> bool:
    if codes & _FINAL_CODES:
        return False
    if codes & _TRANSIENT_CODES or _is_connection(error):
        return True
    return status is not None and (status in _TRANSIENT or status >= 500)


def _is_connection(error: BaseException) -> bool:
    """Detect a failed connection by the class name of the error."""
    names = {each.__name__ for each in type(error).__mro__}
    return isinstance(error, OSError) or not _CONNECTION.isdisjoint(names)


def _find_words(error: BaseException, body: object) -> str:
    said = _message_in(body)
    if said is None:
        said = str(getattr(error, "message", None) or error) or type(error).__name__
        cause = error.__cause__
        if cause is not None and str(cause):
            said = f"{said.rstrip('.')} ({cause})"
    said = " ".join(said.split())
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}..."


def _message_in(body: Any) -> str | None:
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    for each in (read_field(body, "error"), body) if isinstance(body, Mapping) else ():
        message = each if isinstance(each, str) else read_field(each, "message")
        if isinstance(message, str) and message.strip():
            return message
    return None
