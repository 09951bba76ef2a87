"""What every `TaskStorage` keeps to: memory, a SQLite file, a PostgreSQL database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tool_engine.interfaces.task_storage import TaskStorage
from tool_engine.knowledge.memory_tasks import MemoryTaskStorage
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.progress import ToolProgress
from tool_engine.model.task import KeptTask, TaskState

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


def task_for(task_id: str, **fields: Any) -> KeptTask:
    """A queued task of an hour."""
    owner, tool_name = fields.pop("owner", None), fields.pop("tool_name", "report")
    expires_at = NOW + timedelta(seconds=fields.pop("seconds", 3600))
    state = TaskState(
        id=task_id, tool_name=tool_name, owner=owner, created_at=NOW, expires_at=expires_at
    )
    given = {"priority": 5, "definition_hash": "abc", "ttl": 3600.0, **fields}
    return KeptTask(
        state=state, params={"year": 2026}, context=ToolExecutionContext(owner), **given
    )


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TaskStorage]:
    if request.param == "memory":
        yield MemoryTaskStorage()
        return
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'kept.db'}"
    else:
        server = request.getfixturevalue("postgres_server")
        url = await asyncio.to_thread(server.emptied_database)
    kept = SQLRecordStorage(url)
    await kept.open()
    yield kept.tasks
    await kept.close()


async def test_one_that_has_ended_when_it_is_put(storage: TaskStorage) -> None:
    """It is kept with its end, as one of no worker, and changes no more."""
    task = task_for("a", owner="ann", worker="me")
    result = ToolExecutionResult(True, "report", {"pages": [1, 2]}, metadata={"call_id": "c"})
    task.take_state(replace(task.state, status="succeeded", ended_at=NOW, result=result))
    assert await storage.put(task) is task
    found = await storage.get("a")
    assert found is not None
    assert (found.state, await storage.list_own("me")) == (task.state, [])
    assert not await storage.change(task, replace(task.state, status="failed"))
    assert await storage.find_first_end("ann") == task.state.expires_at
    assert await storage.remove_expired(NOW + timedelta(seconds=3601)) == 1


async def test_what_an_owner_has(storage: TaskStorage) -> None:
    """What has ended counts as long as it is kept; the first to be forgotten is known."""
    ended = [task_for(name, owner="ann", worker="me") for name in ("a", "b")]
    for each in (*ended, task_for("c", owner="ann", key="k"), task_for("d", owner="bob", key="k")):
        await storage.put(each)
    assert (await storage.count_kept("ann"), await storage.count_kept("bob")) == (3, 1)
    assert await storage.count_kept("eve") == 0
    assert await storage.find_first_end("ann") is None
    for number, each in enumerate(ended):
        over = NOW + timedelta(seconds=60 - number)
        await storage.change(each, replace(each.state, status="succeeded", expires_at=over))
    assert await storage.find_first_end("ann") == NOW + timedelta(seconds=59)
    assert await storage.count_kept("ann") == 3
    found = await storage.get_by_key("ann", "k")
    assert found is not None
    assert found.state.id == "c"
    assert await storage.get_by_key("eve", "k") is None
    await storage.remove_expired(NOW + timedelta(seconds=61))
    assert await storage.count_kept("ann") == 1
    assert [each.id for each in await storage.list("ann", None, 9, None)] == ["c"]
    assert await storage.find_first_end("ann") is None


async def ids_claimed(storage: TaskStorage, limit: int = 10, full: tuple[str, ...] = ()) -> str:
    found = await storage.claim("me", limit, full)
    return " ".join(each.state.id for each in found)


async def test_a_task_comes_back_as_it_was(storage: TaskStorage) -> None:
    """What is kept is what was started: arguments, caller, and what it may run."""
    await storage.put(task_for("a", owner="ann \x00 \u4e2d", key="k", digest="d"))
    found = await storage.get("a")
    assert found is not None
    assert (found.params, found.definition_hash, found.key) == ({"year": 2026}, "abc", "k")
    assert found.context is not None
    assert (found.context.caller_id, found.state.owner) == ("ann \x00 \u4e2d",) * 2
    assert (found.state.status, found.state.created_at) == ("queued", NOW)
    assert await storage.get("b") is None


async def test_order(storage: TaskStorage) -> None:
    """The most urgent is given first, then the oldest; a tool that is full stops no other."""
    await storage.put(task_for("late", priority=5))
    await storage.put(task_for("later", priority=5, tool_name="mail"))
    last = await storage.put(task_for("last", priority=5))
    await storage.put(task_for("urgent", priority=1))
    assert [await storage.count_ahead(last, most) for most in (2, 3, 9)] == [2, 3, 3]
    assert await ids_claimed(storage, 2) == "urgent late"
    assert await ids_claimed(storage, 2, ("report",)) == "later"
    assert await ids_claimed(storage, 2) == "last"
    assert await ids_claimed(storage, 2) == ""


async def test_owners_take_turns(storage: TaskStorage) -> None:
    """However many one owner has, it delays each task of others by one; priority goes before."""
    for each in range(6):
        await storage.put(task_for(f"ann{each}", owner="ann"))
    assert await ids_claimed(storage, 2) == "ann0 ann1"
    for each in range(2):
        await storage.put(task_for(f"bob{each}", owner="bob"))
    await storage.put(task_for("none"))
    last = await storage.put(task_for("ann6", owner="ann"))
    await storage.put(task_for("urgent", owner="ann", priority=1))
    assert await storage.count_ahead(last, 99) == 8
    found = await storage.get("bob0")
    assert found is not None
    assert await storage.count_ahead(found, 99) == 2
    order = "urgent ann2 bob0 none ann3 bob1 ann4 ann5 ann6"
    assert await ids_claimed(storage, 3) == "urgent ann2 bob0"
    await storage.put(task_for("bob2", owner="bob"))
    assert f"urgent ann2 bob0 {await ids_claimed(storage)}" == order.replace("ann5", "bob2 ann5")


async def test_new_owners_hold_up_none(storage: TaskStorage) -> None:
    """One that waits is begun also where for each that is taken another new owner comes."""
    for each in range(3):
        await storage.put(task_for(f"ann{each}", owner="ann"))
    begun: list[str] = []
    while "ann2" not in begun:
        assert len(begun) < 30
        await storage.put(task_for(f"new{len(begun)}", owner=f"owner {len(begun)}"))
        begun += (await ids_claimed(storage, 1)).split()


async def test_a_line_that_was_empty(storage: TaskStorage) -> None:
    """A tool of which none waited makes up for nothing: it begins where others have come to."""
    await storage.beat("me")
    for each in range(9):
        await storage.put(task_for(f"old{each}", owner="ann"))
    assert await ids_claimed(storage, 7) == " ".join(f"old{each}" for each in range(7))
    for each in range(3):
        await storage.put(task_for(f"new{each}", owner="bob", tool_name="mail"))
    assert await ids_claimed(storage) == "new0 old7 new1 old8 new2"


async def test_what_was_given_back_lets_none_pass(storage: TaskStorage) -> None:
    """It goes first, and new owners go where they would without it."""
    for each in range(9):
        await storage.put(task_for(f"ann{each}", owner="ann"))
    *_, last = await storage.claim("me", 5)
    assert await storage.give_back(last)
    for each in range(2):
        await storage.put(task_for(f"bob{each}", owner="bob"))
    assert await ids_claimed(storage) == "ann4 ann5 bob0 ann6 bob1 ann7 ann8"


async def test_one_key_one_task(storage: TaskStorage) -> None:
    """Of two starts of one owner with one key the second gets the first; another owner does not."""
    first = await storage.put(task_for("a", owner="ann", key="k"))
    again = await storage.put(task_for("b", owner="ann", key="k"))
    other = await storage.put(task_for("c", owner="bob", key="k"))
    assert [each.state.id for each in (first, again, other)] == ["a", "a", "c"]
    assert await storage.get("b") is None


async def test_final_once(storage: TaskStorage) -> None:
    """A task that has ended never changes again, and tells what came of it."""
    task = await storage.put(task_for("a", worker="me"))
    half = replace(task.state, status="running", progress=ToolProgress(1, 2))
    assert await storage.change(task, half)
    result = ToolExecutionResult(True, "report", {"pages": [1, 2]}, metadata={"call_id": "c"})
    done = replace(half, status="succeeded", ended_at=NOW, result=result)
    assert await storage.change(task, done)
    assert not await storage.change(task, replace(done, status="failed"))
    assert not await storage.give_back(task)
    assert await storage.take(["a"], "me") == []
    found = await storage.get("a")
    assert found is not None
    assert found.state.status == "succeeded"
    assert found.state.result is not None
    assert found.state.result.output == {"pages": [1, 2]}
    assert found.state.progress == ToolProgress(1, 2)


@pytest.mark.parametrize("status", ["queued", "input_required"])
async def test_a_task_that_runs_waits_no_more(storage: TaskStorage, status: str) -> None:
    """What was to be written before it ran, and comes late, is refused; giving back is not."""
    task = await storage.put(task_for("a", worker="me"))
    waits = replace(task.state, status=status)
    assert await storage.change(task, waits)
    assert await storage.change(task, replace(task.state, status="running"))
    assert not await storage.change(task, waits)
    found = await storage.get("a")
    assert found is not None
    assert found.state.status == "running"
    assert await storage.give_back(task)


async def test_what_a_task_comes_to_while_it_is_written(storage: TaskStorage) -> None:
    """How it was when it was written does not take the place of how it is by then."""
    task = await storage.put(task_for("a", worker="me"))
    task.state = replace(task.state, status="running")
    writing = asyncio.ensure_future(storage.change(task, task.state))
    await asyncio.sleep(0)
    task.state = replace(task.state, progress=ToolProgress(1, 2))
    assert await writing
    assert task.state.progress == ToolProgress(1, 2)


async def test_given_back(storage: TaskStorage) -> None:
    """A task that was given back keeps its place."""
    await storage.put(task_for("a"))
    await storage.put(task_for("b"))
    (task,) = await storage.claim("me", 1)
    assert await storage.give_back(task)
    assert await ids_claimed(storage) == "a b"


async def test_taken_once(storage: TaskStorage) -> None:
    """Of many who take a task at once, one has it; of several, those that are free are taken."""
    await storage.put(task_for("a"))
    taken = await asyncio.gather(*(storage.take(["a"], f"w{each}") for each in range(5)))
    assert sorted(map(len, taken)) == [0, 0, 0, 0, 1]
    for name in ("b", "c"):
        await storage.put(task_for(name))
    taken = await asyncio.gather(*(storage.take(["a", "b", "c"], f"w{n}") for n in range(5)))
    assert sorted(each.state.id for many in taken for each in many) == ["b", "c"]


async def test_lists(storage: TaskStorage) -> None:
    """The newest come first, page by page, those of one owner and status alone."""
    for each in range(5):
        await storage.put(task_for(f"t{each}", owner="ann" if each % 2 else "bob"))
    await storage.put(task_for("mine", owner="ann", worker="me"))
    task = await storage.get("mine")
    assert task is not None
    await storage.change(task, replace(task.state, status="running"))

    async def ids(*asked: Any) -> list[str]:
        return [each.id for each in await storage.list(*asked)]

    assert await ids(None, None, 3, None) == ["mine", "t4", "t3"]
    assert await ids(None, None, 9, "t3") == ["t2", "t1", "t0"]
    assert await ids("ann", None, 9, None) == ["mine", "t3", "t1"]
    assert await ids("ann", "queued", 9, None) == ["t3", "t1"]
    assert await ids(None, None, 9, "t4", "other") == []
    assert await ids(None, "queued", 2, None, task.state.tool_name) == ["t4", "t3"]


async def test_lists_of_what_has_ended(storage: TaskStorage) -> None:
    """In the order in which they were started, whichever ended first, without those forgotten."""
    started = [await storage.put(task_for(f"t{each}", worker="me")) for each in range(200)]
    for each in (*started[::-2], *started[::2]):
        status = "failed" if each.number % 5 else "succeeded"
        assert await storage.change(each, replace(each.state, status=status))
    failed = [each.state.id for each in started if each.state.status == "failed"]
    for task_id in failed[20:]:
        assert await storage.remove(task_id)
    listed = [each.id for each in await storage.list(None, "failed", 99, None)]
    assert listed == failed[:20][::-1]
    older = [each.id for each in await storage.list(None, "failed", 5, listed[4])]
    assert older == listed[5:10]


@pytest.mark.parametrize("message", [None, ',"result":{"is_success":true}}', "half \ud83d", "中"])
async def test_lists_without_results(storage: TaskStorage, message: str | None) -> None:
    """A result is listed only where it is asked for, and the rest of a task is as it is."""
    task = await storage.put(task_for("a", worker="me"))
    running = replace(task.state, status="running", progress=ToolProgress(1, 2, message))
    assert await storage.change(task, running)
    assert (await storage.list(None, None, 9, None))[0].progress is not None
    result = ToolExecutionResult(True, "report", {"text": "\x00" * 9, "result": {"a": 1}})
    assert await storage.change(task, replace(running, status="succeeded", result=result))
    (listed,) = await storage.list(None, None, 9, None)
    (whole,) = await storage.list(None, None, 9, None, results=True)
    assert listed.result is None
    assert whole.result is not None
    assert whole.result.output == result.output
    assert listed == replace(whole, result=None)
    assert (listed.status, listed.progress is not None) == ("succeeded", True)


async def test_expiry(storage: TaskStorage) -> None:
    """Queued tasks whose time is over are given to end them; ended ones are forgotten."""
    await storage.put(task_for("long"))
    await storage.put(task_for("short", seconds=1))
    done = await storage.put(task_for("done", seconds=1, worker="me"))
    await storage.change(done, replace(done.state, status="failed"))
    now = NOW + timedelta(seconds=2)
    assert [each.state.id for each in await storage.claim_expired("me", now, 9)] == ["short"]
    assert await storage.remove_expired(now) == 1
    assert await storage.get("done") is None
    assert await storage.get("long") is not None


async def test_removing(storage: TaskStorage) -> None:
    """One that has ended is forgotten, with its key; another one is not."""
    await storage.put(task_for("waits"))
    done = await storage.put(task_for("done", worker="me", key="k"))
    assert not await storage.remove("done")
    await storage.change(done, replace(done.state, status="failed"))
    assert await storage.remove("done")
    assert not await storage.remove("done")
    assert not await storage.remove("waits")
    assert await storage.get("done") is None
    again = task_for("again", key="k")
    assert await storage.put(again) is again


@pytest.fixture
async def shared(storage: TaskStorage) -> TaskStorage:
    if not storage.is_shared:
        pytest.skip("this storage is one engine's own: no other worker can claim its tasks")
    return storage


async def test_what_only_one_worker_can_run(shared: TaskStorage) -> None:
    """One that leaves the others alone is given no other task."""
    await shared.put(task_for("a"))
    await shared.put(task_for("b", bound_to="me"))
    await shared.put(task_for("c", bound_to="you"))
    found = await shared.claim("me", 10, is_own=True)
    assert [each.state.id for each in found] == ["b"]
    assert await ids_claimed(shared) == "a"


async def test_what_belongs_to_another_worker(shared: TaskStorage) -> None:
    """Only the worker that has a task changes it, as one that was taken for dead finds out."""
    await shared.put(task_for("a"))
    (mine,) = await shared.claim("me", 1)
    (its,) = await shared.inherit("me", "heir")
    assert not await shared.change(mine, replace(mine.state, status="succeeded"))
    assert await shared.change(its, replace(its.state, status="failed"))


async def test_workers(shared: TaskStorage) -> None:
    """A worker counts up while it lives; one that never did is known by its tasks."""
    await shared.put(task_for("a", worker="young"))
    assert await shared.beat("me") == {"me": 1, "young": 0}
    assert await shared.beat("me") == {"me": 2, "young": 0}
    await shared.retire("young")
    assert await shared.beat("me") == {"me": 3}
    assert await ids_claimed(shared) == "a"


async def test_bound(shared: TaskStorage) -> None:
    """What only one engine can run is given to no other, and its arguments are not written."""
    await shared.put(task_for("a", bound_to="other"))
    assert await ids_claimed(shared) == ""
    (task,) = await shared.claim("other", 9)
    assert (task.params, task.context) == (None, None)


async def test_asked_to_cancel(shared: TaskStorage) -> None:
    """The worker of a task learns that another engine wants it cancelled."""
    await shared.put(task_for("a", worker="me"))
    assert await shared.ask_cancel("a", "no more")
    assert await shared.list_own("me") == [("a", "no more")]
    assert not await shared.ask_cancel("b", "no more")
