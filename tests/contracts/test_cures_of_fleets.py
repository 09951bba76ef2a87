"""What an error of a fleet says to do is done, and the tool runs there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.contracts.test_cures_of_errors import names_cure
from tests.fleet.samples import BOUND, define_tool, fleet_engine, handlers_in, run_command
from tests.fleet.test_runtime import MEND
from tests.ray_cluster import RayCluster
from tool_engine import DefinitionError, ToolEngine, ToolEngineConfig
from tool_engine.executors.fleet import fleet_backend

ROOM = "executors/fleet/"
UNREACHED = (
    ROOM + "connection.py: see that it runs, that this machine reaches it, and that "
    "RAY_AUTH_MODE and RAY_AUTH_TOKEN are the same here, if it has a token"
)
VERSIONS = ROOM + "line.py: install the same on all nodes"
NAMED = 'cli/serving/fleet_command.py: write fleet = "auto", or the address of one, in the settings'
TRIED = {UNREACHED, VERSIONS, NAMED, MEND}

pytestmark = pytest.mark.ray


async def test_a_fleet_that_is_not_there(
    tmp_path: Path, ray_cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor its setting, nor the same versions there: with what the words say, the tool runs."""
    with handlers_in(tmp_path, monkeypatch, ray_cluster):
        async with ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False)) as engine:
            with pytest.raises(DefinitionError, match='fleet="auto"'):
                engine.register_tool(define_tool("pid", "pid"))
        async with asyncio.timeout(BOUND), fleet_engine(tmp_path, "pid") as bench:
            with monkeypatch.context() as patch:
                patch.setenv("RAY_ADDRESS", "127.0.0.1:1")
                result = await bench.call("pid")
            assert names_cure(UNREACHED, result.error or ""), result.error
            with monkeypatch.context() as patch:
                other = {"version": "0.0.1", "python": "3.99.1"}
                patch.setattr(fleet_backend, "own_versions", lambda: other)
                result = await bench.call("pid")
            assert result.error_type == "definition_mismatch"
            assert names_cure(VERSIONS, result.error or ""), result.error
            assert "tool-engine 0.0.1 and Python 3.99.1" in str(result.error)
            bench.add_tool("pid", "same")
            assert (await bench.call("same")).is_success


async def test_a_command_without_a_fleet(
    tmp_path: Path, ray_cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the setting it shows the machines, and that they can hold the tool."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "pid.yaml").write_text(json.dumps(define_tool("pid", "pid")))
    with handlers_in(tmp_path, monkeypatch, ray_cluster):
        code, said = await run_command(tmp_path, "status")
        assert code == 2
        assert names_cure(NAMED, said), said
        (tmp_path / "tool-engine.toml").write_text('fleet = "auto"\n')
        code, said = await run_command(tmp_path, "status")
        assert (code, "a node can hold one" in said) == (0, True), said
