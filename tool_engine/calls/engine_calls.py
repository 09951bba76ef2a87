"""What can be seen and ended of the calls of an engine?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from tool_engine.calls.call import Call
from tool_engine.calls.home_loop import at_home
from tool_engine.calls.pipeline import Pipeline
from tool_engine.errors import ConfigurationError
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.json.data import Data

_UNSAID: Final = "engine.calls.cancel"


class PresentCall(msgspec.Struct, Data, frozen=True, kw_only=True):
    """A call that is on its way."""

    call_id: str
    tool_name: str
    state: str
    """`asking` (for consent), `queued`, `sharing` (the run of another call), `running`, or
    `pausing` (between two attempts)."""
    seconds: float
    """How long it has been in this state; for `pausing`, since it has its slot."""
    priority: int
    caller_id: str | None = None
    caller_type: str = "unknown"
    conversation_id: str | None = None
    session_id: str | None = None
    parent_call_id: str | None = None


@refuse_copying("take it from the engine")
class EngineCalls:
    """The calls of an engine that are on their way: `engine.calls`.

    Args:
        pipeline: Where they are.
        run_at_home: Runs a coroutine on the loop of the calls.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        run_at_home: Callable[[Callable[[], Coroutine[Any, Any, Any]]], Coroutine[Any, Any, Any]],
    ) -> None:
        self._pipeline = pipeline
        self._run_at_home = run_at_home
        self._home = pipeline.home_loop

    def reserve_id(self) -> str:
        """Return the id of a call that is still to be made: `engine.execute(..., call_id=...)`.

        It is good for one call. With it the maker of the call can follow its events, have it
        explained and cancel it before it has ended.
        """
        return self._pipeline.present.reserve_id()

    @at_home
    async def list(self, *, caller_id: str | None = None) -> list[PresentCall]:
        """Return the calls that wait for consent, a slot, their tool or another attempt.

        Args:
            caller_id: Those of this caller only; None: of all.
        """
        present = self._pipeline.present
        return [
            self._describe_call(*each)
            for each in present
            if caller_id in (None, each[0].context.caller_id)
        ]

    @at_home
    async def find(self, call_id: str) -> PresentCall | None:
        """Return a call; None: it has ended, or there never was one."""
        for each in self._pipeline.present:
            if each[0].call_id == call_id:
                return self._describe_call(*each)
        return None

    @at_home
    async def cancel(self, call_id: str, reason: str | None = None) -> bool:
        """End a call; its caller gets a result with the error type `cancelled`.

        Args:
            call_id: The call.
            reason: Why, for its caller, who may be a model.

        Returns:
            False: it has ended already, or there never was one.

        Raises:
            ConfigurationError: The reason is no text.
        """
        if reason is not None and (not isinstance(reason, str) or not reason.strip()):
            raise ConfigurationError(f"reason must be a text that is not empty, got {reason!r}")
        return self._pipeline.present.stop(call_id, reason or _UNSAID)

    def _describe_call(self, call: Call, state: str, began: float) -> PresentCall:
        context = call.context
        return PresentCall(
            call_id=call.call_id,
            tool_name=call.tool_name,
            state=state,
            seconds=max(0.0, asyncio.get_running_loop().time() - began),
            priority=call.priority,
            caller_id=context.caller_id,
            caller_type=context.caller_type,
            conversation_id=context.conversation_id,
            session_id=context.session_id,
            parent_call_id=context.parent_call_id,
        )
