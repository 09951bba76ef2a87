"""What do clients hear where several features of a server meet?"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.access.test_jwt_verifier import key_set, sign
from tests.server.conftest import served
from tests.server.test_calls import read_events
from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineConfig
from tool_engine.access import jwt_verifier, streams
from tool_engine.access.jwt_verifier import JWTVerifier
from tool_engine.server import create_app

BOUND = 20.0
STREAM = {"accept": "text/event-stream"}
TOIL: dict[str, Any] = {"name": "toil", "description": "Toils", "parameters": []}


class Toil:
    """A tool whose runs are counted, and go on once they may."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.began = asyncio.Event()
        self.runs = 0
        self.failing = 0

    async def work(self) -> int:
        self.runs += 1
        self.began.set()
        await self.gate.wait()
        if self.runs <= self.failing:
            raise ConnectionError("not yet")
        return self.runs


async def until_waiting(engine: ToolEngine, count: int) -> None:
    async with asyncio.timeout(BOUND):
        while len(await engine.calls.list()) < count:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("change", ["replaced", "removed"])
@pytest.mark.parametrize("key", [None, "once"])
async def test_a_tool_that_changes_under_its_stream(
    tmp_path: Path, change: str, key: str | None
) -> None:
    """A run ends as it began; what waits hears why it does not run, and the stream ends with it."""
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    toil = Toil()
    async with ToolEngine(config, concurrency=ConcurrencyConfig(max_concurrent=1)) as engine:
        engine.register_tool(TOIL, toil.work)
        async with served(create_app(engine)) as service:
            client = service.client(None)
            keys: list[dict[str, str]] = [{}, {}]
            if key is not None:
                keys = [{"idempotency-key": f"{key} {each}"} for each in range(2)]
            streams = []
            for each in keys:
                path = "/v1/tools/toil/calls"
                sent = client.send("POST", path, json={}, headers={**STREAM, **each})
                streams.append(asyncio.create_task(sent))
                await toil.began.wait()
            await until_waiting(engine, 2)
            engine.unregister_tool("toil")
            if change == "replaced":
                engine.register_tool({**TOIL, "description": "Toils anew"}, lambda: "new")
            toil.gate.set()
            async with asyncio.timeout(BOUND):
                answers = [read_events((await each).text) for each in streams]
            assert [each[-1][0] for each in answers] == ["result", "result"]
            first, second = (each[-1][1] for each in answers)
            assert first["output"] == {"result": 1}
            if change == "replaced":
                assert second["output"] == {"result": 2}
            else:
                assert (second["error_type"], toil.runs) == ("tool_not_found", 1)
                assert "was removed while the" in second["error"]
            again = await client.send("POST", "/v1/tools/toil/calls", json={}, headers=keys[0])
            # What was kept for a key outlives its tool.
            if (change, key) == ("removed", None):
                assert (again.status, again.kind) == (404, "unknown-tool")
            else:
                assert again.json["output"] == {"result": "new" if key is None else 1}
            calls = 3 if (change, key) == ("replaced", None) else 2
            assert len(await engine.query_call_records()) == calls


@pytest.mark.parametrize("collision", ["queue", "single_flight"])
async def test_a_key_of_a_call_that_is_tried_again(tmp_path: Path, collision: str) -> None:
    """However often it fails and is sent, there is one call, whose result all have."""
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    toil = Toil()
    toil.failing = 2
    definition = {**TOIL, "effect": "read", "concurrency": {"collision": collision}}
    async with ToolEngine(config) as engine:
        engine.register_tool({**definition, "retry": {"attempts": 3, "backoff": 0}}, toil.work)
        async with served(create_app(engine)) as service:
            client = service.client(None)

            async def send(key: str) -> Any:
                path, said = "/v1/tools/toil/calls", {"idempotency-key": key}
                return (await client.send("POST", path, json={}, headers=said)).json

            same = [asyncio.create_task(send("a")) for _ in range(4)]
            await toil.began.wait()
            await until_waiting(engine, 1)
            toil.gate.set()
            async with asyncio.timeout(BOUND):
                results = await asyncio.gather(*same)
            assert [each["output"] for each in results] == [{"result": 3}] * 4
            assert len({each["metadata"]["call_id"] for each in results}) == 1
            assert (await send("a"))["output"] == {"result": 3}
            assert (await send("b"))["output"] == {"result": 4}
            assert [each.attempts for each in await engine.query_call_records()] == [1, 3]


async def test_a_signed_token_that_ends_under_its_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its streams end with why, its call is cancelled; that of another audience begins none."""
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(key_set()))
    said: dict[str, Any] = {
        "issuer": "https://login.example",
        "audience": "tools",
        "jwks": str(keys),
    }
    verifier = await asyncio.to_thread(lambda: JWTVerifier(**said))
    toil = Toil()
    async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine:
        engine.register_tool(TOIL, toil.work)
        app = await asyncio.to_thread(create_app, engine, auth=verifier, mcp=True)
        async with served(app) as service:
            http = service.client(None).http
            own = {**STREAM, "authorization": f"Bearer {sign()}"}
            other = {**STREAM, "authorization": f"Bearer {sign(aud='others')}"}
            for path in ("/v1/tools/toil/calls", "/mcp"):
                async with http.post(service.url + path, headers=other, json={}) as answer:
                    assert answer.status == 401
            events = await http.get(service.url + "/v1/events", headers=own)
            path = service.url + "/v1/tools/toil/calls"
            call = await http.post(path, headers=own, json={})
            assert (events.status, call.status) == (200, 200)
            await toil.began.wait()
            monkeypatch.setattr(streams, "_LOOK", 0.01)
            monkeypatch.setattr(jwt_verifier, "_LEEWAY", -3600)  # as in an hour
            async with asyncio.timeout(BOUND):
                texts = [await each.text() for each in (events, call)]
            assert all("unknown-token" in each for each in texts)
            (record,) = await engine.query_call_records()
            assert (record.outcome.value, record.caller_id) == ("cancelled", "ann")
