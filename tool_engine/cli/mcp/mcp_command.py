"""Which tools are served to clients of the Model Context Protocol, and how?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from tool_engine.access.hosts import LOOPBACK
from tool_engine.access.open_requests import MOST
from tool_engine.cli.completion import WORDS, complete_client, complete_word
from tool_engine.cli.console import announce_tools, safe_text
from tool_engine.cli.engines import check_app, load_app, wait_for_app
from tool_engine.cli.failures import EXIT_OK, CommandError
from tool_engine.cli.mcp.word_request import Request
from tool_engine.cli.options import (
    HostsOption,
    JSONOption,
    MaxOpenOption,
    MCPConfigOption,
    OriginsOption,
    RecordsOption,
    ToolsOption,
    settings_of,
)
from tool_engine.cli.records.recording import recording_engine
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_until_interrupted, serve_while_open
from tool_engine.cli.usage import suggest_step
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

if TYPE_CHECKING:
    from tool_engine.engine import ToolEngine

_WORDS: Final = WORDS["mcp"]
_OF_SERVERS: Final = ("list", "call", "diff", "import")
"""Words about servers whose tools are used here; each has a module of its own."""
_ROOM: Final = "tool_engine.cli.mcp"
_MODES: Final = ("all", "search")
_APPROVALS: Final = ("operator", "client", "refuse")
_PORT: Final = 8931
PATH: Final = "/mcp"
"""Where clients find the server at its address."""

WordArgument = Annotated[
    str,
    typer.Argument(
        metavar="WORD",
        autocompletion=complete_word,
        help="serve: serve the tools; install [CLIENT]: print how clients start that. Of servers "
        "whose tools are used: list, call SERVER TOOL KEY=VALUE, diff, import SERVER.",
    ),
]
WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ARGUMENT", help="What the word is about.", autocompletion=complete_client
    ),
]
NamesOption = Annotated[
    list[str] | None,
    typer.Option("--tool", metavar="NAME", help="serve, import: only these tools, * for letters."),
]
OutputOption = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="DIR", help="import: the folder for the files."),
]
ForceOption = Annotated[
    bool, typer.Option("--force", "-f", help="import: write again what differs from the server.")
]
StdioOption = Annotated[
    bool, typer.Option("--stdio", help="Over standard input and output, as is the default.")
]
HTTPOption = Annotated[
    str | None,
    typer.Option("--http", metavar="HOST:PORT", help="Over HTTP, such as 127.0.0.1:8931."),
]
GroupsOption = Annotated[
    list[str] | None, typer.Option("--group", metavar="NAME", help="Only tools of the group.")
]
TagsOption = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Only tools with the tag.")
]
ModeOption = Annotated[
    str,
    typer.Option(
        "--mode",
        metavar="all|search",
        help="search: two tools, which find and call the others.",
    ),
]
ApprovalsOption = Annotated[
    str | None,
    typer.Option(
        "--approvals",
        metavar="operator|client|refuse",
        help="Who is asked for consent; operator: `tool-engine sessions pending`.",
        show_default=False,
    ),
]
TokenFileOption = Annotated[
    str | None,
    typer.Option("--token-file", metavar="FILE", help="With --http: whose requests to take."),
]
TitleOption = Annotated[
    str, typer.Option("--name", metavar="TEXT", help="What the server is called.")
]
ServedAppOption = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:NAME", help="The engine of a program of yours."),
]


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    http: str | None = None
    """Where to serve over HTTP, as `HOST:PORT`; None: over standard input and output."""
    app: str | None = None
    names: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    mode: str = "all"
    approvals: str | None = None
    """Who is asked for consent; None: an operator, where another terminal can answer."""
    token_file: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_open: int = MOST
    title: str = "tool-engine"


def run_command(
    ctx: typer.Context,
    word: WordArgument,
    words: WordsArgument = None,
    *,
    stdio: StdioOption = False,
    http: HTTPOption = None,
    name: NamesOption = None,
    group: GroupsOption = None,
    tag: TagsOption = None,
    mode: ModeOption = "all",
    approvals: ApprovalsOption = None,
    token_file: TokenFileOption = None,
    allowed_host: HostsOption = None,
    allowed_origin: OriginsOption = None,
    max_open: MaxOpenOption = None,
    title: TitleOption = "tool-engine",
    app: ServedAppOption = None,
    output: OutputOption = None,
    force: ForceOption = False,
    as_json: JSONOption = False,
    mcp_config: MCPConfigOption = None,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Serve the tools to clients of the Model Context Protocol, or use servers of it.

    Example: tool-engine mcp serve --http 127.0.0.1:8931
    """
    if word not in _WORDS:
        raise CommandError(f"there is no `mcp {word}`{suggest_step(word, _WORDS)}")
    settings = settings_of(ctx, tools, records, mcp_config)
    if word in _OF_SERVERS:
        request = Request(tuple(words or ()), tuple(name or ()), output, as_json, force)
        return int(import_module(f"{_ROOM}.{word}_word").run_word(settings, request))
    if words and word == "serve":
        raise CommandError(f"`mcp {word}` takes options only, not {words[0]!r}")
    said = {"--token-file": token_file, "--allowed-host": allowed_host, "--max-open": max_open}
    _check_way(stdio, http, {**said, "--allowed-origin": allowed_origin})
    _check_word("--mode", mode, _MODES)
    _check_word("--approvals", approvals, _APPROVALS)
    options = ServeOptions(
        http=http,
        app=app,
        names=tuple(name or ()),
        groups=tuple(group or ()),
        tags=tuple(tag or ()),
        mode=mode,
        approvals=approvals,
        token_file=token_file,
        allowed_hosts=tuple(allowed_host or ()),
        allowed_origins=tuple(allowed_origin or ()),
        max_open=max_open or MOST,
        title=title,
    )
    if word == "install":
        install = import_module(f"{_ROOM}.install_word")
        return int(install.print_entry(settings, options, words or ()))
    return serve_tools(settings, options)


def _check_way(is_stdio: bool, http: str | None, of_http: Mapping[str, Any]) -> None:
    if is_stdio and http is not None:
        raise CommandError("--stdio and --http are two ways to serve: leave one out")
    for option, value in of_http.items():
        if value and http is None:
            raise CommandError(f"{option} is for --http: a client that starts the server owns it")


def _check_word(option: str, said: str | None, known: Sequence[str]) -> None:
    if said is not None and said not in known:
        raise CommandError(
            f"{option} takes {' or '.join(known)}, not {said!r}{suggest_near(said, known)}"
        )


def serve_tools(settings: Settings, options: ServeOptions) -> int:
    address = None if options.http is None else read_address(options.http)
    if address is not None and address[0] not in LOOPBACK and options.token_file is None:
        raise CommandError(
            f"all who reach {options.http} could call every tool: say whose requests to take "
            "with --token-file FILE, or serve at 127.0.0.1"
        )
    return run_until_interrupted(_serve_engine(settings, options, address))


async def _serve_engine(
    settings: Settings, options: ServeOptions, address: tuple[str, int] | None
) -> int:
    serve = partial(_serve_clients, options=options, address=address)
    if options.app is not None:
        check_app(options.app, settings)
        engine = await wait_for_app(load_app(options.app), options.app)
        _take_questions(engine, options)
        await serve_while_open(engine, serve)
    else:
        is_server = address is not None
        changes: dict[str, Any] = {"watch_for_changes": True, "run_tasks": True}
        prepare = partial(_take_questions, options=options)
        made = recording_engine(settings, is_server=is_server, prepare=prepare, **changes)
        await serve_while_open(made, serve)
    return EXIT_OK


def _take_questions(engine: ToolEngine, options: ServeOptions) -> None:
    """Have tasks that go on with the start of the engine ask here, as all others do."""
    if _choose_approvals(engine, options) != "refuse":
        engine.approvals.take_questions()


async def _serve_clients(
    engine: ToolEngine, options: ServeOptions, address: tuple[str, int] | None
) -> None:
    from tool_engine.mcp_server import MCPServer, ToolSelection, find_request

    server = MCPServer(
        engine,
        name=options.title,
        expose=ToolSelection(names=options.names, groups=options.groups, tags=options.tags),
        mode=options.mode,
        approvals=_choose_approvals(engine, options),
    )
    _warn_of_nothing(engine, options)
    say = partial(_write_waiting, find_request)
    engine.subscribe(say, ToolEngineEventType.APPROVAL_REQUESTED)
    engine.tasks.serve()
    if address is None:
        await server.run_stdio()
        return
    host, port = address
    await server.run_http(
        host,
        port,
        path=PATH,
        allowed_hosts=options.allowed_hosts,
        allowed_origins=options.allowed_origins,
        token_file=options.token_file,
        max_open=options.max_open,
        on_ready=lambda url: announce_tools(len(server.names), url),
    )


def _warn_of_nothing(engine: ToolEngine, options: ServeOptions) -> None:
    """Say which options choose no tool; one of a server that is away may still come."""
    names = engine.list_names()
    tags = sorted({tag for tool in engine.list_all() for tag in tool.tags})
    for option, words, known in (("--tool", options.names, names), ("--tag", options.tags, tags)):
        for word in words:
            if not any(fnmatchcase(each, word) for each in known):
                hint = suggest_near(word, known)
                sys.stderr.write(safe_text(f"{option} {word} chooses no tool now{hint}") + "\n")


def _choose_approvals(engine: ToolEngine, options: ServeOptions) -> str:
    """Return who is asked for consent."""
    if options.approvals is None:
        # Without a database, nothing outside this process could answer what waits in it.
        return "operator" if engine.approvals.is_shared else "refuse"
    if options.approvals != "refuse" and options.app is None and not engine.approvals.is_shared:
        raise CommandError(
            f"--approvals {options.approvals} needs a database, through which another terminal "
            "answers: name one with `tool-engine --records URL`, and install the extra sql"
        )
    return options.approvals


def _write_waiting(find_request: Callable[[], Any], event: ToolEngineEvent) -> None:
    request = find_request()
    if request is not None and not request.waits:
        # Its client is asked: there is nothing for an operator to answer.
        return
    name = safe_text(event.tool_name or "")
    sys.stderr.write(f"{name} waits for consent: see `tool-engine sessions pending`\n")


def read_address(text: str) -> tuple[str, int]:
    """Return the host and port of `HOST:PORT`, `HOST` or `:PORT`."""
    host, mark, port = text.rpartition(":")
    if text.isascii() and text.isdigit():
        # As an address it would be one of the whole number.
        raise CommandError(f"--http takes HOST:PORT, not {text!r}; write {LOOPBACK[0]}:{text}")
    if not mark or text.endswith("]"):
        host, port = text, str(_PORT)
    host = host.strip("[]") or LOOPBACK[0]
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise CommandError(f"--http takes HOST:PORT, such as 127.0.0.1:{_PORT}, not {text!r}")
    return host, int(port)
