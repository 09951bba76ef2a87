"""What becomes of a question whose storage fails in a way of its own?

A storage of another author may raise anything. The program that asks gets one kind of error, with
its cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

from tool_engine.errors import RecordsUnavailableError, ToolEngineError
from tool_engine.model.foreign import ends_caller
from tool_engine.model.json.plain import name_of
from tool_engine.redaction import words_of

_Kept = TypeVar("_Kept")


async def ask_storage(kind: str, storage: object, method: str, *args: Any) -> Any:
    """Return what an async method of a storage returns.

    Args:
        kind: What it keeps, such as `session`.
        storage: The storage.
        method: The name of the method.
        args: Its arguments.

    Raises:
        RecordsUnavailableError: It failed; its own errors of the engine's kinds stay as they are.
    """
    try:
        return await getattr(storage, method)(*args)
    except ToolEngineError:
        raise
    except BaseException as error:
        if ends_caller(error):
            raise
        # The words may quote what is kept; a program that needs them finds the cause.
        raise_failure(kind, storage, method, words_of(error, None), error)


async def ask_for_one(
    kind: str, storage: object, method: str, made_of: type[_Kept], *args: Any
) -> _Kept:
    """Return the object of a class that an async method of a storage returns.

    Raises:
        RecordsUnavailableError: It failed, or returned something else.
    """
    answer = await ask_storage(kind, storage, method, *args)
    if not isinstance(answer, made_of):
        _refuse_answer(kind, storage, method, answer, made_of.__name__)
    return answer


async def ask_for_all(
    kind: str, storage: object, method: str, made_of: type[_Kept], *args: Any
) -> Sequence[_Kept]:
    """Return the objects of a class that an async method of a storage returns.

    Raises:
        RecordsUnavailableError: It failed, or returned something else.
    """
    answer = await ask_storage(kind, storage, method, *args)
    if isinstance(answer, str | bytes) or not isinstance(answer, Sequence):
        _refuse_answer(kind, storage, method, answer, f"a list of {made_of.__name__}")
    for each in answer:
        if not isinstance(each, made_of):
            _refuse_answer(kind, storage, method, each, f"a {made_of.__name__} in a list")
    return answer


def _refuse_answer(
    kind: str, storage: object, method: str, answer: object, expected: str
) -> NoReturn:
    raise_failure(kind, storage, method, f"it returned {name_of(answer)} in place of {expected}")


def raise_failure(
    kind: str, storage: object, method: str, why: str, error: BaseException | None = None
) -> NoReturn:
    """Raise the error for a storage that failed in a method."""
    raise RecordsUnavailableError(
        f"the {kind} storage {name_of(storage)} failed in {method}: {why} (what it keeps is not "
        "known)"
    ) from error
