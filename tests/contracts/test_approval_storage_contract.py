"""What every `ApprovalStorage` keeps to: memory, a SQLite file, a PostgreSQL database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.approval.people import TOOL
from tool_engine.approval.book import ApprovalBook
from tool_engine.errors import SessionError
from tool_engine.interfaces import ApprovalStorage
from tool_engine.knowledge import shared_clock
from tool_engine.knowledge.memory_approvals import MemoryApprovalStorage
from tool_engine.knowledge.sql.sql_approvals import SQLApprovalStorage
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest, standing_ids

Make = Callable[[], Any]
NOW = 1_800_000_000.0
YES = ApprovalDecision(is_approved=True)
NO = ApprovalDecision(is_approved=False, reason="not \x00 \ud800 today")
BOUND = 30.0


def request_for(session_id: str = "chat", token: str = "t-1", **fields: Any) -> ApprovalRequest:  # noqa: S107 - no password
    """A request that does not expire soon."""
    return ApprovalRequest(
        **{
            "token": token,
            "session_id": session_id,
            "tool_name": "write_file",
            "tool_version": "1.0.0",
            "definition_hash": "abc",
            "params": {"path": "a.txt", "lines": [1, 2.0, None, "\u4e2d"]},
            "asked_at": NOW,
            "expires_at": NOW * 2,
            **fields,
        }
    )


def str_of(value: Any) -> str:
    """A name for a value that is not too long."""
    return type(value).__name__


class Clock:
    """Unix time as a test says."""

    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def make(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> AsyncIterator[Make]:
    """Makes a storage; all of one test share what they keep, as processes do."""
    made: list[SQLRecordStorage] = []
    memory = MemoryApprovalStorage(clock=clock)
    url = f"sqlite:///{tmp_path}/calls.db"
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        url = await asyncio.to_thread(server.emptied_database)

    def make_one() -> Any:
        if request.param == "memory":
            return memory
        made.append(SQLRecordStorage(url))
        return SQLApprovalStorage(made[-1].approvals._database, clock=clock)

    yield make_one
    for each in made:
        await each.close()


@pytest.fixture
def approvals(make: Make) -> ApprovalStorage:
    made: ApprovalStorage = make()
    return made


async def tokens(approvals: ApprovalStorage, session_id: str | None = None) -> list[str]:
    return [each.token for each in await approvals.pending(session_id)]


async def test_open_requests_oldest_first(make: Make) -> None:
    """Every process sees what is asked, as it was asked, by session or of all."""
    sent = [
        request_for("a", "t-2", asked_at=NOW + 2, kind="result", result="text", description="D"),
        request_for("b", "t-3", asked_at=NOW + 3, preview="+ line", is_once=True, call_id="c"),
        request_for("a", "t-1", asked_at=NOW + 1),
    ]
    for each in sent:
        await make().put(each)
    assert list(await make().pending()) == [sent[2], sent[0], sent[1]]
    assert await tokens(make(), "a") == ["t-1", "t-2"]
    assert await tokens(make(), "none") == []
    assert all(each.is_whole for each in await make().pending())


async def test_a_request_is_claimed_once(make: Make) -> None:
    """Of many who answer at once, in many storages, exactly one may go on."""
    await make().put(request_for())
    storages = [make() for _ in range(6)]
    async with asyncio.timeout(BOUND):
        found = await asyncio.gather(*(each.claim("t-1") for each in storages * 3))
    assert sorted(found) == [False] * 17 + [True]
    assert await tokens(make()) == []
    assert not await make().claim("t-1")


@pytest.mark.parametrize("token", ["other", "", "t-1\x00", "\ud800", "x" * 5_000, "t-1 "])
async def test_token_that_nobody_gave_out(approvals: ApprovalStorage, token: str) -> None:
    """It opens nothing, whatever it is."""
    await approvals.put(request_for())
    assert not await approvals.claim(token)
    assert await tokens(approvals) == ["t-1"]


async def test_expired_requests_are_not_open(approvals: ApprovalStorage, clock: Clock) -> None:
    """Nobody is shown, and nobody can claim, what came too late."""
    await approvals.put(request_for(expires_at=NOW + 10))
    clock.now = NOW + 9.5
    assert await tokens(approvals) == ["t-1"]
    clock.now = NOW + 10
    assert await tokens(approvals) == []
    assert not await approvals.claim("t-1")


async def test_decisions_belong_to_one_session_and_one_call(make: Make) -> None:
    """What was allowed here is not allowed there; who decides again decides anew. S35"""
    one, other = request_for("a"), request_for("a", params={"path": "b.txt"})
    await make().remember(one, YES)
    kept = await make().remembered("a", one.fingerprint)
    assert kept is not None
    assert kept.is_approved
    assert await make().remembered("a", other.fingerprint) is None
    assert await make().remembered("b", one.fingerprint) is None
    await make().remember(one, NO)
    kept = await make().remembered("a", one.fingerprint)
    assert kept is not None
    assert (kept.is_approved, kept.reason) == (False, NO.reason)


async def test_forget_counts(make: Make) -> None:
    """A session's decisions go together; open requests and other sessions stay."""
    for name in ("a", "b", "c"):
        await make().remember(request_for("a", params={"name": name}), YES)
    await make().remember(request_for("b"), YES)
    await make().put(request_for("a"))
    assert await make().forget("a") == 3
    assert await make().forget("a") == 0
    assert await make().remembered("b", request_for("b").fingerprint) is not None
    assert await tokens(make()) == ["t-1"]


async def test_answered_request_is_not_opened_again(approvals: ApprovalStorage) -> None:
    """A conversation that is restored from an older state asks with the same token: it is used."""
    await approvals.put(request_for())
    assert await approvals.claim("t-1")
    await approvals.put(request_for())
    assert await tokens(approvals) == []
    assert not await approvals.claim("t-1")


async def test_secret_arguments_are_not_kept(approvals: ApprovalStorage) -> None:
    """All that is left of them is the fingerprint; such a request can be shown, and not run."""
    asked = request_for(
        params={"user": "ann", "pin": 1234, "login": {"word": "hunter2"}},
        secret_names=("pin", "word"),
    )
    await approvals.put(asked)
    (found,) = await approvals.pending()
    assert found.params == {"user": "ann", "pin": "[hidden]", "login": {"word": "[hidden]"}}
    assert (found.fingerprint, found.is_whole) == (asked.fingerprint, False)
    assert asked.params["pin"] == 1234
    await approvals.remember(found, YES)
    assert await approvals.remembered("chat", asked.fingerprint) is not None


@pytest.mark.parametrize("value", [b"bytes", {1: 2}, {1, 2}, object, 2**15000], ids=str_of)
async def test_arguments_that_json_cannot_say(approvals: ApprovalStorage, value: Any) -> None:
    """They are shown as they look, and nobody can run them elsewhere."""
    await approvals.put(request_for(params={"value": value}))
    (found,) = await approvals.pending()
    assert not found.is_whole
    assert "value" in found.params


async def test_hostile_arguments_come_back(approvals: ApprovalStorage) -> None:
    """What a model wrote is run as it was approved, to the last character."""
    params = {"text": "NUL \x00 half \ud800 \u202e", "\x00": 2**200, "float": 1.0, "int": 1}
    asked = request_for(params=params, description="\x00\ud800")
    await approvals.put(asked)
    assert list(await approvals.pending()) == [asked]


@pytest.mark.parametrize("session_id", ["", "a\x00b", "\ud800", "x" * 513])
async def test_session_that_can_be_none(approvals: ApprovalStorage, session_id: str) -> None:
    """What belongs to no session is refused, and asked for in vain."""
    asked = msgspec.structs.replace(request_for(), session_id=session_id)
    for step in (
        lambda: approvals.put(asked),
        lambda: approvals.pending(session_id),
        lambda: approvals.remember(asked, YES),
        lambda: approvals.remembered(session_id, "f"),
        lambda: approvals.forget(session_id),
    ):
        with pytest.raises(SessionError, match="the id of a session"):
            await step()
    assert await approvals.remembered("chat", "\x00\ud800") is None


@pytest.mark.parametrize("token", ["", "a\x00", "\ud800", "x" * 513])
async def test_token_that_can_be_none(approvals: ApprovalStorage, token: str) -> None:
    """A request that nobody could answer is refused."""
    with pytest.raises(SessionError, match="no token"):
        await approvals.put(request_for(token=token))
    assert await tokens(approvals) == []


# What holds beyond its conversation.


def standing_ids_of(request: ApprovalRequest) -> tuple[str, str]:
    making = request.making or request.definition_hash
    place = request.principal, request.engine, request.tool_name, making, request.fingerprint
    return standing_ids(*place)


def asked_by(principal: str = "ann", **fields: Any) -> ApprovalRequest:
    return request_for(**{"principal": principal, "engine": "e", "making": "m", **fields})


ALWAYS = ApprovalDecision(is_approved=True, always="call", by="op")
EACH = ApprovalDecision(is_approved=False, always="tool", reason="never")


async def test_a_standing_decision_is_found_by_every_process(make: Make) -> None:
    """Whoever is behind the next call finds it, as it was given."""
    request = asked_by()
    await make().keep_standing(request, ALWAYS)
    await make().keep_standing(request, EACH)
    on_call, on_tool = await make().find_standing(standing_ids_of(request))
    assert (on_call.is_approved, on_call.by, on_call.params) == (True, "op", request.params)
    assert (on_tool.is_approved, on_tool.reason, on_tool.params) == (False, "never", None)
    assert {each.principal for each in (on_call, on_tool)} == {"ann"}
    assert list(await make().list_standing()) == list(await make().list_standing("ann"))
    assert await make().list_standing("bob") == []


@pytest.mark.parametrize(
    "other",
    [
        {"principal": "bob"},
        {"principal": "Ann"},
        {"principal": "ann\x00"},
        {"engine": "f"},
        {"making": "n"},
        {"tool_name": "read_file"},
        {"params": {"path": "b.txt"}},
        {"params": {"path": "a.txt", "lines": [True, 2.0, None, "\u4e2d"]}},
    ],
    ids="-".join,
)
async def test_a_standing_decision_is_for_nothing_else(make: Make, other: dict[str, Any]) -> None:
    """Another principal, engine, making, tool or argument is another question."""
    await make().keep_standing(asked_by(), ALWAYS)
    await make().keep_standing(asked_by(), EACH)
    found = await make().find_standing(standing_ids_of(asked_by(**other)))
    assert [each.params for each in found] == ([None] if "params" in other else [])


@pytest.mark.parametrize("principal", ["", "\x00", "\ud800", "x" * 5_000, "a b\n"])
async def test_any_name_of_a_principal(make: Make, principal: str) -> None:
    """A name is what the program says, whatever a database thinks of it."""
    request = asked_by(principal)
    kept = await make().keep_standing(request, ALWAYS)
    assert list(await make().list_standing(principal)) == [kept]
    assert list(await make().find_standing([kept.decision_id])) == [kept]


async def test_a_standing_decision_is_decided_anew_and_revoked(make: Make) -> None:
    """The last word holds, and none does after it was taken back."""
    request = asked_by()
    first = await make().keep_standing(request, ALWAYS)
    no = msgspec.structs.replace(ALWAYS, is_approved=False)
    again = await make().keep_standing(request, no)
    assert first.decision_id == again.decision_id
    assert [each.is_approved for each in await make().list_standing()] == [False]
    found = await asyncio.gather(*(make().revoke_standing(again.decision_id) for _ in range(4)))
    assert sorted(found) == [False, False, False, True]
    assert await make().find_standing([again.decision_id, "\x00", ""]) == []


async def test_a_standing_decision_outlives_sessions_and_has_no_secrets(make: Make) -> None:
    """It goes with no conversation, and what it was given for is shown without its secrets."""
    request = asked_by(params={"pin": 1234}, secret_names=("pin",))
    await make().keep_standing(request, ALWAYS)
    await make().forget("chat")
    (found,) = await make().find_standing(standing_ids_of(request))
    assert found.params == {"pin": "[hidden]"}


# What several processes share.


@pytest.fixture(params=["sqlite", "postgresql"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/calls.db"
    server = request.getfixturevalue("postgres_server")
    found: str = await asyncio.to_thread(server.emptied_database)
    return found


def shift_clock(monkeypatch: pytest.MonkeyPatch, shift: timedelta) -> None:
    """Sets the clock that programs read from now on."""
    read_time = time.time

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + shift

    monkeypatch.setattr(time, "time", lambda: read_time() + shift.total_seconds())
    monkeypatch.setattr(shared_clock, "datetime", Shifted)


@pytest.mark.parametrize("hours", [-5, 5])
@pytest.mark.parametrize("is_first", [True, False], ids=["asks", "answers"])
async def test_clocks_that_differ(
    url: str, monkeypatch: pytest.MonkeyPatch, hours: int, is_first: bool
) -> None:
    """What a process asks stays open for another one as long as it says, whatever clocks say."""
    made: list[SQLRecordStorage] = []
    if is_first:
        shift_clock(monkeypatch, timedelta(hours=hours))
    first = SQLRecordStorage(url)
    made.append(first)
    book = ApprovalBook("chat", 60.0, storage=first.approvals)
    short = ApprovalBook("chat", 0.3, storage=first.approvals)
    await book.learn_time()
    asked, late = book.ask(TOOL, {"path": "a"}), short.ask(TOOL, {"path": "b"})
    await book.defer(asked.token)
    await short.defer(late.token)
    monkeypatch.undo()
    if not is_first:
        shift_clock(monkeypatch, timedelta(hours=hours))
    second = SQLRecordStorage(url)
    made.append(second)
    other = ApprovalBook.from_dict(book.to_dict(), storage=second.approvals)
    await other.learn_time()
    async with asyncio.timeout(BOUND):
        while late.token in {each.token for each in await second.approvals.pending()}:
            pass
    assert not await second.approvals.claim(late.token)
    assert [each.token for each in await second.approvals.pending()] == [asked.token]
    assert [each.token for each in other.pending()] == [asked.token]
    assert (await other.answer(asked.token, YES, TOOL)).token == asked.token
    assert asked.token not in {each.token for each in await first.approvals.pending()}
    for each in made:
        await each.close()


async def test_a_call_that_waits_says_so(url: str, clock: Clock) -> None:
    """What is not renewed is listed and answered no more, until its process says that it waits."""
    kept = SQLRecordStorage(url)
    storage = SQLApprovalStorage(kept.approvals._database, clock=clock)
    waits, deferred = request_for(is_waiting=True), request_for(token="t-2")
    await storage.put(waits)
    await storage.put(deferred)
    assert len(await storage.pending()) == 2
    clock.now += 10
    assert [each.token for each in await storage.pending()] == ["t-2"]
    assert not await storage.claim("t-1")
    await storage.renew(waits)
    (found, _) = await storage.pending()
    assert (found.token, found.expires_at) == ("t-1", waits.expires_at)
    assert await storage.claim("t-1")
    await storage.renew(waits)
    assert [each.token for each in await storage.pending()] == ["t-2"]
    await kept.close()
