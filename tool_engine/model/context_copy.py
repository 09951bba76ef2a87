"""How is a context copied, pickled or sent, and what is its default timeout?"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final, TypeVar

from msgspec import Struct, json
from msgspec.structs import replace

_Context = TypeVar("_Context", bound=Struct)
_BOUND: Final = frozenset({"_nested", "_call", "_take_report", "_task", "on_progress"})
"""The fields that bind it to its call, which exists once and in this process only."""


class _DefaultTimeout(float):
    """The documented default of 30 seconds, distinct from a 30 that the user set."""

    def __reduce__(self) -> str:
        """Return its name, so that copies and other processes get this same object."""
        return "DEFAULT_TIMEOUT"


DEFAULT_TIMEOUT: Final[float] = _DefaultTimeout(30.0)
"""The timeout of a context that names none: reads as 30.0, and lets the tool's own `timeout`, then
the controller's `default_timeout`, decide."""


def deep_copy_of(context: _Context, memo: dict[int, Any]) -> _Context:
    """Return a copy bound to the same call, in the same conversation."""
    memo[id(context)] = copy = replace(context)
    for name in context.__struct_fields__:
        if name not in _BOUND and name != "scope":
            setattr(copy, name, deepcopy(getattr(context, name), memo))
    return copy


def pickled_parts(context: Struct) -> tuple[Any, ...]:
    """Return the data of the context; the unpickled context is bound to no call."""
    names = [name for name in context.__struct_fields__ if name not in _BOUND]
    fields = {name: getattr(context, name) for name in names}
    if getattr(context, "_call", None) is not None:
        # It is that of the call, on a clock that others do not have.
        fields["deadline"] = None
    return _remake_struct, (type(context), fields)


def crossing_part(variables: dict[str, Any]) -> dict[str, Any]:
    """Return the variables that have a form in JSON, as that reads: all others stay behind."""
    if not variables:
        return {}
    try:
        values: dict[str, Any] = json.decode(json.encode(variables))
    except Exception:  # noqa: BLE001 - anything may be in them
        if len(variables) == 1:
            return {}
        pairs = [crossing_part({name: value}) for name, value in variables.items()]
        return {name: value for each in pairs for name, value in each.items()}
    return values


def _remake_struct(kind: type[Struct], fields: dict[str, Any]) -> Struct:
    return kind(**fields)
