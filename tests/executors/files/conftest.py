"""A root with files, a folder beside it that no tool may touch, and short calls of the tools."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tool_engine import ToolConfigLoader
from tool_engine.executors.executor_registry import BUILTIN_EXECUTORS
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

TOOLS = Path(__file__).parents[3] / "tools"


@cache
def bundled(handler: str) -> Tool:
    return ToolConfigLoader().load_file(TOOLS / f"{handler}.yaml")


class Desk:
    """The bundled file tools, at work in a root of their own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.outside = folder / "outside"
        for each in (self.root, self.outside):
            each.mkdir()
        (self.outside / "secret.txt").write_text("SECRET\n")
        self.deadline: float | None = None
        self._executors: dict[str, Any] = {}

    def tool(self, handler: str, *, source: Path | None = None, **entry: Any) -> Tool:
        """The bundled definition with another root."""
        tool = bundled(handler)
        entry = {"type": "builtin", "handler": handler, "root": str(self.root), **entry}
        where = None if source is None else str(source)
        return msgspec.structs.replace(tool, implementation_config=entry, source=where)

    def run(self, tool: Tool, **params: Any) -> Any:
        """Runs the tool's executor, as a thread does."""
        executor = self._executors.get(tool.handler)
        if executor is None:
            module, _, name = BUILTIN_EXECUTORS[tool.handler].partition(":")
            executor = self._executors[tool.handler] = getattr(import_module(module), name)()
        return executor.execute(tool, params, ToolExecutionContext(deadline=self.deadline))

    def read(self, path: str, **params: Any) -> Any:
        return self.run(self.tool("read_file"), path=path, **params)

    def write(self, path: str, content: str = "new\n", **params: Any) -> Any:
        return self.run(self.tool("write_file"), path=path, content=content, **params)

    def edit(self, path: str, old_text: str, new_text: str, **params: Any) -> Any:
        tool = self.tool("edit_file")
        return self.run(tool, path=path, old_text=old_text, new_text=new_text, **params)

    def listing(self, **params: Any) -> Any:
        return self.run(self.tool("read_folder"), **params)

    def paths(self, **params: Any) -> list[str]:
        return [entry["path"] for entry in self.listing(**params)["entries"]]

    def search(self, pattern: str, **params: Any) -> Any:
        return self.run(self.tool("search_files"), pattern=pattern, **params)

    def put(self, path: str, content: str | bytes = "") -> Path:
        """Makes a file below the root, and its folders."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def names(self) -> set[str]:
        """All there is below the root, hidden files too."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
