"""What becomes of tasks whose process is stopped until others take it for dead?"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.model.record import RecordQuery
from tool_engine.model.settings.retention import RecordRetention

BOUND = 60.0
LEASE = 0.5
PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.errors import ToolEngineError

folder, records = Path(sys.argv[1]), sys.argv[2]

def say(**values):
    print(json.dumps(values), flush=True)

async def main():
    config = ToolEngineConfig(tools_directory=str(folder), auto_reload=False, records=records)
    known = asyncio.Event()
    async with ToolEngine(config) as engine:
        @engine.tool(description="Waits for a file")
        async def work(name: str) -> str:
            await known.wait()
            if not (folder / name).exists():
                say(task=handle.id)
            say(began=name)
            while not (folder / name).exists():
                await asyncio.sleep(0.01)
            return name * 5000

        engine.tasks.feeding.lease = float(sys.argv[3])
        handle = await engine.start("work", {"name": "first"}, ttl=3600)
        known.set()
        try:
            result = await handle.wait(60)
            say(error_type=result.error_type, status=handle.status)
        except ToolEngineError as error:
            say(raised=error.error_type)
        again = await engine.start("work", {"name": "first"}, ttl=60)
        say(error_type=(await again.wait(60)).error_type, task=again.id)
        say(active=engine.controller.get_metrics().active)

asyncio.run(main())
"""


@pytest.fixture(params=["sqlite", "postgresql"])
async def records(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/kept.db"
    server = request.getfixturevalue("postgres_server")
    return str(await asyncio.to_thread(server.fresh_database))


@asynccontextmanager
async def stalling(folder: Path, records: str) -> AsyncIterator[Process]:
    """A process that starts tasks and runs them."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, str(folder), records, str(LEASE)),
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def hear(process: Process) -> Any:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        assert process.stderr is not None
        raise EOFError((await process.stderr.read()).decode())
    return json.loads(line)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("is_forgotten", [False, True], ids=["kept", "forgotten"])
async def test_a_process_that_is_stopped(tmp_path: Path, records: str, is_forgotten: bool) -> None:
    """Its task ends once, elsewhere; what it writes when it goes on does no harm, and is whole."""
    config = ToolEngineConfig(
        tools_directory=str(tmp_path), auto_reload=False, records=records, run_tasks=False
    )
    async with asyncio.timeout(BOUND), stalling(tmp_path, records) as process:
        task_id = (await hear(process))["task"]
        assert await hear(process) == {"began": "first"}
        process.send_signal(signal.SIGSTOP)
        async with ToolEngine(config) as heir:
            heir.tasks.feeding.lease = LEASE  # type: ignore[attr-defined]
            heir.tasks.open()
            handle = await heir.tasks.get(task_id)
            assert (await handle.wait(BOUND)).error_type == "worker_lost"
            # Retention removes what there is of it.
            assert await heir.store.storage.flush(BOUND)  # type: ignore[attr-defined]
            await heir.store.prune(RecordRetention(max_age=0.001))
            if is_forgotten:
                later = handle.state.expires_at
                assert await heir.tasks.feeding.storage.remove_expired(later) == 1  # type: ignore[attr-defined]
        (tmp_path / "first").touch()
        process.send_signal(signal.SIGCONT)
        first = await hear(process)
        assert first == (
            {"raised": "task_not_found"}
            if is_forgotten
            else {"error_type": "worker_lost", "status": "failed"}
        )
        assert await hear(process) == {"began": "first"}
        second = await hear(process)
        assert second["error_type"] is None
        assert await hear(process) == {"active": 0}
        assert process.stderr is not None
        said_at_end = (await process.stderr.read()).decode()
        assert (await process.wait(), said_at_end) == (0, "")
    async with ToolEngine(config) as reader:
        found = await reader.store.storage.query(RecordQuery())
    # The call that went on has a record of its own.
    assert [each.task_id for each in found] == [second["task"], task_id]
    assert all(each.result == {"result": "first" * 5000} for each in found)
