"""A folder for scripts, a folder they may read and a private one: what attacks are tried in."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import textwrap
import uuid
from pathlib import Path
from typing import Any, Final

from tool_engine import Tool, ToolExecutionContext
from tool_engine.executors.commands.shell import ShellExecutor
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import ToolCategory

__all__ = ["BOUND", "PYTHON", "Cell"]

BOUND: Final = 20.0
PYTHON: Final = f"{sys.base_prefix}/bin/python3"


class Cell:
    """A folder that scripts may write to, one that they may read, and one that is private."""

    def __init__(self, folder: Path) -> None:
        for name in ("work", "library", "private"):
            (folder / name).mkdir()
            (folder / name / "file").write_text(f"text of {name}")
        self.folder = folder
        self.tag = uuid.uuid4().hex
        self.executor = ShellExecutor()

    async def run(self, script: str, seconds: float = BOUND, *, network: bool = False) -> Any:
        read = [str(self.folder / "library"), sys.base_prefix]
        config = {"read": read, "write": [str(self.folder / "work")], "network": network}
        tool = Tool(
            id="shell",
            name="shell",
            version="1.0.0",
            description="A sample",
            category=ToolCategory.CUSTOM,
            tags=[],
            parameters=[ToolParameter("script", "string", required=True)],
            implementation_config={"cwd": str(self.folder / "work"), "config": config},
        )
        context = ToolExecutionContext()
        context.deadline = asyncio.get_running_loop().time() + seconds
        async with asyncio.timeout(BOUND):
            return await self.executor.execute(tool, {"script": f": {self.tag}\n{script}"}, context)

    async def python(self, code: str, **more: Any) -> str:
        """What Python code prints in the cell."""
        (self.folder / "work" / "code.py").write_text(textwrap.dedent(code))
        output = await self.run(f"{PYTHON} -I code.py {self.tag}", **more)
        assert output["stderr"] == ""
        return str(output["stdout"])

    def left(self) -> list[int]:
        """The processes whose command line still has the tag: scripts may wipe the rest."""
        found = []
        for place in Path("/proc").iterdir():
            if place.name.isdecimal():
                with contextlib.suppress(OSError):
                    if self.tag in (place / "cmdline").read_text():
                        found.append(int(place.name))
        return found
