"""Who makes the calls of the command line, and who is asked about them?"""

from __future__ import annotations

from typing import Any, Final

from tool_engine.interfaces import Approver

CALLER: Final = "tool-engine-cli"


def find_approver() -> Approver | None:
    """Return the person at the terminal; None on systems without such terminals."""
    # Loaded here: most commands ask for no approval.
    try:
        from tool_engine.approval.console import ConsoleApprover
    except ModuleNotFoundError:
        return None
    return ConsoleApprover()


def summary_facts(summary: dict[str, Any]) -> dict[str, Any]:
    """Return a sub-agent's summary without the list of its calls."""
    return {key: value for key, value in summary.items() if key not in ("call_details", "errors")}
