"""What does a worker of a fleet do by itself, without Ray: how often does it speak?"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tool_engine import ToolExecutionContext
from tool_engine.executors.fleet.actor import FleetActor
from tool_engine.executors.fleet.frames import (
    frame_message,
    read_bundle,
    split_messages,
    write_bundle,
)
from tool_engine.executors.fleet.host import REPORT_SECONDS, FleetHost, Settings
from tool_engine.executors.fleet.versions import own_versions
from tool_engine.executors.python.python_entry import PythonEntry

BOUND = 60.0
CALLS, REPORTS = 10, 200
CODE = """
import asyncio
async def talk(x, context):
    await asyncio.sleep(x % 10 * 0.005)  # so that the calls speak at different times
    for number in range(x):
        context.report_progress(number + 1, x)
        await asyncio.sleep(0.002)
    return x
"""


async def make_actor(folder: Path, code: str, name: str) -> FleetActor:
    """What Ray makes of a worker of a function."""
    (folder / f"{name}_of_fleets.py").write_text(f"import asyncio\n{code}")
    entry = PythonEntry(f"{name}_of_fleets", name, "ray")
    versions = await asyncio.to_thread(own_versions)
    return FleetActor(msgspec.json.encode(Settings(entry, [*sys.path], **versions)))


async def test_a_plain_function_that_returns_an_awaitable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused here, too, as in the engine's process: its code runs alike in each place."""
    monkeypatch.syspath_prepend(str(tmp_path))
    actor = await make_actor(tmp_path, "def later(): return asyncio.sleep(0)\n", "later")
    async with asyncio.timeout(BOUND):
        assert json.loads(await asyncio.to_thread(actor.prepare))["answer"]["error"] is None
        request = write_bundle(1, 0, frame_message(b'[{"id":1,"params":{}}]'))
        _, _, said = read_bundle(await asyncio.to_thread(actor.exchange, request))
        (answer,) = json.loads(split_messages(said)[0])
        assert answer["error"]["message"].endswith("an awaitable; declare it with 'async def'")
        await asyncio.to_thread(actor.stop)
        await asyncio.to_thread(end_loop, actor._loop)


PRINTING = """
async def speak(word, seconds):
    print(word * 2**20 if len(word) == 1 else word)
    await asyncio.sleep(seconds)
    if seconds == 0.2:
        import os
        os._exit(3)
"""
"""One character is a flood, and 0.2 s are fatal."""


async def speak_together(
    folder: Path, monkeypatch: pytest.MonkeyPatch, calls: list[tuple[str, float]], wanted: int
) -> list[dict[str, Any]]:
    """The first answers of calls that print a word and stay for some seconds, three at a time."""
    monkeypatch.syspath_prepend(str(folder))
    actor = await make_actor(folder, PRINTING, "speak")
    requests = [
        json.dumps({"id": number, "params": dict(zip(("word", "seconds"), each, strict=True))})
        for number, each in enumerate(calls, 1)
    ]
    answers: list[dict[str, Any]] = []
    trips = sent = 0
    async with asyncio.timeout(BOUND):
        assert json.loads(await asyncio.to_thread(actor.prepare))["answer"]["error"] is None
        while len(answers) < wanted:
            most, trips = len(answers) + 3, trips + 1
            bundle = frame_message(f"[{','.join(requests[sent:most])}]".encode())
            sent = most
            reply = await asyncio.to_thread(actor.exchange, write_bundle(trips, 0, bundle))
            for each in split_messages(read_bundle(reply)[2]):
                answers += json.loads(each)
        await asyncio.to_thread(actor.stop)
        await asyncio.to_thread(end_loop, actor._loop)
    return answers


async def test_what_one_call_prints_is_not_shown_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: the process of several calls dies; its last words may be any one's secret."""
    calls = [("a secret", 1000.0), ("of Ann", 0.2)]
    for answer in await speak_together(tmp_path, monkeypatch, calls, 2):
        assert "exit code 3" in answer["error"]["message"]
        assert "secret" not in answer["error"]["message"]
        assert "Ann" not in answer["error"]["message"]


async def test_what_calls_print_one_after_the_other_is_no_flood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is never idle goes on, however much all its calls have printed together."""
    calls = [("", 1000.0), *[("x", 0.001)] * 80]
    answers = await speak_together(tmp_path, monkeypatch, calls, 80)
    assert [each.get("error") for each in answers] == [None] * 80


async def test_bundles_that_overtake_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray's threads may begin with them in any order: a cancellation still ends its call; what
    cannot be read ends its exchange, and no thread waits for ever.
    """
    monkeypatch.syspath_prepend(str(tmp_path))
    actor = await make_actor(tmp_path, "async def wait(x): await asyncio.sleep(1000)\n", "wait")
    requests = [b'[{"id":1,"params":{"x":1}}]', b'[{"cancel":1}]', b"no JSON"]
    numbered = [
        write_bundle(number, 0, frame_message(each)) for number, each in enumerate(requests, 1)
    ]
    async with asyncio.timeout(BOUND):
        assert json.loads(await asyncio.to_thread(actor.prepare))["answer"]["error"] is None
        second = asyncio.create_task(asyncio.to_thread(actor.exchange, numbered[1]))
        while 2 not in actor._early:  # noqa: ASYNC110 - a thread rings no bell
            await asyncio.sleep(0.001)
        first = await asyncio.to_thread(actor.exchange, numbered[0])
        said = b"".join(read_bundle(each)[2] for each in (first, await second))
        (answer,) = json.loads(split_messages(said)[0])
        assert (answer["id"], answer["error"]["type"]) == (1, "CancelledError")
        with pytest.raises(msgspec.DecodeError):
            await asyncio.to_thread(actor.exchange, numbered[2])
        await asyncio.to_thread(actor.stop)
        await asyncio.to_thread(end_loop, actor._loop)


def test_how_often_reports_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X4: at most one message with them in 50 ms, whatever number of calls a worker has; each in
    its order, before its result.
    """
    (tmp_path / "talks_of_fleets.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    # A loop of its own, as Ray gives an actor one: nothing but this worker is in it.
    messages, took = asyncio.run(hear_worker(PythonEntry("talks_of_fleets", "talk", "ray")))
    for number in range(1, CALLS + 1):
        said = [each for message in messages for each in message if each["id"] == number]
        *reports, last = said
        assert last["value"] == REPORTS + number
        done = [each["report"]["done"] for each in reports]
        assert done == sorted(done)
        assert done[-1] == last["value"]
    # What comes with a result costs no message.
    without_result = [each for each in messages if all(one.get("report") for one in each)]
    assert 1 < len(without_result) <= took / REPORT_SECONDS + 2


def end_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Ends the loop of an actor, and its thread, as the end of its process does."""
    (thread,) = (each for each in threading.enumerate() if each.name.endswith("(run_forever)"))
    loop.call_soon_threadsafe(loop.stop)
    thread.join(BOUND)
    loop.close()


async def hear_worker(entry: PythonEntry) -> tuple[list[list[dict[str, Any]]], float]:
    """What a worker says until the end of its calls, by its messages, and the seconds it took."""
    versions = own_versions()
    host = FleetHost(msgspec.json.encode(Settings(entry, [*sys.path], **versions)))
    context = ToolExecutionContext(call_id="one").to_wire()
    requests = [
        {"id": number, "params": {"x": REPORTS + number}, "context": context, "seconds": None}
        for number in range(1, CALLS + 1)
    ]
    bundle, answers, messages = frame_message(json.dumps(requests).encode()), 0, []
    try:
        async with asyncio.timeout(BOUND):
            ready = json.loads(await host.prepare())
            assert ready["answer"]["error"] is None, ready
            began = time.monotonic()
            while answers < CALLS:
                reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
                host.exchange(bundle, reply.set_result)
                _, count, said = read_bundle(await reply)
                answers += count
                bundle = b""
                messages += [json.loads(each) for each in split_messages(said)]
            return messages, time.monotonic() - began
    finally:
        await host.stop()
