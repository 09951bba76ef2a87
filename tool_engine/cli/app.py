"""How does a command line run, and how does the process end?"""

from __future__ import annotations

import contextlib
import contextvars
import errno
import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, TextIO

import typer

from tool_engine.cli.command_list import MARKUP, CommandList
from tool_engine.cli.completion_scripts import use_own_scripts
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, EXIT_USAGE, CommandError, report_failure
from tool_engine.cli.options import (
    EXIT_CODES,
    PathOption,
    ServersOption,
    check_path_option,
    check_variables,
    find_origins,
)
from tool_engine.cli.settings import Settings
from tool_engine.errors import ConfigurationError, MissingExtraError, ToolEngineError

_PROGRAM: Final = "tool-engine"
_CANNOT_WRITE: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))
_SourceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="NAME=URL",
        envvar="TOOL_ENGINE_SOURCES",
        help="A database of SQL tools, such as shop=sqlite:///shop.db; once for each.",
    ),
]
_RecordsOption = Annotated[
    str | None,
    typer.Option(
        "--records",
        metavar="URL",
        envvar="TOOL_ENGINE_RECORDS",
        help="The database for the records of calls, such as sqlite:///calls.db, or none; a file "
        "of yours when nothing is said.",
        show_default=False,
    ),
]
_ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="URL",
        envvar="TOOL_ENGINE_CLUSTER",
        help="The PostgreSQL database through which processes share limits, or none.",
        show_default=False,
    ),
]

use_own_scripts()
app = typer.Typer(
    cls=CommandList,
    no_args_is_help=True,
    rich_markup_mode=MARKUP,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run(args: Sequence[str] | None = None) -> int:
    """Run one command line; return the exit code and report mistakes.

    `args` are the words after the program's name; None takes those of the process.
    """
    words = list(sys.argv[1:] if args is None else args)
    _open_what_is_closed()
    _accept_every_character()
    try:
        # A command's options must not outlive it.
        code = contextvars.copy_context().run(_run_words, words)
        sys.stdout.flush()
    except BrokenPipeError:
        code = EXIT_FAILED
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise
        report_failure(
            f"the output could not be written: {error.strerror}", "write_failed", form="text"
        )
        code = EXIT_FAILED
    for stream in (sys.stdout, sys.stderr):
        _give_up_broken(stream)
    return code


def _run_words(words: list[str]) -> int:
    form = _find_form(words)
    try:
        return int(app(args=words, prog_name=_PROGRAM, standalone_mode=False) or EXIT_OK)
    except CommandError as error:
        report_failure(str(error), error.kind, form=form)
        return error.exit_code
    except ToolEngineError as error:
        report_failure(str(error), error.error_type, form=form)
        return EXIT_USAGE if isinstance(error, ConfigurationError) else EXIT_FAILED
    except ModuleNotFoundError as error:
        from tool_engine.cli.extras import explain_missing_package

        message = explain_missing_package(error)
        if message is None:
            raise
        report_failure(message, MissingExtraError.error_type, form=form)
        return EXIT_FAILED
    except typer.TyperException as error:
        return _report_usage(error, words, form=form)
    except SystemExit as stop:
        # Typer and rich end the process on a closed pipe; here the way out is one.
        return stop.code if isinstance(stop.code, int) else EXIT_FAILED


def _find_form(words: list[str]) -> str:
    """Return the format that a command line asks for, also one that cannot be read."""
    if "--json" in words:
        return "json"
    after = dict(itertools.pairwise(words)).get("--format", "text")
    said = [word.partition("=")[2] for word in words if word.startswith("--format=")]
    return said[-1] if said else after


def _report_usage(error: typer.TyperException, words: list[str], *, form: str) -> int:
    context = getattr(error, "ctx", None)
    from tool_engine.cli.usage import usage_text

    message = usage_text(error, context, words)
    hint = ""
    if context is not None:
        hint = f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n"
    # Without a message the command line was empty, and the help is already printed.
    if message:
        report_failure(message, "usage_error", form=form, hint=hint)
    return error.exit_code


def _open_what_is_closed() -> None:
    # `>&-` closes a stream on purpose: its output goes nowhere.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as we run
            setattr(sys, name, nowhere)


def _accept_every_character() -> None:
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _give_up_broken(stream: TextIO) -> None:
    # The interpreter flushes it once more as it ends, and would print a traceback.
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _check_folder() -> None:
    try:
        os.getcwd()  # noqa: PTH109 - what pathlib does with it is not asked
    except OSError as error:
        raise CommandError(
            f"the current folder cannot be found ({error.strerror}); go to one that is there: cd ~",
            error_type="no_folder",
        ) from error


def _enter_folder(ctx: typer.Context, folder: str) -> None:
    try:
        ctx.with_resource(contextlib.chdir(folder))
    except OSError as error:
        from tool_engine.named_file import explain_missing, is_broken_link

        cause = f"it {explain_missing(folder)}" if is_broken_link(folder) else error.strerror
        raise CommandError(
            f"--directory: cannot enter {folder!r}: {cause}; name a folder that is there",
            error_type="no_folder",
        ) from error


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        # Looked up when it is asked for: it takes a tenth of what `--help` does.
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("tool-engine")
        except PackageNotFoundError:
            number = "(not installed)"
        sys.stdout.write(f"{_PROGRAM} {number}\n")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def _read_options(
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
    directory: Annotated[
        str | None,
        typer.Option(
            "--directory", "-C", metavar="DIR", help="Work in this folder, as if you were there."
        ),
    ] = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Read the folder's sub-folders too.")
    ] = False,
    no_recursive: Annotated[bool, typer.Option("--no-recursive", hidden=True)] = False,
    source: _SourceOption = None,
    records: _RecordsOption = None,
    cluster: _ClusterOption = None,
    path: PathOption = None,
    mcp_config: ServersOption = None,
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
    if recursive and no_recursive:
        raise CommandError("--recursive and --no-recursive contradict each other; leave one out")
    _check_folder()
    if directory is not None:
        _enter_folder(ctx, directory)
    check_variables()
    origins = find_origins(ctx)
    check_path_option(path, origins.get("path", ""))
    ctx.obj = settings = Settings(
        chosen=tools,
        is_recursive=recursive,
        is_flat=no_recursive,
        sources=tuple(source or ()),
        records=records,
        cluster=cluster,
        path=path,
        mcp_config=mcp_config,
        origins=origins,
    )
    settings.named_sources()
