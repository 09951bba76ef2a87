"""How does a conversation come into its storage and out of it, whatever the storage raises?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.calls.audit import make_engine
from tool_engine import SessionConflictError, SessionError, ToolSession
from tool_engine.errors import RecordsUnavailableError
from tool_engine.knowledge.memory_sessions import MemorySessionStorage

CAUSES: tuple[type[BaseException], ...] = (OSError, pytest.fail.Exception)


def storage_with(method: str, act: Any) -> Any:
    return type("Own", (MemorySessionStorage,), {method: act})()


def raising(kind: type[BaseException]) -> Any:
    async def fail(*args: Any, **kwargs: Any) -> Any:
        raise kind("disk is full, token=abcd1234")

    return fail


def giving(value: Any) -> Any:
    async def give(*args: Any, **kwargs: Any) -> Any:
        return value

    return give


@pytest.mark.parametrize("kind", CAUSES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("method", ["save", "save_if", "load"])
async def test_a_storage_that_fails(method: str, kind: type[BaseException]) -> None:
    """Looked at: `save`, `is_behind`, `restore`; the cause is kept, and its words are not shown."""
    engine, storage = make_engine(), storage_with(method, raising(kind))
    session = ToolSession(engine, "chat", storage=storage)
    tries: list[Any] = []
    if method == "load":
        tries += [session.is_behind(), ToolSession.restore(engine, "chat", storage=storage)]
    else:
        tries.append(session.save(overwrite=method == "save"))
    for each in tries:
        with pytest.raises(RecordsUnavailableError, match=f"Own failed in {method}") as failure:
            await each
        assert isinstance(failure.value.__cause__, kind)
        assert "abcd1234" not in str(failure.value)
    await engine.close()


async def test_an_answer_that_is_none() -> None:
    """What `save_if` gives besides True and False is no save, what `load` gives no session."""
    engine = make_engine()
    session = ToolSession(engine, "chat", storage=storage_with("save_if", giving(object())))
    with pytest.raises(RecordsUnavailableError, match="object in place of True or False"):
        await session.save()
    session = ToolSession(engine, "chat", storage=storage_with("save_if", giving(False)))
    with pytest.raises(SessionConflictError):
        await session.save()
    storage = storage_with("load", giving(7))
    with pytest.raises(SessionError, match="returned int in place of a mapping"):
        await ToolSession(engine, "chat", storage=storage).is_behind()
    with pytest.raises(SessionError, match="no kept session"):
        await ToolSession.restore(engine, "chat", storage=storage)
    await engine.close()
