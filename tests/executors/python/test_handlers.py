"""R9: a handler is imported where code may run, and what is wrong with it shows at once."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from tool_engine.errors import DefinitionError
from tool_engine.executors.handler import AsyncHandlerExecutor, SyncHandlerExecutor
from tool_engine.executors.places import PlacedHandler, Places
from tool_engine.executors.python.handlers import PythonHandlers
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]
Write = Callable[[str], str]

ISOLATED = {"isolation": "process", "memory": "512MiB"}


def tool_of(make: Make, module: str, name: str = "f", *parameters: str, apart: bool) -> Tool:
    entry = {"type": "custom", "handler": f"{module}:{name}"}
    return make({**entry, "config": ISOLATED} if apart else entry, *parameters)


def found(tool: Tool, *, may_import: bool = True) -> list[str]:
    problems = PythonHandlers(Places({})).check(tool, may_import=may_import)
    assert {problem.path for problem in problems} <= {"entry.handler"}
    assert {problem.file for problem in problems} <= {"tool 'sample'"}
    return [problem.message for problem in problems]


async def test_async_and_sync(make: Make, write: Write) -> None:
    """R9: async handlers run on the loop, plain ones in a thread; both get the context."""
    module = write(
        """
        async def f(text, context): return [text, context.caller_id]
        def g(text, context): return [text, context.caller_id]
        class Kind:
            def method(self, text): return text * 2
        thing = Kind()
        """
    )
    handlers = PythonHandlers(Places({}))
    context = ToolExecutionContext(caller_id="me")
    await asyncio.to_thread(import_module, module)
    executor = handlers.resolve(tool_of(make, module, "f", "text", apart=False))
    assert isinstance(executor, AsyncHandlerExecutor)
    assert await executor.execute(make({}), {"text": "a"}, context) == ["a", "me"]
    plain = handlers.resolve(tool_of(make, module, "g", "text", apart=False))
    assert isinstance(plain, SyncHandlerExecutor)
    assert plain.execute(make({}), {"text": "a"}, context) == ["a", "me"]
    method = handlers.resolve(tool_of(make, module, "thing.method", "text", apart=False))
    assert isinstance(method, SyncHandlerExecutor)
    assert method.execute(make({}), {"text": "a"}, context) == "aa"


def test_one_executor_for_one_place(make: Make, write: Write) -> None:
    """R9: tools that share a function share its executor; each must fit."""
    module = write("def f(text, more=1): ...")
    handlers = PythonHandlers(Places({}))
    first = handlers.resolve(tool_of(make, module, "f", "text", apart=False))
    assert handlers.resolve(tool_of(make, module, "f", "text", "more", apart=False)) is first
    with pytest.raises(DefinitionError, match="does not take the declared parameter 'other'"):
        handlers.resolve(tool_of(make, module, "f", "other", apart=False))


def test_an_isolated_handler_is_not_imported(make: Make, write: Write) -> None:
    """R9: what runs apart is imported apart: this process never sees its module."""
    module = write("def f(text): ...")
    tool = tool_of(make, module, "f", "text", apart=True)
    handlers = PythonHandlers(Places({}))
    assert handlers.check(tool, may_import=True) == []
    executor = handlers.resolve(tool)
    assert isinstance(executor, PlacedHandler)
    assert executor.isolation == "process"
    assert module not in sys.modules


def test_nothing_is_run_where_nothing_may(make: Make, write: Write, tmp_path: Path) -> None:
    """R9: `validate` and `lint` read a handler's source, and never run it."""
    module = write(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef f(text): ...")
    for apart in (False, True):
        assert found(tool_of(make, module, "f", "text", apart=apart), may_import=False) == []
        (message,) = found(tool_of(make, module, "g", "text", apart=apart), may_import=False)
        assert "has no function 'g'" in message
    assert not (tmp_path / "ran").exists()
    assert module not in sys.modules


@pytest.mark.parametrize("apart", [False, True], ids=["here", "apart"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_module_of_test\ndef f(text): ...", "cannot be imported: ModuleNotFound"),
        ("1 / 0\ndef f(text): ...", "cannot be imported: ZeroDivisionError: division by zero"),
        ("import sys; sys.exit('no')\ndef f(text): ...", "cannot be imported: SystemExit: no"),
        (
            "class E(BaseException): ...\ndef f(text): ...\nraise E('no')",
            "cannot be imported: E: no",
        ),
        (
            "def __getattr__(name): raise KeyError(name)",
            "f cannot be (read|imported): KeyError: 'f'",
        ),
        ("if False:\n    def f(text): ...", "'f'"),
        ("f = int('5')", "must be a function"),
        ("f = [int][0]", "class|type"),
        ("f = lambda text: (yield)", "is a generator"),
        ("async def g(text): yield\nf = g", "is a generator"),
        ("f = lambda txt: txt", r"does not take the declared parameter 'text'; it takes \(txt\)"),
        ("def g(text, /): ...\nf = g", "by position only"),
    ],
)
def test_what_shows_only_at_the_import(
    text: str, message: str, apart: bool, make: Make, write: Write
) -> None:
    """R9: a handler that cannot run is a problem of the definition, not of the first call."""
    tool = tool_of(make, write(text), "f", "text", apart=apart)
    assert found(tool, may_import=False) == []
    (told,) = found(tool)
    assert re.search(message, told)


def test_a_function_in_c(make: Make) -> None:
    """R9: a function that does not say what it takes is called with what there is."""
    for apart in (False, True):
        assert found(tool_of(make, "builtins", "max", "a", apart=apart)) == []


def test_an_import_that_takes_for_ever(
    make: Make, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9: the import of an isolated module has an end, whatever it does."""
    monkeypatch.setattr("tool_engine.executors.python.handlers._SECONDS_TO_IMPORT", 0.3)
    tool = tool_of(make, write("while True: pass\ndef f(text): ..."), "f", "text", apart=True)
    (message,) = found(tool)
    assert "takes more than 0.3 s" in message


def test_an_import_that_kills(make: Make, write: Write) -> None:
    """R9: a module that ends its process on import is a problem of the definition too."""
    tool = tool_of(make, write("import os; os._exit(3)\ndef f(text): ..."), "f", "text", apart=True)
    (message,) = found(tool)
    assert "ended with the exit code 3" in message
