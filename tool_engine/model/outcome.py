"""In which ways can a call end?"""

from __future__ import annotations

from enum import Enum
from typing import Final

from tool_engine.errors import ToolEngineError


class ErrorType(str, Enum):
    """Every `error_type` a result can carry."""

    TOOL_NOT_FOUND = "tool_not_found"
    TOOL_QUARANTINED = "tool_quarantined"
    VALIDATION_ERROR = "validation_error"
    EXECUTOR_NOT_FOUND = "executor_not_found"
    TIMEOUT = "timeout"
    EXECUTION_ERROR = "execution_error"
    QUEUE_FULL = "queue_full"
    QUEUE_TIMEOUT = "queue_timeout"
    REJECTED = "rejected"
    RATE_LIMITED = "rate_limited"
    CIRCUIT_OPEN = "circuit_open"
    CANCELLED = "cancelled"
    ENGINE_CLOSED = "engine_closed"
    APPROVAL_REQUIRED = "approval_required"
    EXECUTION_REJECTED = "execution_rejected"
    RESULT_REJECTED = "result_rejected"
    LIMIT_REACHED = "limit_reached"
    WORKER_LOST = "worker_lost"
    LEASE_LOST = "lease_lost"
    DEFINITION_MISMATCH = "definition_mismatch"


class Outcome(str, Enum):
    """The five ways in which a call can end."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    REJECTED = "rejected"


_OUTCOMES: Final = {
    None: Outcome.SUCCEEDED,
    "timeout": Outcome.TIMEOUT,
    "cancelled": Outcome.CANCELLED,
    "tool_quarantined": Outcome.REJECTED,
    "queue_full": Outcome.REJECTED,
    "queue_timeout": Outcome.REJECTED,
    "rejected": Outcome.REJECTED,
    "rate_limited": Outcome.REJECTED,
    "circuit_open": Outcome.REJECTED,
    "engine_closed": Outcome.REJECTED,
    "approval_required": Outcome.REJECTED,
    "execution_rejected": Outcome.REJECTED,
    "result_rejected": Outcome.REJECTED,
    "limit_reached": Outcome.REJECTED,
}


def outcome_of(error_type: str | None) -> Outcome:
    """Return the outcome that a result's `error_type` belongs to."""
    return _OUTCOMES.get(error_type, Outcome.FAILED)


def outcome_of_call(is_success: bool, error_type: str | None) -> Outcome:
    """Return how a call ended."""
    if is_success:
        return Outcome.SUCCEEDED
    return Outcome.FAILED if error_type is None else outcome_of(error_type)


def find_error_type(error: BaseException) -> ErrorType:
    """Return the type of a call that ends with an exception."""
    try:
        return ErrorType(error.error_type if isinstance(error, ToolEngineError) else "")
    except ValueError:  # foreign, or of a kind that no call ends with
        return ErrorType.EXECUTION_ERROR


def success_rate(successful: int, total: int) -> float:
    """Return the successful calls in percent, two decimals; 0.0 when there are none."""
    return round(100.0 * successful / total, 2) if total else 0.0
