"""Do two servers of one database keep a limit, also as one of them is killed?"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.cluster.crew import BOUND
from tests.cluster.provider import Provider
from tests.cluster.served_tools import FILE, TOOLS
from tests.server.process import SERVER, START_LIMIT
from tests.warm import ROOT
from tests.warm_async import AsyncProgram, start
from tool_engine.model.task import FINAL

CALLS = 50
CONVERSATIONS = 10
SETTINGS = """
[concurrency]
max_concurrent = 50
queue_timeout = 600
[concurrency.cluster]
url = "${env:CLUSTER}"
revision = 1
bucket_limits = {ai = 2}
key_limits = {conversation_id = 1}
session_grace = 1.0
lease_ttl = 60.0
"""


class Replica:
    """One server, and a client of it."""

    def __init__(self, program: AsyncProgram, http: aiohttp.ClientSession) -> None:
        self.program, self.http = program, http

    async def call(self, number: int, words: str, **headers: str) -> dict[str, Any]:
        """The result of a call, or the task that it has begun."""
        tool, conversation = tool_of(number), f"c{number % CONVERSATIONS}"
        body = {"arguments": {"words": words}, "conversation_id": conversation}
        path = f"/v1/tools/{tool}/calls"
        async with self.http.post(path, json=body, headers=headers) as answer:
            assert answer.status in (200, 202), await answer.text()
            return dict(await answer.json())

    async def get(self, path: str) -> dict[str, Any]:
        async with self.http.get(path) as answer:
            assert answer.status == 200, await answer.text()
            return dict(await answer.json())

    async def list_records(self) -> list[dict[str, Any]]:
        found, path = [], "/v1/records?limit=100"
        while True:
            page = await self.get(path)
            found += page["items"]
            if page["next"] is None:
                return found
            path = f"/v1/records?limit=100&cursor={page['next']}"


@pytest.fixture
async def replicas(url: str, provider: Provider, tmp_path: Path) -> AsyncIterator[list[Replica]]:
    (tmp_path / "tool-engine.toml").write_text(SETTINGS)
    (tmp_path / "tools").mkdir()
    for name, more in TOOLS.items():
        (tmp_path / "tools" / f"{name}.yaml").write_text(FILE.format(name=name, more=more))
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PROVIDER": str(provider.port), "CLUSTER": url}
    made = []
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            program = await start(
                *("-m", "tool_engine.cli", "--tools", "tools", "--records", url),
                *("serve", "--port", "0", "--no-auth"),
                cwd=tmp_path,
                env=env,
                imports=SERVER,
            )
            program.stdin.close()
            stack.push_async_callback(program.end)
            async with asyncio.timeout(START_LIMIT):
                first = (await program.stderr.readline()).decode()
            assert first.startswith("serving 5 tools"), first
            http = aiohttp.ClientSession(first.split()[-1])
            made.append(Replica(program, await stack.enter_async_context(http)))
        yield made


async def test_tasks_and_calls_of_all_kinds(replicas: list[Replica], provider: Provider) -> None:
    """Nested ones, those that are tried again, and shared ones, and in the middle a kill."""
    doomed, other = replicas
    tasks: dict[str, str] = {}
    calls = []
    for number in range(CALLS):
        replica = replicas[number % 2]
        begun = await replica.call(number, f"task{number}", prefer="respond-async")
        tasks[f"task{number}"] = begun["id"]
        calls.append(asyncio.create_task(replica.call(number, f"call{number}")))
    await provider.until(CALLS // 2)
    doomed.program.kill()
    async with asyncio.timeout(6 * BOUND):
        answers = await asyncio.gather(*calls, return_exceptions=True)
        ends = {}
        for words, each in tasks.items():
            while (end := await other.get(f"/v1/tasks/{each}?wait=5"))["status"] not in FINAL:
                pass
            ends[words] = end
    for number, answer in enumerate(answers):
        if isinstance(answer, BaseException):
            assert isinstance(answer, aiohttp.ClientError), answer
            assert replicas[number % 2] is doomed, answer
        else:
            assert answer["is_success"], answer
    assert provider.most <= 2
    assert provider.most_of_one == 1
    begun = Counter(provider.started)
    for number, (words, end) in enumerate(ends.items()):
        # What was under way in the killed one runs again, but for what might be done twice.
        if tool_of(number) != "post":
            assert end["status"] == "succeeded", end
        else:
            assert end["status"] in ("succeeded", "failed"), end
            assert begun[words] <= 1, end
            assert begun[words] == 1 or end["status"] == "failed", end
    ids = Counter(each["call_id"] for each in await other.list_records())
    assert max(ids.values()) == 1
    assert len(ids) >= CALLS


def tool_of(number: int) -> str:
    return list(TOOLS)[number // 2 % len(TOOLS)]
