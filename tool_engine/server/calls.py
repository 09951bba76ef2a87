"""How does a client call a tool, and hear what happens to the call?"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tool_engine.access.principal import LEAST_URGENT
from tool_engine.access.problem import Problem
from tool_engine.background.new_task import LONGEST_KEY
from tool_engine.events.stream import EventStream
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.model.task import TaskHandle
from tool_engine.model.tool import Tool
from tool_engine.server.long_work import accept_task, start_task
from tool_engine.server.operation import Asked, Reply, serve_at
from tool_engine.server.problems import make_draining, make_invalid
from tool_engine.server.results import write_result
from tool_engine.server.streaming import (
    Write,
    pass_on,
    send_heartbeat,
    write_engine_event,
    write_event,
)
from tool_engine.server.tools import find_tool
from tool_engine.server.wishes import wants_events, wants_task

CALLER_TYPE: Final = "http"
"""The `caller_type` of calls that clients make."""
_ACCEPTED: Final = {
    "description": "The call goes on as a task; `Location` has its path.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/TaskState"}}},
}
_STREAMED: Final = {
    "text/event-stream": {"schema": {"type": "string"}},
}


_OF_CALLS: Final = tuple(
    each.value
    for each in ToolEngineEventType
    if each.value.startswith(("execution_", "approval_", "validation_"))
)
_OF_KEY: Final = (
    "A text of the client's own: the same request with the same key runs once, and its result is "
    "kept for a day."
)
_KEY: Final = "^[!-~\u00a1-\u00ac\u00ae-\u00ff][ -~\u00a1-\u00ac\u00ae-\u00ff]*$"
"""A key as a header holds it: characters that can be seen, of which not all are blanks."""
_LAST_EVENT: Final = 0.25
"""Seconds within which the last event of a task that has ended is heard."""
_TTL_OF_NONE: Final = (
    "the body does not fit: `ttl` is of a task, and this call is none; send Prefer: respond-async "
    "or an Idempotency-Key with it, or `timeout`, which is how long the call may run"
)


class CallRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One call of a tool."""

    arguments: dict[str, Any] = {}
    timeout: Annotated[float, Meta(gt=0, le=1e9, description="Seconds it may run.")] | None = None
    conversation_id: Annotated[str, Meta(max_length=500)] | None = None
    priority: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=LEAST_URGENT,
                description="Smaller is more urgent; a token says how urgent its calls may be.",
            ),
        ]
        | None
    ) = None
    ttl: (
        Annotated[
            float, Meta(gt=0, le=1e7, description="Of a task: seconds it may take, and is kept.")
        ]
        | None
    ) = None


@serve_at(
    "POST",
    "/v1/tools/{name}/calls",
    scope="call",
    answer=ToolExecutionResult,
    body=CallRequest,
    errors=(404, 503),
    also={**_STREAMED, "202": _ACCEPTED},
    headers={
        "accept": "`text/event-stream`: what happens to the call comes as it happens.",
        "prefer": "`respond-async`: the call goes on as a task, and the answer is 202.",
        "idempotency-key": (_OF_KEY, {"pattern": _KEY, "maxLength": LONGEST_KEY}),
    },
    is_cancelled_with_client=True,
)
async def call_tool(asked: Asked) -> Any:
    """Call a tool, and answer with its result, also where it failed.

    A client that leaves cancels its call, unless the request has an `Idempotency-Key`. With
    `Accept: text/event-stream` the answer is a stream of the events of the call, of which the last
    one is `result`; where a request with the same key has come before, of those that are still to
    come at this server. With `Prefer: respond-async` the call goes on as a task.
    """
    if asked.served.is_draining:
        raise make_draining()
    name, key = asked.path["name"], _read_key(asked)
    tool = None
    if key is None or not await _has_come_before(asked, name, key):
        tool = find_tool(asked, name)
        name = tool.name
    context = make_context(asked, tool)
    if wants_task(asked.header("prefer")):
        # What is refused as a task leaves its key to the call that is the cure.
        is_refused = tool is not None and tool.background == "never"
        handle = await start_task(asked, name, context, None if is_refused else key)
        return accept_task(await handle.refresh(), asked.root)
    is_streamed = wants_events(asked.header("accept"))
    if key is not None and is_streamed:
        return await _start_streamed(asked, name, context, key)
    if key is not None:
        handle = await start_task(asked, name, context, key, is_awaited=True)
        return Reply(data=await write_result(await handle.wait()))
    if asked.body.ttl is not None:
        raise Problem(422, "invalid-body", _TTL_OF_NONE)
    if is_streamed:
        return Reply(stream=partial(_stream_call, asked, name, context))
    result = await asked.engine.execute(name, asked.body.arguments, context)
    return Reply(data=await write_result(result))


async def _has_come_before(asked: Asked, name: str, key: str) -> bool:
    """Return True for a key of a tool that has left, or has another name by now.

    The answer of the first request is kept for all with its key, whatever became of its tool.
    """
    tool = asked.engine.get(name)
    if (tool is not None and tool.name == name) or not asked.principal.may_use(name):
        return False
    found: str | None = await asked.engine.tasks.find_tool(asked.principal.name, key)
    return found == name


def _read_key(asked: Asked) -> str | None:
    """Return the key by which a request is known when it comes again; None: it has none."""
    key = asked.header("idempotency-key")
    if key is None or (key.isprintable() and 0 < len(key) <= LONGEST_KEY):
        return key
    raise make_invalid(
        f"Idempotency-Key must be 1 to {LONGEST_KEY} characters that can be seen, got {len(key)}: "
        f"{key!r:.80}; send another one, such as a UUID"
    )


def make_context(asked: Asked, tool: Tool | None) -> ToolExecutionContext:
    """Return the context of a call that a client makes; None: one that has come before.

    Raises:
        Problem: It asks for a priority that its principal has no right to.
    """
    body: CallRequest = asked.body
    wished = body.priority
    if wished is not None and tool is not None and wished < tool.concurrency.priority:
        # What a call has that asks for nothing is everyone's.
        _check_priority(asked, wished)
    return ToolExecutionContext(
        caller_id=asked.principal.name,
        caller_type=CALLER_TYPE,
        conversation_id=body.conversation_id,
        timeout=body.timeout,
        priority=body.priority,
    )


def _check_priority(asked: Asked, wished: int) -> None:
    if not asked.principal.may_ask_for(wished):
        first = asked.principal.priority
        raise Problem(
            403,
            "priority-not-allowed",
            f"this token may ask for a priority from {first} to {LEAST_URGENT}, not for {wished}; "
            f"ask for one of these or for none, or have `priority: {wished}` written to its entry "
            "in the token file",
        )


async def _stream_call(
    asked: Asked, name: str, context: ToolExecutionContext, write: Write
) -> None:
    engine = asked.engine
    call_id = engine.calls.reserve_id()

    async def take(event: ToolEngineEvent | None) -> bool:
        if event is None:
            await send_heartbeat(write)
        elif event.execution_result is not None:
            return True
        else:
            await write(write_engine_event(event, asked.served.epoch))
        return False

    async with engine.events(call_id=call_id) as events:
        work = engine.execute(name, asked.body.arguments, context, call_id=call_id)
        task = asyncio.create_task(work, name="tool-engine-http-call")
        try:
            await pass_on(events, take)
            result = await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    await write(write_event("result", result.to_dict()))


async def _start_streamed(
    asked: Asked, name: str, context: ToolExecutionContext, key: str
) -> Reply:
    """Start a task with a key, or find the one that has it, and stream what happens to it."""
    engine, began = asked.engine, asked.engine.tasks.read_clock()
    # From before its start, so that none is missed.
    events = engine.events(_OF_CALLS)
    try:
        handle = await start_task(asked, name, context, key, is_awaited=True)
    except BaseException:
        await events.aclose()
        raise
    has_ended = handle.state.is_final and handle.state.created_at < began
    return Reply(stream=partial(_stream_task, asked, events, handle, has_ended))


async def _stream_task(
    asked: Asked, events: EventStream, handle: TaskHandle, has_ended: bool, write: Write
) -> None:
    """Write what happens to a task, which goes on when its client leaves, and how it ended."""

    async def take(event: ToolEngineEvent | None) -> bool:
        if event is None:
            await send_heartbeat(write)
        elif event.data.get("task_id") == handle.id or (
            # Questions to people name their call alone.
            event.call_id is not None and event.call_id == handle.state.call_id
        ):
            if event.execution_result is not None:
                return True
            await write(write_engine_event(event, asked.served.epoch))
        return False

    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    async with events:
        waiting = asyncio.create_task(handle.wait(), name="tool-engine-http-task")
        # Of one that another server runs nothing is heard here; of others the last event is on its
        # way.
        waiting.add_done_callback(lambda _: loop.call_later(_LAST_EVENT, ended.set))
        try:
            if not has_ended:
                await pass_on(events, take, ended)
            result = await waiting
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
    await write(write_event("result", result.to_dict()))


OPERATIONS = (call_tool,)
