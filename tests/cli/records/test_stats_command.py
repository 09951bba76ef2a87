"""`stats` shows what the calls add up to."""

import asyncio
import re
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.conftest import Command
from tests.cli.recorded import record_calls
from tests.knowledge.sql.conftest import NOON, call
from tool_engine.knowledge.sql.storage import SQLRecordStorage

ESCAPES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return record_calls(tmp_path)


def test_stats_as_json(command: Command, url: str) -> None:
    """Totals, tools and buckets, and the calls of each part of the time, which add up."""
    told = command("--records", url, "stats", "--json").json
    assert told["total_records"] == 6
    assert told["failure_count"] == 2
    assert told["by_tool"]["inner"]["total"] == 3
    assert sum(each["calls"] for each in told["intervals"]) == 6
    assert sum(each["failed"] for each in told["intervals"]) == 2
    assert sum(each["by_tool"].get("inner", 0) for each in told["intervals"]) == 3
    assert "errors" not in command("--records", url, "stats", "--tool", "inner").out
    only = command("--records", url, "stats", "--json", "--tool", "inner").json
    assert only["total_records"] == 3
    assert sum(each["calls"] for each in only["intervals"]) == 3


async def _record_out_of_order(url: str) -> None:
    storage = SQLRecordStorage(url)
    await storage.open()
    for second in (3, 1, 5, 9, 2):
        storage.add(call(second))
    await storage.close()


def test_clock_that_was_set_back(command: Command, tmp_path: Path) -> None:
    """The parts add up, also where the newest call to come was not the last one to end."""
    url = f"sqlite:///{tmp_path / 'calls.db'}"
    asyncio.run(_record_out_of_order(url))
    parts = command("--records", url, "stats", "--json").json["intervals"]
    assert sum(each["calls"] for each in parts) == 5
    until = (NOON + timedelta(seconds=3, microseconds=1)).isoformat()
    parts = command("--records", url, "stats", "--json", "--until", until).json["intervals"]
    assert sum(each["calls"] for each in parts) == 3


@pytest.mark.parametrize("columns", ["60", "80", "140"])
def test_stats_for_people(
    command: Command, url: str, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    """Tables that fit the terminal, without anything that steers it."""
    monkeypatch.setenv("COLUMNS", columns)
    done = command("--records", url, "stats")
    assert done.code == 0
    for words in ("6 calls", "2 failed", "tools", "buckets", "execution_error"):
        assert words in done.out
    assert not ESCAPES.search(done.out)
    assert all(len(line) <= int(columns) for line in done.out.splitlines()[1:])
    assert ("over time" in done.out) is (columns == "140")


def test_stats_of_no_calls(command: Command, url: str, tmp_path: Path) -> None:
    """Without calls there is nothing to show, also in a picture."""
    done = command("--records", url, "stats", "--since", "2999-01-01")
    assert (done.code, done.out.strip()) == (0, "no such calls are recorded")
    assert command("stats", "--json").json["intervals"] == []
    picture = tmp_path / "none.svg"
    assert command("stats", "--plot", str(picture)).code == 0
    ET.parse(picture)  # noqa: S314 - our own


def test_stats_draws_a_picture(command: Command, url: str, tmp_path: Path) -> None:
    """`--plot` writes an SVG that says what it shows."""
    picture = tmp_path / "calls.svg"
    done = command("--records", url, "stats", "--plot", str(picture))
    assert f"picture: {picture}" in done.out.replace("\n", "")
    text = "".join(ET.parse(picture).getroot().itertext())  # noqa: S314 - our own
    for words in ("waited for a slot", "ran: median", "slots in use", "6 calls"):
        assert words in text


def test_picture_that_cannot_be_written(command: Command, url: str, tmp_path: Path) -> None:
    """A place that cannot be written is a mistake with one message."""
    done = command("--records", url, "stats", "--plot", str(tmp_path / "no" / "such" / "x.svg"))
    assert done.code == 2
    assert "cannot write" in done.err
