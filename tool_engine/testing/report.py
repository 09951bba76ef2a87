"""What was the outcome of the examples and tests of tools?"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec


class CaseStatus(str, Enum):
    """The outcome of one example, test or rule."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """It could not be run here; its problems say why."""


class CaseReport(msgspec.Struct):
    """One example, one test, or one broken rule of the parameters."""

    path: tuple[str | int, ...]
    """Where it stands in the definition, such as `("tests", 0)`."""
    title: str = ""
    """Its name, its description, or what was tried."""
    status: CaseStatus = CaseStatus.PASSED
    problems: list[str] = []
    """Each difference, with its cure."""
    place: str | None = None
    """File and line, of one that has not passed."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "path": list(self.path),
            "title": self.title,
            "status": self.status.value,
            "problems": self.problems,
            "place": self.place,
        }


class ToolReport(msgspec.Struct):
    """The outcome of one tool's cases."""

    tool: str
    source: str | None = None
    """Its file; None for a tool that was registered in code."""
    cases: list[CaseReport] = []
    accepted: int = 0
    """Generated arguments that the tool rightly accepts."""
    refused: int = 0
    """Broken rules that the tool rightly refuses, with the right finding."""
    notes: list[str] = []
    """What could not be tried, and why."""

    @property
    def has_failed(self) -> bool:
        """True if any case has failed."""
        return self.count(CaseStatus.FAILED) > 0

    @property
    def has_gaps(self) -> bool:
        """True if a case was skipped, or there is none."""
        return self.count(CaseStatus.SKIPPED) > 0 or not self.cases

    def count(self, status: CaseStatus) -> int:
        """Return how many cases have this status."""
        return sum(case.status is status for case in self.cases)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "tool": self.tool,
            "source": self.source,
            "passed": self.count(CaseStatus.PASSED),
            "failed": self.count(CaseStatus.FAILED),
            "skipped": self.count(CaseStatus.SKIPPED),
            "accepted": self.accepted,
            "refused": self.refused,
            "notes": self.notes,
            "cases": [case.to_dict() for case in self.cases],
        }
