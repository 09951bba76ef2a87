"""In which ways can a call end?"""

from __future__ import annotations

import pytest

from tool_engine.model.outcome import ErrorType, Outcome, outcome_of


@pytest.mark.parametrize("error_type", [None, *ErrorType], ids=str)
def test_outcomes(error_type: ErrorType | None) -> None:
    """K50: each error type means one of the five outcomes, and only success has none."""
    value = None if error_type is None else error_type.value
    outcome = outcome_of(value)
    assert (outcome is Outcome.SUCCEEDED) == (value is None)
    rejected = {"queue_full", "queue_timeout", "rejected", "rate_limited", "circuit_open"}
    rejected |= {"engine_closed", "tool_quarantined", "approval_required", "execution_rejected"}
    rejected |= {"result_rejected", "limit_reached"}
    assert (outcome is Outcome.REJECTED) == (value in rejected)
    assert (outcome is Outcome.TIMEOUT) == (value == "timeout")
    assert (outcome is Outcome.CANCELLED) == (value == "cancelled")
    assert outcome_of("of somebody else") is Outcome.FAILED
