"""What an error of a tool's own tests says to do after a semicolon is done, and the tests run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tool_engine.cli.app import run
from tool_engine.errors import ToolExecutionError
from tool_engine.testing.alone import Wanted, check_tool_alone

ELSEWHERE = "testing/alone.py: run `tool-engine test …`"
LATE = "testing/alone.py: run `tool-engine test …` to see which"
TRIED = {ELSEWHERE, LATE}
TOOL = """
name: say
description: Says it.
effect: read
parameters:
  - {name: message, type: string, required: true, description: What}
entry: {type: builtin, handler: echo}
tests:
  - {name: says, params: {message: hello}, expect: {message: hello}}
"""


@pytest.mark.parametrize("cure", [ELSEWHERE, LATE])
async def test_the_command_is_run_instead(
    cure: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if cure == ELSEWHERE:
        monkeypatch.setattr(sys, "platform", "plan9")
    (tmp_path / "say.yaml").write_text(TOOL)
    with pytest.raises(ToolExecutionError) as raised:
        await check_tool_alone(Wanted("say", str(tmp_path)), 0.001)
    said = cure.partition(": ")[2].replace("…", "say")
    assert str(raised.value).endswith(f"; {said}")


def test_the_command_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "say.yaml").write_text(TOOL)
    assert run(["--tools", str(tmp_path), "test", "say"]) == 0
    assert "say  1 passed" in capsys.readouterr().out
