"""How is a slot held for the length of a block?"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

import msgspec

from tool_engine.admission.request import AdmissionRequest
from tool_engine.interfaces import AdmissionController
from tool_engine.model.settings.settable import settable


@settable
class SlotBlock(msgspec.Struct, eq=False, gc=False):
    """`async with controller.slot(...) as slot`: acquires on entry, releases on exit."""

    # Nothing that these refer to refers to leases: the garbage collector need not know of them.
    _controller: AdmissionController
    _request: AdmissionRequest
    _slot: Any = None

    async def __aenter__(self) -> Any:
        slot = self._slot = self._controller.admit_nowait(self._request)
        if slot is None:
            slot = self._slot = await self._controller.admit(self._request)
        return slot

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._controller.release(self._slot)
        else:
            is_fault = not isinstance(error, asyncio.CancelledError | GeneratorExit)
            self._controller.release(self._slot, outcome=False if is_fault else None)
