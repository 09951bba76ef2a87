"""Does what the page about deployment shows start, answer and end as it says?"""

from __future__ import annotations

import asyncio
import configparser
import contextlib
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.server.conftest import write_tokens
from tests.server.process import END_LIMIT, fetch, write_tools
from tests.server.proxies import block_of
from tool_engine.cli.serving.serve_command import _GRACE

UNIT = "/etc/systemd/system/tool-engine.service"
SCRIPTS = str(Path(sys.executable).parent)
START_LIMIT = 60.0


def read_joined(name: str) -> str:
    """A file of the page, with its continued lines as one, as its reader takes them."""
    return re.sub(r"\\\n\s*", " ", block_of(name))


def read_unit() -> configparser.RawConfigParser:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(read_joined(UNIT))
    return unit


def read_words(instruction: str) -> list[str]:
    """The words of an instruction of the container file, written as a list."""
    found = re.search(rf"^{instruction}.*?(\[.*\])$", read_joined("Containerfile"), re.MULTILINE)
    assert found is not None
    return [str(word) for word in json.loads(found[1])]


@contextlib.asynccontextmanager
async def started(
    words: Sequence[str], folder: Path, records: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Runs the words of a page, with the files and the port of this test."""
    tokens = write_tokens(folder / "tokens.json")
    write_tools(folder)
    shown = ("/etc/tool-engine/tokens.yaml", "/run/secrets/tokens.yaml")
    here = [str(tokens) if word in shown else word for word in words]
    process = await asyncio.create_subprocess_exec(
        *here,
        cwd=folder,
        env={"PATH": f"{SCRIPTS}:/usr/bin:/bin", "TOOL_ENGINE_RECORDS": records},
        stdin=subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(START_LIMIT):
            line = (await process.stderr.readline()).decode()
        assert line.startswith("serving 3 tools"), line
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_the_unit_runs(tmp_path: Path) -> None:
    """Its command serves with its environment, and ends at SIGTERM with the code that it names."""
    unit, port = read_unit(), str(free_port())
    words = shlex.split(unit["Service"]["ExecStart"].replace("8930", port))
    assert words[0] == "/opt/tools/.venv/bin/tool-engine"
    name, _, records = unit["Service"]["Environment"].partition("=")
    assert name == "TOOL_ENGINE_RECORDS"
    here = records.replace("/var/lib/tool-engine", str(tmp_path))
    async with started([f"{SCRIPTS}/tool-engine", *words[1:]], tmp_path, here) as process:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(END_LIMIT):
            code = await process.wait()
    assert code == int(unit["Service"]["SuccessExitStatus"])
    assert float(unit["Service"]["TimeoutStopSec"]) > _GRACE
    assert (tmp_path / "calls.db").exists()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_the_unit_is_right(tmp_path: Path) -> None:
    """systemd knows each line of it, and finds that it is confined."""
    path = tmp_path / Path(UNIT).name
    path.write_text(block_of(UNIT).replace("/opt/tools/.venv/bin", SCRIPTS))
    for words in (
        ["verify", str(path)],
        ["security", "--offline=true", "--threshold=30", str(path)],
    ):
        done = subprocess.run(
            ["systemd-analyze", "--no-pager", *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-600:] + done.stderr
        assert "ignoring" not in done.stderr, done.stderr


async def test_the_container_runs(tmp_path: Path) -> None:
    """What it starts serves all addresses, and what looks after its health sees when it ends."""
    port = str(free_port())
    words = [*read_words("ENTRYPOINT"), *read_words("CMD")]
    health = [word.replace("8930", port) for word in read_words("HEALTHCHECK")]
    async with started(
        [word.replace("8930", port) for word in words], tmp_path, f"sqlite:///{tmp_path}/calls.db"
    ) as process:
        for expected in (0, 1):
            looking = await asyncio.create_subprocess_exec(
                sys.executable, *health[1:], stderr=asyncio.subprocess.DEVNULL
            )
            assert await looking.wait() == expected
            if expected == 0:
                await asyncio.to_thread(fetch, f"http://127.0.0.1:{port}/v1/drain", {})
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(END_LIMIT):
            assert await process.wait() == 128 + signal.SIGTERM
