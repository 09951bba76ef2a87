"""All that clients do to a server, at once and for as long as one likes."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp

from tests.server.process import HEADERS

AT_ONCE: Final = 12
READS: Final = (
    "/v1/tools",
    "/v1/definitions/openai",
    "/v1/records?limit=5",
    "/v1/statistics",
    "/v1/admission",
    "/v1/tasks?limit=5",
    "/v1/calls",
    "/readyz",
)
GONE: Final = (aiohttp.ClientError, ConnectionError)
"""What a client gets whose server has ended."""


class Load:
    """Clients that call, follow, leave, come back and send nonsense.

    Args:
        seed: Of what they do.
    """

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)  # noqa: S311 - a test, no secret
        self._keys = 0
        self._place = ""
        self.is_server_ending = False
        """Whether a client may find that nobody answers."""
        self.done: Counter[str] = Counter()
        """How often each thing was done."""
        self.tasks: set[str] = set()
        """The ids of the tasks that were accepted."""
        self.calls: set[str] = set()
        """The ids of the calls that were answered."""

    async def press(self, url: str, seconds: float) -> None:
        """Does what clients do, for so long or until the server has ended.

        Raises:
            AssertionError: An answer was not what it must be.
        """
        work: list[Callable[[aiohttp.ClientSession], Awaitable[object]]] = [
            *([self._call] * 4),
            self._follow,
            self._leave,
            self._leave_stream,
            self._start_task,
            self._cancel_task,
            self._send_twice,
            self._listen,
            self._read,
            self._send_nonsense,
        ]
        end = asyncio.get_running_loop().time() + seconds

        async def press_on(http: aiohttp.ClientSession) -> None:
            while asyncio.get_running_loop().time() < end:
                each = self._dice.choice(work)
                try:
                    await each(http)
                except GONE:
                    if not self.is_server_ending:
                        raise
                    return
                self.done[each.__name__.strip("_")] += 1

        async with (
            aiohttp.ClientSession(url, headers=HEADERS) as http,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(AT_ONCE):
                group.create_task(press_on(http))

    async def _call(self, http: aiohttp.ClientSession) -> None:
        text = "x" * self._dice.choice((3, 300, 30_000))
        result = await self._send(http, "say", {"message": text})
        if result is not None:
            assert result["output"] == {"message": text}
            self.calls.add(result["metadata"]["call_id"])

    async def _follow(self, http: aiohttp.ClientSession) -> None:
        said = {"accept": "text/event-stream"}
        async with self._post(http, "pause", {"delay": 0.02}, said) as answer:
            if not self._is_taken(answer.status):
                return
            text = await answer.text()
        assert self.is_server_ending or "event: result" in text, text

    async def _leave(self, http: aiohttp.ClientSession) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._dice.random() / 10):
                await self._send(http, "pause", {"delay": 30})

    async def _leave_stream(self, http: aiohttp.ClientSession) -> None:
        said = {"accept": "text/event-stream"}
        async with self._post(http, "pause", {"delay": 30}, said) as answer:
            if self._is_taken(answer.status):
                await answer.content.readline()

    async def _start_task(self, http: aiohttp.ClientSession) -> str | None:
        said = {"prefer": "respond-async"}
        async with self._post(http, "pause", {"delay": 0.01}, said) as answer:
            if not self._is_taken(answer.status, 202):
                return None
            found = str((await answer.json())["id"])
        self.tasks.add(found)
        return found

    async def _cancel_task(self, http: aiohttp.ClientSession) -> None:
        found = await self._start_task(http)
        if found is not None:
            async with http.delete(f"/v1/tasks/{found}") as answer:
                self._is_taken(answer.status)

    async def _send_twice(self, http: aiohttp.ClientSession) -> None:
        self._keys += 1
        said = {"idempotency-key": f"key {self._keys}"}
        both = await asyncio.gather(
            *(self._send(http, "say", {"message": "once"}, said) for _ in range(2))
        )
        ids = {each["metadata"]["call_id"] for each in both if each is not None}
        assert len(ids) == 1 or self.is_server_ending, both

    async def _listen(self, http: aiohttp.ClientSession) -> None:
        said = {"last-event-id": self._place} if self._place else {}
        async with http.get("/v1/events", headers=said) as answer:
            assert answer.status == 200, await answer.text()
            for _ in range(self._dice.randrange(30)):
                line = (await answer.content.readline()).decode()
                if line.startswith("id: "):
                    self._place = line[4:].strip()

    async def _read(self, http: aiohttp.ClientSession) -> None:
        async with http.get(self._dice.choice(READS)) as answer:
            if self._is_taken(answer.status):
                await answer.json()

    async def _send_nonsense(self, http: aiohttp.ClientSession) -> None:
        body = self._dice.choice(("{", '{"a": 1, "a": 2}', '{"argumente": {}}', "[]", "\ud800 x"))
        data = body.encode(errors="replace")
        said = {"content-type": "application/json"}
        async with http.post("/v1/tools/say/calls", data=data, headers=said) as answer:
            assert answer.status in (400, 422), await answer.text()

    async def _send(
        self,
        http: aiohttp.ClientSession,
        name: str,
        arguments: dict[str, Any],
        headers: dict[str, str] | None = None,
    ) -> Any:
        async with self._post(http, name, arguments, headers) as answer:
            return await answer.json() if self._is_taken(answer.status) else None

    def _post(
        self,
        http: aiohttp.ClientSession,
        name: str,
        arguments: dict[str, Any],
        headers: dict[str, str] | None = None,
    ) -> Any:
        body = {"arguments": arguments}
        return http.post(f"/v1/tools/{name}/calls", json=body, headers=headers)

    def _is_taken(self, status: int, expected: int = 200) -> bool:
        """Whether a request was done; one that was not must come while the server ends."""
        if status == 503 and self.is_server_ending:
            return False
        assert status == expected, status
        return True
