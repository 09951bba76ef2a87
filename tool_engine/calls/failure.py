"""How does what a tool raised become the error of its call?

The one place in which exceptions that are not ours are put into words.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from tool_engine.errors import AdmissionError, ToolExecutionError
from tool_engine.redaction import NO_SECRETS, OwnSecrets, shorten_words, words_of

__all__ = ["Failure", "failure_of", "refusal_of"]


class Failure(NamedTuple):
    """Why a call did not succeed."""

    error_type: str
    error: str
    details: dict[str, Any] | None = None
    findings: tuple[dict[str, Any], ...] = ()
    """What is wrong with the arguments, for `validation_errors`."""
    is_final: bool = False
    """Whether another attempt would fail alike."""


def failure_of(error: BaseException, secrets: OwnSecrets = NO_SECRETS) -> Failure:
    """The failure that an exception of a tool stands for.

    Args:
        error: What was raised.
        secrets: Those that the call was sent, which no word of its failure repeats.
    """
    if isinstance(error, ToolExecutionError):
        details = secrets.value(error.details) if error.details else None
        findings = tuple(secrets.value(list(getattr(error, "findings", ()))))
        text = shorten_words(str(error), secrets)
        return Failure(error.error_type, text, details, findings, error.is_final)
    if isinstance(error, TimeoutError):
        text = str(error) or "the tool gave up waiting (TimeoutError)"
        return Failure("timeout", shorten_words(text, secrets))
    if isinstance(error, asyncio.CancelledError):
        return Failure(
            "execution_error",
            "the tool cancelled itself or lost something it waited for (CancelledError)",
        )
    if isinstance(error, SystemExit):
        return Failure("execution_error", "the tool tried to end the process (SystemExit)")
    return Failure("execution_error", words_of(error, secrets))


def refusal_of(error: AdmissionError) -> Failure:
    """The failure that a refusal of the controller stands for."""
    details = None if error.retry_after is None else {"retry_after": round(error.retry_after, 3)}
    return Failure(error.error_type, str(error), details)
