"""What may an operator do, and no other?"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.server.conftest import Client, Service
from tests.server.test_calls import start_endless
from tool_engine import ToolEngine

GREET = """
name: greet
description: Greets.
effect: read
parameters:
  - {name: message, type: string, required: true, description: What to say}
entry: {type: builtin, handler: echo}
"""


async def test_reload_and_rollback(olga: Client, engine: ToolEngine) -> None:
    """New files are read, and a generation that is kept comes back."""
    before = (await olga.get("/v1/engine")).json["generations"][-1]["number"]
    path = Path(engine.config.tools_directory) / "greet.yaml"
    await asyncio.to_thread(path.write_text, GREET)
    changes = (await olga.send("POST", "/v1/reload")).json
    assert (changes["added"], changes["generation"]) == (["greet"], engine.generation)
    back = await olga.send("POST", "/v1/rollback", json={"generation": before})
    assert back.json["removed"] == ["greet"]
    lost = await olga.send("POST", "/v1/rollback", json={"generation": 999})
    assert (lost.status, lost.kind) == (409, "not-possible")


async def test_what_could_not_be_loaded(olga: Client, engine: ToolEngine) -> None:
    """It is told with its place and cure."""
    path = Path(engine.config.tools_directory) / "bad.yaml"
    await asyncio.to_thread(path.write_text, "name: bad")
    await olga.send("POST", "/v1/reload")
    (wrong,) = (await olga.get("/v1/engine")).json["load_errors"]
    assert wrong["file"].endswith("bad.yaml")
    assert "description" in wrong["message"]


async def test_the_fleet_of_an_engine_that_has_none(ann: Client, olga: Client) -> None:
    """The setting is named; who only calls is not let look. With one: `tests/fleet`."""
    found = await olga.get("/v1/fleet")
    assert (found.status, found.kind) == (404, "no-fleet")
    assert "set `fleet` in its settings" in str(found.json)
    assert (await ann.get("/v1/fleet")).status == 403


async def test_pause(ann: Client, olga: Client, engine: ToolEngine) -> None:
    """No call starts meanwhile, and none is lost."""
    assert (await olga.send("POST", "/v1/pause")).json == {"is_paused": True}
    task = asyncio.create_task(ann.call("add", a=1, b=2))
    async with asyncio.timeout(10):
        while not engine.controller.snapshot().waiting:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
    assert (await olga.get("/v1/engine")).json["is_paused"]
    assert (await olga.send("POST", "/v1/resume")).json == {"is_paused": False}
    assert (await task).json["output"] == {"result": 3}


async def test_drain(service: Service, ann: Client, olga: Client, engine: ToolEngine) -> None:
    """No more calls are taken; those that run are waited for, and it can be taken back."""
    call_id, task = await start_endless(engine, ann)
    short = await olga.send("POST", "/v1/drain", json={"timeout": 0.05})
    assert short.json == {"is_drained": False, "running": 1}
    refused = await ann.call("add", a=1, b=2)
    assert (refused.status, refused.kind) == (503, "draining")
    assert refused.headers["retry-after"] == "5"
    assert (await service.client(None).get("/readyz")).status == 503
    draining = asyncio.create_task(olga.send("POST", "/v1/drain"))
    await olga.send("DELETE", f"/v1/calls/{call_id}")
    assert (await draining).json == {"is_drained": True, "running": 0}
    assert (await task).json["error_type"] == "cancelled"
    await olga.send("POST", "/v1/resume")
    assert (await ann.call("add", a=1, b=2)).json["is_success"]


async def test_what_if(ann: Client, olga: Client) -> None:
    """The newest calls are replayed under other limits."""
    body = {"limits": {"max_concurrent": 1.0, "bucket_limits": {"custom": 1.0}}}
    nothing = await olga.send("POST", "/v1/simulations", json=body)
    assert (nothing.status, nothing.kind) == (409, "no-calls")
    await ann.call("add", a=1, b=2)
    found = (await olga.send("POST", "/v1/simulations", json=body)).json
    assert (found["calls"], found["simulated"]["slots"]) == (1, 1)


async def test_proposed_limits(ann: Client, olga: Client) -> None:
    """M3: from the newest calls, for one that operates; too few of them are no ground for any."""
    assert (await ann.send("POST", "/v1/limits/proposals", json={})).status == 403
    await ann.call("add", a=1, b=2)
    few = await olga.send("POST", "/v1/limits/proposals", json={})
    assert (few.status, few.kind) == (409, "too-few-calls")
    assert "custom 1" in few.json["detail"]
    for _ in range(60):
        await ann.call("add", a=1, b=2)
    body = {"buckets": ["custom"], "last": 55}
    found = (await olga.send("POST", "/v1/limits/proposals", json=body)).json
    (proposal,) = found["proposals"]
    assert (found["calls"], proposal["bucket"], proposal["certainty"]) == (55, "custom", "low")
    assert proposal["limit"] == proposal["now"]["limit"] == proposal["then"]["limit"]
    missing = await olga.send("POST", "/v1/limits/proposals", json={"buckets": ["http"]})
    assert (missing.status, "no recorded call" in missing.json["detail"]) == (409, True)


async def test_a_reply(ann: Client) -> None:
    """A protocol reads a reply, and nothing runs."""
    said = "tool_name:「始」add「末」,\na:「始」1「末」"
    text = f"<<<[TOOL_REQUEST]>>>\n{said}\n<<<[END_TOOL_REQUEST]>>>"
    found = (await ann.send("POST", "/v1/replies", json={"protocol": "vcp", "reply": text})).json
    assert [each["tool_name"] for each in found["calls"]] == ["add"]
    wrong = await ann.send("POST", "/v1/replies", json={"protocol": "smoke", "reply": text})
    assert (wrong.status, wrong.kind) == (404, "unknown-protocol")
    assert (await ann.get("/v1/records")).json["items"] == []


async def test_metrics(service: Service, ann: Client, olga: Client) -> None:
    """What Prometheus reads counts the calls from the first reading on."""
    assert (await ann.get("/metrics")).status == 403
    await olga.get("/metrics")
    await ann.call("add", a=1, b=2)
    text = (await olga.get("/metrics")).text
    assert 'tool_executions_total{status="succeeded",tool_name="add"} 1.0' in text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/engine"),
        ("GET", "/v1/sessions"),
        ("POST", "/v1/reload"),
        ("POST", "/v1/pause"),
        ("POST", "/v1/resume"),
        ("POST", "/v1/drain"),
    ],
)
async def test_others_may_not(ann: Client, engine: ToolEngine, method: str, path: str) -> None:
    """It is refused with what it takes, and nothing happens."""
    answer = await ann.send(method, path)
    assert (answer.status, answer.kind) == (403, "not-allowed")
    assert answer.json["detail"] == "'ann' may not do this; it takes the scope 'operate'"
    assert not engine.controller.snapshot().is_paused


async def test_what_a_scope_is_for(service: Service) -> None:
    """One that may read cannot call, and one that approves cannot read."""
    reader, asker = service.client("reader"), service.client("asker")
    assert (await reader.call("add", a=1, b=2)).kind == "not-allowed"
    assert (await reader.get("/v1/calls")).kind == "not-allowed"
    assert (await reader.get("/v1/tools")).status == 200
    assert (await asker.get("/v1/tools")).kind == "not-allowed"
