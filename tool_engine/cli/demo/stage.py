"""What do the steps of the demo share?"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console, RenderableType
from rich.text import Text

from tool_engine.catalog.definition.starter import make_starter
from tool_engine.cli.console import as_text, make_console
from tool_engine.cli.failures import CommandError
from tool_engine.cli.settings import Settings
from tool_engine.engine import ToolEngine
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.subagent import ToolSubAgent

NEEDED: Final = ("calculator", "echo", "get_weather", "http_request")
_OWN: Final = files("tool_engine.cli.demo").joinpath("tools")
"""The definitions that the demo has of its own; others are what `tool-engine new` writes."""
_FINAL: Final = (
    ToolEngineEventType.VALIDATION_ERROR,
    ToolEngineEventType.EXECUTION_COMPLETED,
    ToolEngineEventType.EXECUTION_FAILED,
    ToolEngineEventType.EXECUTION_CANCELLED,
)
_PATIENCE: Final = 5.0
"""Seconds to wait for an event that should come within a fraction of one."""


def copy_definitions(settings: Settings, target: Path) -> str:
    """Copy the definitions into `target` and return where they came from.

    The tools folder is used when it holds the files that the demo needs, else those of the package.
    A folder that was named must hold them.
    """
    source = Path(settings.tools)
    missing = [name for name in NEEDED if not (source / f"{name}.yaml").is_file()]
    if not missing:
        for path in sorted(source.iterdir()):
            if path.suffix in (".yaml", ".yml") and path.is_file():
                shutil.copyfile(path, target / path.name)
        return f"the folder {str(source)!r}"
    if settings.chosen is not None:
        raise CommandError(
            f"the demo needs {', '.join(f'{name}.yaml' for name in missing)} in {settings.tools!r};"
            " run it without --tools and TOOL_ENGINE_TOOLS to use the definitions that come with "
            "the package",
            error_type="no_demo_tools",
        )
    for name in NEEDED:
        own = _OWN.joinpath(f"{name}.yaml")
        text = own.read_text("utf-8") if own.is_file() else make_starter(name, name).definition
        (target / f"{name}.yaml").write_text(text, encoding="utf-8")
    return "the definitions that come with the package"


def add_to_entry(text: str, line: str) -> str:
    """Return the definition with `line` as the first key of its `entry`."""
    edited, count = re.subn(r"(?m)^entry:[^\n]*\n", lambda found: f"{found[0]}  {line}\n", text)
    if count != 1:
        raise CommandError("the demo cannot edit this definition: it has no `entry:` block")
    return edited


def set_version(text: str, version: str) -> str:
    edited, count = re.subn(r"(?m)^version:[^\n]*$", f'version: "{version}"', text)
    if count != 1:
        raise CommandError("the demo cannot edit this definition: it has no `version:` line")
    return edited


class Promise(NamedTuple):
    """What a step says that the engine does, and whether it did."""

    step: str
    text: str
    is_kept: bool


class Stage:
    """The running engine, its sub-agent, its events and the failed promises.

    `folder` is the demo's own copy of the tool files, `address` the `host:port` of its service. The
    engine is not opened yet, so that the events of loading are seen.
    """

    def __init__(
        self,
        folder: Path,
        address: str,
        engine: ToolEngine,
        agent: ToolSubAgent,
        console: Console | None = None,
    ) -> None:
        self.folder = folder
        self.address = address
        self.url = f"http://{address}"
        self.engine = engine
        self.agent = agent
        self.console: Console = console or make_console(is_drawn=True)
        self.events: list[ToolEngineEvent] = []
        self.step = ""
        """The title of the one that is shown."""
        self.promises: list[Promise] = []
        self.statistics: dict[str, Any] = {}
        """What the calls add up to."""
        self._arrived = asyncio.Event()
        engine.subscribe(self._on_event)

    def say(self, text: str, style: str = "") -> None:
        """Print a text; what does not fit goes on below where it began."""
        said = text.lstrip()
        margin = " " * (2 + len(text) - len(said))
        for line in as_text(said, style).wrap(self.console, self.console.width - len(margin)):
            line.rstrip()
            self.console.print(Text(margin).append_text(line))

    def say_line(self, text: str) -> None:
        """Print a text on one line, cut where that ends."""
        line = as_text(text)
        line.truncate(self.console.width - 2, overflow="ellipsis")
        self.console.print(Text("  ").append_text(line))

    def show(self, what: RenderableType) -> None:
        self.console.print(what)

    def expect(self, is_so: bool, what: str) -> None:
        """Print a promise, and remember it when it is not kept."""
        self.say(f"{'ok' if is_so else 'NOT OK'}: {what}", "green" if is_so else "bold red")
        self.promises.append(Promise(self.step, what, is_so))

    @property
    def problems(self) -> list[str]:
        return [each.text for each in self.promises if not each.is_kept]

    def count_finished(self) -> int:
        return sum(event.event_type in _FINAL for event in self.events)

    def definition(self, name: str) -> Path:
        return self.folder / f"{name}.yaml"

    def read(self, name: str) -> str:
        return self.definition(name).read_text(encoding="utf-8")

    async def edit(
        self, name: str, text: str, awaited: ToolEngineEventType
    ) -> ToolEngineEvent | None:
        """Write a tool's file, and wait for an event of this type."""
        seen = len(self.events)
        self._write_definition(name, text)
        return await self._wait_for_event(seen, lambda event: event.event_type is awaited)

    def _write_definition(self, name: str, text: str) -> None:
        self.definition(name).write_text(text, encoding="utf-8")

    def _on_event(self, event: ToolEngineEvent) -> None:
        self.events.append(event)
        self._arrived.set()

    async def _wait_for_event(
        self, seen: int, is_awaited: Callable[[ToolEngineEvent], bool]
    ) -> ToolEngineEvent | None:
        try:
            async with asyncio.timeout(_PATIENCE):
                while True:
                    for event in self.events[seen:]:
                        if is_awaited(event):
                            return event
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            return None
