"""Who was asked for consent, and what did they say?"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tool_engine.errors import ApprovalError, ConfigurationError
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.session.approval import ApprovalBook, ApprovalDecision

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
NEWER = msgspec.structs.replace(TOOL, version="1.0.1")


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


def test_an_answer_is_taken_once(book: ApprovalBook) -> None:
    """Two answers at once: the first one counts, the second is told so."""
    request = book.ask(TOOL, {"amount": 5})
    assert book.answer(request.token, YES, TOOL) == request
    assert book.pending() == []
    for late in (YES, NO):
        with pytest.raises(ApprovalError, match="no approval is awaited under this token"):
            book.answer(request.token, late, TOOL)


def test_an_answer_after_the_call_has_ended(book: ApprovalBook) -> None:
    """A request whose call was cancelled is closed; withdrawing it again is harmless."""
    request = book.ask(TOOL, {})
    book.withdraw(request.token)
    book.withdraw(request.token)
    with pytest.raises(ApprovalError, match="withdrawn"):
        book.answer(request.token, YES, TOOL)


def test_an_answer_that_comes_too_late(book: ApprovalBook, clock: Clock) -> None:
    """U32: after its time nobody's consent counts, and the request is not shown any more."""
    request, other = book.ask(TOOL, {}), book.ask(TOOL, {"x": 1})
    clock.now += 60.0
    with pytest.raises(ApprovalError, match=r"came too late: it was asked for 60 s ago"):
        book.answer(request.token, YES, TOOL)
    assert book.pending() == []
    with pytest.raises(ApprovalError, match="no approval is awaited"):
        book.answer(other.token, YES, TOOL)


@pytest.mark.parametrize("now", [CHANGED, NEWER, None])
def test_consent_is_for_the_tool_as_it_was(book: ApprovalBook, now: Tool | None) -> None:
    """A tool that was changed, or is gone, is not what somebody consented to."""
    request = book.ask(TOOL, {})
    with pytest.raises(ApprovalError, match="'pay' is not what was approved"):
        book.answer(request.token, YES, now)
    refused = book.ask(TOOL, {})
    assert book.answer(refused.token, NO, now) == refused


def test_what_is_remembered(book: ApprovalBook) -> None:
    """S19, U34: a decision holds for the same definition with the same arguments, and no others."""
    params: dict[str, Any] = {"to": "ann", "deep": {"a": 1, "b": [1, 2]}}
    request = book.ask(TOOL, params)
    keep = ApprovalDecision(is_approved=False, reason="No.", is_remembered=True)
    book.answer(request.token, keep, TOOL)
    assert book.remembered(TOOL, {"deep": {"b": [1, 2], "a": 1}, "to": "ann"}) == keep
    for other in (
        {**params, "to": "Ann"},
        {**params, "deep": {"a": True, "b": [1, 2]}},
        {**params, "deep": {"a": 1, "b": [2, 1]}},
        {**params, "deep": {"a": "1", "b": [1, 2]}},
        {**params, "more": None},
    ):
        assert book.remembered(TOOL, other) is None
    assert book.remembered(CHANGED, params) is None
    assert book.remembered(msgspec.structs.replace(TOOL, name="pay2"), params) is None
    book.forget()
    assert book.remembered(TOOL, params) is None


def test_long_arguments_are_not_mixed_up(book: ApprovalBook) -> None:
    """U34: calls that differ only in their last letter are two calls, however long they are."""
    book.remember(book.ask(TOOL, {"text": "x" * 10_000 + "a"}), YES)
    assert book.remembered(TOOL, {"text": "x" * 10_000 + "a"}) is not None
    assert book.remembered(TOOL, {"text": "x" * 10_000 + "b"}) is None


def test_a_decision_that_is_not_to_be_remembered(book: ApprovalBook) -> None:
    """Consent to one call is no consent to the next."""
    book.answer(book.ask(TOOL, {}).token, YES, TOOL)
    assert book.remembered(TOOL, {}) is None


def test_another_process_goes_on(book: ApprovalBook, clock: Clock) -> None:
    """Open requests and decisions survive a restart; the clock goes on meanwhile."""
    first, second = book.ask(TOOL, {"x": 1}), book.ask(TOOL, {"x": "ä\ud800"})
    book.remember(first, NO)
    data = json.loads(json.dumps(book.to_dict()))
    clock.now += 59.0
    again = ApprovalBook.from_dict(data, clock=clock)
    assert again.answer(first.token, YES, TOOL) == first
    remembered = again.remembered(TOOL, {"x": 1})
    assert remembered is not None
    assert remembered.reason == "Not today."
    clock.now += 1.0
    with pytest.raises(ApprovalError, match="too late"):
        again.answer(second.token, YES, TOOL)
    assert repr(again) == "ApprovalBook(0 open, 1 remembered)"


def test_data_of_something_else() -> None:
    """What was not written by `to_dict` is refused, with the place."""
    with pytest.raises(ApprovalError, match=r"these are no kept approvals: .*session_id"):
        ApprovalBook.from_dict({})


def test_a_timeout_of_nothing() -> None:
    """A request that is expired when it is made is a mistake."""
    with pytest.raises(ConfigurationError, match="timeout must be a positive"):
        ApprovalBook("s", 0)
