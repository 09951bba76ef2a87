"""How does what a tool raised become the error of its call?

The one place in which exceptions that are not ours are put into words.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from tool_engine.errors import AdmissionError, ToolExecutionError
from tool_engine.redaction import redact, redact_text

__all__ = ["Failure", "failure_of", "refusal_of"]

_MOST_CHARACTERS = 2_000
_MOST_READ = 32_768


class Failure(NamedTuple):
    """Why a call did not succeed."""

    error_type: str
    error: str
    details: dict[str, Any] | None = None
    findings: tuple[dict[str, Any], ...] = ()
    """What is wrong with the arguments, for `validation_errors`."""
    is_final: bool = False
    """Whether another attempt would fail alike."""


def failure_of(error: BaseException) -> Failure:
    """The failure that an exception of a tool stands for."""
    if isinstance(error, ToolExecutionError):
        details = redact(error.details) if error.details else None
        findings = tuple(getattr(error, "findings", ()))
        return Failure(error.error_type, _shown(str(error)), details, findings, error.is_final)
    if isinstance(error, TimeoutError):
        return Failure("timeout", _shown(str(error) or "the tool gave up waiting (TimeoutError)"))
    if isinstance(error, asyncio.CancelledError):
        return Failure(
            "execution_error",
            "the tool cancelled itself or lost something it waited for (CancelledError)",
        )
    if isinstance(error, SystemExit):
        return Failure("execution_error", "the tool tried to end the process (SystemExit)")
    try:
        text = str(error)
    except Exception as broken:  # noqa: BLE001 - any exception class may have a broken __str__
        text = f"its message cannot be shown ({type(broken).__name__})"
    name = type(error).__name__
    return Failure("execution_error", _shown(f"{name}: {text}" if text else name))


def refusal_of(error: AdmissionError) -> Failure:
    """The failure that a refusal of the controller stands for."""
    details = None if error.retry_after is None else {"retry_after": round(error.retry_after, 3)}
    return Failure(error.error_type, str(error), details)


def _shown(text: str) -> str:
    # A secret that the cut would split is hidden before it; what lies far behind is not read.
    shown = redact_text(text[:_MOST_READ])
    if len(text) <= _MOST_READ and len(shown) <= _MOST_CHARACTERS:
        return shown
    more = len(shown) + max(0, len(text) - _MOST_READ) - _MOST_CHARACTERS
    return f"{shown[:_MOST_CHARACTERS]}… ({max(1, more)} characters more)"
