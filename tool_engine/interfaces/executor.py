"""What runs one kind of tool?"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool


@runtime_checkable
class ToolExecutor(Protocol):
    """Runs one kind of tool.

    `params` has been validated against the tool's schema, defaults included, and belongs to the
    executor. A value that is returned becomes the call's output; an exception becomes an
    `execution_error`, `TimeoutError` a `timeout`. The deadline arrives as cancellation: give back
    what you hold and let `CancelledError` pass. An `execute` that is not a coroutine function runs
    in a thread, unless the executor has `is_async = True`: then it returns a coroutine. An executor
    that holds resources has `async def close(self)`, called once. One with `needs_consent = True`
    runs only what a person consented to, even where the tool's definition has no `permission`; one
    with `preview(self, tool, params)`, plain or async, shows them what would change. One with
    `misfits(self, params)` lists what its function cannot be given, as findings. One whose call is
    no more than a call of an async function has it as `direct`: it is called with the parameters as
    keywords in place of `execute`, where there are no retries and no limits on results. One with
    `leaves_on_cancel = True` has more to do when it is cancelled: its caller goes on at once, and
    cancels it no second time. One whose tools run at a place of their own has its name as
    `isolation`: the backend of that place is asked to run them.
    """

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        """Run `tool` once and return its output."""
