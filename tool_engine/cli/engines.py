"""Which engine does `--app module:name` mean?"""

from __future__ import annotations

from collections.abc import Awaitable
from importlib import import_module
from inspect import isawaitable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tool_engine.cli.failures import CommandError
from tool_engine.cli.settings import Settings, put_first
from tool_engine.engine import ToolEngine
from tool_engine.executors.python.project import PROJECT_FOLDER
from tool_engine.model.checks.nearness import suggest_near

AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="MODULE:NAME",
        help="Your ToolEngine, with its executors, handlers and sources.",
    ),
]
_OWN: Final = {
    "sources": "ToolEngineConfig has sources",
    "records": "ToolEngineConfig has records",
    "mcp_servers": "ToolEngineConfig has mcp_servers",
    "cluster": "ConcurrencyConfig has cluster",
    "tools": "ToolEngineConfig has tools_directory",
}
"""A setting of all commands -> where a program says it."""
Found = ToolEngine | Awaitable[Any]
"""An engine, or what an async function of a program returns."""


def load_app(text: str) -> Found:
    """Return the engine that a user's module holds, or its function makes.

    The module of `module:name` is looked for in the current folder first. What an async function
    returns is waited for with `wait_for_app`.

    Raises:
        CommandError: There is no such engine; the message says what is there instead.
    """
    module_name, _, name = text.partition(":")
    if not module_name or not name:
        raise CommandError(f"--app takes module:name, such as my_tools:engine; got {text!r}")
    value = _find_attribute(_import_app(module_name), name, text)
    if callable(value) and not isinstance(value, type | ToolEngine):
        value = _call_factory(value, text)
    return value if isawaitable(value) else _check_engine(value, text)


def check_app(app: str, settings: Settings, *given: tuple[str, str, object]) -> None:
    """Check that no option says what the engine of a program says itself.

    Args:
        app: Names the engine.
        settings: The options of all commands.
        given: Options of one command: each with its setting, and its value or None.

    Raises:
        CommandError: One does.
    """
    said = [
        (option, f"ToolEngineConfig has {name}")
        for option, name, value in given
        if value is not None
    ]
    said += [(settings.origins.get(name, ""), place) for name, place in _OWN.items()]
    for option, place in said:
        # Variables and a project's settings are of all its programs.
        if option.startswith("--"):
            raise CommandError(
                f"{option} is for a folder: {app} has an engine of its own, whose {place}"
            )


async def wait_for_app(found: Found, text: str) -> ToolEngine:
    """Return the engine of `load_app`, which an async function may have to make first.

    Raises:
        CommandError: It failed, or what it returns is no engine.
    """
    if isinstance(found, ToolEngine):
        return found
    try:
        value = await found
    except Exception as error:
        raise _explain_failure(error, text) from error
    return _check_engine(value, text)


def _check_engine(value: Any, text: str) -> ToolEngine:
    if not isinstance(value, ToolEngine):
        kind = "a class" if isinstance(value, type) else f"of the type {type(value).__name__}"
        raise CommandError(
            f"--app {text} is no ToolEngine but {kind}; name an "
            "engine, or a plain or async function without arguments that returns one"
        )
    return value


def _import_app(name: str) -> Any:
    # As `python -m` does; an installed command searches only its own folder.
    put_first(str(Path.cwd()))
    # The engine imports from the path alone, so it must look for approved code only there.
    PROJECT_FOLDER.set(None)
    try:
        return import_module(name)
    except Exception as error:
        is_absent = isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]
        cure = "; say where it is with --directory DIR" if is_absent else ""
        raise CommandError(
            f"--app: the module {name!r} cannot be imported: {type(error).__name__}: {error}{cure}"
        ) from error


def _find_attribute(module: Any, name: str, text: str) -> Any:
    value = module
    for part in name.split("."):
        if not hasattr(value, part):
            near = suggest_near(part, (each for each in dir(value) if each[0] != "_"))
            raise CommandError(
                f"--app {text}: there is no {part!r} in {module.__name__}"
                f"{near or '; name an engine, or a function that returns one'}"
            )
        value = getattr(value, part)
    return value


def _call_factory(factory: Any, text: str) -> Any:
    try:
        return factory()
    except Exception as error:
        raise _explain_failure(error, text) from error


def _explain_failure(error: Exception, text: str) -> CommandError:
    return CommandError(f"--app {text}() failed: {type(error).__name__}: {error}")
