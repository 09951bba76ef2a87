"""Do commands tell whose calls and events are kept in a database that several processes share?"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.cli.recorded import lines_of
from tests.postgres import PostgresServer
from tool_engine.config import ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.events.memory import event_storage_for
from tool_engine.knowledge.store import ToolKnowledgeStore


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Two processes have kept calls and events there: one of web-1, two of web-2."""
    if request.param == "sqlite":
        place = f"sqlite:///{tmp_path / 'calls.db'}"
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        place = server.emptied_database()
    asyncio.run(call_from_two(tmp_path, place))
    return place


async def call_from_two(folder: Path, url: str) -> None:
    (folder / "empty").mkdir()
    for process, words in (("web-1", ["1"]), ("web-2", ["1", "no number"])):
        config = ToolEngineConfig(
            tools_directory=str(folder / "empty"), records=url, keep_events=100, process=process
        )
        storage = event_storage_for(config, url)
        async with ToolEngine(config, event_storage=storage) as engine:

            @engine.tool(name="double")
            async def double(number: str) -> int:
                """Doubles a number."""
                return 2 * int(number)

            for word in words:
                await engine.execute("double", {"number": word})


def processes_of(lines: str) -> list[str]:
    return [each["process"] for each in lines_of(lines)]


def test_history(command: Command, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines, tables and JSON name the process, and each can be asked for alone."""

    def show(*words: str) -> str:
        return command("--records", url, "history", *words).out

    assert processes_of(show("--json")) == ["web-1", "web-2", "web-2"]
    assert processes_of(show("--json", "--process", "web-1")) == ["web-1"]
    assert processes_of(show("--json", "--process", "web-2", "--failed")) == ["web-2"]
    assert [line.rpartition("  ")[2] for line in show().splitlines()] == [
        "[web-1]",
        "[web-2]",
        "[web-2]",
    ]
    monkeypatch.setenv("COLUMNS", "200")
    assert [line.split()[-1] for line in show().splitlines() if "double" in line] == [
        *("web-1", "web-2", "web-2")
    ]


def test_events(command: Command, url: str) -> None:
    def show(*words: str) -> str:
        return command("--records", url, "events", "--type", "execution_started", *words).out

    assert processes_of(show("--json")) == ["web-1", "web-2", "web-2"]
    assert processes_of(show("--json", "--process", "web-1")) == ["web-1"]
    assert [line.rpartition("  ")[2] for line in show().splitlines()] == [
        "[web-1]",
        "[web-2]",
        "[web-2]",
    ]


def test_statistics(command: Command, url: str) -> None:
    """All calls are counted for each process, the one with most calls first."""
    found: dict[str, Any] = command("--records", url, "stats", "--json").json["by_process"]
    assert list(found) == ["web-2", "web-1"]
    assert found["web-2"] == {
        "total": 2,
        "failed": 1,
        "error_rate": 50.0,
        "outcomes": {"succeeded": 1, "failed": 1},
    }
    shown = command("--records", url, "stats").out.partition("processes")[2].split()
    assert shown[:9] == ["process", "calls", "failed", "web-2", "2", "50", "%", "web-1", "1"]
    one = command("--records", url, "stats", "--json", "--process", "web-1").json
    assert (one["total_records"], list(one["by_process"])) == (1, ["web-1"])


async def test_statistics_of_a_storage_that_cannot_count(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    config = ToolEngineConfig(tools_directory=str(tmp_path / "empty"), process="web-1")
    async with ToolEngine(config) as engine:
        await engine.execute("none")
        store: ToolKnowledgeStore = engine.store
        found = await store.get_call_statistics(by_process=True)
        assert found["by_process"]["web-1"]["outcomes"] == {"failed": 1}
        assert "by_process" not in await store.get_call_statistics()


def test_processes_without_a_name_in_a_file(command: Command, tmp_path: Path) -> None:
    """The number of a process that has ended says nothing: lines stay short."""
    url = f"sqlite:///{tmp_path / 'own.db'}"
    assert command("--records", url, "call", "echo", "message=x").code == 0
    words = ("--records", url, "history")
    assert "[" not in command(*words).out
    assert processes_of(command(*words, "--json").out)[0].endswith(f"-{os.getpid()}")


async def test_a_variable_names_the_process(tools: Path, tmp_path: Path) -> None:
    """Replicas of one image have one file of settings; each names itself beside it."""
    url = f"sqlite:///{tmp_path / 'named.db'}"
    variables = {**os.environ, "TOOL_ENGINE_TOOLS": str(tools), "TOOL_ENGINE_RECORDS": url}
    made = (sys.executable, "-m", "tool_engine")

    async def run(process: str, *words: str) -> str:
        said = {**variables, "TOOL_ENGINE_PROCESS": process}
        ended = await asyncio.create_subprocess_exec(
            *made, *words, env=said, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
        )
        return (await ended.communicate())[0].decode()

    await asyncio.gather(*(run(f"web-{n}", "call", "echo", "message=x") for n in (1, 2)))
    assert sorted(processes_of(await run("", "history", "--json"))) == ["web-1", "web-2"]
