"""What does `check_definitions` say of the one tool that a text defines?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.testing.definitions import check_definitions
from tool_engine.testing.report import CaseReport


async def cases_of(folder: Path, *texts: str, **settings: Any) -> list[CaseReport]:
    """The reports about the tests of the first tool; `folder` gets a file for each text."""
    _write(folder, texts)
    config = ToolEngineConfig(tools_directory=str(folder), auto_reload=False, **settings)
    name = texts[0].lstrip().splitlines()[0].removeprefix("name: ")
    async with asyncio.timeout(30), ToolEngine(config) as engine:
        assert engine.load_errors == []
        (report,) = await check_definitions(engine, [name], cases=0)
    return report.cases


def _write(folder: Path, texts: tuple[str, ...]) -> None:
    folder.mkdir(exist_ok=True)
    for number, text in enumerate(texts):
        (folder / f"t{number}.yaml").write_text(text.lstrip(), encoding="utf-8")


def problems(cases: list[CaseReport]) -> list[str]:
    """Every problem of every test."""
    return [problem for case in cases for problem in case.problems]
