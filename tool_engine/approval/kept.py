"""How does a call that waits in this process get its answer from another one?

The question is kept where sessions keep theirs. Its answer is kept there, too, under the token of
the question, until the call has read it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from tool_engine.errors import ApprovalError, RecordsUnavailableError
from tool_engine.interfaces import ApprovalStorage
from tool_engine.interfaces.failing_storage import ask_storage
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.json.copying import refuse_copying

_Result = TypeVar("_Result")
_KIND: Final = "approval"
_LOOK: Final = 0.5
"""Seconds between two looks for the answer."""
_RENEWED: Final = 4
"""Looks after which it is said again that the call waits."""
_THIS_CALL: Final = "this call"
_EQUAL_CALLS: Final = "equal calls"
"""What the answer holds for; the place of the fingerprint, since a token is of one question."""


@refuse_copying("make another one over the storage")
class KeptQuestions:
    """An approver that keeps its questions in a storage, and waits for the answers there.

    Args:
        storage: What several processes share.
    """

    def __init__(self, storage: ApprovalStorage) -> None:
        self._storage = storage
        self._asking: set[asyncio.Future[Any]] = set()
        self.tokens: set[str] = set()
        """Of the questions that are kept, or about to be: any process may have answered them."""

    def __repr__(self) -> str:
        return f"<KeptQuestions in {self._storage!r}>"

    async def keep(self, request: ApprovalRequest) -> None:
        """Keep a question, before it is announced.

        Raises:
            RecordsUnavailableError: The storage does not take it.
        """
        # At first: who found it in this process alone would answer what others are yet to see.
        self.tokens.add(request.token)
        try:
            await self._finish_asking(self._ask_storage("put", replace(request, is_waiting=True)))
        except BaseException:
            await self._finish_asking(self._close_question(request.token))
            self.tokens.discard(request.token)
            raise

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """Wait until a question that is kept is answered in any process."""
        kept, looks = replace(request, is_waiting=True), 0
        try:
            while True:
                await asyncio.sleep(_LOOK)
                looks += 1
                # What answers in this process need not wait for the storage to come back.
                with contextlib.suppress(RecordsUnavailableError):
                    found = await self._finish_asking(self._read_answer(request.token))
                    if found is not None:
                        return found
                    if looks % _RENEWED == 0 and hasattr(self._storage, "renew"):
                        await self._finish_asking(self._ask_storage("renew", kept))
        finally:
            await self._finish_asking(self._close_question(request.token))
            self.tokens.discard(request.token)

    async def _finish_asking(self, asking: Coroutine[Any, Any, _Result]) -> _Result:
        """Wait for a storage, which is never broken off: it might leave a connection open."""
        task = asyncio.ensure_future(asking)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise

    async def _read_answer(self, token: str) -> ApprovalDecision | None:
        found: ApprovalDecision | None = await self._ask_storage("remembered", token, _EQUAL_CALLS)
        if found is None:
            found = await self._ask_storage("remembered", token, _THIS_CALL)
            found = None if found is None else replace(found, is_remembered=False)
        return found

    async def _close_question(self, token: str) -> None:
        with contextlib.suppress(Exception):
            await self._ask_storage("claim", token)
            await self._ask_storage("forget", token)

    async def _ask_storage(self, method: str, *args: Any) -> Any:
        return await ask_storage(_KIND, self._storage, method, *args)


async def keep_answer(
    storage: ApprovalStorage, request: ApprovalRequest, decision: ApprovalDecision
) -> None:
    """Leave the answer for the call that waits for it in another process.

    Raises:
        ApprovalError: The request was answered, it expired, or its call ended.
        RecordsUnavailableError: The storage does not take it.
    """
    await claim_question(storage, request)
    is_one_call = decision.is_remembered is False
    place = replace(
        request,
        session_id=request.token,
        fingerprint=_THIS_CALL if is_one_call else _EQUAL_CALLS,
    )
    await ask_storage(_KIND, storage, "remember", place, decision)


async def claim_question(storage: ApprovalStorage, request: ApprovalRequest) -> None:
    """Close a kept question for all others.

    Raises:
        ApprovalError: The request was answered, it expired, or its call ended.
        RecordsUnavailableError: The storage does not answer.
    """
    if not await ask_storage(_KIND, storage, "claim", request.token):
        raise ApprovalError(
            f"the call of {request.tool_name!r} does not wait for this answer any more: it was "
            "answered, it expired, or it ended"
        )
