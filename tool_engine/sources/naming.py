"""How does a result get the name under which the model knows the tool?

An engine knows nothing of the names that `prefix`, `rename` and `combine` give, and a model knows
no others. Only the engine's own words are renamed: those of a person, a tool or a server stay as
they are.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any, Final

from msgspec.structs import replace

from tool_engine.model.call import Refusal, ToolExecutionResult
from tool_engine.model.outcome import ErrorType

_OF_OTHERS: Final = (None, ErrorType.EXECUTION_ERROR.value, ErrorType.VALIDATION_ERROR.value)
"""Error types whose message is by a tool, or about argument names: it stays as it is."""
_WITH_WORDS: Final = frozenset(
    (
        ErrorType.EXECUTION_REJECTED.value,
        ErrorType.RESULT_REJECTED.value,
        ErrorType.APPROVAL_REQUIRED.value,
        ErrorType.TOOL_QUARANTINED.value,
    )
)
"""Error types whose message is the engine's, with a foreign reason behind a colon."""


def name_result(result: ToolExecutionResult, shown: str) -> ToolExecutionResult:
    """Return the result with the shown name, in its error too.

    Args:
        result: It bears the name that its source knows.
        shown: The name that is shown.
    """
    inner = result.tool_name
    if inner == shown:
        return result
    if result.error is None or _is_of_tool(result, result.error, inner):
        return replace(result, tool_name=shown)
    details = result.metadata.get("error_details")
    error, renamed = _rename_message(result.error_type, result.error, details, inner, repr(shown))
    metadata = (
        result.metadata if renamed is details else {**result.metadata, "error_details": renamed}
    )
    return replace(result, tool_name=shown, error=error, metadata=metadata)


def named_twice(result: ToolExecutionResult, inner: str) -> ToolExecutionResult:
    """Return the result with both names, if the other's rule refused it.

    Args:
        result: It bears the name that is shown.
        inner: The name in the engine.
    """
    shown, details = result.tool_name, result.metadata.get("error_details")
    name = _quote_name(details, inner, shown)
    if result.error is None or name == repr(shown) or _is_of_tool(result, result.error, shown):
        return result
    error, renamed = _rename_message(result.error_type, result.error, details, shown, name)
    return replace(result, error=error, metadata={**result.metadata, "error_details": renamed})


def refusal_named(refusal: Refusal, inner: str, shown: str) -> Refusal:
    """Return the same of a refusal that has not become a result yet."""
    if inner == shown:
        return refusal
    name = _quote_name(refusal.details, inner, shown)
    error, details = _rename_message(
        refusal.error_type, refusal.error, refusal.details, inner, name
    )
    return replace(refusal, error=error, details=details)


def _quote_name(details: Any, inner: str, shown: str) -> str:
    rule = details.get("rule") if isinstance(details, dict) else None
    is_about_other = isinstance(rule, str) and not fnmatchcase(shown, rule.partition(":")[0])
    if inner == shown or not is_about_other:
        return repr(shown)
    return f"{shown!r} ({inner!r} in its engine)"


def _is_of_tool(result: ToolExecutionResult, error: str, name: str) -> bool:
    if result.error_type in _OF_OTHERS:
        return True
    # Of a call that has run the engine names the tool only where it took too long.
    return bool(result.metadata.get("attempts")) and not error.startswith(
        f"tool {name!r} did not finish "
    )


def _rename_message(
    error_type: str | None, error: str, details: Any, old: str, name: str
) -> tuple[str, Any]:
    """Return the engine's message and the reason for programs, with another name."""
    head, colon, why = error.partition(": ") if error_type in _WITH_WORDS else (error, "", "")
    message = f"{_rename_in_text(head, old, name)}{colon}{why}"
    if isinstance(details, dict) and details.get("reason") == error:
        # The reason is the engine's own, not a person's.
        details = {**details, "reason": message}
    return message, details


def _rename_in_text(text: str, old: str, name: str) -> str:
    # A bucket, a key or a variable may be called like the tool.
    return re.sub(
        rf"(?<!bucket )(?<!variable )(?<!key ){re.escape(repr(old))}", lambda _: name, text
    )
