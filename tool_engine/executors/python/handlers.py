"""Which executor runs a tool whose handler is `package.module:function`?"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from importlib import import_module
from time import monotonic
from typing import Any, Final

from msgspec.structs import replace

from tool_engine.errors import (
    ConfigurationError,
    DefinitionError,
    DefinitionProblem,
    ToolEngineError,
)
from tool_engine.executors.commands.supervisor import Bell
from tool_engine.executors.fleet_entry import RAY
from tool_engine.executors.handler import check_handler, check_signature, executor_for
from tool_engine.executors.places import PlacedHandler, Places
from tool_engine.executors.python.hints import ADAPTING, asks_types
from tool_engine.executors.python.importing import OtherCodeError, check_running, import_source
from tool_engine.executors.python.python_entry import (
    PythonEntry,
    check_entry,
    compile_entry,
    declared_of,
)
from tool_engine.executors.python.worker import WorkerStoppedError, signature_of
from tool_engine.executors.python.worker_pool import WorkerPool, word_import_cure, word_import_fault
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool, is_same

_SECONDS_TO_IMPORT: Final = 60.0
"""The time to import an isolated handler when it is checked."""


class PythonHandlers:
    """The imported handlers; each module is imported once, as everywhere in Python.

    Args:
        places: Run those that are kept apart.
        approved: The hash of the code that was approved for a tool; None where any may run.
    """

    def __init__(
        self, places: Places, approved: Callable[[Tool], str | None] = lambda _: None
    ) -> None:
        self._apart = {name: PlacedHandler(name, places) for name in ("process", RAY)}
        self._approved = approved
        self._known: dict[str, ToolExecutor] = {}
        self._typed: dict[str, tuple[Tool, ToolExecutor, ToolExecutor]] = {}
        """By the tool's name: the tool, what runs its function, and that with values of its types.
        """

    def check(self, tool: Tool, *, may_import: bool) -> list[DefinitionProblem]:
        """Return the problems of entry and handler; `may_import` runs the module's code. Blocks."""
        problems = check_entry(tool)
        if problems or not may_import:
            return problems
        try:
            entry = compile_entry(tool)
            if entry.isolation == RAY:
                return []  # it is imported where it runs, and perhaps can be nowhere else
            if entry.is_isolated:
                _check_apart(entry, tool)
            else:
                self._find_imported(entry, tool)
        except DefinitionError as error:
            return list(error.problems)
        except ToolEngineError as error:
            return [_make_problem(tool, str(error))]
        return []

    def resolve(self, tool: Tool) -> ToolExecutor:
        """Return the executor of the tool's handler.

        An import blocks, so nothing is imported on an event loop: a module that was not imported
        when its tool was loaded is imported by the first call, in its thread.

        Raises:
            DefinitionError: It cannot be imported, is no function, or does not fit the tool.
        """
        entry = compile_entry(tool)
        if entry.is_isolated:
            return self._apart[entry.isolation]
        # A plain `execute` is in the executor's contract; the Protocol shows the async one.
        later = _LaterExecutor(lambda: self._find_imported(entry, tool))
        if entry.module not in sys.modules and _is_on_loop():
            return later
        with _worded_for(tool):
            plain = self._find_plain(entry, tool)
        if _is_on_loop() and self._find_typed(plain, tool) is None:
            # To read its hints may import more.
            return later
        return self._find_imported(entry, tool)

    def _find_imported(self, entry: PythonEntry, tool: Tool) -> ToolExecutor:
        with _worded_for(tool):
            plain = self._find_plain(entry, tool)
            typed = self._find_typed(plain, tool)
            if typed is None:
                # Loaded by name on first use: most functions take what JSON gives.
                make = import_module(ADAPTING).typed_handler
                handler = make(_handler_of(plain), declared_of(tool))
                typed = plain if handler is _handler_of(plain) else executor_for(handler)
                self._typed[tool.name] = tool, plain, typed
        return typed

    def _find_plain(self, entry: PythonEntry, tool: Tool) -> ToolExecutor:
        """Return what calls the function with JSON values."""
        known, approved = self._known.get(entry.place), self._approved(tool)
        if known is None:
            found = _import_handler(entry, tool, approved)
            known = self._known[entry.place] = executor_for(found, tool)
        else:
            check_running(entry.module, approved)
            check_handler(_handler_of(known), tool)
        return known

    def _find_typed(self, plain: ToolExecutor, tool: Tool) -> ToolExecutor | None:
        """Return what calls it with values of its types; None: those were not read yet."""
        found = self._typed.get(tool.name)
        if found is not None and found[1] is plain and is_same(found[0], tool):
            return found[2]
        return None if asks_types(_handler_of(plain), declared_of(tool)) else plain


@contextmanager
def _worded_for(tool: Tool) -> Iterator[None]:
    """Raise what is wrong with a tool's function as a problem of its definition."""
    try:
        yield
    except (ConfigurationError, OtherCodeError) as error:
        raise DefinitionError(_make_problem(tool, str(error))) from None


def _handler_of(executor: Any) -> Any:
    return executor.handler


class _LaterExecutor:
    """An executor that imports a handler in the thread of a call."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load

    def execute(self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext) -> Any:
        return self._load().execute(tool, params, context)


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _import_handler(entry: PythonEntry, tool: Tool, approved: str | None) -> Any:
    try:
        module = import_source(entry.module, approved)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may raise anything; others must not suffer
        words = f"{type(error).__name__}: {error}"
        cure = word_import_cure(type(error).__name__)
        raise DefinitionError(
            _make_problem(tool, f"the module {entry.module} cannot be imported: {words}{cure}")
        ) from error
    try:
        return reduce(getattr, entry.name.split("."), module)
    except AttributeError as error:
        raise DefinitionError(_make_problem(tool, f"there is no {entry.place}: {error}")) from None
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        raise DefinitionError(
            _make_problem(tool, f"{entry.place} cannot be read: {words}")
        ) from error


def _check_apart(entry: PythonEntry, tool: Tool) -> None:
    """Import the handler in a process of its own, and check its signature."""
    pool, bell = WorkerPool(replace(entry, parameters=declared_of(tool))), Bell()
    bell.open()
    try:
        answer = pool.describe(monotonic() + _SECONDS_TO_IMPORT, bell)
    except WorkerStoppedError:
        raise ConfigurationError(
            f"the import of {entry.module} takes more than {_SECONDS_TO_IMPORT:g} s"
        ) from None
    finally:
        bell.close()
        pool.close()
    if answer.error is not None:
        raise ConfigurationError(word_import_fault(answer.error, entry))
    if not answer.value["is_callable"]:
        raise ConfigurationError(
            f"{entry.place} must be a function, it is a {answer.value['type']}"
        )
    if answer.value["is_generator"]:
        raise ConfigurationError(f"{entry.place} is a generator; return the whole value instead")
    signature = signature_of(answer.value)
    if signature is not None:
        check_signature(signature, entry.name, tool)


def _make_problem(tool: Tool, message: str) -> DefinitionProblem:
    file = tool.source or f"tool {tool.name!r}"
    return DefinitionProblem(message, file=file, path="entry.handler")
