"""Does a fleet work with each Python that is here and that Ray has a wheel for?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import IS_WHOLE
from tests.fleet.samples import BOUND
from tests.integration.test_wheel import build_wheel

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PROGRAM = '''
import asyncio, sys
from pathlib import Path
from tool_engine import ToolEngine, ToolEngineConfig, ToolExecutionContext
CODE = """
import asyncio, sys, time
def which(): return sys.version.split()[0]
def block():
    while True: time.sleep(0.01)
async def wait(): await asyncio.sleep(1000)
"""
def describe(name):
    config = {"isolation": "ray", "resources": {"cpus": 0}}
    entry = {"type": "custom", "handler": f"handlers_of_versions:{name}", "config": config}
    return {"name": name, "description": "A sample", "entry": entry}
async def main():
    Path("handlers_of_versions.py").write_text(CODE)
    sys.path.insert(0, str(Path.cwd()))
    config = ToolEngineConfig("none", auto_reload=False, fleet="local", close_timeout=10.0)
    async with ToolEngine(config) as engine:
        for name in ("which", "block", "wait"): engine.register_tool(describe(name))
        long = ToolExecutionContext(timeout=300.0)
        result = await engine.execute("which", {}, long)
        assert result.output == {"result": sys.version.split()[0]}, result.error
        for name in ("block", "wait"):
            call = asyncio.create_task(engine.execute(name, {}, long))
            while not any(each.running for each in engine.fleet.snapshot().tools):
                await asyncio.sleep(0.05)
            call.cancel()
            await asyncio.wait([call])
            while engine.controller.get_metrics().zombies: await asyncio.sleep(0.01)
            again = await engine.execute("which", {}, long)
            assert again.output == result.output, again.error
        print("called and cancelled on", result.output["result"])
asyncio.run(main())
'''


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def call_uv(*words: str) -> None:
    """Skips the test, with what uv says, where there is no such Python, or no wheel of Ray."""
    uv = [sys.executable, "-m", "uv", *words, "-q"]
    ended = subprocess.run(uv, capture_output=True, text=True, check=False)
    if ended.returncode:
        pytest.skip(ended.stderr.strip()[-300:] or f"uv {words[0]} has failed")


@pytest.mark.ray
@pytest.mark.timeout(900)
@pytest.mark.skipif(not IS_WHOLE, reason="Ray is 75 MB to load for each Python: make proof")
@pytest.mark.parametrize("version", PYTHONS)
def test_a_fleet_on_each_python(version: str, wheel: Path, tmp_path: Path) -> None:
    """Issue 23: starts, calls and cancels on each; skipped where there is no Python or no wheel."""
    inside = str(tmp_path / "venv" / "bin" / "python")
    call_uv("venv", "--no-python-downloads", "--python", version, str(tmp_path / "venv"))
    package = f"tool-engine[ray] @ {wheel.as_uri()}"
    call_uv("pip", "install", "--python", inside, "--only-binary", "ray", package)
    ended = subprocess.run(
        [inside, "-c", PROGRAM],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=6 * BOUND,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(f"called and cancelled on {version}.")
