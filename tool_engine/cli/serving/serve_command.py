"""At which address is an engine served over HTTP, and to whom?"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from tool_engine.access.hosts import LOOPBACK
from tool_engine.access.open_requests import MOST
from tool_engine.cli.console import announce_tools, safe_text
from tool_engine.cli.engines import check_app, load_app, wait_for_app
from tool_engine.cli.failures import EXIT_OK, CommandError
from tool_engine.cli.options import (
    HostsOption,
    MaxOpenOption,
    MaxTasksOption,
    MCPConfigOption,
    OriginsOption,
    RecordsOption,
    ToolsOption,
    settings_of,
)
from tool_engine.cli.records.recording import recording_engine
from tool_engine.cli.serving.first_call import announce_call
from tool_engine.cli.serving.studio_links import announce_studio
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_until_interrupted, serve_while_open
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

if TYPE_CHECKING:
    from tool_engine.engine import ToolEngine

_PORT: Final = 8930
_GRACE: Final = 30.0
_FORGETS: Final = (
    "events are not kept: who reads them and comes back misses those between; "
    "ToolEngineConfig(keep_events=1000) keeps them\n"
)
_KEPT_EVENTS: Final = 1_000


_HostOption = Annotated[str, typer.Option("--host", metavar="HOST", help="The address.")]
_PortOption = Annotated[
    int, typer.Option("--port", min=0, max=65_535, help="The port; 0: any that is free.")
]
_TokenFileOption = Annotated[
    str | None,
    typer.Option(
        "--token-file", metavar="FILE", help="Whose requests to take: see `tool-engine token`."
    ),
]
_NoAuthOption = Annotated[
    bool, typer.Option("--no-auth", help="Ask for no tokens: on this machine only.")
]
_MCPOption = Annotated[bool, typer.Option("--mcp", help="Serve clients of MCP, too, at /mcp.")]
_StudioOption = Annotated[
    bool, typer.Option("--studio", help="Show it to people, too, in a browser at /studio.")
]
_RootPathOption = Annotated[
    str,
    typer.Option("--root-path", metavar="PATH", help="The path below which a proxy shows it."),
]
_RateOption = Annotated[
    str, typer.Option("--rate", metavar="RATE", help="Requests of each principal.")
]
_GraceOption = Annotated[
    float, typer.Option("--grace", min=0.1, help="Seconds for open requests when it ends.")
]
_KeepEventsOption = Annotated[
    int | None,
    typer.Option(
        "--keep-events",
        metavar="N",
        min=0,
        help=f"The events that a reader can come back to: {_KEPT_EVENTS:,}.",
    ),
]
_AppOption = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:NAME", help="The engine of a program of yours."),
]


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    port: int
    token_file: str | None
    has_mcp: bool
    has_studio: bool
    root_path: str
    is_open: bool
    """Whether no tokens are asked for."""
    app: str | None
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]
    rate: str
    max_open: int
    grace: float
    keep_events: int | None
    max_tasks: int | None


def run_command(
    ctx: typer.Context,
    *,
    host: _HostOption = LOOPBACK[0],
    port: _PortOption = _PORT,
    token_file: _TokenFileOption = None,
    no_auth: _NoAuthOption = False,
    mcp: _MCPOption = False,
    studio: _StudioOption = False,
    allowed_host: HostsOption = None,
    allowed_origin: OriginsOption = None,
    root_path: _RootPathOption = "",
    rate: _RateOption = "1000/s",
    max_open: MaxOpenOption = None,
    grace: _GraceOption = _GRACE,
    keep_events: _KeepEventsOption = None,
    max_tasks: MaxTasksOption = None,
    app: _AppOption = None,
    mcp_config: MCPConfigOption = None,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Serve the tools over HTTP, to any language.

    Example: tool-engine serve --token-file tokens.yaml
    """
    has_door = no_auth or studio
    if (token_file is None and not has_door) or (token_file is not None and no_auth):
        raise CommandError(
            "say whose requests to take: --token-file FILE, or --no-auth for this machine alone"
        )
    if host.isascii() and host.isdigit():
        raise CommandError(f"--host takes an address, not {host!r}; write --port {host}")
    if no_auth and host not in LOOPBACK:
        raise CommandError(
            f"all who reach {host} could call every tool: say whose requests to take with "
            "--token-file FILE, or serve at 127.0.0.1"
        )
    settings = settings_of(ctx, tools, records, mcp_config)
    if app is not None:
        events = ("--keep-events", "keep_events", keep_events)
        check_app(app, settings, events, ("--max-tasks", "max_tasks_per_owner", max_tasks))
    options = ServeOptions(
        host=host,
        port=port,
        token_file=token_file,
        has_mcp=mcp,
        has_studio=studio,
        root_path=root_path,
        is_open=no_auth,
        app=app,
        allowed_hosts=tuple(allowed_host or ()),
        allowed_origins=tuple(allowed_origin or ()),
        rate=rate,
        max_open=max_open or MOST,
        grace=grace,
        keep_events=keep_events,
        max_tasks=max_tasks,
    )
    return run_until_interrupted(_serve_until_end(settings, options))


async def _serve_until_end(settings: Settings, options: ServeOptions) -> int:
    if options.app is not None:
        engine = await wait_for_app(load_app(options.app), options.app)
        _take_questions(engine)
        await serve_while_open(engine, lambda engine: _serve_engine(engine, options))
    else:
        kept = options.keep_events
        if kept is None:
            kept = settings.read_file("keep_events", _KEPT_EVENTS)
        changes: dict[str, Any] = {
            "watch_for_changes": True,
            "run_tasks": True,
            "keep_events": kept,
        }
        if options.max_tasks is not None:
            changes["max_tasks_per_owner"] = options.max_tasks
        made = recording_engine(settings, is_server=True, prepare=_take_questions, **changes)
        await serve_while_open(made, lambda engine: _serve_engine(engine, options))
    return EXIT_OK


def _take_questions(engine: ToolEngine) -> None:
    """Have tasks that go on with the start of the engine ask here, as all others do."""
    engine.approvals.take_questions()


async def _serve_engine(engine: ToolEngine, options: ServeOptions) -> None:
    from tool_engine.access.listening import serve_app
    from tool_engine.access.tokens import NoTokens
    from tool_engine.server import create_app

    def make_app() -> Any:
        return create_app(
            engine,
            auth=None if options.is_open else options.token_file or NoTokens(),
            allowed_hosts=options.allowed_hosts,
            allowed_origins=options.allowed_origins,
            rate=options.rate,
            max_open=options.max_open,
            mcp=options.has_mcp,
            studio=options.has_studio,
            root_path=options.root_path,
        )

    def announce(url: str) -> None:
        announce_tools(count, url)
        if options.is_open or options.token_file is not None:
            announce_call(engine.list_all(), url, has_tokens=not options.is_open)
        announce_studio(app, url)
        if options.app is not None and not engine.config.keep_events:
            sys.stderr.write(_FORGETS)

    app = await asyncio.to_thread(make_app)
    engine.subscribe(_write_waiting, ToolEngineEventType.APPROVAL_REQUESTED)
    engine.tasks.serve()
    count = len(engine.list_names())
    await serve_app(
        app,
        options.host,
        options.port,
        announce,
        options.root_path,
        grace=options.grace,
        on_end=app.end,
    )


def _write_waiting(event: ToolEngineEvent) -> None:
    name = safe_text(event.tool_name or "")
    sys.stderr.write(f"{name} waits for consent: see GET /v1/approvals\n")
