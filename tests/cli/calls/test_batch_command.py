"""`batch` runs every call of a file in order, or none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def write_batch(tmp_path: Path, *calls: object) -> str:
    path = tmp_path / "calls.jsonl"
    path.write_text("\n".join(json.dumps(call) for call in calls), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("words", [(), ("--parallel",), ("--max-parallel", "2")])
def test_batch_runs_every_call_in_order(
    command: Callable[..., Any], tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Results in the order of the calls, one failure loses no other, exit code 1 for it."""
    file = write_batch(
        tmp_path,
        {"tool": "echo", "params": {"message": "first"}},
        ["nowhere", {}],
        ["calculator", {"expression": "6 * 7"}],
    )
    ended = command("batch", file, "--json", *words)
    assert (ended.code, ended.err) == (1, "")
    results = ended.json["results"]
    assert [each["error_type"] for each in results] == [None, "tool_not_found", None]
    assert results[2]["output"] == {"result": 42}
    assert ended.json["summary"]["total_calls"] == 3
    assert ended.json["summary"]["success_rate"] == 66.67
    assert "call_details" not in ended.json["summary"]


def test_batch_prints_tables(command: Callable[..., Any], tmp_path: Path) -> None:
    """For people: one row per call and the summary; all good is exit code 0."""
    file = write_batch(tmp_path, ["echo", {"message": "x" * 400}])
    ended = command("batch", file)
    text = " ".join(ended.out.split())
    assert ended.code == 0
    assert "1 call " in text
    assert "succeeded" in text
    assert "characters)" in text
    assert "success_rate 100" in text


def test_a_batch_file_with_a_mistake_runs_nothing(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    """The message names the line, exit code 2."""
    ended = command("batch", write_batch(tmp_path, ["echo", {"message": "x"}], {"tol": 1}))
    assert ended.code == 2
    assert "calls.jsonl:2: unknown key 'tol'; did you mean 'tool'?" in ended.err
