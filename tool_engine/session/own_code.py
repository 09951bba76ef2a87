"""What happens if a tool's own presentation code fails?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tool_engine.logger import get_logger
from tool_engine.model.checks.unawaited import is_unawaited
from tool_engine.model.foreign import ends_caller
from tool_engine.redaction import OwnSecrets, words_of
from tool_engine.session.formatting import text_in_pieces

_LONGEST_REASON: Final = 200
_log = get_logger(__name__)


def made_text(
    findings: list[str],
    what: str,
    tool_name: str,
    function: Callable[..., Any],
    *args: Any,
    find_secrets: Callable[[], OwnSecrets | None],
) -> str | None:
    """Return the text that `function` makes, or None if it fails.

    Args:
        findings: Gets a sentence about it then; the log gets a warning.
        what: What the function is, for that sentence.
        tool_name: The tool that brought it.
        function: Plain, not async.
        args: What it is called with.
        find_secrets: Gives the secrets of the call, to hide them in the report of its failure.
    """
    try:
        text = function(*args)
    except BaseException as error:  # code of a tool may raise anything
        if ends_caller(error):
            raise
        told = f"raised {words_of(error, find_secrets(), most=_LONGEST_REASON)}"
    else:
        if isinstance(text, str):
            return text_in_pieces(text)
        is_unawaited(text)
        told = f"returned {type(text).__name__} and no text"
    findings.append(f"the {what} of {tool_name!r} {told}; the default was used")
    _log.warning("presentation_failed", tool_name=tool_name, what=what, reason=told)
    return None
