"""What holds in a process that is forked while an engine is there?

Looked at: call ids, record ids, the writers of records, events, sessions and approvals, which share
one kind of connection; subscriptions, streams and slots; tokens and session ids, which the system
draws one by one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import warm

BOUND = 60.0
HEAD = """
import asyncio, json, os, sys
from tool_engine import *
folder = sys.argv[1]
engine = ToolEngine(ToolEngineConfig(
    tools_directory=folder, auto_reload=False, records=f"sqlite:///{folder}/c.db",
    durability="call", keep_events=100))
async def ok(who): return who
OK = {"name": "ok", "version": "1.0.0", "description": "d", "category": "custom",
    "entry": {"type": "custom", "handler": "ok"},
    "parameters": [{"name": "who", "type": "string", "description": "d", "required": True}]}
engine.register_tool(OK, ok)
async def call(who):
    result = await engine.execute("ok", {"who": who})
    assert result.is_success and "record" not in result.metadata, result
    return result.call_id
def child(work):
    # What `work` returns, from a process of its own.
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            told = asyncio.run(work())
        except BaseException as error:
            told = repr(error)
        os.write(write, json.dumps(told).encode())
        os._exit(0)
    os.close(write)
    with open(read) as file: told = json.load(file)
    os.waitpid(pid, 0)
    return told
async def error_of(awaitable):
    try:
        return repr(await awaitable)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""


def run(folder: Path, script: str) -> Any:
    """What a program prints, which runs apart: a fork of the tests would have all their threads."""
    done = warm.run(["-c", HEAD + script, str(folder)], timeout=BOUND)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_engine_that_each_child_loads(tmp_path: Path) -> None:
    """No two calls have one id, whichever process made them, and all records are there."""
    ids, rows = run(
        tmp_path,
        """
async def serve():
    async with engine:
        return [await call(str(os.getpid())) for _ in range(5)]
from tool_engine.calls.call import name_call
name_call("call-")  # the supply is there before the fork
ids = child(serve) + child(serve) + asyncio.run(serve())
async def rows():
    store = ToolKnowledgeStore(engine.store.storage.__class__(f"sqlite:///{folder}/c.db"))
    found = [record.call_id for record in await store.query_call_records()]
    await store.close()
    return found
print(json.dumps([ids, asyncio.run(rows())]))
""",
    )
    assert len(set(ids)) == len({each.rpartition("-")[2] for each in ids}) == 15
    assert sorted(rows) == sorted(ids)


def test_an_engine_that_was_loaded_before(tmp_path: Path) -> None:
    """The child is told whose it is, whatever it does; the parent goes on, and loses nothing."""
    told, parent, after = run(
        tmp_path,
        """
async def misuse():
    storage = engine.store.storage
    told = [await error_of(each) for each in (
        engine.execute("ok", {"who": "child"}), engine.execute("gone"), engine.load(),
        engine.reload(), storage.query(RecordQuery()), engine.store.sessions.list(),
        engine.store.sessions.save("s", {}), storage.flush(1.0))]
    try:
        engine.register_tool({})
    except Exception as error:
        told.append(f"{type(error).__name__}: {error}")
    for take in (lambda: engine.subscribe(print), lambda: engine.events(after=0)):
        try:
            take()
        except Exception as error:
            told.append(f"{type(error).__name__}: {error}")
    controller = engine.controller
    told += [await error_of(controller.acquire()), await error_of(slot(controller))]
    controller.resume()
    told.append(await error_of(controller.acquire()))
    async with asyncio.timeout(5):
        await engine.close()
    return told
async def slot(controller):
    async with controller.slot("http"):
        return "given"
from tool_engine.model.record import RecordQuery
async def main():
    async with engine:
        first = await call("before")
        told = await asyncio.to_thread(child, misuse)
        second = await call("after")
        found = [record.call_id for record in await engine.store.query_call_records()]
    assert sorted(found) == sorted([first, second]), found
    return told
told = asyncio.run(main())
print(json.dumps([told, os.getpid(), "ended"]))
""",
    )
    *others, heard, streamed, once, twice, resumed = told
    *refused, flushed, registered = others
    for each in (heard, streamed, once, twice, resumed):
        assert f"opened in process {parent} and belongs to it" in each, told
    assert {each.partition(":")[0] for each in (once, twice, resumed)} == {"ControllerClosedError"}
    assert heard.startswith("EngineClosedError: the engine cannot be used here")
    assert after == "ended"
    assert flushed in ("True", "False")
    for each in (*refused, registered):
        assert f"opened in process {parent} and belongs to it" in each, told
        assert "after the fork" in each
    kinds = [each.partition(":")[0] for each in refused]
    assert kinds == ["EngineClosedError"] * 4 + ["RecordsUnavailableError"] * 3
    assert registered.startswith("EngineClosedError")


def test_what_waits_in_the_parent(tmp_path: Path) -> None:
    """A question and a stream that the child has a copy of cannot go on there, nor a call."""
    told, parent, answered = run(
        tmp_path,
        """
async def misuse():
    cycle = await session.process(CALL, "function_call")
    told = [[each.error_type for each in cycle.execution_results]]
    try:
        told.append(repr(queue.allow(token)))
    except Exception as error:
        told.append(f"{type(error).__name__}: {error}")
    told.append(await error_of(asyncio.wait_for(anext(stream), 5)))
    own = QueueApprover()
    return told + [[each.token for each in queue.pending_approvals], repr(own)]
CALL = '<function_call>{"name": "ok", "arguments": {"who": "a"}}</function_call>'
async def main():
    global session, queue, token, stream
    queue = QueueApprover()
    async with engine:
        session = ToolSession(engine, "free")
        stream = engine.events()
        asking = ToolSession(engine, "asks", {"require_confirmation": True}, approver=queue)
        asked = asyncio.create_task(asking.execute("ok", {"who": "b"}))
        token = (await queue.wait_for_request()).token
        told = await asyncio.to_thread(child, misuse)
        queue.allow(token)
        answered = (await asked).is_success
        await stream.aclose()
    return [told, os.getpid(), answered]
print(json.dumps(asyncio.run(main())))
""",
    )
    cycle, answer, heard, pending, own = told
    assert cycle == ["engine_closed"]
    assert answer == (
        f"ApprovalError: the call of 'ok' waits for its answer in process {parent}, from which "
        "this one was forked: answer it there"
    )
    assert heard.startswith(f"EngineClosedError: this stream was opened in process {parent}")
    assert (pending, own, answered) == ([], "QueueApprover(0 pending)", True)


def test_a_child_that_makes_its_own(tmp_path: Path) -> None:
    """Beside one that was loaded before the fork, a new engine works, on the same database."""
    ids, rows = run(
        tmp_path,
        """
async def serve():
    global engine
    config = engine.config
    engine = ToolEngine(config)
    engine.register_tool(OK, ok)
    async with engine:
        return [await call("child") for _ in range(5)]
async def main():
    async with engine:
        ids = [await call("parent")]
        ids += await asyncio.to_thread(child, serve)
        return ids, [record.call_id for record in await engine.store.query_call_records()]
print(json.dumps(asyncio.run(main())))
""",
    )
    assert len(set(ids)) == 6
    assert sorted(rows) == sorted(ids)


def test_an_engine_that_was_called_before(tmp_path: Path) -> None:
    """B10: its slots are the parent's, also where nobody loaded it: a call that runs there held the
    copy of its slot for ever, and a child that waited for one never came back."""
    first, error, sync, last = run(
        tmp_path,
        """
import threading
engine = ToolEngine(ToolEngineConfig(
    tools_directory=folder, auto_reload=False, concurrency=ConcurrencyConfig(max_concurrent=1)))
begun, freed = threading.Event(), threading.Event()
def hold(who):
    begun.set()
    freed.wait(20)
    return who
engine.register_tool(OK, hold)
waiting = threading.Thread(target=lambda: engine.execute_sync("ok", {"who": "parent"}))
waiting.start()
begun.wait(20)
async def call_there():
    return await error_of(engine.execute("ok", {"who": "child"}))
async def block_there():
    try:
        return repr(engine.execute_sync("ok", {"who": "child"}))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
told = child(call_there), child(block_there)
freed.set()
waiting.join()
print(json.dumps([waiting.is_alive(), *told, engine.execute_sync("ok", {"who": "a"}).output]))
""",
    )
    assert first is False
    assert error.startswith("EngineClosedError: the engine cannot be used here: it was opened in")
    assert sync.startswith("EngineClosedError: the engine cannot be used here: it was opened in")
    assert last == {"result": "a"}


@pytest.mark.parametrize("records", ["", "records=f'sqlite:///{folder}/tasks.db', "])
def test_tasks_of_a_parent(tmp_path: Path, records: str) -> None:
    """A child neither runs nor ends them nor waits for them: it is told whose they are."""
    said, ran, ends = run(
        tmp_path,
        "settings = dict(tools_directory=folder, auto_reload=False, " + records + ")"
        """
engine = ToolEngine(ToolEngineConfig(**settings), concurrency=ConcurrencyConfig(max_concurrent=1))
gate, ran = asyncio.Event(), []
async def work(who):
    ran.append(who)
    await gate.wait()
    return who
engine.register_tool({**OK, "name": "work"}, work)
async def misuse():
    running, *_, queued = handles
    return [await error_of(each) for each in (
        engine.start("work", {"who": "child"}), engine.tasks.get(queued.id), engine.tasks.list(),
        engine.tasks.cancel(queued.id), running.cancel(), queued.wait(), running.refresh())]
async def main():
    await engine.load()
    global handles
    handles = [await engine.start("work", {"who": str(each)}) for each in range(8)]
    while not ran:
        await asyncio.sleep(0.01)
    loop = asyncio.get_running_loop()
    asyncio._set_running_loop(None)
    told = child(misuse)
    asyncio._set_running_loop(loop)
    gate.set()
    ends = [(await handle.wait(30)).output["result"] for handle in handles]
    await engine.close()
    return told, ends
told, ends = asyncio.run(main())
print(json.dumps([told, ran, ends]))
""",
    )
    assert len(said) == 7
    for each in said:
        assert each.startswith("EngineClosedError: the engine cannot be used here: it was opened")
    assert ran == ends == [str(each) for each in range(8)]
