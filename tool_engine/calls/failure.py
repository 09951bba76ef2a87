"""How does an exception become the error of a call?

The one place that words exceptions that are not ours.
"""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from traceback import walk_tb
from typing import Any, Final, NamedTuple, TypeGuard, TypeVar

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
    kind_of,
    place_in_own_code,
    shorten_words,
    words_of,
)
from tool_engine.redaction.error_words import message_of
from tool_engine.redaction.own_code import read_trace
from tool_engine.validation.output import OutputMismatchError

_Kind = TypeVar("_Kind", bound=BaseException)
_LONGEST_TYPE: Final = 100
"""Characters of a type of error that a tool has made up."""
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
    try:
        failure = _word_error(error, secrets)
    except BaseException as broken:
        # Its attributes are code of the tool: without this, nothing would end the call.
        if is_interrupt(broken):
            raise
        words = f"{kind_of(error)}: it cannot be described ({kind_of(broken)})"
        failure = Failure("execution_error", shorten_words(words, secrets))
    return failure._replace(is_hidden=secrets is not NO_SECRETS)


def _word_error(error: BaseException, secrets: OwnSecrets) -> Failure:
    if _is_a(error, ToolExecutionError):
        details = secrets.value(_bound_details(error.details, secrets)) if error.details else None
        findings = tuple(secrets.value(_list_findings(error)))
        text = shorten_words(message_of(error), secrets)
        kept = error.kept if isinstance(error, OutputMismatchError) else None
        error_type = error.error_type
        if not isinstance(error_type, str) or len(error_type) > _LONGEST_TYPE:
            error_type = ToolExecutionError.error_type
        return Failure(error_type, text, details, findings, error.is_final, kept=kept)
    if _is_a(error, TimeoutError):
        text = message_of(error) or "the tool gave up waiting (TimeoutError)"
        return Failure("timeout", shorten_words(text, secrets))
    if _is_a(error, asyncio.CancelledError):
        return Failure(
            "execution_error",
            "the tool cancelled itself or lost something it waited for (CancelledError)",
        )
    if _is_a(error, (SystemExit, KeyboardInterrupt)) and not is_interrupt(error):
        words = f"the tool tried to end the process ({kind_of(error)})"
        return Failure("execution_error", words)
    return Failure("execution_error", words_of(error, secrets), _find_place(error, secrets))


def _is_a(error: object, kind: type[_Kind] | tuple[type[_Kind], ...]) -> TypeGuard[_Kind]:
    """Return whether it is one by its type alone: its `__class__` may be a property that raises."""
    return issubclass(type(error), kind)


def _find_place(error: BaseException, secrets: OwnSecrets) -> dict[str, Any] | None:
    """Return the line of the tool's author, which is for programs and not for the model."""
    place = place_in_own_code(error)
    return {"raised_at": shorten_words(place, secrets)} if place else None


def _list_findings(error: ToolExecutionError) -> list[dict[str, Any]]:
    """Return the findings of an error about arguments; what is none is left out."""
    names = ("parameter", "error_type", "message")
    return [
        {"level": "error", **each}
        for each in getattr(error, "findings", ())
        if isinstance(each, dict) and all(isinstance(each.get(name), str) for name in names)
    ]


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
    if not _is_a(error, KeyboardInterrupt):
        return False
    handler: Any = signal.getsignal(signal.SIGINT)
    while isinstance(handler, partial):
        handler = handler.func
    if handler is signal.default_int_handler or getattr(handler, "__module__", "") == _RUNNERS:
        return True
    code = getattr(handler, "__code__", None)
    return any(frame.f_code is code for frame, _ in walk_tb(read_trace(error)))


def refusal_of(error: AdmissionError) -> Failure:
    """Return the failure for a refusal of the controller."""
    details = None if error.retry_after is None else {"retry_after": round(error.retry_after, 3)}
    return Failure(error.error_type, str(error), details)
