"""How does a plain Python function become an executor?

Everything about the function is decided once: is it async, does it take the context, does it fit
the tool's parameters? A call is then one line.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from types import FunctionType
from typing import Any, Final

from tool_engine.errors import ConfigurationError, ToolExecutionError
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import ToolExecutionContext, ValidationError
from tool_engine.model.checks.unawaited import is_async
from tool_engine.model.schema import takes_others
from tool_engine.model.settings.field_default import is_field
from tool_engine.model.tool import Tool

CONTEXT: Final = "context"
_KEYWORD_KINDS: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class AsyncHandlerExecutor:
    """The executor of an async function."""

    is_async = True
    """`execute` returns the handler's own coroutine, which saves a coroutine per call."""

    def __init__(
        self, handler: Callable[..., Coroutine[Any, Any, Any]], has_context: bool | None = None
    ) -> None:
        self.handler = handler
        self._wants_context = _has_context(handler) if has_context is None else has_context
        self.misfits = _misfits_of(handler)
        self.direct = None if self._wants_context else handler
        """What may be called with the parameters as keywords in place of `execute`, or None."""

    def __repr__(self) -> str:
        return f"AsyncHandlerExecutor({_name_of_handler(self.handler)})"

    def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Coroutine[Any, Any, Any]:
        if self._wants_context:
            return self.handler(**params, context=context)
        return self.handler(**params)


class SyncHandlerExecutor:
    """The executor of a plain function; its plain `execute` runs in a thread."""

    def __init__(self, handler: Callable[..., Any], has_context: bool | None = None) -> None:
        self.handler = handler
        self._wants_context = _has_context(handler) if has_context is None else has_context
        self.misfits = _misfits_of(handler)

    def __repr__(self) -> str:
        return f"SyncHandlerExecutor({_name_of_handler(self.handler)})"

    def execute(self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext) -> Any:
        extra = {CONTEXT: context} if self._wants_context else {}
        value = self.handler(**params, **extra)
        if inspect.isawaitable(value):
            _discard_value(value)
            raise ToolExecutionError(
                f"the handler {_name_of_handler(self.handler)} of {tool.name!r} is a plain "
                "function that "
                "returns an awaitable; declare it with 'async def'"
            )
        return value


class PreparedHandler:
    """A handler whose signature was read: once, for any number of tools.

    Args:
        handler: An async or plain function.
        like: Other handlers by `signature_key`, whose signature is not read again.

    Raises:
        ConfigurationError: It cannot be called, or is a generator.
    """

    __slots__ = ("_handler", "executor", "has_context", "kind", "named", "needed", "signature")

    def __init__(
        self, handler: Callable[..., Any], like: Mapping[object, PreparedHandler] | None = None
    ) -> None:
        self._handler = handler
        self.signature: inspect.Signature | None
        self.has_context: bool
        self.named: frozenset[str]
        self.needed: frozenset[str]
        self.kind: type[AsyncHandlerExecutor | SyncHandlerExecutor]
        alike = like and like.get(signature_key(handler))
        if alike:
            self.signature, self.has_context = alike.signature, alike.has_context
            self.kind = alike.kind
            self.named, self.needed = alike.named, alike.needed
        else:
            _check_callable(handler)
            self.signature = _read_signature(handler)
            self.has_context = self.signature is not None and wants_context(self.signature)
            self.kind = AsyncHandlerExecutor if is_async(handler) else SyncHandlerExecutor
            self.named, self.needed = _read_names(self.signature)
        # A plain `execute` is part of the executor's contract; the Protocol shows the async form.
        self.executor: ToolExecutor = self.kind(handler, self.has_context)

    def check(self, tool: Tool, listed: Any = None) -> None:
        """Raise `ConfigurationError` unless it takes exactly what `tool` declares.

        Otherwise a misfit would show only when the tool is called.

        Args:
            tool: The tool.
            listed: Its parameters as its definition has them, where they are at hand: to read them
                back takes longer than the check.
        """
        if self.signature is not None and not self._is_fit_for(tool, listed):
            check_signature(self.signature, _name_of_handler(self._handler), tool)

    def _is_fit_for(self, tool: Tool, listed: Any) -> bool:
        """Return True if it takes what `tool` declares; False says nothing."""
        declared: dict[Any, Any]
        if listed.__class__ is list:
            declared = {
                each["name"]: each.get("required") is True or "default" in each for each in listed
            }
        elif tool.input_schema is None:
            declared = {each.name: each.required or each.has_default for each in tool.parameters}
        else:
            return False
        return declared.keys() <= self.named and all(declared.get(name) for name in self.needed)


def signature_key(handler: Any) -> object:
    """Return what functions with the same signature have in common; itself: it is alone.

    One `def` in a loop makes thousands of functions, with one code.
    """
    is_plain = type(handler) is FunctionType and not handler.__dict__
    if is_plain and handler.__defaults__ is handler.__kwdefaults__ is None:
        return handler.__code__
    return id(handler)


def executor_for(handler: Callable[..., Any], tool: Tool | None = None) -> ToolExecutor:
    """Return the executor for an async or plain function, checked against `tool`.

    Raises:
        ConfigurationError: `handler` cannot be called, or does not fit the tool.
    """
    prepared = PreparedHandler(handler)
    if tool is not None:
        prepared.check(tool)
    return prepared.executor


def check_handler(handler: Callable[..., Any], tool: Tool) -> None:
    """Raise `ConfigurationError` unless `handler` takes exactly what `tool` declares."""
    PreparedHandler(handler).check(tool)


def check_signature(signature: inspect.Signature, name: str, tool: Tool) -> None:
    """Check as `check_handler`, where only the signature is known; messages use `name`."""
    declared = {parameter.name: parameter for parameter in tool.parameters}
    taken = signature.parameters
    who = f"the handler {name} of tool {tool.name!r}"
    if CONTEXT in declared and wants_context(signature):
        raise ConfigurationError(
            f"{who} receives the ToolExecutionContext as 'context', but the tool declares a "
            "parameter of that name; rename the tool's parameter"
        )
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in taken.values())
    for parameter in declared:
        known = taken.get(parameter)
        if known is not None and known.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise ConfigurationError(
                f"{who} takes {parameter!r} by position only; remove the '/' from its signature"
            )
        if not takes_any and (known is None or known.kind not in _KEYWORD_KINDS):
            raise ConfigurationError(
                f"{who} does not take the declared parameter {parameter!r}; it takes "
                f"({', '.join(taken)}); give both the same names"
            )
    if not takes_any and tool.input_schema is not None and takes_others(tool.input_schema):
        raise ConfigurationError(
            f"{who} takes ({', '.join(taken)}), and its schema lets other arguments through; write "
            "additionalProperties: false, or let the function take **others"
        )
    _check_needs(taken, declared, who)


def _read_names(signature: inspect.Signature | None) -> tuple[frozenset[str], frozenset[str]]:
    """Return what a plain signature takes as keywords, and what of it each call must give."""
    taken = {} if signature is None else signature.parameters
    if any(each.kind not in _KEYWORD_KINDS for each in taken.values()):
        return frozenset(), frozenset((CONTEXT,))
    named = taken.keys() - {CONTEXT}
    needed = (name for name in named if _needs_value(taken[name]))
    return frozenset(named), frozenset(needed)


def _needs_value(parameter: inspect.Parameter) -> bool:
    is_variadic = parameter.kind in (
        inspect.Parameter.VAR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    default = parameter.default
    return not is_variadic and (default is inspect.Parameter.empty or is_field(default))


def _check_needs(
    taken: Mapping[str, inspect.Parameter], declared: Mapping[str, Any], who: str
) -> None:
    for name, known in taken.items():
        if name == CONTEXT or not _needs_value(known):
            continue
        parameter = declared.get(name)
        if parameter is None:
            raise ConfigurationError(
                f"{who} needs {name!r}, which the tool does not declare; it declares "
                f"({', '.join(declared)}); add it to parameters, give it a default in the handler, "
                "or name it context if it is the ToolExecutionContext"
            )
        if not (parameter.required or parameter.has_default):
            raise ConfigurationError(
                f"{who} needs {name!r}, which a call may leave out; make it required, or give it "
                "a default in the tool or in the handler"
            )


def _check_callable(handler: Any) -> None:
    if isinstance(handler, type):
        raise ConfigurationError(
            f"a handler must be a function or an object, not the class {handler.__name__}"
        )
    if not callable(handler):
        hint = (
            "; it is an executor: pass it to register_executor"
            if hasattr(handler, "execute")
            else ""
        )
        raise ConfigurationError(
            f"a handler must be a function, got {type(handler).__name__}{hint}"
        )
    if any(check(part) for part in _find_calls(handler) for check in _GENERATORS):
        raise ConfigurationError(
            f"the handler {_name_of_handler(handler)} is a generator; return the whole value "
            "instead"
        )


_GENERATORS: Final = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)


def _misfits_of(handler: Any) -> Callable[[Mapping[str, Any]], list[ValidationError]] | None:
    """Return a function that finds arguments that do not convert; None: all do."""
    return getattr(handler, "misfits", None)


def _find_calls(handler: Any) -> tuple[Any, Any]:
    """Return what runs when `handler` is called: itself, and its class's `__call__`."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return handler, type(handler).__call__


def _read_signature(handler: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(handler)
    except (ValueError, TypeError):
        # Some functions written in C do not say what they take.
        return None


def _has_context(handler: Callable[..., Any]) -> bool:
    signature = _read_signature(handler)
    return signature is not None and wants_context(signature)


def wants_context(signature: inspect.Signature) -> bool:
    known = signature.parameters.get(CONTEXT)
    return known is not None and known.kind in _KEYWORD_KINDS


def _name_of_handler(handler: Any) -> str:
    call = _find_calls(handler)[0]
    return str(getattr(call, "__qualname__", None) or type(call).__qualname__)


def _discard_value(value: Any) -> None:
    close = getattr(value, "close", None) or getattr(value, "cancel", None)
    if close is not None:
        close()
