"""Which executor runs a tool?

In this order: what was registered in code under the tool's handler name; the Python function of a
handler such as `package.module:function`; for a tool without handler that declares a request or an
`argv`, the HTTP or the command executor; the table below; what an installed package offers under
the entry-point group `tool_engine.executors`. Modules are loaded on first use, so that what no tool
needs is never imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from tool_engine.errors import (
    ConfigurationError,
    DefinitionError,
    DefinitionProblem,
    ExecutorNotFoundError,
    MissingExtraError,
)
from tool_engine.executors.places import Places
from tool_engine.interfaces import ExecutionBackend, FindCall, SearchTools, ToolExecutor
from tool_engine.logger import get_logger
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.model.foreign import ends_caller
from tool_engine.model.settings.databases import DatabaseSource
from tool_engine.model.tool import Tool
from tool_engine.redaction import words_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from tool_engine.executors.python.handlers import PythonHandlers

BUILTIN_EXECUTORS: Final[Mapping[str, str]] = {
    "echo": "tool_engine.executors.echo:EchoExecutor",
    "calculator": "tool_engine.executors.calculator:CalculatorExecutor",
    "http_request": "tool_engine.executors.http.http_executor:HTTPExecutor",
    "run_command": "tool_engine.executors.commands.command_executor:CommandExecutor",
    "run_shell_command": "tool_engine.executors.commands.shell:ShellExecutor",
    "run_workflow": "tool_engine.executors.workflow.workflow_executor:WorkflowExecutor",
    "sql_query": "tool_engine.executors.sql.sql_executor:SQLExecutor",
    "search_tools": "tool_engine.executors.tool_search:ToolSearchExecutor",
    "read_result": "tool_engine.executors.result_reading:ResultReadExecutor",
    "read_file": "tool_engine.executors.files.file_reading:FileReadExecutor",
    "write_file": "tool_engine.executors.files.writing:FileWriteExecutor",
    "edit_file": "tool_engine.executors.files.editing:FileEditExecutor",
    "read_folder": "tool_engine.executors.files.listing:FolderReadExecutor",
    "search_files": "tool_engine.executors.files.searching:FileSearchExecutor",
    "mcp_tool": "tool_engine.executors.mcp.file_tool:FileToolExecutor",
}
"""Handler name -> where its class is."""

ENTRY_CHECKS: Final[Mapping[str, str]] = {
    "echo": "tool_engine.executors.bare_entry",
    "calculator": "tool_engine.executors.bare_entry",
    "search_tools": "tool_engine.executors.bare_entry",
    "read_result": "tool_engine.executors.bare_entry",
    "http_request": "tool_engine.executors.http.http_entry",
    "run_command": "tool_engine.executors.commands.command_entry",
    "run_shell_command": "tool_engine.executors.commands.shell_entry",
    "run_workflow": "tool_engine.executors.workflow.workflow_entry",
    "sql_query": "tool_engine.executors.sql.sql_entry",
    "read_file": "tool_engine.executors.files.file_entry",
    "write_file": "tool_engine.executors.files.file_entry",
    "edit_file": "tool_engine.executors.files.file_entry",
    "read_folder": "tool_engine.executors.files.file_entry",
    "search_files": "tool_engine.executors.files.file_entry",
    "mcp_tool": "tool_engine.executors.mcp.file_tool",
}
"""Handler name -> the module whose `check_entry` reads the entry of its tools."""

_SEARCH: Final = BUILTIN_EXECUTORS["search_tools"]
_READ_RESULT: Final = BUILTIN_EXECUTORS["read_result"]
ENTRY_POINT_GROUP: Final = "tool_engine.executors"
PYTHON: Final = "python"
"""Stands for the executors of handlers such as `package.module:function`."""
_PYTHON_ENTRY: Final = "tool_engine.executors.python.python_entry"
_ENTRY_READER: Final = "tool_engine.executors.entry_reader"
_MEANT_PLACE: Final = "tool_engine.executors.python.meant_place"
_NO_HANDLER: Final = (
    "entry is missing, or has no handler: add `entry: {type: python, handler: module:function}`"
)
_HABITS: Final = {
    **dict.fromkeys(
        ("list_files", "list_folder", "list_directory", "list_dir", "ls", "read_directory"),
        "read_folder",
    ),
    **dict.fromkeys(("grep", "find_files", "glob", "find_in_files"), "search_files"),
    **dict.fromkeys(("shell", "bash", "run_script"), "run_shell_command"),
    **dict.fromkeys(("command", "exec", "subprocess"), "run_command"),
}
"""What others call a built-in handler."""
_HTTP: Final = "http_request"
_COMMAND: Final = "run_command"
_FLEET_COMMANDS: Final = "tool_engine.executors.fleet.fleet_program"
_WORKFLOW: Final = "run_workflow"
_SQL: Final = "sql_query"
_MCP: Final = "mcp_tool"

_log = get_logger(__name__)


def find_missing_fleet(tool: Tool) -> list[DefinitionProblem]:
    """Return the problem of a tool that needs a fleet, where there is none."""
    if not _is_for_fleet(tool.implementation_config):
        return []
    words = (
        "a tool with isolation: ray needs a fleet, and the engine has none; write "
        'ToolEngineConfig(fleet="auto"), or fleet = "auto" in tool-engine.toml, for the one that '
        'this machine belongs to, "ray://HOST:10001" for another one, or "local" to try it here'
    )
    file = tool.source or f"tool {tool.name!r}"
    return [DefinitionProblem(words, file=file, path="entry.config.isolation")]


class ExecutorRegistry:
    """The executors by tool; each is made once and closed at the end.

    Args:
        search_tools: Searches the catalog for the tool `search_tools`.
        find_call: Finds the record of a call, with its whole result, for the tool `read_result`.
        find_tool: Finds a tool by its name, for the tool `read_result`.
        find_below: Finds the tools that a call has called, for the tool `read_result`.
        fleet: Where tools run that need a fleet; None: there is none; empty: that is not known, as
            where files are only checked, and none is missed before a call.
        sources: The databases of SQL tools; without any, none is missed before a call.
    """

    def __init__(
        self,
        search_tools: SearchTools | None = None,
        find_call: FindCall | None = None,
        sources: Mapping[str, DatabaseSource] | None = None,
        find_tool: Callable[[str], Tool | None] | None = None,
        find_below: Callable[[str], Awaitable[frozenset[str]]] | None = None,
        fleet: str | None = "",
    ) -> None:
        self._sources = sources
        self._fleet = fleet
        self._find_tool = find_tool or (lambda _: None)
        self._hooks: Mapping[str, Any] = {
            _SEARCH: (search_tools,),
            _READ_RESULT: (find_call, find_tool, find_below),
            BUILTIN_EXECUTORS[_SQL]: (sources,),
            BUILTIN_EXECUTORS[_MCP]: (self._find_server,),
        }
        self._registered: dict[str, ToolExecutor] = {}
        self.users: dict[str, set[str]] = {}
        """By handler the names of tools that were registered in code, also of those that are gone
        again."""
        self._loaded: dict[str, ToolExecutor] = {}
        self._of_sources: dict[str | None, ToolExecutor | None] = {}
        self._opened: dict[int, ToolExecutor | Places] = {}
        """By their identity: ten thousand functions are ten thousand executors."""
        self._entry_points: dict[str, list[EntryPoint]] | None = None
        self._origins: dict[str, list[str]] = {}
        self._python: PythonHandlers | None = None
        self.places = Places({"process": self._make_processes, "ray": self._make_fleet})
        """Where handlers run that are kept apart."""
        self.may_import = False
        """True if `check` may import the modules of handlers, which runs their code; otherwise the
        source is read."""
        self.find_server: Callable[[str, str], Any] = lambda _, __: None
        """Finds a server, for the tool of a file that names it and a tool of it."""
        self.approved_code: Callable[[Tool], str | None] = lambda _: None
        """The hash of the only code that may run a Python handler; None: any may."""

    def __repr__(self) -> str:
        return (
            f"ExecutorRegistry(registered={sorted(self._registered)}, "
            f"loaded={sorted(self._loaded)})"
        )

    def register(self, name: str, executor: ToolExecutor) -> None:
        """Let `executor` run the tools whose handler is `name`, before any other.

        Raises:
            ConfigurationError: `name` is empty, or `executor` cannot execute.
        """
        if not name or not isinstance(name, str):
            raise ConfigurationError(f"an executor's name must be a non-empty text, got {name!r}")
        _check_executor(name, executor)
        self._registered[name] = executor
        self._remember_opened(executor)

    def add_source(self, origin: str, executor: ToolExecutor | None) -> None:
        """Let `executor`, and no other, run the tools of the source `origin`.

        None: what their entries say runs them.

        Raises:
            ConfigurationError: `executor` cannot execute.
        """
        if executor is None:
            self._of_sources.pop(f"<{origin}>", None)
            return
        _check_executor(origin, executor)
        self._of_sources[f"<{origin}>"] = executor
        self._remember_opened(executor)

    def remove_source(self, origin: str) -> None:
        """Forget what runs the tools of a source; what runs now goes on.

        Nothing else may run them: their entries were not written for this engine's executors.
        """
        if f"<{origin}>" in self._of_sources:
            self._of_sources[f"<{origin}>"] = None

    def is_of_source(self, tool: Tool) -> bool:
        """Return True if the executor of the tool's source runs it, whatever its entry says."""
        return tool.source in self._of_sources

    def get(self, name: str) -> ToolExecutor | None:
        """Return the executor of this name, or None.

        Raises:
            ExecutorNotFoundError: A package offers it, but it cannot be loaded.
            MissingExtraError: It needs an optional dependency that is not installed.
        """
        found = self._registered.get(name) or self._loaded.get(name)
        if found is not None:
            return found
        place = BUILTIN_EXECUTORS.get(name)
        found = self._load_executor(place) if place else self._load_entry_point(name)
        if found is not None:
            self._loaded[name] = found
            self._remember_opened(found)
        return found

    def names(self) -> list[str]:
        return sorted({*self._registered, *BUILTIN_EXECUTORS, *self._find_offered()})

    def missing_cure(self, tool: Tool, *, may_read: bool = False) -> tuple[str, str]:
        """Return what to do about a tool that nothing runs, and the handler that was meant.

        Args:
            tool: It has no executor.
            may_read: Whether the source of the module that its handler may mean is read, which
                blocks.
        """
        entry, handler = tool.implementation_config, tool.handler
        register = f"register it with engine.register_executor({handler!r}, ...)"
        is_python = entry.get("type") == PYTHON
        if not entry.get("handler") and (is_python or entry == {"type": "custom"}):
            return f"{_NO_HANDLER}, or {register}", ""
        if near := _find_meant(handler, self.names()):
            return f"did you mean {near!r}?", near
        if cure := _find_cure(entry):
            return f"{cure}, or {register}", ""
        # Loaded by name: most tools have an executor.
        meant = import_module(_MEANT_PLACE)
        if is_python or meant.is_path(handler):
            place = meant.find_place(handler, tool.name) if may_read else meant.write_place(handler)
            if place:
                cure = meant.word_place(place) if may_read else meant.word_guess(handler, place)
                return cure, "" if meant.FUNCTION in place else place
        cure = "write a function of a module as module:function, or " if is_python else ""
        return f"{cure}{register}{'' if is_python else ' or correct entry.handler'}", ""

    def is_path(self, tool: Tool) -> bool:
        """Return True for a Python tool whose handler is the path of a file or of a module."""
        entry = tool.implementation_config
        is_python = entry.get("type") == PYTHON and bool(entry.get("handler"))
        return is_python and bool(import_module(_MEANT_PLACE).is_path(tool.handler))

    def resolve(self, tool: Tool) -> ToolExecutor | None:
        """Return the executor that runs `tool`, or None; raise as `get` does.

        Raises:
            DefinitionError: Its Python function cannot be imported, or does not fit.
        """
        if self.is_of_source(tool):
            return self._of_sources[tool.source]
        registered = self._registered.get(tool.handler)
        if registered is not None:
            return registered
        entry = tool.implementation_config
        name = _executor_name(entry, tool)
        if name == PYTHON:
            return self._python_handlers().resolve(tool)
        if name == _COMMAND and _is_for_fleet(entry) and name not in self._registered:
            return self._fleet_commands()
        return self.get(name)

    def prepare(self, tools: Iterable[Tool] = ()) -> None:
        """Import what `tools` need for their first call; it takes long, so call it in a thread.

        Looks up what installed packages offer as well: `get` and `nearest` read many small files
        for that, once. A package that cannot be loaded shows when its tool is called.
        """
        tools = [tool for tool in tools if not self.is_of_source(tool)]
        needed = {_executor_name(tool.implementation_config, tool) for tool in tools}
        may_import = self.may_import and PYTHON in needed
        handlers = [tool for tool in tools if may_import and self.is_python(tool)]
        for tool in handlers:
            with contextlib.suppress(DefinitionError):
                self._python_handlers().resolve(tool)
        offered = self._find_offered()
        for name in needed:
            with contextlib.suppress(Exception):
                if name in BUILTIN_EXECUTORS:
                    import_module(BUILTIN_EXECUTORS[name].partition(":")[0])
                elif name in offered and name not in self._registered:
                    # Read here because it reads files: messages on the loop use what is stored.
                    self._origins[name] = [*map(_describe_origin, offered[name])]
                    offered[name][0].load()

    def check(self, tool: Tool) -> list[DefinitionProblem]:
        """Return what is wrong with the tool's entry, as known before a call."""
        name = self.name_of(tool)
        if name == PYTHON:
            found = self._python_handlers().check(tool, may_import=self.may_import)
            return found or self._check_fleet(tool)
        return self._check_named(tool, name)

    def check_entry(self, tool: Tool) -> list[DefinitionProblem]:
        """Check as `check` does, without reading or importing a Python handler."""
        return self._check_named(tool, self.name_of(tool))

    def _check_named(self, tool: Tool, name: str) -> list[DefinitionProblem]:
        if name == PYTHON:
            form: list[DefinitionProblem] = import_module(_PYTHON_ENTRY).check_form(tool)
            return form or self._check_fleet(tool)
        place = ENTRY_CHECKS.get(name)
        if place is None or tool.handler in self._registered:
            return []
        module = import_module(place)
        problems: list[DefinitionProblem] = module.check_entry(tool)
        if name == _SQL and self._sources:
            problems += module.check_source(tool, self._sources)
        if name == _COMMAND:
            problems = problems or self._check_fleet(tool)
        return problems

    def name_of(self, tool: Tool) -> str:
        """Return the name of the tool's executor, even if it does not exist."""
        if self.is_of_source(tool):
            return tool.origin
        entry = tool.implementation_config  # made anew whenever it is read
        handler = _name_handler(entry, tool)
        return handler if handler in self._registered else _executor_name(entry, tool)

    def is_python(self, tool: Tool) -> bool:
        return self.name_of(tool) == PYTHON

    def is_for_fleet(self, tool: Tool) -> bool:
        """Return True if a fleet runs the tool's function or program."""
        return self.name_of(tool) in (PYTHON, _COMMAND) and _is_for_fleet(
            tool.implementation_config
        )

    def is_workflow(self, tool: Tool) -> bool:
        if self.is_of_source(tool):
            return False
        entry = tool.implementation_config
        is_one = _executor_name(entry, tool) == _WORKFLOW
        return is_one and _name_handler(entry, tool) not in self._registered

    def _check_fleet(self, tool: Tool) -> list[DefinitionProblem]:
        return find_missing_fleet(tool) if self._fleet is None else []

    def check_key(self) -> str:
        """Return what `check` depends on beside the tool: same key, same answers."""
        sources = sorted((name, each.readonly) for name, each in (self._sources or {}).items())
        return "\n".join((*sorted(self._registered), repr(sources), str(self._fleet is None)))

    def is_settled(self, tool: Tool) -> bool:
        """Return True if the answer of `check` for `tool` changes only with `check_key`."""
        # A Python handler is not the engine's code and may have changed by tomorrow.
        return not self.is_python(tool)

    async def close(self, limit: float = 5.0) -> None:
        """Close the executors in reverse order; log failures and go on.

        Each has `limit` seconds; one that takes longer is cancelled, and not waited for.
        """
        opened, self._opened, self._loaded, self._python = self._opened, {}, {}, None
        async with contextlib.AsyncExitStack() as stack:
            for executor in opened.values():
                stack.push_async_callback(close_part, executor, limit)

    def _python_handlers(self) -> PythonHandlers:
        if self._python is None:
            # Loaded by name on first use: most programs have no need of it.
            made = import_module("tool_engine.executors.python.handlers").PythonHandlers
            self._python = made(self.places, self.approved_code)
            self._remember_opened(self.places)
        return self._python

    def _fleet_commands(self) -> ToolExecutor:
        self._python_handlers()  # the fleet is closed with these
        if _FLEET_COMMANDS not in self._loaded:
            made = import_module(_FLEET_COMMANDS).FleetCommands
            self._loaded[_FLEET_COMMANDS] = made(self.places)
        return self._loaded[_FLEET_COMMANDS]

    def _make_processes(self) -> ExecutionBackend:
        made = import_module("tool_engine.executors.python.process_backend").ProcessBackend
        backend: ExecutionBackend = made(self.approved_code)
        return backend

    def open_fleet(self) -> ExecutionBackend:
        """Return the backend of the fleet, which is made now if no call has."""
        self._python_handlers()  # it is closed with these
        return cast("ExecutionBackend", self.places.find("ray"))

    def _make_fleet(self) -> ExecutionBackend:
        made = import_module("tool_engine.executors.fleet.fleet_backend").FleetBackend
        backend: ExecutionBackend = made(self._fleet or "", self.approved_code, self._find_tool)
        return backend

    def _find_server(self, name: str, own_name: str) -> Any:
        return self.find_server(name, own_name)

    def _remember_opened(self, executor: ToolExecutor | Places) -> None:
        self._opened[id(executor)] = executor

    def _find_offered(self) -> dict[str, list[EntryPoint]]:
        if self._entry_points is None:
            self._entry_points = {}
            # Loaded by name on first use: most programs have no need of it.
            installed = import_module("tool_engine.installed")
            for point in installed.list_entry_points(ENTRY_POINT_GROUP):
                self._entry_points.setdefault(point.name, []).append(point)
        return self._entry_points

    def _load_executor(self, place: str) -> ToolExecutor:
        module, _, attribute = place.partition(":")
        made = getattr(import_module(module), attribute)
        executor: ToolExecutor = made(*self._hooks[place]) if place in self._hooks else made()
        return executor

    def _origins_of(self, name: str, points: list[EntryPoint]) -> list[str]:
        return self._origins.get(name) or [*map(_describe_origin, points)]

    def _load_entry_point(self, name: str) -> ToolExecutor | None:
        points = self._find_offered().get(name)
        if not points:
            return None
        if len(points) > 1:
            raise ExecutorNotFoundError(
                f"executor {name!r} is offered by {' and '.join(self._origins_of(name, points))}; "
                "register the one that you mean with register_executor"
            )
        try:
            made = points[0].load()
            executor = made() if isinstance(made, type) else made
            _check_executor(name, executor)
        except MissingExtraError:
            raise
        except BaseException as error:
            if ends_caller(error):
                raise
            raise ExecutorNotFoundError(
                f"executor {name!r} of {self._origins_of(name, points)[0]} cannot be loaded: "
                f"{type(error).__name__}: {error}; repair or uninstall that package"
            ) from error
        return executor  # type: ignore[no-any-return]


async def close_part(part: object, limit: float | None) -> None:
    """Close an executor or a source that can be closed; log what it raises, and go on.

    Args:
        part: What is closed.
        limit: Seconds that it may take; None: as long as it likes.
    """
    close = getattr(part, "close", None)
    if close is None:
        return
    try:
        if isinstance(part, Places) and limit is not None:
            await close(limit)  # until then it has ended by force what does not end by itself
            return
        closing = close()
        if inspect.isawaitable(closing):
            await _wait_for_end(closing, limit)
    except BaseException as error:  # a foreign executor may raise anything
        if ends_caller(error):
            raise
        name = type(part).__name__
        _log.error("executor_close_failed", executor=name, error=words_of(error))


async def _wait_for_end(closing: Awaitable[Any], limit: float | None) -> None:
    task = asyncio.ensure_future(_end_closing(closing))
    try:
        await asyncio.wait({task}, timeout=limit)
    finally:
        if not task.done():
            task.cancel()
    if not task.done():
        raise TimeoutError(f"close() took more than {limit:g} s")
    # A cancellation is the executor's own: that of the engine ends the wait above.
    error = RuntimeError("it was cancelled from inside") if task.cancelled() else task.result()
    if error is not None:
        raise error


async def _end_closing(closing: Awaitable[Any]) -> BaseException | None:
    """Return what a closing raises: some exceptions would end the event loop of a task."""
    try:
        await closing
    except BaseException as error:  # a foreign executor may raise anything
        if ends_caller(error):
            raise
        return error
    return None


def _name_handler(entry: Mapping[str, Any], tool: Tool) -> str:
    """Return `tool.handler`, for an entry that was read once."""
    return str(entry.get("handler") or tool.name)


def _is_for_fleet(entry: Mapping[str, Any]) -> bool:
    config = entry.get("config")
    return isinstance(config, Mapping) and config.get("isolation") == "ray"


def _find_meant(handler: str, names: list[str]) -> str:
    """Return the handler that a word means: one of the same words, or the nearest."""
    words = sorted(handler.lower().replace("-", "_").split("_"))
    same = next((name for name in names if sorted(name.split("_")) == words), "")
    return same or _HABITS.get(handler.lower()) or find_nearest(handler, names)


def _find_cure(entry: Mapping[str, Any]) -> str:
    """Return what an entry may say in place of its handler."""
    work_keys = import_module(_ENTRY_READER).WORK_KEYS
    if work := next((key for key in work_keys if key in entry), ""):
        return f"leave out handler, so that {work!r} says what runs"
    if entry.get("type") == "javascript":
        return "run it as a program: {type: builtin, argv: [node, FILE]}"
    if entry == {"type": "http"}:
        return "add request: {url: 'https://...'}"
    return f"add handler, such as {', '.join(BUILTIN_EXECUTORS)}" if len(entry) == 1 else ""


def _executor_name(entry: Mapping[str, Any], tool: Tool) -> str:
    if entry.get("handler"):
        handler = str(entry["handler"])
        return PYTHON if ":" in handler else handler
    # Without a handler of its own, a tool's name must not hide what its entry declares.
    if isinstance(entry.get("request"), Mapping):
        return _HTTP
    if "steps" in entry or entry.get("type") == "workflow":
        return _WORKFLOW
    if entry.get("type") == "mcp":
        return _MCP
    if "sql" in entry:
        return _SQL
    return _COMMAND if "argv" in entry else tool.name


def _check_executor(name: str, executor: Any) -> None:
    if isinstance(executor, type):
        raise ConfigurationError(
            f"executor {name!r} must be an object, not the class {executor.__name__}; "
            f"write {executor.__name__}()"
        )
    if not callable(getattr(executor, "execute", None)):
        raise ConfigurationError(
            f"executor {name!r} must have a method execute(tool, params, context), got "
            f"{type(executor).__name__}; for a plain function use register_tool"
        )


def _describe_origin(point: EntryPoint) -> str:
    package = point.dist.name if point.dist is not None else "an unknown package"
    return f"{package} ({point.value})"
