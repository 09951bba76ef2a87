"""How do calls end that a server does not answer as it should?"""

from __future__ import annotations

from typing import Final

from tool_engine.errors import ToolExecutionError

NOT_SENT: Final = -32_098
"""The code of an error about a request that did not reach the server."""
BROKEN: Final = -32_097
"""The code of an error about a request that the server may have got."""
UNREADABLE: Final = -32_096
"""The code of an error about an answer that came, and is none."""
LAST_WORDS: Final = "; its last words: "
BREAK: Final = " | "
"""Stands between the lines of last words: messages are of one line."""
_LONGEST_REASON: Final = 600


class BadServerError(Exception):
    """A server cannot be used: what it did, in the words that follow its name.

    Args:
        words: What it did.
        part: The path of the part of its settings that is to be mended, such as `("cwd",)`.
    """

    def __init__(self, words: str, part: tuple[str | int, ...] = ()) -> None:
        super().__init__(words)
        self.part = part


class NoListError(ToolExecutionError):
    """A server has given no list of tools so far.

    Args:
        words: Why.
        place: Where the settings are to be mended, as `file:line:column`.
    """

    def __init__(self, words: str, place: str) -> None:
        super().__init__(words)
        self.place = place


class NotSentError(Exception):
    """A call did not reach its server, so that it has not run."""


class LostError(Exception):
    """A call reached its server, or may have, and no answer comes any more."""


class RefusedError(Exception):
    """A server answered with an error.

    Args:
        words: What it says.
        is_unknown_tool: True if it may not have the tool any more.
    """

    def __init__(self, words: str, *, is_unknown_tool: bool) -> None:
        super().__init__(words)
        self.is_unknown_tool = is_unknown_tool


def find_first(error: BaseException) -> BaseException:
    """Return the first error of a group, or the error itself."""
    return find_first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def shorten_reason(reason: str) -> str:
    """Return a reason without the first of many last words: a trace ends with what was wrong."""
    if len(reason) <= _LONGEST_REASON:
        return reason
    fault, said, words = reason.partition(LAST_WORDS)
    if not said:
        return reason[:_LONGEST_REASON]
    end = words[len(fault) + len(said) - _LONGEST_REASON :]
    return f"{fault}{said}... {end.partition(BREAK)[2] or end}"
