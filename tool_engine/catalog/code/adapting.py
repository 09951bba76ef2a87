"""How is a function called with JSON arguments, where its hints ask for other values?"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import types
import typing
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Annotated, Any, Final, TypeVar

from tool_engine.catalog.code.annotation import is_native, read_hint
from tool_engine.catalog.code.conversion import Conversion, Judge, Supplier
from tool_engine.catalog.code.made_defaults import find_misfit
from tool_engine.catalog.code.metadata import UnsupportedHintError, readable_hint
from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.checks.own_code import HANDLER
from tool_engine.model.checks.unawaited import is_async
from tool_engine.model.parameter import PARAMETER_TYPES
from tool_engine.model.settings.field_default import is_field, supplier_of

_T = TypeVar("_T")
MISFITS: Final = "misfits"
"""The attribute of a handler that finds the arguments that do not convert."""
_ALL_KINDS: Final = frozenset((*PARAMETER_TYPES, "null"))


async def run_in_thread(function: Callable[[], _T]) -> _T:
    """Run `function` in a thread of its own, and wait until it has ended.

    The event loop goes on meanwhile. A cancellation is kept until the end, because nothing can stop
    a thread: the call has its result by its deadline, and its slot when the thread is through.
    The thread is a daemon, so that one that never ends does not keep the program from ending.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = copy_context()

    def work() -> None:
        try:
            outcome: tuple[Any, BaseException | None] = context.run(function), None
        except BaseException as error:  # noqa: BLE001 - it travels to the caller
            outcome = None, error
        try:
            loop.call_soon_threadsafe(_settle_future, future, outcome)
        except RuntimeError:  # the loop is closed: no task is left to hear of it
            return

    threading.Thread(target=work, name="tool-validation", daemon=True).start()
    value, error = await _wait_for(future)
    if error is not None:
        raise error
    result: _T = value
    return result


async def _wait_for(
    future: asyncio.Future[tuple[Any, BaseException | None]],
) -> tuple[Any, BaseException | None]:
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    if cancelled is not None:
        raise cancelled
    return future.result()


def _settle_future(future: asyncio.Future[Any], outcome: Any) -> None:
    if not future.done():
        future.set_result(outcome)


def context_parameter(function: Callable[..., Any]) -> str | None:
    try:
        signature, hints = inspect.signature(function), read_hints(function)
    except (TypeError, ValueError, NameError):
        return None
    for parameter in signature.parameters.values():
        if is_context(parameter, hints):
            return parameter.name
    return None


def argument_converter(function: Callable[..., Any]) -> Conversion | None:
    """Return the converter of JSON arguments to the hints of `function`.

    A hint such as `datetime`, an enum or a dataclass asks for more than JSON gives, and a default
    that pydantic's `Field` describes is to be filled in. None when arguments fit as they are.
    """
    signature, hints = inspect.signature(function), read_hints(function)
    wanted = {
        parameter.name: hint
        for parameter in signature.parameters.values()
        if parameter.name in hints
        and parameter.kind is not inspect.Parameter.VAR_KEYWORD
        and not is_context(parameter, hints)
        and not is_native(hint := ruled_hint(parameter, hints))
    }
    suppliers = _find_suppliers(signature, hints)
    if not wanted and not suppliers:
        return None
    return Conversion(wanted, suppliers)


def adapted_handler(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a handler that takes JSON arguments and a context named `context`.

    `function` itself where it can be called like that as it is.
    """
    convert, wanted = argument_converter(function), context_parameter(function)
    if convert is None and wanted in (None, "context"):
        return function
    return _make_handler(function, convert, wanted)


def typed_handler(
    function: Callable[..., Any], declared: Mapping[str, Mapping[str, Any]]
) -> Callable[..., Any]:
    """Return a handler for the JSON arguments of a tool that a definition declares.

    `function` itself where its hints ask for no more than the definition lets through.

    Args:
        function: Sync or async; a parameter named `context` is left to the engine.
        declared: The JSON Schema of each parameter of the tool.

    Raises:
        ConfigurationError: A hint has no JSON form, or takes nothing that is declared.
    """
    try:
        taken = inspect.signature(function).parameters
    except (TypeError, ValueError):
        # Some functions written in C do not say what they take.
        return function
    wanted = {}
    for name in declared:
        if name in taken and (hint := _find_asked(function, taken[name], declared[name])):
            wanted[name] = hint
    if not wanted:
        return function
    return _make_handler(
        function, Conversion(wanted, ()), "context" if "context" in taken else None
    )


def _read_hint_of(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """Return one hint alone: others may name what is not there when the program runs."""
    source = _find_hinted(function)
    hints = getattr(source, "__annotations__", {})
    if parameter.name not in hints:
        return Any
    holder = types.SimpleNamespace(
        __annotations__={parameter.name: hints[parameter.name]},
        __type_params__=getattr(source, "__type_params__", ()),
    )
    names = getattr(source, "__globals__", {})
    try:
        read = typing.get_type_hints(holder, names, include_extras=True)
    except Exception as error:  # a hint may be any expression
        raise ConfigurationError(
            f"the type of {parameter.name!r} cannot be read: {type(error).__name__}: {error}; use "
            "one that its module has when it is imported"
        ) from error
    return ruled_hint(parameter, read)


def _find_asked(
    function: Callable[..., Any], parameter: inspect.Parameter, declared: Mapping[str, Any]
) -> Any:
    """Return a hint with all its rules; None: all that is declared fits as it is."""
    name, hint = parameter.name, _read_hint_of(function, parameter)
    if hint is Any or hint is object:
        return None
    try:
        schema, typed = read_hint(hint)
        # No schema of a definition holds these rules, as that of a function in code does.
        ruled = hint if typed is not None else readable_hint(hint)
    except UnsupportedHintError as error:
        raise ConfigurationError(f"{name!r}: {error}") from error
    has, takes = _kinds_of(declared), _kinds_of(schema)
    if not has & takes:
        raise ConfigurationError(
            f"{name!r} is declared as {' or '.join(sorted(has))}, and the function takes "
            f"{' or '.join(sorted(takes - {'null'}) or ['null'])} there ({hint!r}); make them the "
            "same"
        )
    is_covered = has <= takes and schema.keys() <= {"type"} and is_native(hint)
    return None if is_covered else ruled


def _kinds_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the types of JSON that a schema may let through."""
    said = schema.get("type", ())
    kinds = frozenset((said,) if isinstance(said, str) else said)
    if not kinds:
        return _ALL_KINDS
    return kinds | {"integer"} if "number" in kinds else kinds


def _make_handler(
    function: Callable[..., Any], convert: Conversion | None, context: str | None
) -> Callable[..., Any]:
    handler = function if convert is None else _make_converting(function, convert)
    if context is not None:
        handler = _with_context(handler, context)
    if convert is not None and convert.converts_at_once:
        setattr(handler, MISFITS, convert.misfits)
    # Not as `__wrapped__`, which would show the arguments before the adaption.
    setattr(handler, HANDLER, function)
    return handler


def _make_converting(function: Callable[..., Any], convert: Conversion) -> Callable[..., Any]:
    def call(**values: Any) -> Any:
        return function(**convert(values))

    async def call_async(**values: Any) -> Any:
        return await function(**convert(values))

    async def call_after_thread(**values: Any) -> Any:
        return await function(**await run_in_thread(lambda: convert(values)))

    if not is_async(function):
        return call
    if (only := convert.only_validator()) is not None:
        return _make_validating(function, convert, *only)
    return call_after_thread if convert.runs_code else call_async


def _make_validating(
    function: Callable[..., Any], convert: Conversion, name: str, validate: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Return what a call with one model costs least: its validation, and the function."""

    async def call_async(**values: Any) -> Any:
        if name in values:
            try:
                values[name] = validate(values[name])
            except Exception:  # noqa: BLE001 - the conversion says what is wrong
                values = convert(values)
        return await function(**values)

    return call_async


def _with_context(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*, context: ToolExecutionContext, **values: Any) -> Any:
        return function(**values, **{name: context})

    async def call_async(*, context: ToolExecutionContext, **values: Any) -> Any:
        return await function(**values, **{name: context})

    return call_async if is_async(function) else call


def field_of(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Any:
    if is_field(parameter.default):
        return parameter.default
    if parameter.default is not inspect.Parameter.empty:
        return None
    metadata = getattr(hints.get(parameter.name), "__metadata__", ())
    return next((part for part in metadata if is_field(part) and supplier_of(part)), None)


def ruled_hint(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Any:
    hint = hints[parameter.name]
    return Annotated[hint, parameter.default] if is_field(parameter.default) else hint


def _find_suppliers(signature: inspect.Signature, hints: Mapping[str, Any]) -> list[Supplier]:
    found = []
    for parameter in signature.parameters.values():
        field = field_of(parameter, hints)
        supply = None if field is None else supplier_of(field)
        if supply is not None:
            is_made = field.default_factory is not None
            judge = judge_of(ruled_hint(parameter, hints)) if is_made else None
            found.append(Supplier(parameter.name, supply, judge))
    return found


def judge_of(hint: Any) -> Judge:
    """Return what says where and why a default of `hint` misfits."""
    if (typed := read_hint(hint).typed) is not None:
        judge: Judge = typed.misfit
        return judge
    return functools.partial(find_misfit, hint=readable_hint(hint))


def is_context(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> bool:
    hint = hints.get(parameter.name)
    return (
        parameter.name == "context"
        or hint is ToolExecutionContext
        or ToolExecutionContext in typing.get_args(hint)
    )


def read_hints(function: Callable[..., Any]) -> dict[str, Any]:
    return typing.get_type_hints(_find_hinted(function), include_extras=True)


def _find_hinted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what has the annotations of a function, a partial or a callable object."""
    function = unwrap_partial(function)
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = type(function).__call__
    found: Callable[..., Any] = inspect.unwrap(function)
    return found


def unwrap_partial(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    return function
