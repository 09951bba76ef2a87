"""What a definition may say about shell scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tool_engine.errors import DefinitionError
from tool_engine.executors.commands.shell_entry import ShellPlan, check_entry, compile_entry
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]


def test_a_whole_entry(make: Make) -> None:
    """Each key is read; what is not there opens nothing."""
    config = {"read": ["/a"], "write": ["b"], "network": True, "deny": ["sudo"]}
    plan = compile_entry(make({"cwd": "work", "config": config}, "script"))
    assert plan == ShellPlan("work", ("/a",), ("b",), network=True, deny=("sudo",))
    bare = make({"type": "builtin", "handler": "run_shell_command", "cwd": "work"}, "script")
    assert check_entry(bare) == []
    assert compile_entry(bare) == ShellPlan("work", (), (), network=False, deny=())


@pytest.mark.parametrize(
    ("entry", "parameters", "expected"),
    [
        ({}, ["script"], "entry.cwd: must be the folder that scripts run in, got nothing"),
        ({"cwd": "a"}, [], "parameters: must be one text named 'script'"),
        ({"cwd": "a"}, ["script", "x"], "got ['script', 'x']"),
        ({"cwd": "a", "argv": []}, ["script"], "entry.argv: unknown key 'argv'; known are type"),
        ({"cwd": "a", "config": []}, ["script"], "entry.config: must be a mapping, got a list"),
        ({"cwd": "a", "config": {"wirte": []}}, ["script"], "did you mean 'write'?"),
        ({"cwd": "a", "config": {"read": "/"}}, ["script"], "entry.config.read: must be a list"),
        ({"cwd": "a", "config": {"write": ["/"]}}, ["script"], "opens the whole system"),
        (
            {"cwd": "a", "config": {"network": "no"}},
            ["script"],
            "true or false, got the text 'no'",
        ),
    ],
)
def test_mistakes(make: Make, entry: dict[str, Any], parameters: list[str], expected: str) -> None:
    """Each mistake names its place and what is expected."""
    tool = make(entry, *parameters)
    assert any(expected in f"{p.path}: {p.message}" for p in check_entry(tool))
    with pytest.raises(DefinitionError):
        compile_entry(tool)
