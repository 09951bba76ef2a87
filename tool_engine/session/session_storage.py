"""How does a conversation come into its storage and out of it, whatever the storage raises?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, cast

from tool_engine.approval.answers import check_approver
from tool_engine.errors import ConfigurationError, SessionError
from tool_engine.interfaces import SessionStorage, Source, ToolSource
from tool_engine.interfaces.failing_storage import ask_storage, raise_failure
from tool_engine.model.json.plain import name_of
from tool_engine.model.json.returned_value import safe_repr
from tool_engine.model.session import revision_of
from tool_engine.sources.foreign import check_source

_KIND: Final = "session"
_KEPT: Final = frozenset(("session_id", "config", "agent_id", "conversation_id", "variables"))
"""The arguments of a new session that come from what was kept."""


def find_storage(source: Source, kind: str) -> Any:
    """Return what keeps `sessions` or `approvals` for a source, or None."""
    return getattr(source.store, kind, None)


def choose_storage(storage: Any, source: Source) -> SessionStorage | None:
    """Return the given storage, or else that of the source's records.

    Raises:
        ConfigurationError: It cannot keep sessions.
    """
    # One that is empty may count as false.
    if storage is None:
        return cast("SessionStorage | None", find_storage(source, "sessions"))
    # On a class they are not bound methods.
    has_both = all(callable(getattr(storage, each, None)) for each in ("save", "load"))
    if isinstance(storage, type) or not has_both:
        raise ConfigurationError(
            f"storage must have 'async def save(session_id, data)' and 'async def load(session_id)'"
            f", as MemorySessionStorage has, got {safe_repr(storage)[:80]}"
        )
    return cast("SessionStorage", storage)


def check_arguments(
    engine: ToolSource, approver: object, options: Mapping[str, Any]
) -> tuple[Source, SessionStorage | None]:
    """Return the source and the storage of a session to make of what was kept.

    Raises:
        ConfigurationError: An argument is of the wrong kind, or the kept conversation has it.
    """
    source = check_source(engine)
    if approver is not None:
        check_approver(approver)
    for name in _KEPT.intersection(options):
        raise ConfigurationError(
            f"{name} is what the kept conversation has: leave it out, and change it afterwards"
        )
    return source, choose_storage(options.get("storage"), source)


def check_storage(storage: SessionStorage | None) -> SessionStorage:
    """Return the storage.

    Raises:
        SessionError: There is none.
    """
    if storage is None:
        raise SessionError("nothing keeps sessions here: pass storage=..., or an engine")
    return storage


async def load_data(storage: SessionStorage, session_id: str) -> dict[str, Any] | None:
    """Return what a storage keeps under an id; None: nothing.

    Raises:
        RecordsUnavailableError: The storage failed.
        SessionError: What it gave is no session.
    """
    data: object = await ask_storage(_KIND, storage, "load", session_id)
    if data is None or isinstance(data, dict):
        return data
    raise SessionError(
        f"this is no kept session: load of {name_of(storage)} returned {name_of(data)} in place of "
        "a mapping or None"
    )


async def save_data(
    storage: SessionStorage,
    session_id: str,
    data: dict[str, Any],
    known: Collection[str],
    *,
    overwrite: bool,
) -> bool:
    """Save the data over a known state; return True if saved.

    Raises:
        RecordsUnavailableError: The storage failed.
    """
    if not overwrite and callable(getattr(storage, "save_if", None)):
        is_saved: object = await ask_storage(_KIND, storage, "save_if", session_id, data, known)
        if isinstance(is_saved, bool):
            return is_saved
        why = f"it returned {name_of(is_saved)} in place of True or False"
        raise_failure(_KIND, storage, "save_if", why)
    if not overwrite:
        found = await load_data(storage, session_id)
        if found is not None and revision_of(found) not in known:
            return False
    await ask_storage(_KIND, storage, "save", session_id, data)
    return True
