"""How is a waiting call approved or rejected in another process?

The kept conversation goes on in this process, for this one call, and is kept again afterwards.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from tool_engine.approval.kept import keep_answer
from tool_engine.cli.console import as_text, make_console, print_json, safe_text
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError
from tool_engine.cli.records.recording import open_records, recording_engine
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.engine import ToolEngine
from tool_engine.errors import SessionConflictError
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.redaction import OwnSecrets, secrets_asked
from tool_engine.session.session import ToolSession
from tool_engine.session.variables.store import VariableStore

if TYPE_CHECKING:
    from tool_engine.session.reading.result import SessionResult

_TRIES: Final = 5
"""Saves of the same conversation by other processes, one after the other."""


class Before(NamedTuple):
    news: int
    names: frozenset[str]

    @classmethod
    def of(cls, session: ToolSession) -> Before:
        return cls(len(session.calls.news), frozenset(each.name for each in session.variables))


def answer_request(
    settings: Settings, token: str, decision: ApprovalDecision, *, as_json: bool
) -> int:
    answer = _answer_request(settings, token, decision, as_json=as_json)
    return run_async(answer, has_document=as_json)


async def _answer_request(
    settings: Settings, token: str, decision: ApprovalDecision, *, as_json: bool
) -> int:
    async with open_records(settings) as store:
        request = await _find_request(store, token)
        if request.is_waiting:
            return await _answer_waiting(store, request, decision, as_json=as_json)
    async with recording_engine(settings) as engine:
        session = await ToolSession.restore(engine, request.session_id)
        if session is None:
            raise CommandError(
                f"the session {request.session_id!r}, which asks, is not kept: only the process "
                "that it runs in can take the answer",
                error_type="session_not_found",
            )
        before = Before.of(session)
        # The book of the conversation has the arguments whole.
        kept = {each.token: each for each in session.pending_approvals}
        asked = kept.get(token, request)
        secrets = secrets_asked(asked)
        try:
            result = await session.resume(token, decision)
        finally:
            await keep_answered(session, engine, token, before)
    return _print_result(result, decision, secrets, as_json=as_json)


async def _answer_waiting(
    store: ToolKnowledgeStore,
    request: ApprovalRequest,
    decision: ApprovalDecision,
    *,
    as_json: bool,
) -> int:
    """Answer a call that waits in another process, and goes on there."""
    await keep_answer(store.approvals, request, decision)
    if as_json:
        print_json({"is_approved": decision.is_approved, "tool_name": request.tool_name})
    else:
        done = "goes on" if decision.is_approved else "is refused"
        text = f"answered: the call of {safe_text(request.tool_name)} {done} where it waits"
        make_console().print(as_text(text), soft_wrap=True)
    return EXIT_OK


async def keep_answered(
    session: ToolSession, engine: ToolEngine, token: str, before: Before
) -> None:
    """Save the conversation; one that went on meanwhile learns the call's result.

    The call is over, and cannot be answered again: its result must not get lost.
    """
    ended = session
    for _ in range(_TRIES):
        with contextlib.suppress(SessionConflictError):
            await session.save()
            return
        latest = await ToolSession.restore(engine, session.session_id)
        if latest is not None:
            session = latest
            _take_over(session, ended, token, before)
    await session.save()


def _take_over(session: ToolSession, ended: ToolSession, token: str, before: Before) -> None:
    """Put one call's changes into a later state of its conversation."""
    session.deferred.pop(token, None)
    session.gate.book.withdraw(token)
    news = ended.calls.news[before.news :]
    session.calls.number = max(session.calls.number, ended.calls.number)
    for each in ended.variables:
        if each.name in before.names:
            continue
        name = _free_name(each.name, session.variables)
        # A reader of the old name in the news would get the value that others have under it.
        reference = re.compile(rf'(?<=[{{"]){re.escape(each.name)}(?=[}}:"])')
        news = [reference.sub(name, text) for text in news]
        session.variables.add(msgspec.structs.replace(each, name=name))
    session.calls.news += news


def _free_name(name: str, variables: VariableStore) -> str:
    names = itertools.chain([name], (f"{name}-{count}" for count in itertools.count(2)))
    return next(each for each in names if each not in variables)


async def _find_request(store: ToolKnowledgeStore, token: str) -> ApprovalRequest:
    for each in await store.approvals.pending():
        if each.token == token:
            return each
    raise CommandError(
        "no call waits for an answer under this token: it was answered, or has expired; "
        "`tool-engine sessions pending` lists those that wait",
        error_type="request_not_found",
    )


def _print_result(
    result: SessionResult, decision: ApprovalDecision, secrets: OwnSecrets, *, as_json: bool
) -> int:
    text = None if result.final_text is None else secrets.text(result.final_text)
    if as_json:
        print_json(
            {
                "is_approved": decision.is_approved,
                "tool_name": result.tool_name,
                "is_success": result.is_success,
                "error_type": result.error_type,
                "text": text,
            }
        )
    else:
        make_console().print(as_text(text or secrets.text(result.error or "")), soft_wrap=True)
    # A rejection succeeds as a command, though the call has failed.
    return EXIT_OK if result.is_success or not decision.is_approved else EXIT_FAILED
