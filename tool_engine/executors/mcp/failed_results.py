"""How does a call end whose server answers that it failed?

A server that is another engine says of which type the failure was. Types that say what became of
the call are the caller's too; the rest stays `execution_error`, with the server's type beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from tool_engine.errors import InvalidArgumentsError, ToolExecutionError
from tool_engine.executors.lost_work import WorkerLostError

ERROR_TYPE: Final = "tool-engine/error_type"
RETRY_AFTER: Final = "tool-engine/retry_after"
"""Keys of `_meta`, as `mcp_server.results` writes them."""
CLOSED: Final = "engine_closed"
_LOST: Final = ("worker_lost", "lease_lost")
_FINAL: Final = (
    *("tool_not_found", "tool_quarantined", "executor_not_found"),
    *("execution_rejected", "result_rejected", "approval_required", "limit_reached"),
)
"""Types after which another attempt would fail alike."""
_LONGEST_TYPE: Final = 64
_NOTHING: Final = "the server says only that the call failed"
_ARGUMENTS: Final = "invalid arguments: "


def find_type(result: Mapping[str, Any]) -> str:
    """Return the type that an engine at the other end gives a failure; empty: it gives none."""
    said = _read_meta(result).get(ERROR_TYPE)
    return said if isinstance(said, str) and len(said) <= _LONGEST_TYPE else ""


def read_words(result: Mapping[str, Any]) -> str:
    """Return what a failed result says."""
    parts = result.get("content") or ()
    said = "\n".join(filter(None, map(_read_text, parts)))
    structured = result.get("structuredContent")
    said = said or ("" if structured is None else json.dumps(structured))
    if not said and parts:
        kinds = ", ".join(dict.fromkeys(str(each.get("type")) for each in parts))
        return f"{_NOTHING}, and why in no words ({kinds})"
    return said.removeprefix(f"Error ({find_type(result)}): ") or _NOTHING


def _read_text(part: Mapping[str, Any]) -> str:
    """Return the text of a part, or of the resource in it; empty: it has none."""
    found = part.get("resource") if part.get("type") == "resource" else part
    text = found.get("text") if isinstance(found, Mapping) else None
    return text if isinstance(text, str) else ""


def make_failure(server: str, result: Mapping[str, Any]) -> Exception:
    """Return the error of a call whose server's result says that it failed."""
    said, words = find_type(result), read_words(result)
    if said in ("", "execution_error"):
        return ToolExecutionError(words)
    if said == "validation_error":
        return InvalidArgumentsError(words.removeprefix(_ARGUMENTS), ())
    words = f"the server {server!r} ended the call as {said}: {words}"
    if said == "timeout":
        return TimeoutError(words)
    if said in _LOST:
        return WorkerLostError(words)
    details: dict[str, object] = {"server_error_type": said}
    wait = _read_meta(result).get(RETRY_AFTER)
    if isinstance(wait, int | float) and not isinstance(wait, bool) and isfinite(wait):
        details["retry_after"] = wait
    return ToolExecutionError(words, details=details, is_final=said in _FINAL)


def _read_meta(result: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = result.get("_meta")
    return meta if isinstance(meta, Mapping) else {}
