"""`export` writes records for other programs."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.recorded import lines_of, record_calls


@pytest.fixture
def url(tmp_path: Path) -> str:
    return record_calls(tmp_path)


def test_export_as_json_lines_and_csv(command: Command, url: str) -> None:
    """Both formats hold the same calls, the oldest first."""
    told = lines_of(command("--records", url, "export").out)
    assert [each["tool_name"] for each in told][:3] == ["inner", "inner", "outer"]
    rows = list(
        csv.DictReader(io.StringIO(command("--records", url, "export", "--format", "csv").out))
    )
    assert [row["call_id"] for row in rows] == [each["call_id"] for each in told]
    assert json.loads(rows[2]["params"]) == {"numbers": 2}
    failed = lines_of(command("--records", url, "export", "--failed").out)
    assert {each["is_success"] for each in failed} == {False}
    assert len(failed) == 2


def test_export_to_a_file(command: Command, url: str, tmp_path: Path) -> None:
    """A file holds what stdout would, and is there only when it is whole."""
    target = tmp_path / "calls.jsonl"
    done = command("--records", url, "export", "--output", str(target))
    assert (done.code, done.out) == (0, "")
    assert target.read_text() == command("--records", url, "export").out
    nowhere = command("--records", url, "export", "-o", str(tmp_path / "no" / "x"))
    assert nowhere.code == 2
    assert "cannot write" in nowhere.err
    bad = command("--records", url, "export", "--format", "parquet", "-o", str(target))
    assert bad.code == 2
    assert target.read_text()
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_export_into_a_closed_pipe(url: str) -> None:
    """A reader that has enough ends it without a word."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tool_engine.cli", "--records", url, "export"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=30) == 1


def test_export_of_nothing(command: Command) -> None:
    """Without records a CSV file has its header, and JSON lines are empty."""
    assert command("export").out == ""
    assert len(command("export", "--format", "csv").out.splitlines()) == 1
