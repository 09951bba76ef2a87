"""What an operator sees of a fleet: by the engine, by its metrics, and at the command line."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import httpx
import pytest
import structlog
from prometheus_client import CollectorRegistry

from tests.fleet.samples import BOUND, Bench, define_tool, run_command
from tests.server.conftest import served, write_tokens
from tests.studio.conftest import Browser
from tool_engine import ToolEngine
from tool_engine.observability.prometheus import instrument
from tool_engine.server import create_app

pytestmark = [pytest.mark.ray, pytest.mark.asyncio(loop_scope="package")]
TOOL = define_tool("fits", "pid", resources={"cpus": 1})


async def check_pages(engine: ToolEngine, worker: int | None, folder: Path) -> None:
    """The studio's first page shows the fleet to who operates, and to nobody else."""
    tokens = str(write_tokens(folder / "tokens.yaml"))
    app = await asyncio.to_thread(create_app, engine, auth=tokens, studio=True)
    async with served(app) as server, Browser(server.url) as olga, Browser(server.url) as ann:
        await olga.sign_in("token-of-olga")
        for path in ("/studio/", "/studio/live/fleet"):
            words = (await olga.open(path)).words
            assert "narrow – 1 1 1 of 1" in words
            assert f"narrow {socket.gethostname()} {worker} 1" in words
        await ann.sign_in("token-of-ann")
        assert "Fleet" not in (await ann.open("/studio/")).words


async def test_where_each_call_is(shared_bench: Bench, tmp_path: Path) -> None:
    """One call runs on a node, one waits for its worker; `explain`, snapshot and metrics agree."""
    bench, engine = shared_bench, shared_bench.engine
    assert engine.fleet is not None
    registry = CollectorRegistry()
    bench.add_tool("block", "narrow", max_workers=1)
    with instrument(engine, registry):
        running = asyncio.create_task(bench.call("narrow"))
        (pid,) = await bench.noted()
        waiting = asyncio.create_task(bench.call("narrow"))
        async with asyncio.timeout(BOUND):
            while engine.fleet.snapshot().waiting < 1:  # noqa: ASYNC110 - a line rings no bell
                await asyncio.sleep(0)
        words = [str(engine.controller.explain(each.call_id)) for each in await engine.calls.list()]
        assert "on the node" in words[0]
        assert (
            "number 1 of 1 in line for a worker of the fleet; workers: 1 of at most 1" in words[1]
        )
        snapshot = engine.fleet.snapshot()
        (tool,) = [each for each in snapshot.tools if each.tool == "narrow"]
        assert (tool.waiting, tool.running, len(tool.workers)) == (1, 1, 1)
        assert tool.workers[0].pid != pid, "the guest is behind Ray's worker"
        assert snapshot.is_joined
        assert snapshot.node_count >= 3
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(create_app(engine)), base_url="http://127.0.0.1"
        ) as client:
            seen = (await client.get("/v1/fleet")).json()
        (shown,) = [each for each in seen["tools"] if each["tool"] == "narrow"]
        assert (shown["waiting"], shown["running"], len(seen["nodes"])) == (
            *(1, 1),
            snapshot.node_count,
        )
        assert shown["workers"][0]["node"] in {each["host"] for each in seen["nodes"]}
        await check_pages(engine, tool.workers[0].pid, tmp_path)
        values = {
            name: registry.get_sample_value(f"tool_fleet_{name}")
            for name in ("nodes", "waiting_calls", "running_calls")
        }
        assert values == {"nodes": snapshot.node_count, "waiting_calls": 1, "running_calls": 1}
        for call in (waiting, running):
            call.cancel()
        await asyncio.wait([running, waiting])
        await bench.becomes_free()


async def test_where_a_handler_failed(shared_bench: Bench) -> None:
    """The author finds the traceback in the log; the model gets the words alone."""
    with structlog.testing.capture_logs() as lines:
        result = await shared_bench.call("anap", "no number")
    assert "could not convert" in str(result.error)
    assert "line" not in str(result.error)
    (line,) = [each for each in lines if each["event"] == "fleet_handler_failed"]
    assert line["call_id"] == result.call_id
    assert "in anap" in line["traceback"]
    assert "no number" not in line["traceback"]


async def test_the_command(handlers: Path, tmp_path: Path) -> None:
    """`check` fails for a tool that no machine can hold; its output as JSON is that alone."""
    (tmp_path / "handlers_of_fleets.py").write_text("def pid(text): return text\n")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "fits.yaml").write_text(json.dumps(TOOL))
    (tmp_path / "tool-engine.toml").write_text('fleet = "auto"\n')
    greedy = {"isolation": "ray", "resources": {"cpus": 64}}
    entry = {**TOOL["entry"], "config": greedy}
    (tmp_path / "tools" / "greedy.yaml").write_text(
        json.dumps({**TOOL, "name": "greedy", "entry": entry})
    )
    code, said = await run_command(tmp_path, "check", "--json")
    found = json.loads(said)
    lacks = {each["tool"]: each["lack"] for each in found["tools"]}
    assert (code, len(found["nodes"]) >= 3) == (1, True)
    assert "can ever hold 64 CPUs" in lacks["greedy"]
    assert lacks["fits"] is None
