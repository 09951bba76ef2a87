"""Which commands does `tool-engine` have, and how does the process end?

Every command is a few lines here and a module of its own, which is imported only when the command
runs, so that `--help` and completion answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Final, NoReturn

import typer

from tool_engine.cli.completion import complete_strategy, complete_tool
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, EXIT_USAGE, CommandError, report
from tool_engine.cli.settings import Settings
from tool_engine.errors import ConfigurationError, ToolEngineError

__all__ = ["app", "main", "run"]

_PROGRAM: Final = "tool-engine"
_EXIT_CODES: Final = (
    "Exit codes: 0 it worked; 1 a call failed or a definition is wrong; "
    "2 the command line is wrong; 130 Ctrl-C."
)

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

JSONOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
ToolsOption = Annotated[str | None, typer.Option("--tools", metavar="DIR", hidden=True)]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The tool.", autocompletion=complete_tool)
]
TimeoutOption = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", help="Seconds that a call may run."),
]


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and ends the process."""
    sys.exit(run(args))


def run(args: Sequence[str] | None = None) -> int:
    """Runs one command line and returns the exit code; mistakes are told, never raised.

    Args:
        args: The words after the program's name; None takes those of the process.
    """
    words = list(sys.argv[1:] if args is None else args)
    _accept_every_character()
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        code = EXIT_FAILED
    _give_up_broken_stdout()
    return code


def _run(words: list[str]) -> int:
    as_json = "--json" in words
    try:
        return int(app(args=words, prog_name=_PROGRAM, standalone_mode=False) or EXIT_OK)
    except CommandError as error:
        report(str(error), error.kind, as_json=as_json)
        return error.exit_code
    except ToolEngineError as error:
        report(str(error), error.error_type, as_json=as_json)
        return EXIT_USAGE if isinstance(error, ConfigurationError) else EXIT_FAILED
    except typer.TyperException as error:
        return _report_usage(error, as_json=as_json)
    except SystemExit as stop:
        # Typer and rich end the process on a closed pipe; here the way out is one.
        return stop.code if isinstance(stop.code, int) else EXIT_FAILED


def _report_usage(error: typer.TyperException, *, as_json: bool) -> int:
    message = error.format_message()
    context = getattr(error, "ctx", None)
    hint = ""
    if context is not None:
        hint = f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n"
    # Without a message it was the command line without words, and the help is already printed.
    if message:
        report(message, "usage_error", as_json=as_json, hint=hint)
    return error.exit_code


def _accept_every_character() -> None:
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _give_up_broken_stdout() -> None:
    # The interpreter flushes stdout once more as it ends, and would print a traceback.
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        try:
            number = version("tool-engine")
        except PackageNotFoundError:
            number = "(not installed)"
        sys.stdout.write(f"{_PROGRAM} {number}\n")
        raise typer.Exit


@app.callback(epilog=_EXIT_CODES)
def _options(
    ctx: typer.Context,
    tools: Annotated[
        str | None,
        typer.Option(
            "--tools",
            metavar="DIR",
            envvar="TOOL_ENGINE_TOOLS",
            help="The folder of tool files; `tools` when nothing is said.",
            show_default=False,
        ),
    ] = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Read the folder's sub-folders too.")
    ] = False,
    is_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """Tools for LLM agents, written as YAML files: look at them, check them, call them.

    Example: tool-engine --tools tools call calculator expression=1+2
    """
    ctx.obj = Settings(chosen=tools, is_recursive=recursive)


@app.command("list", epilog=_EXIT_CODES)
def _list(
    ctx: typer.Context,
    *,
    category: Annotated[
        str | None, typer.Option("--category", "-c", help="Only tools of this category.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", "-t", help="Only tools with this tag; repeatable.")
    ] = None,
    search: Annotated[
        str | None, typer.Option("--search", "-s", help="Only tools whose text has this in it.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 when a file could not be loaded.")
    ] = False,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """List the tools.

    Example: tool-engine list --category http --json
    """
    from tool_engine.cli.listing import Filters, list_tools

    filters = Filters(category=category, tags=tuple(tag or ()), keyword=search)
    return list_tools(_settings(ctx, tools), filters, strict=strict, as_json=as_json)


@app.command("show", epilog=_EXIT_CODES)
def _show(
    ctx: typer.Context,
    name: NameArgument,
    *,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Show one tool: its parameters, how it runs, its limits, and how to call it.

    Example: tool-engine show http_request
    """
    from tool_engine.cli.listing import show_tool

    return show_tool(_settings(ctx, tools), name, as_json=as_json)


@app.command("validate", epilog=_EXIT_CODES)
def _validate(
    ctx: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Files and folders; the tools folder if none."),
    ] = None,
    *,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List the good files too.")
    ] = False,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Check tool files and print every error with its file, line, column and cure.

    Example: tool-engine validate tools/ other/weather.yaml
    """
    from tool_engine.cli.checking import validate_files

    return validate_files(_settings(ctx, tools), paths or [], verbose=verbose, as_json=as_json)


@app.command("call", epilog=_EXIT_CODES)
def _call(
    ctx: typer.Context,
    name: NameArgument,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Arguments: key=value by the parameter's type, key:=json, key=@file.",
        ),
    ] = None,
    *,
    params: Annotated[
        str | None,
        typer.Option(
            "--params", metavar="FILE", help="Arguments from a JSON or YAML file; - is stdin."
        ),
    ] = None,
    timeout: TimeoutOption = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Call one tool.

    Example: tool-engine call http_request url=https://example.com headers:='{"accept": "*/*"}'
    """
    from tool_engine.cli.calling import Request, call_tool

    request = Request(name, tuple(words or ()), params, timeout)
    return call_tool(_settings(ctx, tools), request, as_json=as_json)


@app.command("batch", epilog=_EXIT_CODES)
def _batch(
    ctx: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A JSON or YAML list, or JSON lines; - is stdin.")
    ],
    *,
    parallel: Annotated[
        bool, typer.Option("--parallel", "-p", help="Run the calls at the same time.")
    ] = False,
    max_parallel: Annotated[
        int | None,
        typer.Option("--max-parallel", min=1, metavar="N", help="At most N at the same time."),
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option("--trace", metavar="FILE", help="Record the calls for `simulate`."),
    ] = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Run many calls, each {"tool": NAME, "params": {...}} or a list of NAME and params.

    Example: tool-engine batch calls.jsonl --parallel --max-parallel 4
    """
    from tool_engine.cli.calling import BatchOptions, run_batch

    options = BatchOptions(parallel or max_parallel is not None, max_parallel, trace)
    return run_batch(_settings(ctx, tools), file, options, as_json=as_json)


@app.command("simulate", epilog=_EXIT_CODES)
def _simulate(
    trace: Annotated[
        str, typer.Argument(metavar="TRACE", help="JSON lines, one call each; - is stdin.")
    ],
    *,
    max_concurrent: Annotated[
        int | None, typer.Option("--max-concurrent", metavar="N", help="Slots in all.")
    ] = None,
    bucket: Annotated[
        list[str] | None,
        typer.Option("--bucket", metavar="NAME=N", help="Slots of a bucket; repeatable."),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy",
            metavar="NAME",
            help="fifo, priority, fair or reject.",
            autocompletion=complete_strategy,
        ),
    ] = None,
    queue_size: Annotated[
        int | None, typer.Option("--queue-size", metavar="N", help="The most calls that wait.")
    ] = None,
    queue_timeout: Annotated[
        float | None,
        typer.Option("--queue-timeout", metavar="S", help="The most seconds to wait, or inf."),
    ] = None,
    key_limit: Annotated[
        int | None, typer.Option("--key-limit", metavar="N", help="Slots per key.")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="0, or shuffle what happens at once.")
    ] = 0,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Draw slots over time, as SVG.")
    ] = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Replay recorded calls under other limits: waits, refusals and use, beside the original.

    Example: tool-engine simulate calls.jsonl --bucket http=8 --strategy priority --plot slots.svg
    """
    from tool_engine.cli.simulate import Limits, simulate_trace

    limits = Limits(
        max_concurrent=max_concurrent,
        buckets=tuple(bucket or ()),
        strategy=strategy,
        queue_size=queue_size,
        queue_timeout=queue_timeout,
        key_limit=key_limit,
    )
    return simulate_trace(trace, limits, seed=seed, picture=plot, as_json=as_json)


@app.command("watch", epilog=_EXIT_CODES)
def _watch(
    ctx: typer.Context,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document per line and event.")
    ] = False,
    tools: ToolsOption = None,
) -> int:
    """Watch the tools folder and print what changes, until Ctrl-C.

    Example: tool-engine watch --json
    """
    from tool_engine.cli.watching import watch_tools

    return watch_tools(_settings(ctx, tools), as_json=as_json)


@app.command("schema", epilog=_EXIT_CODES)
def _schema(
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
) -> int:
    """Print the JSON Schema of a tool file, for editors that check while you type.

    Example: tool-engine schema > tool.schema.json
    """
    from tool_engine.cli.listing import print_schema

    return print_schema()


@app.command("demo", epilog=_EXIT_CODES)
def _demo(ctx: typer.Context, tools: ToolsOption = None) -> int:
    """See the engine at work in ten seconds, offline, on a copy of the tool files.

    Example: tool-engine demo
    """
    from tool_engine.cli.demo import run_demo

    return run_demo(_settings(ctx, tools))


def _settings(ctx: typer.Context, tools: str | None) -> Settings:
    settings: Any = ctx.obj
    return Settings(chosen=tools or settings.chosen, is_recursive=settings.is_recursive)
