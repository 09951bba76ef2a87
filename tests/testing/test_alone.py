"""Do the tests of a tool run in a process of their own, however that ends?"""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tool_engine.errors import ToolExecutionError, ToolNotFoundError
from tool_engine.testing.alone import Wanted, check_tool_alone

LEAVE = """
name: leave
description: Ends its process.
parameters:
  - {{name: status, type: integer, required: true, description: How}}
entry: {{type: custom, handler: '{module}:leave'}}
tests:
  - {{name: leaves, params: {{status: 3}}, expect: null}}
"""
SAY = """
name: say
description: Writes where the report is written.
parameters:
  - {{name: text, type: string, required: true, description: What}}
entry: {{type: custom, handler: '{module}:say'}}
tests:
  - {{name: says, params: {{text: 'tool-engine-report: []'}}, expect: null}}
"""
HANDLERS = """
import os
def leave(status): os._exit(status)
def say(text): print(text)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tools whose handlers stand in a module that this process finds, and no other."""
    module, tools = f"handlers_{uuid4().hex}", tmp_path / "tools"
    (tmp_path / f"{module}.py").write_text(HANDLERS)
    monkeypatch.syspath_prepend(tmp_path)
    (tools / "below").mkdir(parents=True)
    (tools / "leave.yaml").write_text(LEAVE.format(module=module))
    (tools / "below" / "say.yaml").write_text(SAY.format(module=module))
    return tools


async def test_one_that_ends_the_process(folder: Path) -> None:
    """It is said how, and nothing else ends."""
    with pytest.raises(ToolExecutionError, match="ended their process with 3"):
        await check_tool_alone(Wanted("leave", str(folder)), 30.0)


async def test_what_it_reads_is_its_own(folder: Path) -> None:
    """No tool writes the report in the place of the process."""
    report = await check_tool_alone(Wanted("say", str(folder), is_recursive=True), 30.0)
    assert (report.tool, [each.status for each in report.cases]) == ("say", ["passed"])


async def test_one_that_is_not_there(folder: Path) -> None:
    """Also one in a folder below, where the engine does not read those."""
    with pytest.raises(ToolNotFoundError, match="'say' now"):
        await check_tool_alone(Wanted("say", str(folder)), 30.0)


async def test_a_file_that_is_named_like_a_module(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in the present folder, where a tool may have put it, is not run."""
    (folder / "json.py").write_text("import os; os._exit(7)")
    monkeypatch.chdir(folder)
    report = await check_tool_alone(Wanted("say", str(folder), is_recursive=True), 30.0)
    assert report.tool == "say"


async def test_time(folder: Path) -> None:
    """What has not ended in time is ended."""
    with pytest.raises(ToolExecutionError, match=r"did not end within 0\.01 s"):
        await check_tool_alone(Wanted("say", str(folder)), 0.01)
