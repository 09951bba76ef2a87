"""What does a conversation make of each kind of error?"""

from __future__ import annotations

import pytest

from tool_engine.model.outcome import ErrorType
from tool_engine.session.keeping import _ENGINES_WORDS, REFUSED
from tool_engine.session.reading.result import ResultStatus, SessionResult

ERROR, STOPPED = ResultStatus.ERROR, ResultStatus.EXECUTION_REJECTED
REFUSAL, ENGINE, TOOL = "a refusal", "words of the engine", "perhaps words of the tool"
KINDS = {
    ErrorType.TOOL_NOT_FOUND: (ResultStatus.NOT_FOUND, REFUSAL),
    ErrorType.TOOL_QUARANTINED: (ERROR, ENGINE),
    ErrorType.VALIDATION_ERROR: (ERROR, TOOL),
    ErrorType.EXECUTOR_NOT_FOUND: (ERROR, ENGINE),
    ErrorType.TIMEOUT: (ERROR, TOOL),
    ErrorType.EXECUTION_ERROR: (ERROR, TOOL),
    ErrorType.QUEUE_FULL: (ERROR, ENGINE),
    ErrorType.QUEUE_TIMEOUT: (ERROR, ENGINE),
    ErrorType.REJECTED: (STOPPED, REFUSAL),
    ErrorType.RATE_LIMITED: (ERROR, ENGINE),
    ErrorType.CIRCUIT_OPEN: (ERROR, ENGINE),
    ErrorType.CANCELLED: (ERROR, ENGINE),
    ErrorType.ENGINE_CLOSED: (ERROR, ENGINE),
    ErrorType.APPROVAL_REQUIRED: (STOPPED, REFUSAL),
    ErrorType.EXECUTION_REJECTED: (STOPPED, REFUSAL),
    ErrorType.RESULT_REJECTED: (ResultStatus.RESULT_REJECTED, TOOL),
    ErrorType.LIMIT_REACHED: (ERROR, REFUSAL),
    ErrorType.WORKER_LOST: (ERROR, TOOL),
    ErrorType.LEASE_LOST: (ERROR, TOOL),
    ErrorType.DEFINITION_MISMATCH: (ERROR, TOOL),
}
"""Of each: the status of its result, and whose words its message has, which says what is kept of
it and whether it may be quoted. A new kind is put in here, and into the sets of `keeping.py`."""


@pytest.mark.parametrize("kind", ErrorType)
def test_each_kind_of_error(kind: ErrorType) -> None:
    status, words = KINDS[kind]
    assert SessionResult(False, "echo", {}, "words", kind.value).status is status
    assert (kind.value in REFUSED) is (words == REFUSAL)
    assert (kind.value in _ENGINES_WORDS) is (words != TOOL)
