"""Which numbers and words may a setting hold?

Each check names the setting, the value and what is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.nearness import suggest_near

LARGEST: Final = 2**63 - 1
"""The largest count that databases and containers support."""
_MAX_BITS: Final = 1024
_MOST: Final = 2**53 - 1
"""The largest priority, as of tools; larger ones could not be compared with a time."""
_NAMES: Final = (
    "caller_id",
    "conversation_id",
    "workflow_id",
    "session_id",
    "call_id",
    "parent_call_id",
    "task_id",
)
_get_names: Final = attrgetter(*_NAMES)
_TEXTS: Final = frozenset((str, type(None)))


def check_count(name: str, value: object, *, minimum: int = 0, maximum: int = LARGEST) -> None:
    """Raise `ConfigurationError` unless `value` is a whole number in these bounds."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole and minimum <= value <= maximum:  # type: ignore[operator] # it is a number
        return
    is_bounded = maximum < LARGEST or (is_whole and value > maximum)  # type: ignore[operator]
    bounds = f"from {minimum} to {maximum}" if is_bounded else f">= {minimum}"
    raise ConfigurationError(f"{name} must be a whole number {bounds}, got {_show_value(value)}")


def check_share(name: str, value: object) -> None:
    """Raise `ConfigurationError` unless `value` is a positive, finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:  # type: ignore[operator] # it is a number
        raise ConfigurationError(
            f"{name} must be a positive, finite number, got {_show_value(value)}"
        )


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise `ConfigurationError`, with the nearest choice, unless `value` is one of them."""
    known = list(choices)
    if value not in known:
        raise ConfigurationError(
            f"{name} must be one of {', '.join(known)}, got {value!r}{suggest_near(value, known)}"
        )


def check_caller(context: Any) -> None:
    """Raise `ConfigurationError` for forbidden fields of a `ToolExecutionContext`.

    Many programs make a context for each call, so what is right is found by the quickest means.
    """
    priority = context.priority
    if priority is not None and not (type(priority) is int and -_MOST <= priority <= _MOST):
        check_count("priority", priority, minimum=-_MOST, maximum=_MOST)
    if type(context.retry_count) is not int or not 0 <= context.retry_count <= LARGEST:
        check_count("retry_count", context.retry_count)
    if type(context.max_retries) is not int or not 0 <= context.max_retries <= LARGEST:
        check_count("max_retries", context.max_retries)
    deadline = context.deadline
    if deadline is not None and not (type(deadline) is float and deadline > -math.inf):
        _check_deadline(deadline)
    variables = context.variables
    if type(variables) is not dict and not isinstance(variables, Mapping):
        raise ConfigurationError(f"variables must be a mapping, got {_show_value(variables)}")
    if not all(isinstance(name, str) for name in variables):
        odd = next(name for name in variables if not isinstance(name, str))
        raise ConfigurationError(f"the keys of variables must be texts, got {_show_value(odd)}")
    if not isinstance(context.caller_type, str):
        raise ConfigurationError(
            f"caller_type must be a text, got {_show_value(context.caller_type)}"
        )
    if not _TEXTS.issuperset(map(type, _get_names(context))):
        _check_names(context)
    scope = context.scope
    if scope is not None and not hasattr(scope, "consent"):
        raise ConfigurationError(f"scope must be a CallScope or None, got {_show_value(scope)}")


def _check_names(context: Any) -> None:
    for name in _NAMES:
        value = getattr(context, name)
        if value is not None and not isinstance(value, str):
            cure = f"; write {str(value)!r}" if isinstance(value, int | UUID) else ""
            raise ConfigurationError(
                f"{name} must be a text or None, got {_show_value(value)}{cure}"
            )


def _check_deadline(value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value != value:
        raise ConfigurationError(
            f"deadline must be a number of seconds on the event loop's clock, got "
            f"{_show_value(value)}"
        )


def _show_value(value: object) -> str:
    # Python writes no integer of more than 4,300 digits.
    is_huge = isinstance(value, int) and value.bit_length() > _MAX_BITS
    return "one of more than 300 digits" if is_huge else repr(value)
