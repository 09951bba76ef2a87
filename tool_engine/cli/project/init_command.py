"""With which files does a project begin?

Nothing that is there is changed: what exists already stays, and is said.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Final

import typer

from tool_engine.catalog.definition.starter import SCHEMA_FILE, make_starter, schema_text
from tool_engine.catalog.definition_files import list_definitions
from tool_engine.cli.console import as_text, make_console, print_json
from tool_engine.cli.failures import EXIT_OK, CommandError
from tool_engine.cli.files.new_command import module_name
from tool_engine.cli.options import JSONOption, ToolsOption, settings_of
from tool_engine.cli.settings import Settings
from tool_engine.cli.settings_file import OWN_FILE
from tool_engine.cli.writing import make_folder, write_file
from tool_engine.named_file import why_unread

_TEMPLATES: Final = resources.files("tool_engine.cli.project").joinpath("templates")
_NAME: Final = "shorten"
"""The first tool: it needs no network and has an example and a test."""
_IGNORED: Final = "__pycache__/\n.pytest_cache/\n.venv/\ncalls.db*\n"
"""What Python, pytest, the installation page and the settings put into a project."""
_ELSEWHERE: Final = "begin in another one with `tool-engine init DIR`"
_CHECKS: Final = (
    "With `pip install pytest pre-commit`: `python -m pytest` runs the tests, and in a repository "
    "of git `pre-commit install` checks each commit."
)
_TEST_OF_EXAMPLE: Final = "def test_a_call()"


def run_command(
    ctx: typer.Context,
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="The project's folder; made where it is not there.")
    ] = ".",
    *,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Begin a project: a tool, its settings, pre-commit hooks and checks for CI.

    Example: tool-engine init my-tools
    """
    folder = make_folder(directory, _ELSEWHERE)
    try:
        ctx.with_resource(contextlib.chdir(folder))
    except OSError as error:
        raise CommandError(
            f"cannot enter the folder {directory!r}: {why_unread(error)}", error_type="no_folder"
        ) from error
    return begin_project(settings_of(ctx, tools), directory, as_json=as_json)


def begin_project(settings: Settings, directory: str, *, as_json: bool) -> int:
    """Write what the current folder lacks of a project; print the next steps.

    `directory` is the name under which the user knows the folder.
    """
    files = _list_files(settings)
    kept = [file for file in files if os.path.lexists(file)]
    written = [file for file in files if file not in kept]
    for folder in {Path(file).parent for file in written}:
        make_folder(folder, _ELSEWHERE)
    for file in written:
        write_file(Path(file), files[file], may_replace=False)
    steps = _list_steps(settings, directory)
    if as_json:
        print_json({"written": written, "kept": kept, "next": steps})
        return EXIT_OK
    console = make_console()
    for file in written:
        console.print(as_text(f"wrote {file}", "green"), soft_wrap=True)
    for file in kept:
        console.print(as_text(f"kept {file}, which is there already"), soft_wrap=True)
    console.print(as_text("Now:"))
    for step in steps:
        console.print(as_text(f"  {step}"), soft_wrap=True)
    console.print(as_text(_CHECKS), soft_wrap=True)
    return EXIT_OK


def _list_files(settings: Settings) -> Mapping[str, str]:
    """Return the files of a project, each with its text."""
    files: dict[str, str] = {}
    tools = Path(settings.tools)
    if settings.file is None or settings.file.file == OWN_FILE:
        files[OWN_FILE] = _read_template("settings.toml").replace(
            'tools = "tools"', f"tools = {_quote_text(settings.tools)}"
        )
    test = _read_template("test_tools.txt").replace("__TOOLS__", _quote_text(settings.tools))
    # A folder with tools needs no example, and a function of that name is not the example's.
    has_tools = tools.is_dir() and any(list_definitions(str(tools), recursive=False))
    if has_tools or os.path.lexists(tools / f"{_NAME}.py"):
        test = test.partition(_TEST_OF_EXAMPLE)[0].rstrip() + "\n"
    else:
        starter = make_starter("python", _NAME, module_name(settings, _NAME))
        files[str(tools / f"{_NAME}.yaml")] = starter.definition
        files[str(tools / f"{_NAME}.py")] = starter.handler or ""
        files[str(tools / SCHEMA_FILE)] = schema_text()
    # What CI runs is there, with tools or without.
    files["tests/test_tools.py"] = test.replace("__NAME__", _NAME)
    files[".pre-commit-config.yaml"] = _read_template("pre-commit.yaml")
    files[".gitignore"] = _IGNORED
    files[".github/workflows/tools.yml"] = _read_template("workflow.yaml")
    return files


def _list_steps(settings: Settings, directory: str) -> list[str]:
    enter = [] if directory == "." else [f"cd {shlex.quote(directory)}"]
    call = [f"tool-engine call {_NAME} text='To be or not to be' words=2"]
    is_example = Path(settings.tools, f"{_NAME}.yaml").is_file()
    return [
        *enter,
        "tool-engine test",
        *(call if is_example else []),
        "tool-engine new get_weather",
    ]


def _quote_text(text: str) -> str:
    """Return a text as TOML and Python both write it."""
    return json.dumps(text)


def _read_template(name: str) -> str:
    return _TEMPLATES.joinpath(name).read_text("utf-8")
