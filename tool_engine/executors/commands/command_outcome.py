"""What does a caller get from a program that has ended?"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any, Final

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands.supervisor import MAX_FLOOD, End, Finished
from tool_engine.executors.secrets import SecretScope
from tool_engine.redaction import redact_text
from tool_engine.redaction.text import place_to_cut

_SHOWN: Final = 1000
"""The most characters of a program's own output in an error."""
_READ: Final = 16_384
"""Characters at the end of its output that are searched for secrets."""


def output_of(name: str, finished: Finished, timeout: float | None) -> dict[str, Any]:
    """Return a program's output; raise if stopped or without exit code."""
    output: dict[str, Any] = {
        "exit_code": finished.exit_code,
        "stdout": finished.stdout.text(),
        "stderr": finished.stderr.text(),
        "truncated": finished.stdout.is_cut or finished.stderr.is_cut,
    }
    if finished.end is End.TIMEOUT:
        raise TimeoutError(
            f"{name} did not end within {timeout:.3g} s and was stopped, with all that it had "
            f"started{own_words(output)}"
        )
    if finished.end is End.FLOOD:
        raise ToolExecutionError(
            f"{name} wrote more than {MAX_FLOOD // 2**20} MiB and was stopped, with all that it "
            "had started; ask for less",
            details=output,
        )
    if finished.exit_code is None:
        raise ToolExecutionError(
            f"{name} has ended, but its exit code was taken by another part of this process; do "
            "not ignore SIGCHLD and wait for your own children only",
            details=output,
        )
    return output


def exit_problem(code: int, expected: frozenset[int]) -> str:
    if code in expected:
        return ""
    if code < 0:
        return f"was ended by the signal {-code} ({_signal_name(-code)})"
    return f"ended with the exit code {code}, expected {', '.join(map(str, sorted(expected)))}"


def own_words(output: Mapping[str, Any]) -> str:
    text = output["stderr"].strip() or output["stdout"].strip()
    # Hide before cutting: the cut could split a secret.
    text = redact_text(text[place_to_cut(text, len(text) - _READ, 1) :])[-_SHOWN:]
    return f": {text}" if text else ""


def hide_error(error: ToolExecutionError | TimeoutError, secrets: SecretScope) -> Exception:
    message = secrets.hide_text(str(error))
    if isinstance(error, ToolExecutionError):
        return ToolExecutionError(
            message, details=secrets.hide(error.details), is_final=error.is_final
        )
    return TimeoutError(message)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
