"""Which files does `tool-engine new` write?"""

from __future__ import annotations

import contextlib
import keyword
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from tool_engine.catalog.definition.starter import (
    KINDS,
    SCHEMA_FILE,
    Starter,
    better_name,
    make_starter,
    schema_text,
)
from tool_engine.catalog.definition_files import list_definitions
from tool_engine.cli.completion import complete_kind, names_in
from tool_engine.cli.console import as_text, make_console, print_json
from tool_engine.cli.failures import EXIT_OK, CommandError
from tool_engine.cli.options import JSONOption, ToolsOption, settings_of
from tool_engine.cli.settings import DEFAULT_TOOLS, Settings
from tool_engine.cli.writing import make_folder, write_file
from tool_engine.model.checks.nearness import suggest_near

_CODE_KIND: Final = "python"


def run_command(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tool, such as get_weather.")],
    *,
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            "-k",
            metavar="KIND",
            help="http, python, calculator, echo, http_request or search_tools.",
            autocompletion=complete_kind,
        ),
    ] = "http",
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace the files that are there.")
    ] = False,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Write a tool file to begin with: commented, valid, with an example and a test.

    Example: tool-engine new get_weather --kind http
    """
    return new_tool(settings_of(ctx, tools), name, kind, force=force, as_json=as_json)


def new_tool(settings: Settings, name: str, kind: str, *, force: bool, as_json: bool) -> int:
    """Write the files of a new tool; print the next steps.

    `kind` is one of `KINDS`. A missing folder is made; `force` replaces existing files.
    """
    _check_words(name, kind)
    module = module_name(settings, name) if kind == _CODE_KIND else ""
    folder = make_folder(settings.tools, "name another with --tools DIR")
    target = folder / f"{name}.yaml"
    _check_free(name, target, folder)
    text = make_starter(kind, name, module)
    written = [
        *_write_files(text, target, force=force),
        *_write_called(text, folder, is_recursive=settings.is_recursive),
    ]
    steps = _next_steps(settings, name, target, text)
    if as_json:
        print_json({"tool": name, "kind": kind, "files": written, "next": steps})
    else:
        _print_written(written, steps)
    return EXIT_OK


def _check_words(name: str, kind: str) -> None:
    if kind not in KINDS:
        listing = ", ".join(f"{known} ({about})" for known, about in KINDS.items())
        hint = suggest_near(kind, KINDS) or f"; there are: {listing}"
        raise CommandError(f"there is no kind {kind!r}{hint}")
    better = better_name(name)
    if better is not None:
        hint = f"; write {better!r}" if better else ""
        raise CommandError(
            f"{name!r} is no good name for a tool: use words of a-z and 0-9 with _ between them, a "
            f"letter first, at most 64 characters, which every provider takes{hint}",
            error_type="bad_name",
        )


def module_name(settings: Settings, name: str) -> str:
    """Return the name by which Python imports the code beside a new tool."""
    place = Path(os.path.relpath(settings.tools, settings.project), name)
    for part in place.parts:
        if not part.isidentifier() or keyword.iskeyword(part):
            raise CommandError(
                f"Python cannot import a module from {settings.tools!r} as {part!r}; choose "
                "another name, or another folder with --tools DIR and --path DIR above it",
                error_type="bad_name",
            )
    return ".".join(place.parts)


def _check_free(name: str, target: Path, folder: Path) -> None:
    """Refuse a second definition of a name: both would be refused later."""
    for file in map(Path, list_definitions(str(folder), recursive=False)):
        if file != target and name in names_in(file):
            raise CommandError(
                f"the tool {name!r} is already defined in {str(file)!r}; choose another name",
                error_type="file_exists",
            )


def _write_files(text: Starter, target: Path, *, force: bool) -> list[str]:
    files = {target: text.definition}
    if text.handler is not None:
        files = {target.with_suffix(".py"): text.handler, **files}
    # Refuse everything before anything is written.
    for path in files:
        if path.exists() and not force:
            raise CommandError(
                f"{str(path)!r} is there already; choose another name, or replace it with --force",
                error_type="file_exists",
            )
    schema = target.with_name(SCHEMA_FILE)
    _refresh_schema(schema)
    for path, content in files.items():
        write_file(path, content, may_replace=force)
    return [str(path) for path in (*reversed(files), schema)]


def _write_called(text: Starter, folder: Path, *, is_recursive: bool) -> list[str]:
    """Write those of the tools that a new one calls which the folder has not."""
    files = map(Path, list_definitions(str(folder), recursive=is_recursive))
    known = {name for file in files for name in names_in(file)}
    written = []
    for name in text.called:
        path = folder / f"{name}.yaml"
        if name not in known and not path.exists():
            write_file(path, make_starter(name, name).definition, may_replace=False)
            written.append(str(path))
    return written


def _refresh_schema(path: Path) -> None:
    """Replace the generated schema with this version's, where it differs."""
    text = schema_text()
    # An unreadable file does not hold this text.
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if path.read_text("utf-8") == text:
            return
    write_file(path, text, may_replace=True)


def _next_steps(settings: Settings, name: str, target: Path, text: Starter) -> list[str]:
    program = "tool-engine"
    # What the project's settings name need not be said again.
    if settings.tools != settings.read_file("tools", DEFAULT_TOOLS):
        program += f" --tools {shlex.quote(settings.tools)}"
    file = shlex.quote(str(target))
    return [
        # The place of the code follows from the folder of the tools.
        f"{program if text.handler else 'tool-engine'} validate {file}",
        f"{program} lint {name}",
        f"{program} test {name}",
        f"{program} call {name} {' '.join(text.arguments)}",
    ]


def _print_written(written: Sequence[str], steps: Sequence[str]) -> None:
    console = make_console()
    for file in written:
        console.print(as_text(f"wrote {file}", "green"), soft_wrap=True)
    console.print(as_text("Edit it, then:"))
    for step in steps:
        console.print(as_text(f"  {step}"), soft_wrap=True)
