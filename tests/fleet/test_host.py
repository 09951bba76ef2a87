"""What does a worker of a fleet do by itself, without Ray: how often does it speak?"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tool_engine import ToolExecutionContext
from tool_engine.executors.fleet.frames import frame_message, read_bundle, split_messages
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
