"""How do the tools and executors that a program registers become the engine's?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.errors import ConfigurationError, DefinitionError, DefinitionProblem
from tool_engine.executors.handler import PreparedHandler, signature_key
from tool_engine.model.checks.known_fields import KnownNames
from tool_engine.model.event import ToolEngineEventType
from tool_engine.model.json.unpacking import making_old_values
from tool_engine.model.tool import Tool, is_source_name

if TYPE_CHECKING:
    from tool_engine.calls.pipeline import Pipeline
    from tool_engine.catalog.index import ToolIndex
    from tool_engine.executors.executor_registry import ExecutorRegistry
    from tool_engine.interfaces import ToolExecutor
    from tool_engine.reloading import Reloader

Definition = Tool | Mapping[str, Any]
_FROM_CODE: Final = "<code>"


class RegistersTools(KnownNames):
    """What an engine does with tools and executors of its program."""

    index: ToolIndex
    _pipeline: Pipeline
    _registry: ExecutorRegistry
    _reloader: Reloader

    if TYPE_CHECKING:

        def _require_open(self) -> None:
            """Raise EngineClosedError if the engine is closed."""

        def _swap_index(self, index: ToolIndex, cause: str = "code") -> None:
            """Replace the present snapshot."""

    def register_executor(self, name: str, executor: ToolExecutor) -> None:
        """Run the tools whose `entry.handler` is `name` with `executor`.

        Raises:
            ConfigurationError: `executor` cannot execute.
        """
        self._registry.register(name, executor)
        self._pipeline.forget_plans()
        self._reloader.judge_again()

    def register_tool(
        self, tool: Tool | Mapping[str, Any], handler: Callable[..., Any] | None = None
    ) -> Tool:
        """Add a tool that no file defines; it stays across reloads.

        Args:
            tool: The tool, also one that was read from a file, or its definition as a mapping.
            handler: Called with the validated parameters as keywords, and with the
                `ToolExecutionContext` if it has a parameter named `context`; sync handlers run in
                a thread. None: an executor of the handler's name runs it.

        Raises:
            DefinitionError: The definition is not right, its entry included, or the name is taken.
            ConfigurationError: The handler does not fit the parameters.
        """
        self._require_open()
        batch = _Batch(self.index, self._registry)
        loaded = batch.add(tool, handler, _FROM_CODE)
        index = self.index.with_tool(loaded)
        if clashes := index.find_clashes({loaded.name}):
            raise DefinitionError(*clashes)
        self._take_batch(batch, index)
        return loaded

    def register_tools(
        self, tools: Iterable[Definition | tuple[Definition, Callable[..., Any] | None]]
    ) -> list[Tool]:
        """Add many tools that no file defines, all of them or none, as one change.

        Ten thousand take half a second on the event loop, where `register_tool` for each takes
        several; for more at once while calls run, give parts of them.

        Args:
            tools: Tools or definitions, each alone, or in a tuple with its handler; see
                `register_tool`.

        Returns:
            The tools, in the order given.

        Raises:
            DefinitionError: Some cannot be added, and so none was: `problems` has what is wrong
                with each, its handler and entry included. Its `path` begins with the place among
                `tools`, as `tools[3]`; its `file` has the tool's name.

        Example:
            >>> engine = ToolEngine()
            >>> definition = {"name": "add", "description": "Adds nothing."}
            >>> [tool.name for tool in engine.register_tools([(definition, lambda: 0)])]
            ['add']
        """
        self._require_open()
        batch = _Batch(self.index, self._registry)
        # Thousands of definitions are many small values, none of which is garbage yet.
        with making_old_values():
            for number, given in enumerate(tools):
                tool, handler = given if isinstance(given, tuple) else (given, None)
                batch.try_to_add(number, tool, handler)
            index = self.index.with_changes(batch.tools)
            batch.check_aliases(index)
            batch.raise_problems()
            if batch.tools:
                self._take_batch(batch, index)
        return [*batch.tools.values()]

    def unregister_tool(self, name: str) -> None:
        """Remove a tool that was registered in code.

        Raises:
            ToolNotFoundError: There is none of this name.
            ConfigurationError: It comes from a file; remove the file instead.
        """
        tool = self.index.get_or_raise(name)
        if tool.source is not None:
            cure = "the source" if is_source_name(tool.source) else "the file"
            raise ConfigurationError(f"{name!r} is defined in {tool.source}; remove {cure} instead")
        self._swap_index(self.index.without(tool.name))
        self._reloader.publish_removed(tool)
        self._reloader.restore_name(tool.name)

    def _publish_group(self, kind: ToolEngineEventType, name: str) -> None:
        self._reloader.publish_event(kind, group=name)

    def _take_batch(self, batch: _Batch, index: ToolIndex) -> None:
        """Make a batch's tools the engine's, with what runs them."""
        self._reloader.files.read_by_program.update(batch.files)
        for name, handler in batch.handlers.items():
            self._registry.register(name, handler.executor)
        for name, users in batch.users.items():
            self._registry.users.setdefault(name, set()).update(users)
        self._swap_index(index)
        for tool in batch.tools.values():
            self._reloader.publish_added(tool)
        if batch.handlers:
            self._reloader.judge_again()


def _check_nothing(_: Tool) -> list[DefinitionProblem]:
    # What a function runs has no entry that an executor reads.
    return []


class _Batch:
    """Tools that are to be registered together, read and checked.

    Args:
        index: The tools that there are.
        registry: Checks the entries of tools that it will run.
    """

    def __init__(self, index: ToolIndex, registry: ExecutorRegistry) -> None:
        self._index = index
        self._registry = registry
        # By name: what reads definitions is large, and few programs register tools.
        building = import_module("tool_engine.catalog.definition.building")
        self._read: Callable[..., Tool] = building.tool_of_mapping
        self._prepared: dict[int, PreparedHandler] = {}
        self._alike: dict[object, PreparedHandler] = {}
        self._numbers: dict[str, int] = {}
        self.tools: dict[str, Tool] = {}
        self.handlers: dict[str, PreparedHandler] = {}
        """What runs them, by the name of the handler."""
        self.users: dict[str, list[str]] = {}
        """Their names, by that of the handler."""
        self.files: set[str] = set()
        """The files from which the program has read some of them."""
        self.problems: list[DefinitionProblem] = []

    def add(self, given: Definition, handler: Callable[..., Any] | None, source: str) -> Tool:
        """Read one tool and check it as far as it does not depend on the others.

        Raises:
            DefinitionError: The definition or its entry is not right, or the name is taken.
            ConfigurationError: The handler does not fit the parameters.
        """
        check = self._registry.check_entry if handler is None else _check_nothing
        tool = given if isinstance(given, Tool) else self._read(given, source, check)
        if tool.source is not None:
            # What was read from a file and is registered here is no part of the folder.
            self.files.add(tool.source)
            tool = replace(tool, source=None)
        self._index.check_free(tool)
        if tool.name in self.tools:
            cure = "rename or remove one of the two"
            message = f"the tool {tool.name!r} is given twice; {cure}"
            raise DefinitionError(DefinitionProblem(message, source, path="name", cure=cure))
        # Read once: a tool's entry is made anew whenever it is read.
        name = tool.handler
        if handler is not None:
            listed = given.get("parameters", []) if type(given) is dict else None
            self._add_handler(tool, name, handler, source, listed)
        elif isinstance(given, Tool) and (problems := check(tool)):
            raise DefinitionError(*problems)
        self.tools[tool.name] = tool
        self.users.setdefault(name, []).append(tool.name)
        return tool

    def _add_handler(
        self, tool: Tool, name: str, handler: Callable[..., Any], source: str, listed: Any
    ) -> None:
        prepared = self._prepared.get(id(handler))
        if prepared is None:
            prepared = self._prepared[id(handler)] = PreparedHandler(handler, self._alike)
            self._alike.setdefault(signature_key(handler), prepared)
        prepared.check(tool, listed)
        user = self._find_user(name, handler)
        if name in self.users and self.handlers.get(name) is not prepared:
            user = "another of these tools"
        self.handlers[name] = prepared
        if user:
            cure = "give one of them another entry.handler"
            message = f"{user} has the handler {name!r}, too, and not the same function: "
            message += f"both would run one of them; {cure}"
            problem = DefinitionProblem(message, source, path="entry.handler", cure=cure)
            raise DefinitionError(problem)

    def _find_user(self, name: str, handler: Callable[..., Any]) -> str:
        """Return which tool of the engine something else runs by this name; empty: none."""
        for each in self._registry.users.get(name, ()):
            tool = self._index.get(each)
            if tool is not None and tool.source is None and tool.handler == name:
                present = getattr(self._registry.get(name), "handler", None)
                is_method = isinstance(handler, MethodType)
                is_same = present is handler or (is_method and present == handler)
                return "" if is_same else f"the tool {each!r}"
        return ""

    def try_to_add(
        self, number: int, given: Definition, handler: Callable[..., Any] | None
    ) -> None:
        """Add a tool, or note what is wrong with it, by its place among those that are given."""
        try:
            self._numbers[self.add(given, handler, _FROM_CODE).name] = number
        except DefinitionError as error:
            found: Iterable[DefinitionProblem] = error.problems
        except ConfigurationError as error:
            found = [DefinitionProblem(str(error), _FROM_CODE)]
        else:
            return
        name = given.get("name") if isinstance(given, Mapping) else getattr(given, "name", None)
        for each in found:
            self._note_problem(number, name, each)

    def check_aliases(self, index: ToolIndex) -> None:
        """Note the further names that are not clear among the tools that there would be."""
        if index.aliases.items():
            # By name: most tools have no further names.
            clashes = import_module("tool_engine.catalog.alias_clashes")
            for name, problem in clashes.find_clashes(index, self.tools):
                self._note_problem(self._numbers[name], name, problem)

    def _note_problem(self, number: int, name: Any, problem: DefinitionProblem) -> None:
        file = f"tool {name!r}" if isinstance(name, str) else _FROM_CODE
        place = f"tools[{number}]"
        path = f"{place}.{problem.path}" if problem.path else place
        self.problems.append(problem._replace(file=file, path=path))

    def raise_problems(self) -> None:
        """Raise DefinitionError if anything is wrong with any of the tools."""
        more = len(self.problems) - MAX_PROBLEMS
        if more > 0:
            last = DefinitionProblem(f"and {more:,} more problems", _FROM_CODE, path="tools")
            self.problems[MAX_PROBLEMS:] = [last]
        if self.problems:
            raise DefinitionError(*self.problems)
