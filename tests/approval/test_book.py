"""Who was asked for consent, and what did they say?"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from tool_engine.approval.book import ApprovalBook
from tool_engine.errors import ApprovalError, ConfigurationError, RecordsUnavailableError
from tool_engine.knowledge.memory_approvals import MemoryApprovalStorage
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest, fingerprint_of
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory

YES = ApprovalDecision(is_approved=True)
NO = ApprovalDecision(is_approved=False, reason="Not today.")
TOOL = Tool(
    "pay",
    "pay",
    "1.0.0",
    "Pays.",
    ToolCategory.CUSTOM,
    [],
    [],
    {},
    effect="write",
    definition_hash="abc",
)
CHANGED = msgspec.structs.replace(TOOL, definition_hash="def")
OTHER = msgspec.structs.replace(TOOL, name="pay2")
NEWER = msgspec.structs.replace(TOOL, version="1.0.1")


async def decided(
    book: ApprovalBook, tool: Tool, params: dict[str, Any]
) -> ApprovalDecision | None:
    return await book.remembered(fingerprint_of(tool.name, tool.definition_hash, params))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(clock: Clock) -> ApprovalBook:
    return ApprovalBook("session_1", 60.0, clock=clock)


def test_a_request_tells_all(book: ApprovalBook) -> None:
    """D19: who asks, for what exactly, and until when."""
    request = book.ask(TOOL, {"to": "ann", "amount": 5})
    assert (request.session_id, request.kind, request.tool_name) == (
        "session_1",
        "execution",
        "pay",
    )
    assert (request.tool_version, request.definition_hash, request.effect) == (
        "1.0.0",
        "abc",
        "write",
    )
    assert request.params == {"to": "ann", "amount": 5}
    assert (request.asked_at, request.expires_at) == (1000.0, 1060.0)
    assert book.pending() == [request]
    assert book.ask(TOOL, {}).token != request.token


async def test_an_answer_is_taken_once(book: ApprovalBook) -> None:
    """Two answers at once: the first one counts, the second is told so."""
    request = book.ask(TOOL, {"amount": 5})
    assert await book.answer(request.token, YES, TOOL) == request
    assert book.pending() == []
    for late in (YES, NO):
        with pytest.raises(ApprovalError, match="no approval is awaited under this token"):
            await book.answer(request.token, late, TOOL)


async def test_an_answer_after_the_call_has_ended(book: ApprovalBook) -> None:
    """A request whose call was cancelled is closed; withdrawing it again is harmless."""
    request = book.ask(TOOL, {})
    book.withdraw(request.token)
    book.withdraw(request.token)
    with pytest.raises(ApprovalError, match="withdrawn"):
        await book.answer(request.token, YES, TOOL)


async def test_an_answer_that_a_call_waits_for(book: ApprovalBook) -> None:
    """What a call waits for runs in that call; nobody else may run it as well."""
    request = book.ask(TOOL, {}, is_waiting=True)
    with pytest.raises(ApprovalError, match="a call of 'pay' is waiting for this answer"):
        await book.answer(request.token, YES, TOOL)
    assert book.settle(request.token, YES, TOOL) == request
    with pytest.raises(ApprovalError, match="no approval is awaited"):
        book.settle(request.token, YES, TOOL)
    with pytest.raises(ApprovalError, match="no approval is awaited"):
        await book.answer(request.token, YES, TOOL)


async def test_an_answer_that_comes_too_late(book: ApprovalBook, clock: Clock) -> None:
    """U32: after its time nobody's consent counts, and the request is not shown any more."""
    request, other = book.ask(TOOL, {}), book.ask(TOOL, {"x": 1})
    clock.now += 60.0
    with pytest.raises(ApprovalError, match=r"came too late: it was asked for 60 s ago"):
        await book.answer(request.token, YES, TOOL)
    assert book.pending() == []
    with pytest.raises(ApprovalError, match="no approval is awaited"):
        await book.answer(other.token, YES, TOOL)


async def test_expired_requests_do_not_pile_up(book: ApprovalBook, clock: Clock) -> None:
    """Nobody has to look at the list for the expired ones to leave it."""
    for _ in range(3):
        book.ask(TOOL, {})
    clock.now += 60.0
    book.ask(TOOL, {})
    assert repr(book) == "ApprovalBook(1 open, 0 remembered)"


@pytest.mark.parametrize("now", [CHANGED, NEWER, OTHER, None])
async def test_consent_is_for_the_tool_as_it_was(book: ApprovalBook, now: Tool | None) -> None:
    """A tool that was changed, or is gone, is not what somebody consented to."""
    request = book.ask(TOOL, {})
    with pytest.raises(ApprovalError, match="'pay' is not what was approved"):
        await book.answer(request.token, YES, now)
    refused = book.ask(TOOL, {})
    assert await book.answer(refused.token, NO, now) == refused


async def test_what_is_remembered(book: ApprovalBook) -> None:
    """S19, U34: a decision holds for the same definition with the same arguments, and no others;
    refusals do, too."""
    params: dict[str, Any] = {"to": "ann", "deep": {"a": 1, "b": [1, 2]}}
    request = book.ask(TOOL, params, is_once=True)
    await book.answer(request.token, NO, TOOL)
    known = await decided(book, TOOL, {"deep": {"b": [1, 2], "a": 1}, "to": "ann"})
    assert known is not None
    assert (known.is_approved, known.reason) == (False, "Not today.")
    for other in (
        {**params, "to": "Ann"},
        {**params, "deep": {"a": True, "b": [1, 2]}},
        {**params, "deep": {"a": 1.0, "b": [1, 2]}},
        {**params, "deep": {"a": 1, "b": [2, 1]}},
        {**params, "deep": {"a": "1", "b": [1, 2]}},
        {**params, "more": None},
    ):
        assert await decided(book, TOOL, other) is None
    assert await decided(book, CHANGED, params) is None
    assert await decided(book, OTHER, params) is None
    await book.forget()
    assert await decided(book, TOOL, params) is None


async def test_long_arguments_are_not_mixed_up(book: ApprovalBook) -> None:
    """U34: calls that differ only in their last letter are two calls, however long they are."""
    await book.remember(book.ask(TOOL, {"text": "x" * 10_000 + "a"}, is_once=True), YES)
    assert await decided(book, TOOL, {"text": "x" * 10_000 + "a"}) is not None
    assert await decided(book, TOOL, {"text": "x" * 10_000 + "b"}) is None


async def test_decisions_that_are_not_remembered(book: ApprovalBook) -> None:
    """Consent to one call is no consent to the next, unless it is asked once; then somebody may
    still say that it is for this call only. About a result it is always for this result."""
    always = ApprovalDecision(is_approved=True, is_remembered=True)
    only_now = ApprovalDecision(is_approved=True, is_remembered=False)
    for request, decision in (
        (book.ask(TOOL, {}), always),
        (book.ask(TOOL, {}, is_once=True), only_now),
        (book.ask(TOOL, {}, is_once=True, kind="result", result="x"), always),
    ):
        await book.answer(request.token, decision, TOOL)
        assert await decided(book, TOOL, {}) is None


async def test_what_json_cannot_say_is_not_remembered(book: ApprovalBook) -> None:
    """Nobody can tell later on whether another object is the same one."""
    for value in (object(), {1: 2}, [b"x"], {"a": {1, 2}}):
        request = book.ask(TOOL, {"value": value}, is_once=True)
        assert await book.answer(request.token, YES, TOOL) is request
        assert await decided(book, TOOL, {"value": value}) is None


async def test_not_everything_is_remembered(
    book: ApprovalBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversation without end takes no memory without end: the oldest decision goes."""
    monkeypatch.setattr("tool_engine.approval.book.MOST_REMEMBERED", 2)
    for number in (1, 2, 1, 3):
        await book.remember(book.ask(TOOL, {"n": number}, is_once=True), YES)
    assert await decided(book, TOOL, {"n": 2}) is None
    assert await decided(book, TOOL, {"n": 1}) is not None
    assert await decided(book, TOOL, {"n": 3}) is not None


async def test_another_process_goes_on(book: ApprovalBook, clock: Clock) -> None:
    """Open requests and decisions survive a restart; the clock goes on meanwhile."""
    first = book.ask(TOOL, {"x": 1}, is_once=True, is_waiting=True)
    second = book.ask(TOOL, {"x": "ä\ud800"})
    await book.remember(first, NO)
    data = json.loads(json.dumps(book.to_dict()))
    clock.now += 59.0
    again = ApprovalBook.from_dict(data, clock=clock)
    assert again.pending() == [first, second]
    assert await again.answer(first.token, NO, TOOL) == first
    remembered = await decided(again, TOOL, {"x": 1})
    assert remembered is not None
    assert remembered.reason == "Not today."
    clock.now += 1.0
    with pytest.raises(ApprovalError, match="too late"):
        await again.answer(second.token, YES, TOOL)
    assert repr(again) == "ApprovalBook(0 open, 1 remembered)"


@pytest.mark.parametrize("value", [b"x", {1, 2}, object(), {1: "a"}, Path("a")])
async def test_arguments_that_did_not_survive(book: ApprovalBook, value: Any) -> None:
    """What JSON cannot say is not run as something else, after a restart."""
    request = book.ask(TOOL, {"value": value})
    data = json.loads(json.dumps(book.to_dict()))
    again = ApprovalBook.from_dict(data, clock=lambda: 1001.0)
    with pytest.raises(ApprovalError, match="arguments of 'pay' were not kept whole"):
        await again.answer(request.token, YES, TOOL)
    # Where it was asked, it is what it was.
    assert await book.answer(request.token, YES, TOOL) is request


async def test_arguments_that_somebody_changed(book: ApprovalBook) -> None:
    """An approver, or whoever reads the list, cannot put other arguments in."""
    request = book.ask(TOOL, {"to": ["ann"]})
    book.pending()[0].params["to"].append("eve")
    with pytest.raises(ApprovalError, match="were not kept whole"):
        await book.answer(request.token, YES, TOOL)


def test_data_of_something_else() -> None:
    """What was not written by `to_dict` is refused, with the place."""
    with pytest.raises(ApprovalError, match=r"these are no kept approvals: .*session_id"):
        ApprovalBook.from_dict({})


@pytest.mark.parametrize("shift", [-18_000.0, 18_000.0], ids=["behind", "ahead"])
@pytest.mark.parametrize("is_stored", [False, True], ids=["alone", "stored"])
async def test_a_clock_that_is_set(
    monkeypatch: pytest.MonkeyPatch, shift: float, is_stored: bool
) -> None:
    """The clock of the machine jumps by hours: it ends no request, and keeps none."""
    book = ApprovalBook("s", 60.0, storage=MemoryApprovalStorage() if is_stored else None)
    before = book.ask(TOOL, {}, is_once=is_stored, is_waiting=is_stored)
    if is_stored:
        await book.defer(before.token)
    monkeypatch.setattr(time, "time", lambda: before.asked_at + shift)
    assert book.pending() == [before]
    after = book.ask(TOOL, {"amount": 1})
    assert 0 <= after.expires_at - before.expires_at < 60
    assert await book.answer(before.token, YES, TOOL) == before


def test_a_timeout_of_nothing() -> None:
    """A request that is expired when it is made is a mistake."""
    with pytest.raises(ConfigurationError, match="timeout must be a positive"):
        ApprovalBook("s", 0)


class Broken(MemoryApprovalStorage):
    """A database that is gone."""

    def _gone(self) -> Any:
        raise RecordsUnavailableError("gone: password=hunter2secret")

    async def put(self, request: ApprovalRequest) -> None:
        self._gone()

    async def claim(self, token: str) -> bool:
        return bool(self._gone())

    async def pending(self, session_id: str | None = None) -> list[ApprovalRequest]:
        return self._gone()  # type: ignore[no-any-return]

    async def remember(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        self._gone()

    async def remembered(self, session_id: str, fingerprint: str) -> ApprovalDecision | None:
        return self._gone()  # type: ignore[no-any-return]


async def stored(
    clock: Clock, storage: MemoryApprovalStorage
) -> tuple[ApprovalBook, ApprovalRequest]:
    """A conversation with one deferred request that its storage keeps."""
    book = ApprovalBook("session_1", 60.0, clock=clock, storage=storage)
    request = book.ask(TOOL, {"amount": 5}, is_once=True, is_waiting=True)
    await book.defer(request.token)
    return book, request


async def test_two_processes_and_one_storage(clock: Clock) -> None:
    """Two answers at once in two processes: one of them counts, and only one call is run."""
    storage = MemoryApprovalStorage(clock=clock)
    book, request = await stored(clock, storage)
    other = ApprovalBook("session_1", 60.0, clock=clock, storage=storage)
    copy = ApprovalBook.from_dict(book.to_dict(), clock=clock, storage=storage)
    assert await storage.pending("session_1") == [request]
    answers = await asyncio.gather(
        *(each.answer(request.token, YES, TOOL) for each in (other, copy, book, other)),
        return_exceptions=True,
    )
    assert [each for each in answers if isinstance(each, ApprovalRequest)] == [request]
    assert sum(isinstance(each, ApprovalError) for each in answers) == 3
    assert await storage.pending("session_1") == []
    # What one of them has heard, all know.
    for each in (book, other, copy):
        assert await decided(each, TOOL, {"amount": 5}) is not None
    stranger = ApprovalBook("session_2", clock=clock, storage=storage)
    assert await decided(stranger, TOOL, {"amount": 5}) is None


async def test_nobody_answers_for_another_conversation(clock: Clock) -> None:
    """S35: a token of one conversation is nothing in another one."""
    storage = MemoryApprovalStorage(clock=clock)
    book, request = await stored(clock, storage)
    stranger = ApprovalBook("session_2", 60.0, clock=clock, storage=storage)
    with pytest.raises(ApprovalError, match="belongs to another conversation"):
        await stranger.answer(request.token, YES, TOOL)
    assert await book.answer(request.token, YES, TOOL) == request


async def test_a_stored_request_expires(clock: Clock) -> None:
    """Answering it says that it came too late."""
    book, request = await stored(clock, MemoryApprovalStorage())
    clock.now += 60.0
    with pytest.raises(ApprovalError, match="too late"):
        await book.answer(request.token, YES, TOOL)


async def test_a_storage_that_keeps_no_secrets(clock: Clock) -> None:
    """Without its secrets a call can be refused from anywhere, and approved only where they are."""
    storage = MemoryApprovalStorage(clock=clock)
    pin = ToolParameter("pin", "string", description="The PIN.", secret=True)
    secret = msgspec.structs.replace(TOOL, parameters=[pin])
    book = ApprovalBook("session_1", 60.0, clock=clock, storage=storage)
    other = ApprovalBook("session_1", 60.0, clock=clock, storage=storage)
    asked = [book.ask(secret, {"pin": "0000", "n": number}) for number in range(3)]
    for request in asked:
        await book.defer(request.token)
    assert "0000" not in str(await storage.pending("session_1"))
    with pytest.raises(ApprovalError, match="hold secrets"):
        await other.answer(asked[0].token, YES, secret)
    assert (await other.answer(asked[1].token, NO, secret)).token == asked[1].token
    for request in (asked[0], asked[2]):
        assert (await book.answer(request.token, YES, secret)).params == request.params


async def test_a_storage_that_is_gone(clock: Clock) -> None:
    """Then nothing is deferred, an answer can be given again, and decisions are remembered here."""
    book = ApprovalBook("session_1", 60.0, clock=clock, storage=Broken())
    request = book.ask(TOOL, {}, is_once=True)
    with pytest.raises(RecordsUnavailableError):
        await book.defer(request.token)
    for token in (request.token, request.token, "unknown"):
        with pytest.raises(RecordsUnavailableError):
            await book.answer(token, YES, TOOL)
    assert book.pending() == [request]
    with pytest.raises(ApprovalError, match="no approval is awaited"):
        await ApprovalBook("session_1").answer(request.token, YES, TOOL)
    with structlog.testing.capture_logs() as logs:
        assert await decided(book, TOOL, {}) is None
        await book.remember(request, YES)
        assert await decided(book, TOOL, {}) is not None
    assert [each["event"] for each in logs] == ["decision_not_found", "decision_not_kept"]
    assert "hunter2secret" not in str(logs)


async def test_forgotten_everywhere(clock: Clock) -> None:
    """S19: what is forgotten is asked again, in other processes, too."""
    storage = MemoryApprovalStorage(clock=clock)
    book, request = await stored(clock, storage)
    await book.answer(request.token, YES, TOOL)
    await book.forget()
    other = ApprovalBook("session_1", clock=clock, storage=storage)
    assert await decided(book, TOOL, {"amount": 5}) is None
    assert await decided(other, TOOL, {"amount": 5}) is None


def test_a_token_is_a_plain_word() -> None:
    """Somebody types it behind a command: no letter of it means anything there."""
    tokens = {ApprovalBook("s").ask(TOOL, {}).token for _ in range(300)}
    assert len(tokens) == 300
    assert all(token.isalnum() and len(token) >= 40 for token in tokens)
