"""R2: a plain Python function is a tool."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pydantic
import pytest

from tool_engine.errors import ConfigurationError, ToolExecutionError
from tool_engine.executors.handler import (
    AsyncHandlerExecutor,
    PreparedHandler,
    SyncHandlerExecutor,
    check_handler,
    check_signature,
    executor_for,
)
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]
FIELD: Any = pydantic.Field()


async def add(a: int, b: int = 1) -> int:
    return a + b


def add_plainly(a: int, b: int = 1) -> int:
    return a + b


async def with_context(a: int, context: ToolExecutionContext) -> Any:
    return a, context


def plainly_with_context(a: int, *, context: ToolExecutionContext) -> Any:
    return a, context


class Adder:
    async def method(self, a: int, b: int) -> int:
        return a + b

    async def __call__(self, a: int, b: int) -> int:
        return a + b


class PlainAdder:
    def __call__(self, a: int, b: int) -> int:
        return a + b


@pytest.mark.parametrize(
    "handler",
    [
        add,
        functools.partial(add, b=5),
        functools.partial(functools.partial(add), b=5),
        Adder().method,
        Adder(),
        functools.partial(Adder(), b=5),
    ],
)
async def test_async(handler: Any, make: Make, context: ToolExecutionContext) -> None:
    """R2: an async function in any form is awaited, with the parameters as keywords."""
    executor = executor_for(handler)
    assert isinstance(executor, AsyncHandlerExecutor)
    assert isinstance(executor, ToolExecutor)
    assert await executor.execute(make({}), {"a": 1, "b": 2}, context) == 3


@pytest.mark.parametrize(
    "handler", [add_plainly, functools.partial(add_plainly, b=5), PlainAdder()]
)
def test_sync(handler: Any, make: Make, context: ToolExecutionContext) -> None:
    """R2: a plain function keeps a plain `execute`, so that it runs in a thread."""
    executor = executor_for(handler)
    assert isinstance(executor, SyncHandlerExecutor)
    assert not inspect.iscoroutinefunction(executor.execute)
    assert executor.execute(make({}), {"a": 1, "b": 2}, context) == 3


async def test_context(make: Make, context: ToolExecutionContext) -> None:
    """R2: a handler with a parameter named `context` receives the execution context."""
    assert await AsyncHandlerExecutor(with_context).execute(make({}), {"a": 1}, context) == (
        1,
        context,
    )
    executor = SyncHandlerExecutor(plainly_with_context)
    assert executor.execute(make({}), {"a": 1}, context) == (1, context)


async def test_kwargs_get_no_context(make: Make, context: ToolExecutionContext) -> None:
    """Only a parameter that is named `context` asks for it."""

    async def anything(**kwargs: Any) -> Any:
        return kwargs

    assert await AsyncHandlerExecutor(anything).execute(make({}), {"a": 1}, context) == {"a": 1}


def test_a_builtin_without_signature(make: Make, context: ToolExecutionContext) -> None:
    """Some functions in C do not say what they take; they are called with what there is."""
    with pytest.raises(ValueError, match="no signature"):
        inspect.signature(max)
    assert isinstance(executor_for(max, make({}, "a")), SyncHandlerExecutor)


@pytest.mark.parametrize("is_task", [False, True])
async def test_a_plain_function_that_returns_an_awaitable(
    is_task: bool, make: Make, context: ToolExecutionContext
) -> None:
    """A wrapper that hides `async def` is told so, instead of returning a coroutine as output."""
    import asyncio

    def hidden(a: int) -> Any:
        return asyncio.ensure_future(add(a)) if is_task else add(a)

    with pytest.raises(ToolExecutionError, match="declare it with 'async def'"):
        SyncHandlerExecutor(hidden).execute(make({}), {"a": 1}, context)


def test_an_awaitable_of_ones_own(make: Make, context: ToolExecutionContext) -> None:
    """What cannot be closed is refused too."""

    class Own:
        def __await__(self) -> Iterator[None]:
            yield None

    with pytest.raises(ToolExecutionError, match="awaitable"):
        SyncHandlerExecutor(Own).execute(make({}), {}, context)


async def generator() -> AsyncIterator[int]:
    yield 1


def plain_generator() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (7, "must be a function, got int"),
        (Adder, "not the class Adder"),
        (generator, "generator is a generator"),
        (functools.partial(plain_generator), "is a generator"),
    ],
)
def test_what_is_no_handler(handler: Any, message: str) -> None:
    """R2: what cannot be a handler is refused when it is registered."""
    with pytest.raises(ConfigurationError, match=message):
        executor_for(handler)


def test_an_executor_is_no_handler() -> None:
    """The likely mistake is named with its cure."""

    class Executor:
        async def execute(self, tool: Tool, params: Any, context: Any) -> None: ...

    with pytest.raises(ConfigurationError, match="pass it to register_executor"):
        executor_for(Executor())  # type: ignore[arg-type]


FIELD = pydantic.Field(5, ge=1)
OPTIONAL = ToolParameter("b", "integer")
DEFAULT = ToolParameter("b", "integer", default=0)


@pytest.mark.parametrize(
    ("handler", "parameters"),
    [
        (add, ["a", "b"]),
        (add, ["a"]),
        (lambda **kwargs: kwargs, ["a", "x-y"]),
        (lambda *args, a: a, ["a"]),
        (with_context, ["a"]),
        (lambda a, b: a, ["a", DEFAULT]),
        (lambda a, b=1: a, ["a", OPTIONAL]),
    ],
)
async def test_a_handler_that_fits(
    handler: Any, parameters: Any, make: Make, context: ToolExecutionContext
) -> None:
    """R2: a default in the tool or in the handler covers what a call leaves out.

    With all that the tool declares, what was found to fit is called, and answers.
    """
    tool = make({}, *parameters)
    check_handler(handler, tool)
    params = {parameter.name: 1 for parameter in tool.parameters}
    output = executor_for(handler).execute(tool, params, context)
    assert await output if inspect.isawaitable(output) else output


@pytest.mark.parametrize(
    ("handler", "parameters", "message"),
    [
        (add, ["a", "c"], r"add of tool 'sample' does not take the declared parameter 'c'; .*a, b"),
        (add, ["b"], r"needs 'a', which the tool does not declare; it declares \(b\)"),
        (lambda a, b: a, ["a", OPTIONAL], "needs 'b', which a call may leave out"),
        (lambda a, b=FIELD: a, ["a", OPTIONAL], "needs 'b', which a call may leave out"),
        (lambda a, b=FIELD: a, ["a"], "needs 'b', which the tool does not declare"),
        (lambda *a: a, ["a"], "does not take the declared parameter 'a'"),
        (with_context, ["a", "context"], "rename the tool's parameter"),
        (lambda a, /: a, ["a"], "by position only"),
    ],
)
def test_a_handler_that_does_not_fit(
    handler: Any, parameters: Any, message: str, make: Make
) -> None:
    """R2: a mismatch is found at registration and names both sides."""
    with pytest.raises(ConfigurationError, match=message):
        executor_for(handler, make({}, *parameters))


def test_repr() -> None:
    """The representation names the function."""
    assert repr(AsyncHandlerExecutor(functools.partial(add))) == "AsyncHandlerExecutor(add)"
    assert repr(SyncHandlerExecutor(PlainAdder())) == "SyncHandlerExecutor(PlainAdder)"


@pytest.mark.parametrize(
    "handler",
    [
        lambda: 0,
        lambda a: a,
        lambda a, b=1: a,
        lambda a, /: a,
        lambda a, /, b=1: a,
        lambda *, a, context: a,
        lambda a, context: a,
        lambda context, /: context,
        lambda **others: others,
        lambda a, *rest: a,
        lambda a=FIELD: a,
    ],
)
@pytest.mark.parametrize("names", [(), ("a",), ("a", "b"), ("context",), ("a", "context")])
@pytest.mark.parametrize("is_given", [True, False])
def test_what_fits_at_once_is_what_the_signature_allows(
    handler: Callable[..., Any], names: tuple[str, ...], is_given: bool, make: Make
) -> None:
    """Oracle: the check that explains what does not fit."""
    listed = [ToolParameter(name=name, type="any", required=is_given) for name in names]
    tool, refused = make({}, *listed), False
    try:
        check_signature(inspect.signature(handler), "handler", tool)
    except ConfigurationError:
        refused = True
    try:
        PreparedHandler(handler).check(tool)
    except ConfigurationError:
        assert refused
    else:
        assert not refused
