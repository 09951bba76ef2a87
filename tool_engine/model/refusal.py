"""How does a refusal become a finding, or a result where nothing is recorded?"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tool_engine.model.call import Refusal, ToolExecutionResult, ValidationError
from tool_engine.model.outcome import ErrorType


def finding_of(message: str, path: str = "") -> dict[str, Any]:
    """Return the finding of a refusal about all arguments, or about one place."""
    return ValidationError(path, "constraint_violation", message).to_dict()


def make_refused(
    tool_name: str, refusal: Refusal, metadata: dict[str, Any] | None = None
) -> ToolExecutionResult:
    """Make the result of a call that no engine has ended; it is dated now.

    Args:
        tool_name: The tool.
        refusal: Why the call has no other result.
        metadata: Of the result, beside the details of the refusal.
    """
    findings = list(refusal.findings)
    if not findings and refusal.error_type == ErrorType.VALIDATION_ERROR.value:
        findings = [finding_of(refusal.error)]
    date = datetime.now(UTC)
    details = {} if refusal.details is None else {"error_details": refusal.details}
    return ToolExecutionResult(
        False,
        tool_name,
        {},
        refusal.error,
        refusal.error_type,
        findings,
        executed_at=date.replace(microsecond=date.microsecond // 1_000 * 1_000),
        metadata={**details, **(metadata or {})},
    )
