"""What may a task be started with, and how is it at first?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec

from tool_engine.background.request_digest import digest_request, is_of_another_process
from tool_engine.calls.call import ANONYMOUS, name_task
from tool_engine.calls.task_calls import BegunCall
from tool_engine.errors import (
    ConfigurationError,
    TaskConflictError,
    TaskError,
    TaskNotFoundError,
)
from tool_engine.knowledge.sql.schema.harmless import Harmless
from tool_engine.logger import current_call
from tool_engine.model.call import ToolExecutionContext, check_timeout
from tool_engine.model.checks.called_name import word_no_name
from tool_engine.model.context_check import check_context
from tool_engine.model.settings.concurrency import DEFAULT_PRIORITY
from tool_engine.model.task import QUEUED, RUNNING, KeptTask, TaskState, fields_of
from tool_engine.model.tool import Tool
from tool_engine.redaction import redact

LONGEST_KEY: Final = 512
LONGEST_TTL: Final = 10 * 365 * 86_400.0
_span_of: Final[Callable[[float], timedelta]] = lru_cache(maxsize=64)(
    lambda seconds: timedelta(seconds=seconds)
)
"""Times to live: a program has few of them, and making one takes as long as all the rest."""


def check_start(
    tool_name: object, context: ToolExecutionContext | None, ttl: float, key: str | None
) -> ToolExecutionContext:
    """Check what a task is started with; return who starts it.

    Raises:
        ConfigurationError: The name is no text, the context is none, or the time or the key is not
            right.
        TaskError: A tool or a conversation asks for it.
    """
    if not isinstance(tool_name, str):
        raise ConfigurationError(word_no_name(tool_name))
    given = ANONYMOUS if context is None else context
    if given is not ANONYMOUS:
        check_context(given)
    near = current_call.get() or given.bound_call
    if near is not None or given.scope is not None:
        raise TaskError(
            "a tool or a conversation cannot start a task: what it starts must end with it; make "
            "the call with context.call or session.execute, or start the task in your program"
        )
    check_timeout("ttl", ttl)
    if ttl > LONGEST_TTL:
        raise ConfigurationError(f"ttl must be at most {LONGEST_TTL:g} seconds, got {ttl!r}")
    is_text = isinstance(key, str) and 0 < len(key) <= LONGEST_KEY and key.isprintable()
    if key is not None and not is_text:
        raise ConfigurationError(
            f"idempotency_key must be a text of 1 to {LONGEST_KEY} characters that can be seen, "
            f"got {key!r:.80}; give another one, such as a UUID"
        )
    return given


def check_owner(owner: object) -> None:
    """Check whose tasks are asked for.

    Raises:
        ConfigurationError: It is neither a text nor None.
    """
    if owner is not None and not isinstance(owner, str):
        raise ConfigurationError(
            f"owner must be a text, as the caller_id of a context, or None for anyone's, got "
            f"{owner!r:.80}; give the name of who started the task"
        )


def make_missing(task_id: object) -> TaskNotFoundError:
    """Return the error about a task that is not there."""
    return TaskNotFoundError(
        f"no task {str(task_id)[:80]!r} is kept; a task is forgotten once its ttl is over: start "
        "it again, or list the tasks"
    )


def digest_task(kept: KeptTask, *, is_secret: bool) -> str:
    """Return what distinguishes a new task from another one with its key."""
    asked = [kept.state.tool_name, kept.key, kept.params, kept.ttl]
    return digest_request(asked, kept.context or ANONYMOUS, is_secret=is_secret)


def check_same(found: KeptTask, kept: KeptTask) -> None:
    """Check that a new task is the call that was started with its key.

    Raises:
        TaskConflictError: It is another one, or that cannot be known.
    """
    if is_of_another_process(found.digest):
        # A caller that hears of another one sends it with a new key: then it runs twice.
        raise TaskConflictError(
            f"a call with secret arguments was started with the idempotency_key {kept.key!r} by "
            "another process, which alone knows whether this is the same; if it is, ask for the "
            f"task {found.state.id}, else use a key of its own"
        )
    # Whether arguments are secret its tool says, which may have changed since, or be gone.
    if found.digest not in (digest_task(kept, is_secret=each) for each in (True, False)):
        raise TaskConflictError(
            f"another call was started with the idempotency_key {kept.key!r}, of another tool or "
            "with other arguments, limits or context; use one key for one call"
        )


def can_be_kept(
    tool: Tool | None, params: Any, context: ToolExecutionContext, harmless: Harmless
) -> bool:
    """Return True if a database may keep the call such that another process can make it."""
    if tool is not None and (tool.secret_names or tool.secret_parts):
        return False
    if context.on_progress is not None or context.deadline is not None:
        return False
    kept = params if context is ANONYMOUS else [params, fields_of(context)]
    try:
        if msgspec.json.decode(msgspec.json.encode(kept)) != kept:
            return False
        harmless.refresh()
        return harmless.is_so(params) or bool(redact(params) == params)
    except Exception:  # noqa: BLE001 - a foreign value may raise anything
        return False


def make_task(
    tool_name: str,
    tool: Tool | None,
    params: Any,
    context: ToolExecutionContext,
    ttl: float,
    now: datetime,
    begun: BegunCall | None,
    *,
    is_shared: bool,
) -> KeptTask:
    """Return a new task.

    Args:
        tool_name: The tool as it was named.
        tool: That tool; None: there is none.
        params: Its arguments, which nothing changes any more.
        context: Who starts it.
        ttl: Seconds that it may take.
        now: The time.
        begun: Its call, which has its slot; None: it has to wait for one.
        is_shared: Whether another engine may have to run it again.
    """
    priority = context.priority
    if priority is None:
        priority = DEFAULT_PRIORITY if tool is None else tool.concurrency.priority
    is_waiting = begun is None
    return KeptTask(
        state=TaskState(
            id=name_task(),
            tool_name=tool_name,
            # One that has its slot is written once, as running.
            status=QUEUED if is_waiting else RUNNING,
            owner=context.caller_id,
            call_id=None if begun is None else begun.call.call_id,
            created_at=now,
            started_at=None if is_waiting else now,
            expires_at=now + _span_of(ttl),
        ),
        params=params,
        context=context,
        priority=priority,
        definition_hash="" if tool is None else tool.definition_hash,
        ttl=ttl,
        is_repeatable=is_shared and tool is not None and tool.may_retry,
        begun=begun,
    )
