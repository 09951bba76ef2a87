"""How does an exception become the error of a call?

The one place that words exceptions that are not ours.
"""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from traceback import walk_tb
from typing import Any, Final, NamedTuple, TypeGuard

from msgspec.structs import astuple

from tool_engine.errors import AdmissionError, ToolExecutionError
from tool_engine.knowledge.snapshot import (
    MAX_SNAPSHOT,
    TRUNCATED,
    keep_beginning,
    pack,
    restore_value,
)
from tool_engine.model.call import Refusal
from tool_engine.redaction import (
    NO_SECRETS,
    OwnSecrets,
    place_in_own_code,
    shorten_words,
    words_of,
)
from tool_engine.validation.output import OutputMismatchError

_RUNNERS: Final = asyncio.Runner.__module__


class Failure(NamedTuple):
    error_type: str
    error: str
    details: dict[str, Any] | None = None
    findings: tuple[dict[str, Any], ...] = ()
    """The findings about the arguments, for `validation_errors`."""
    is_final: bool = False
    """Whether another attempt would fail in the same way."""
    is_hidden: bool = False
    """Whether the secrets of its call are hidden in it already."""
    kept: bytes | None = None
    """What the record keeps of the output, where that is what is wrong."""
    decided_by: str | None = None
    """Who refused the call; None: no one did."""


def failure_from(refusal: Refusal) -> Failure:
    """Return the failure of a call that is refused."""
    error_type, error, details, findings, by = astuple(refusal)
    return Failure(error_type, error, details, findings, decided_by=by)


def failure_of(error: BaseException, secrets: OwnSecrets = NO_SECRETS) -> Failure:
    """Return the failure for an exception of a tool.

    Args:
        error: What was raised.
        secrets: The secrets that the call was sent, which its failure must not repeat.
    """
    return _word_error(error, secrets)._replace(is_hidden=secrets is not NO_SECRETS)


def _word_error(error: BaseException, secrets: OwnSecrets) -> Failure:
    if isinstance(error, ToolExecutionError):
        details = secrets.value(_bound_details(error.details, secrets)) if error.details else None
        findings = tuple(secrets.value(list(getattr(error, "findings", ()))))
        text = shorten_words(str(error), secrets)
        kept = error.kept if isinstance(error, OutputMismatchError) else None
        return Failure(error.error_type, text, details, findings, error.is_final, kept=kept)
    if isinstance(error, TimeoutError):
        text = str(error) or "the tool gave up waiting (TimeoutError)"
        return Failure("timeout", shorten_words(text, secrets))
    if isinstance(error, asyncio.CancelledError):
        return Failure(
            "execution_error",
            "the tool cancelled itself or lost something it waited for (CancelledError)",
        )
    if isinstance(error, SystemExit) or (
        isinstance(error, KeyboardInterrupt) and not is_interrupt(error)
    ):
        name = type(error).__name__
        return Failure("execution_error", f"the tool tried to end the process ({name})")
    return Failure("execution_error", words_of(error, secrets), _find_place(error, secrets))


def _find_place(error: BaseException, secrets: OwnSecrets) -> dict[str, Any] | None:
    """Return the line of the tool's author, which is for programs and not for the model."""
    place = place_in_own_code(error)
    return {"raised_at": shorten_words(place, secrets)} if place else None


def _bound_details(details: dict[str, Any], secrets: OwnSecrets) -> dict[str, Any]:
    """Return an error's details, or their beginning and full size if they are very long."""
    try:
        size = len(pack(details))
    except Exception:  # noqa: BLE001 - they may hold foreign objects
        size = None
    if size is not None and size <= MAX_SNAPSHOT:
        return details
    kept: dict[str, Any] = restore_value(keep_beginning(details, size, secrets.beginning))
    return kept if size is not None or TRUNCATED in kept else details


def is_interrupt(error: BaseException | None) -> TypeGuard[KeyboardInterrupt]:
    """Return True if Ctrl-C may have raised it; else it is an error of the tool as any other.

    A program that handles the signal itself, as servers do, has none raised in the middle of a tool
    but by its own handler. Where Python's or asyncio's handler stands, the two look the same.
    """
    if not isinstance(error, KeyboardInterrupt):
        return False
    handler: Any = signal.getsignal(signal.SIGINT)
    while isinstance(handler, partial):
        handler = handler.func
    if handler is signal.default_int_handler or getattr(handler, "__module__", "") == _RUNNERS:
        return True
    code = getattr(handler, "__code__", None)
    return any(frame.f_code is code for frame, _ in walk_tb(error.__traceback__))


def refusal_of(error: AdmissionError) -> Failure:
    """Return the failure for a refusal of the controller."""
    details = None if error.retry_after is None else {"retry_after": round(error.retry_after, 3)}
    return Failure(error.error_type, str(error), details)
