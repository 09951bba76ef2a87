"""Is what a program offers to clients what it must be, before a client asks for it?"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from tool_engine.access.texts import require_texts
from tool_engine.errors import ConfigurationError


def check_function(
    what: str, function: Any, always: Iterable[str], at_times: Iterable[str]
) -> None:
    """Check that a function can be called with keywords.

    Args:
        what: What it is the function of.
        function: The function.
        always: The keywords of each call.
        at_times: Those that a call may have, too.

    Raises:
        ConfigurationError: It is none, or it takes others.
    """
    if not callable(function):
        raise ConfigurationError(f"{what} needs a function, got {function!r:.80}")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return  # some functions written in C do not say what they take
    fewest = dict.fromkeys(always)
    for keywords in (fewest, {**fewest, **dict.fromkeys(at_times)}):
        try:
            signature.bind(**keywords)
        except TypeError as error:
            named = ", ".join(keywords) or "nothing"
            raise ConfigurationError(
                f"the function of {what} is called with {named}, and takes {signature}: {error}"
            ) from None


def list_values(what: str, values: Any) -> tuple[str, ...]:
    """Return what a client may offer while a person types.

    Raises:
        ConfigurationError: It is one text, or holds something else than texts.
    """
    return tuple(require_texts(f"values of {what}", values))


def list_named_values(what: str, values: Any) -> dict[str, tuple[str, ...]]:
    """Return the values of each variable; see `list_values`."""
    if values is not None and not isinstance(values, Mapping):
        raise ConfigurationError(
            f"values of {what} must be a mapping of lists of texts by variable, got {values!r:.80}"
        )
    return {name: list_values(f"{name!r} of {what}", each) for name, each in (values or {}).items()}
