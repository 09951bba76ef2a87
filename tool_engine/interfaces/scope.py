"""What may a conversation add to a call?"""

from __future__ import annotations

from typing import Any, Protocol

from tool_engine.interfaces.executor import ToolExecutor
from tool_engine.model.call import Refusal
from tool_engine.model.tool import Tool


class CallScope(Protocol):
    """What the conversation that a call belongs to adds to it: `context.scope`.

    It goes with the call into the calls that its tool makes. One that often knows at once that a
    call may run has `is_free(self, call_id, tool, params)`, too, which gives True then: `consent`
    is not asked about that call. One that may forbid a call later on has `refusal_since`, with the
    same arguments: asked of a call that was let through and had to wait, just before it starts.

    One that counts the calls that tools make has `uses_of(self, tool, engine)`, which gives a `Use`
    (`calls/uses.py`) for each of its books.

    One that keeps outputs has `note_output(self, output, kept)`: called with the output of a
    call that has succeeded and with all of it as MessagePack, as its record keeps it; unless it is
    short, or the record keeps it in another form.

    It goes into other engines, too. One that speaks for the tools of an engine says True in
    `has_engine(self, engine, tool_name)`; else the approver of that engine must consent as well.
    """

    def own(self, tool_name: str) -> tuple[Tool, ToolExecutor] | None:
        """Return a tool of this conversation alone and its executor, before the engine's."""

    async def consent(self, call_id: str, tool: Tool, params: dict[str, Any]) -> Refusal | None:
        """Return why the call may not run, or None if it may.

        Asked after validation and before admission, with the definition and the exact arguments
        that the call will run with; if the definition changes meanwhile, it is asked again. It may
        wait, holds no slot, and is cancelled with the call.
        """
