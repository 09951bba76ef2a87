"""How does a client start a task, work that goes on without it, and ask for it later?"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tool_engine.access.problem import Problem
from tool_engine.errors import TaskNotFoundError
from tool_engine.model.task import TaskHandle, TaskState
from tool_engine.server.endpoint import Sized
from tool_engine.server.operation import Asked, Reply, serve_at
from tool_engine.server.paging import Cursor, Limit, make_cursor, read_cursor
from tool_engine.server.problems import make_unknown
from tool_engine.server.results import show_tasks

_Status: TypeAlias = Literal[
    "queued",
    "running",
    "input_required",
    "succeeded",
    "failed",
    "timeout",
    "cancelled",
    "rejected",
]
_Text: TypeAlias = Annotated[str, Meta(max_length=500)]
_DEFAULT_TTL: Final = 3600.0
_KEY_HOLDS: Final = 86_400.0
_MOST_RESULTS: Final = 100
"""Tasks of one page that has their results."""


class TaskQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    status: _Status | None = None
    tool_name: _Text | None = None
    owner: Annotated[_Text, Meta(description="The principal that started it.")] | None = None
    results: Annotated[
        bool,
        Meta(description="Whether each one has its result: then a page has at most 100 of them."),
    ] = False
    limit: Limit = 100
    cursor: Cursor | None = None


class WaitQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    wait: Annotated[
        float, Meta(ge=0, le=60, description="Seconds to wait for its end before the answer.")
    ] = 0.0


class EndQuery(msgspec.Struct, forbid_unknown_fields=True):
    reason: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    forget: Annotated[
        bool, Meta(description="Whether it is forgotten, with its result and its key.")
    ] = False


class EndAllQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    status: Literal["queued", "running", "input_required"] | None = None
    tool_name: _Text | None = None
    owner: Annotated[_Text, Meta(description="The principal that started it.")] | None = None
    reason: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None


class TasksCancelled(msgspec.Struct):
    cancelled: int
    """How many have ended, or end as soon as the server that runs them looks."""


class TaskPage(msgspec.Struct):
    items: list[TaskState]
    """The newest first."""
    next: str | None = None
    """The cursor of the next page; null: this is the last."""


class TaskCancelled(msgspec.Struct):
    is_cancelled: bool
    """False: it had ended before."""
    is_forgotten: bool = False
    """True: it is not kept any more."""


async def start_task(
    asked: Asked, name: str, context: Any, key: str | None, *, is_awaited: bool = False
) -> TaskHandle:
    """Start a call as a task of the principal's, for a client that waits or one that does not."""
    ttl = asked.body.ttl or (_DEFAULT_TTL if key is None else _KEY_HOLDS)
    return await asked.engine.tasks.start(
        name,
        asked.body.arguments,
        context,
        ttl=ttl,
        idempotency_key=key,
        is_awaited=is_awaited,
    )


def accept_task(state: TaskState, root: str) -> Reply:
    """Return the answer to a request whose work goes on without it."""
    where = {"location": f"{root}/v1/tasks/{state.id}", "preference-applied": "respond-async"}
    return Reply(state.to_dict(), status=202, headers=where)


@serve_at("GET", "/v1/tasks", scope="call", answer=TaskPage, query=TaskQuery, errors=(404,))
async def list_tasks(asked: Asked) -> Any:
    """List tasks, the newest first: the principal's own, or all for one that operates."""
    query: TaskQuery = asked.query
    after = None if query.cursor is None else read_cursor(query.cursor)
    if asked.owner is not None and query.owner not in (None, asked.owner):
        return TaskPage([])  # what others have started is not there
    owner = asked.owner or query.owner
    limit = min(query.limit, _MOST_RESULTS) if query.results else query.limit
    try:
        found = await asked.engine.tasks.list(
            owner, query.status, limit + 1, after, query.tool_name, results=query.results
        )
    except TaskNotFoundError as error:
        detail = "the task that the cursor stands for is gone; begin again without it"
        raise Problem(404, "unknown-cursor", detail) from error
    page = found[:limit]
    own = [each for each in page if asked.principal.may_use(each.tool_name)]
    shown, is_large = await show_tasks(own)
    is_more = len(found) > limit
    answer = {"items": shown, "next": make_cursor(page[-1].id) if is_more else None}
    return Sized(answer) if is_large else answer


@serve_at(
    "GET",
    "/v1/tasks/{task_id}",
    scope="call",
    answer=TaskState,
    query=WaitQuery,
    errors=(404,),
    is_cancelled_with_client=True,
)
async def get_task(asked: Asked) -> Any:
    """Show a task, how far it has come, and once it has ended its result.

    With `wait` the answer comes when it has ended, or after so many seconds.
    """
    handle = await _find_task(asked)
    if asked.query.wait:
        with suppress(TimeoutError):
            await handle.wait(asked.query.wait)
        handle = await _find_task(asked)
    (shown,), is_large = await show_tasks([handle.state])
    return Sized(shown) if is_large else shown


@serve_at(
    "DELETE",
    "/v1/tasks/{task_id}",
    scope="call",
    answer=TaskCancelled,
    query=EndQuery,
    errors=(404,),
)
async def cancel_task(asked: Asked) -> Any:
    """Cancel a task; its call ends with it.

    With `forget` it is not kept any more, which makes room for others; a task that another server
    runs may have to end first: ask again.
    """
    handle = await _find_task(asked)
    query: EndQuery = asked.query
    is_cancelled = await handle.cancel(query.reason or _say_who(asked))
    is_forgotten = query.forget and await asked.engine.tasks.forget(handle.id)
    return TaskCancelled(is_cancelled, is_forgotten)


@serve_at("DELETE", "/v1/tasks", scope="call", answer=TasksCancelled, query=EndAllQuery)
async def cancel_tasks(asked: Asked) -> Any:
    """Cancel tasks that have not ended: the principal's own, or all for one that operates."""
    query: EndAllQuery = asked.query
    if asked.owner is not None and query.owner not in (None, asked.owner):
        return TasksCancelled(0)  # what others have started is not there
    may_use = asked.principal.may_use
    count = await asked.engine.tasks.cancel_all(
        asked.owner or query.owner,
        query.status,
        query.tool_name,
        reason=query.reason or _say_who(asked),
        is_meant=lambda state: may_use(state.tool_name),
    )
    return TasksCancelled(count)


def _say_who(asked: Asked) -> str:
    return f"{asked.principal.name} wished so"


async def _find_task(asked: Asked) -> TaskHandle:
    """Return a task of the principal's.

    Raises:
        Problem: There is none; one of others is none.
    """
    task_id = asked.path["task_id"]
    try:
        handle: TaskHandle = await asked.engine.tasks.get(task_id, asked.owner)
    except TaskNotFoundError:
        raise make_unknown("task", task_id) from None
    if not asked.principal.may_use(handle.tool_name):
        raise make_unknown("task", task_id)
    return handle


OPERATIONS = (list_tasks, cancel_tasks, get_task, cancel_task)
