"""How does a conversation come into its storage and out of it, whatever the storage raises?"""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from typing import Any, NoReturn, TypeVar

from tool_engine.errors import RecordsUnavailableError, SessionError, ToolEngineError
from tool_engine.interfaces import SessionStorage
from tool_engine.model.foreign import ends_caller
from tool_engine.model.json.plain import name_of
from tool_engine.model.session import revision_of
from tool_engine.redaction import words_of

_T = TypeVar("_T")


async def load_data(storage: SessionStorage, session_id: str) -> dict[str, Any] | None:
    """Return what a storage keeps under an id; None: nothing.

    Raises:
        RecordsUnavailableError: The storage failed.
        SessionError: What it gave is no session.
    """
    data: object = await _await_storage(storage, "load", storage.load(session_id))
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
    """Save the data, unless the storage holds a state that is not known; return success.

    Raises:
        RecordsUnavailableError: The storage failed.
    """
    save_if = getattr(storage, "save_if", None)
    if not overwrite and callable(save_if):
        is_saved: object = await _await_storage(
            storage, "save_if", save_if(session_id, data, known)
        )
        if isinstance(is_saved, bool):
            return is_saved
        _raise_failure(
            storage, "save_if", f"it returned {name_of(is_saved)} in place of True or False"
        )
    if not overwrite:
        found = await load_data(storage, session_id)
        if found is not None and revision_of(found) not in known:
            return False
    await _await_storage(storage, "save", storage.save(session_id, data))
    return True


async def _await_storage(storage: object, method: str, asked: Awaitable[_T]) -> _T:
    try:
        return await asked
    except ToolEngineError:
        raise
    except BaseException as error:
        if ends_caller(error):
            raise
        # The words may quote the conversation; who needs them finds the cause.
        _raise_failure(storage, method, words_of(error, None), error)


def _raise_failure(
    storage: object, method: str, why: str, error: BaseException | None = None
) -> NoReturn:
    raise RecordsUnavailableError(
        f"the session storage {name_of(storage)} failed in {method}: {why} (what it keeps is not "
        "known)"
    ) from error
