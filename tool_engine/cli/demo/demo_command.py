"""What does the engine do, shown on real tools in ten seconds?

Nothing here is faked: the demo is a program of a few lines per step on the public API, and ends
with exit code 1 when a step does not do what it says.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer
from aiohttp import web
from rich.console import Console

from tool_engine.cli.console import as_text, make_console, print_json
from tool_engine.cli.demo.stage import Stage, copy_definitions
from tool_engine.cli.demo.steps import STEPS, Steps
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError
from tool_engine.cli.options import ToolsOption, settings_of
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async, run_until_interrupted
from tool_engine.config import ConcurrencyConfig, ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.subagent import ToolSubAgent

HOST: Final = "127.0.0.1"
_MAX_SECONDS: Final = 5.0
_WEATHER: Final = {"beijing": (21.5, "sunny"), "london": (12.0, "rain"), "oslo": (-3.0, "snow")}
"""City -> degrees Celsius and conditions."""
_NEXT: Final = (
    ("tool-engine new my_tool --kind http", "a tool file to start from"),
    ("tool-engine test my_tool", "its examples and tests, offline"),
    ("tool-engine demo --studio", "in your browser; with --fleet: on Ray"),
)
_CONCURRENCY: Final = ConcurrencyConfig(max_concurrent=8, queue_size=5, bucket_limits={"http": 2})


@asynccontextmanager
async def demo_service() -> AsyncIterator[int]:
    """Serve on a free loopback port while the block runs.

    Yields:
        The port. `/weather?city=Oslo` knows some cities, `/status` answers at once, and
        `/work?seconds=1` takes its time.
    """
    app = web.Application()
    app.router.add_get("/weather", _answer_weather)
    app.router.add_get("/status", _answer_status)
    app.router.add_get("/work", _answer_work)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def _answer_weather(request: web.Request) -> web.Response:
    city = request.query.get("city", "")
    known = _WEATHER.get(city.casefold())
    if known is None:
        return web.json_response({"error": f"unknown city {city!r}"}, status=404)
    temperature, conditions = known
    return web.json_response({"city": city, "temperature": temperature, "conditions": conditions})


async def _answer_status(request: web.Request) -> web.Response:
    return web.json_response({"status": "up", "path": request.path})


async def _answer_work(request: web.Request) -> web.Response:
    try:
        seconds = float(request.query.get("seconds", "0"))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _MAX_SECONDS:
        text = f"seconds must be a number from 0 to {_MAX_SECONDS:g}"
        return web.json_response({"error": text}, status=400)
    await asyncio.sleep(seconds)
    return web.json_response({"worked": seconds})


_StudioOption = Annotated[
    bool, typer.Option("--studio", help="Show a busy engine in the browser instead.")
]
_FleetOption = Annotated[
    bool, typer.Option("--fleet", help="Show tools on a Ray cluster of this machine instead.")
]
_JSONOption = Annotated[
    bool, typer.Option("--json", help="Print what was promised and kept as JSON, at the end.")
]
_PortOption = Annotated[
    int, typer.Option("--port", min=0, max=65_535, help="The studio's port; 0: any that is free.")
]


def run_command(
    ctx: typer.Context,
    *,
    studio: _StudioOption = False,
    fleet: _FleetOption = False,
    as_json: _JSONOption = False,
    port: _PortOption = 8930,
    tools: ToolsOption = None,
) -> int:
    """See the engine at work in ten seconds, offline, on a copy of the tool files.

    Example: tool-engine demo
    """
    settings = settings_of(ctx, tools)
    if studio and (as_json or fleet):
        other = "--json" if as_json else "--fleet"
        raise CommandError(f"--studio shows pages where {other} prints text: give one of the two")
    if studio:
        return run_studio_demo(settings, port)
    return run_demo(settings, as_json=as_json, is_fleet=fleet)


def run_studio_demo(settings: Settings, port: int) -> int:
    """Show an engine that is called all the time in the studio, until Ctrl-C."""
    from tool_engine.cli.demo.studio_demo import show_studio

    async def show(folder: Path) -> int:
        async with demo_service() as service:
            url = f"http://{HOST}:{service}"
            with _set_variable("WEATHER_URL", url):
                await show_studio(folder, HOST, port, url)
        return EXIT_OK

    with tempfile.TemporaryDirectory(prefix="tool-engine-demo-") as folder:
        copy_definitions(settings, Path(folder))
        return run_until_interrupted(show(Path(folder)), log_level=logging.ERROR)


def run_demo(settings: Settings, *, as_json: bool = False, is_fleet: bool = False) -> int:
    with tempfile.TemporaryDirectory(prefix="tool-engine-demo-") as name:
        folder = Path(name)
        show = _make_fleet_show if is_fleet else _make_show
        # A load error is part of the show, and a step reports it.
        return run_async(_run_show(show(settings, folder), as_json), log_level=logging.ERROR)


class _Show(NamedTuple):
    """What is shown: of these tools, with this engine."""

    source: str
    """Where the tools come from."""
    config: ToolEngineConfig
    steps: Steps


def _make_show(settings: Settings, folder: Path) -> _Show:
    source = copy_definitions(settings, folder)
    config = ToolEngineConfig(
        str(folder), auto_reload=False, watch_for_changes=True, concurrency=_CONCURRENCY
    )
    return _Show(source, config, STEPS)


def _make_fleet_show(settings: Settings, folder: Path) -> _Show:
    from tool_engine.cli.demo import fleet_steps

    del settings  # it has tools of its own, and says so
    source = fleet_steps.copy_fleet_tools(folder)
    config = ToolEngineConfig(
        str(folder),
        auto_reload=False,
        concurrency=fleet_steps.CONCURRENCY,
        fleet=fleet_steps.FLEET,
        close_timeout=30.0,  # the Ray that it started ends within it, on a busy machine too
    )
    return _Show(source, config, fleet_steps.FLEET_STEPS)


async def _run_show(show: _Show, as_json: bool) -> int:
    console = Console(quiet=True) if as_json else make_console(is_drawn=True)
    started = time.monotonic()
    async with _open_stage(show.config, console) as stage:
        console.print(as_text(f"Tools: a copy of {show.source}"))
        for number, (title, step) in enumerate(show.steps, 1):
            console.print(as_text(f"\n{number}. {title}", "bold"))
            stage.step = title
            await step(stage)
    seconds = time.monotonic() - started
    if as_json:
        promises = [each._asdict() for each in stage.promises]
        print_json({"promises": promises, "statistics": stage.statistics, "seconds": seconds})
    console.print(as_text(f"\nDone in {seconds:.1f} s. Now yours:", "bold"))
    for command, what in _NEXT:
        console.print(as_text(f"  {command:<38} {what}"))
    for problem in stage.problems:
        console.print(as_text(f"NOT as promised: {problem}", "bold red"))
    return EXIT_FAILED if stage.problems else EXIT_OK


@asynccontextmanager
async def _open_stage(config: ToolEngineConfig, console: Console) -> AsyncIterator[Stage]:
    async with demo_service() as port:
        address = f"{HOST}:{port}"
        with _set_variable("WEATHER_URL", f"http://{address}"):
            engine = ToolEngine(config)
            agent = ToolSubAgent("demo_agent", engine, "you")
            stage = Stage(Path(config.tools_directory), address, engine, agent, console)
            async with engine:
                yield stage


@contextmanager
def _set_variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
