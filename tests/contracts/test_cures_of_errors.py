"""What an error outside of the catalog says to do after a semicolon is done, and the error goes.

`CALLS` are mistakes in code, `SUMS` in what a model sends, `LINES` on the command line, each with
its cure applied. Those of definitions: `test_cures`. That none is forgotten: `test_every_cure`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine import (
    AdaptivePolicy,
    CallbackApprover,
    ConcurrencyConfig,
    EchoExecutor,
    OverloadPolicy,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineError,
    get_protocol,
)
from tool_engine.cli.app import run

ROOT = Path(__file__).parents[2]
HEAD = {"name": "t", "description": "A thing."}
CALL = {"tool": "echo", "params": {"message": "hi"}}


def is_allowed(request: Any) -> bool:
    return bool(request)


async def answer() -> int:
    return 42


LIFO = "adaptive_lifo"
Row = tuple[str, Callable[[], object], Callable[[], object]]
CALLS: list[Row] = [
    (
        "config.py: write ConcurrencyConfig(max_concurrent=...)",
        lambda: ToolEngineConfig(concurrency=5),  # type: ignore[arg-type]
        lambda: ToolEngineConfig(concurrency=ConcurrencyConfig(max_concurrent=5)),
    ),
    (
        "config.py: use 'arrival', or the strategy 'fifo'",
        lambda: ConcurrencyConfig(strategy="fair", overload={"http": OverloadPolicy(order=LIFO)}),
        lambda: [
            ConcurrencyConfig(strategy="fair", overload={"http": OverloadPolicy(order="arrival")}),
            ConcurrencyConfig(strategy="fifo", overload={"http": OverloadPolicy(order=LIFO)}),
        ],
    ),
    (
        "model/settings/concurrency.py: raise max or lower min",
        lambda: AdaptivePolicy(min=5, max=4),
        lambda: [AdaptivePolicy(min=5, max=5), AdaptivePolicy(min=4, max=4)],
    ),
    (
        "engine.py: for a folder write ToolEngineConfig(tools_directory=...)",
        lambda: ToolEngine("tools"),  # type: ignore[arg-type]
        lambda: ToolEngine(ToolEngineConfig(tools_directory="tools")),
    ),
    (
        "approval/answers.py: for a function write CallbackApprover(function)",
        lambda: ToolEngine(approver=is_allowed),  # type: ignore[arg-type]
        lambda: ToolEngine(approver=CallbackApprover(is_allowed)),
    ),
    (
        "executors/executor_registry.py: for a plain function use register_tool",
        lambda: ToolEngine().register_executor("t", answer),  # type: ignore[arg-type]
        lambda: ToolEngine().register_tool(HEAD, answer),
    ),
    (
        "executors/executor_registry.py: write …()",
        lambda: ToolEngine().register_executor("t", EchoExecutor),  # type: ignore[arg-type]
        lambda: ToolEngine().register_executor("t", EchoExecutor()),
    ),
    (
        "protocols/registry.py: known are ……",
        lambda: get_protocol("telepathy"),
        lambda: get_protocol("openai"),
    ),
]
SUMS = [
    ("executors/calculator.py: write numbers without commas, with a point for decimals",
     "1,5 + 1", "1.5 + 1"),
    ("executors/operations.py: for odd roots there are cbrt(x) and root(x, n)",
     "(-8) ** (1 / 3)", "cbrt(-8)"),
]  # fmt: skip
LINES = [
    ("cli/documents.py: save it as UTF-8", "call echo --params latin", "call echo --params utf8"),
    ("cli/documents.py: write one JSON or YAML value into it",
     "call echo --params empty", "call echo --params utf8"),
    ("cli/calls/call_arguments.py: write …=value",
     "call echo --message", "call echo message=value"),
    ("cli/calls/call_arguments.py: write key=value, key:=json or key=@file, such as …",
     "call echo hi", "call echo message=hi"),
    ("cli/calls/call_arguments.py: give it once",
     "call echo message=a message=b", "call echo message=a"),
    ("cli/calls/call_arguments.py: write one, such as …=5",
     "call echo message=a times=x", "call echo message=a times=5"),
    (("cli/options.py: name another with `tool-engine --path DIR ...` or the variable "
     "TOOL_ENGINE_PATH"), "--path nowhere list", "--path . list"),
    ("cli/writing.py: choose another name, or replace it with --force",
     "new there", "new there --force"),
    ("cli/files/new_command.py: choose another name, or replace it with --force",
     "new there", "new there --force"),
    ("cli/calls/simulate_command.py: write NAME=NUMBER, such as http=8",
     "simulate trace.jsonl --bucket http", "simulate trace.jsonl --bucket http=8"),
    ("cli/calls/simulate_command.py: give it once",
     "simulate trace.jsonl --bucket http=8 --bucket http=9",
     "simulate trace.jsonl --bucket http=8"),
    ("cli/calls/proposing.py: give a TRACE, or name their database with --records URL",
     "simulate --since 2100-01-01", "simulate trace.jsonl"),
    ("cli/calls/batch_command.py: write …", "batch bad.json", "batch good.json"),
    ("cli/calls/batch_command.py: write a call a line: …", "batch half.json", "batch line.json"),
    ("cli/chat/chat_options.py: leave it out to say each turn on a line of stdin",
     "chat --script script.yaml ''", "chat --script script.yaml hi"),
    ("agent/models/script.py: write its replies as {replies: [{text: Hello.}]}",
     "chat --script bad.json hi", "chat --script replies.yaml hi"),
    ("cli/records/prune_command.py: or --sessions-older-than 90d", "prune",
     "prune --sessions-older-than 90d"),
    ("cli/records/story.py: `tool-engine history` lists the newest", "history show c1", "history"),
]  # fmt: skip
TRIED = {row[0] for row in (*CALLS, *SUMS, *LINES)}


def names_cure(row: str, message: str) -> bool:
    """Whether a message ends as the row says, whatever stands in its gaps."""
    parts = row.partition(": ")[2].split("…")
    return (
        re.search("(; |, or )" + ".*".join(map(re.escape, parts)), message, re.DOTALL) is not None
    )


@pytest.mark.parametrize(("row", "broken", "healed"), CALLS, ids=[row[0] for row in CALLS])
def test_in_code(row: str, broken: Callable[[], object], healed: Callable[[], object]) -> None:
    """What the message says to write is taken."""
    with pytest.raises(ToolEngineError) as raised:
        broken()
    assert names_cure(row, str(raised.value)), raised.value
    healed()


@pytest.mark.parametrize(("row", "broken", "healed"), SUMS)
async def test_in_sums(row: str, broken: str, healed: str) -> None:
    """A model that writes it as it was told gets the result."""
    folder = str(ROOT / "tools")
    async with ToolEngine(ToolEngineConfig(tools_directory=folder, auto_reload=False)) as engine:
        failed = await engine.execute("calculator", {"expression": broken})
        assert names_cure(row, failed.error or ""), failed
        assert (await engine.execute("calculator", {"expression": healed})).is_success


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the lines name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.setenv("TOOL_ENGINE_RECORDS", f"sqlite:///{tmp_path}/calls.db")
    (tmp_path / "tools").mkdir()
    echo = {
        "name": "echo",
        "description": "Says it.",
        "effect": "read",
        "parameters": [
            {"name": "message", "type": "string", "description": "What", "required": True},
            {"name": "times", "type": "integer", "description": "How often"},
        ],
        "entry": {"type": "builtin", "handler": "echo"},
    }
    traced = {"call_id": "c", "tool_name": "echo", "bucket": "http", "enqueued_at": 0.0,
              "started_at": 0.0, "ended_at": 1.0}  # fmt: skip
    for name, value in (
        ("tools/echo.yaml", echo),
        ("tools/there.yaml", {**HEAD, "name": "there"}),
        ("utf8", {"message": "café"}),
        ("bad.json", [{"params": {}}]),
        ("good.json", [CALL]),
        ("trace.jsonl", traced),
        ("script.yaml", {"replies": [{"text": "Yes."}]}),
    ):
        (tmp_path / name).write_text(json.dumps(value), encoding="utf-8")
    (tmp_path / "replies.yaml").write_text("{replies: [{text: Hello.}]}", encoding="utf-8")
    (tmp_path / "latin").write_bytes('{"message": "café"}'.encode("latin-1"))
    (tmp_path / "half.json").write_text('{"tool": ', encoding="utf-8")
    (tmp_path / "line.json").write_text(json.dumps(CALL) + "\n", encoding="utf-8")
    (tmp_path / "empty").touch()
    assert run(["call", "echo", "message=hi"]) == 0
    return tmp_path


@pytest.mark.parametrize(("row", "broken", "healed"), LINES, ids=[row[0] for row in LINES])
def test_on_the_command_line(
    place: Path, capsys: pytest.CaptureFixture[str], row: str, broken: str, healed: str
) -> None:
    """The line that the message asks for works."""
    del place
    assert run(["" if word == "''" else word for word in broken.split()]) != 0
    message = " ".join(capsys.readouterr().err.split())
    assert names_cure(row, message), message
    assert run(healed.split()) == 0, capsys.readouterr().err
