"""Are the parts that a new session gets of the right kinds?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import Source
from tool_engine.session.reading.presentation import Presentation
from tool_engine.session.state import SessionState
from tool_engine.session.variables.store import VariableStore

_STORAGE: Final = ("save", "load")


def check_parts(presentations: object, storage: object, variables: object, parent: object) -> None:
    """Raise `ConfigurationError` for the first part that no session can work with."""
    if presentations is not None:
        _check_presentations(presentations)
    if storage is not None and not all(callable(getattr(storage, each, None)) for each in _STORAGE):
        raise ConfigurationError(
            f"storage must have 'async def save(session_id, data)' and 'async def load(session_id)'"
            f", as MemorySessionStorage has, got {type(storage).__name__}"
        )
    kinds: tuple[tuple[str, Any, type], ...] = (
        ("variables", variables, VariableStore),
        ("parent", parent, SessionState),
    )
    for name, part, kind in kinds:
        if part is not None and not isinstance(part, kind):
            word = "ToolSession" if kind is SessionState else kind.__name__
            raise ConfigurationError(f"{name} must be a {word}, got {type(part).__name__}")


def find_storage(source: Source, kind: str) -> Any:
    """Return what keeps `sessions` or `approvals` where a source has its records, or None."""
    return getattr(source.store, kind, None)


def _check_presentations(presentations: object) -> None:
    if not isinstance(presentations, Mapping):
        raise ConfigurationError(
            "presentations must be a mapping of a tool to its Presentation, got "
            f"{type(presentations).__name__}"
        )
    for name, each in presentations.items():
        if not isinstance(each, Presentation):
            raise ConfigurationError(
                f"presentations[{name!r}] must be a Presentation, got {type(each).__name__}"
            )
