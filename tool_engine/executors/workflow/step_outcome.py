"""What came of each step of a workflow, and how is a failure reported?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.workflow.workflow_entry import Step
from tool_engine.model.call import ToolExecutionResult

_MOST_NAMED: Final = 10
_LONGEST_ERROR: Final = 1000

Status = Literal["not_run", "running", "succeeded", "failed", "skipped", "cancelled"]


class StepError(Exception):
    """A step without success: its call failed, or its arguments have no value.

    `on_error` decides what follows from it, unless it is final.
    """

    def __init__(
        self,
        error: str,
        error_type: str = "execution_error",
        *,
        call_id: str | None = None,
        is_final: bool = False,
    ) -> None:
        super().__init__(error)
        self.error: str = error
        self.error_type: str = error_type
        self.call_id: str | None = call_id
        """The call that failed; None where it was never made."""
        self.is_final: bool = is_final
        """True if the workflow cannot go on, whatever `on_error` says."""
        self.index: int | None = None
        """The position of the item, in a step with `for_each`."""
        self.step: Step | None = None
        """The step; None for the output of the workflow."""


class WorkflowTimeoutError(ToolExecutionError):
    error_type = "timeout"


class StepState(msgspec.Struct):
    step: Step
    status: Status = "not_run"
    output: Any = None
    """The output, for references."""
    error: StepError | None = None
    """Of several items, the first failure."""
    calls: int = 0
    calls_done: int = 0

    def facts(self) -> dict[str, Any]:
        error = self.error
        return {
            "output": self.output,
            "status": self.status,
            "error": None if error is None else error.error,
            "error_type": None if error is None else error.error_type,
        }

    def list_facts(self) -> dict[str, Any]:
        """Return an entry of `metadata["error_details"]["steps"]`, without any tool's output."""
        facts: dict[str, Any] = {"id": self.step.id, "status": self.status}
        if self.step.tool:
            facts |= {"tool": self.step.tool, "calls": self.calls, "calls_done": self.calls_done}
        if self.error is not None:
            facts |= {
                "error_type": self.error.error_type,
                "error": self.error.error[:_LONGEST_ERROR],
            }
        return facts


def failed(result: ToolExecutionResult) -> StepError:
    error_type = result.error_type or "execution_error"
    error = result.error or "it gave no reason"
    if error_type.endswith("timeout"):
        # The step is named. Its tool may be for code only, and a model reads this.
        error = error.replace(f"tool {result.tool_name!r}", "its tool", 1)
    return StepError(error, error_type, call_id=result.call_id)


def failure_of(error: StepError, states: Iterable[StepState]) -> ToolExecutionError:
    """Return a workflow's error: the failed step, and what was done before."""
    facts = [state.list_facts() for state in states]
    step = error.step
    details: dict[str, Any] = {
        "step": None if step is None else step.id,
        "tool": None if step is None else step.tool or None,
        "error_type": error.error_type,
        "error": error.error[:_LONGEST_ERROR],
        "call_id": error.call_id,
        "steps": facts,
    }
    if error.index is not None:
        details["index"] = error.index
    done = [_name_step(each) for each in facts if each.get("calls_done")]
    message = f"{_describe_place(error)}: {_describe_error(error)}{_describe_done(done)}"
    is_timeout = error.is_final and error.error_type.endswith("timeout")
    kind = WorkflowTimeoutError if is_timeout else ToolExecutionError
    return kind(message, details=details)


def _describe_place(error: StepError) -> str:
    if error.step is None:
        return "the output of the workflow cannot be made"
    item = "" if error.index is None else f", item {error.index},"
    return f"step {error.step.id!r}{item} failed"


def _describe_error(error: StepError) -> str:
    return f"{error.error_type}: {error.error}" if error.call_id else error.error


def _name_step(facts: dict[str, Any]) -> str:
    if facts["status"] == "succeeded":
        return str(facts["id"])
    return f"{facts['id']} ({facts['calls_done']} of {facts['calls']} calls)"


def _describe_done(done: list[str]) -> str:
    if not done:
        return "; nothing was done before"
    more = f" and {len(done) - _MOST_NAMED} more" if len(done) > _MOST_NAMED else ""
    return f"; done before: {', '.join(done[:_MOST_NAMED])}{more}"
