"""What does a user consent to: which definition and which code?

A definition has a hash; a `Tool` built by hand is hashed by its fields. Code is hashed by its own
instructions and its default texts and numbers. Not covered: what it calls, closes over or reads
while running, code in another process, and the engine's own code.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Iterator
from importlib import import_module
from types import CodeType
from typing import Any, Final

import msgspec

from tool_engine.approval.preview import executor_of_call
from tool_engine.model.checks.own_code import code_behind, is_own
from tool_engine.model.foreign import ends_caller
from tool_engine.model.tool import Tool

_OF_FILE: Final = frozenset({"source", "findings"})
"""Fields about where a tool comes from, not what it is."""
_FIXED: Final = (str, bytes, int, float, bool, type(None))


def making_of(tool: Tool, source: str = "") -> str:
    """Return a hash of the tool's version, definition and code.

    `source` is the engine that has it and its name there: of two tools that are alike, one may work
    on a copy and the other on the original.
    """
    definition = tool.definition_hash or _fields_of(tool)
    said = "\n".join(
        (tool.version, definition, code_of(executor_of_call()), *filter(None, [source]))
    )
    return _hash_data(said.encode("utf-8", "surrogatepass"))


def place_of(tool: Tool, engine: str, called_name: str, *, is_nested: bool) -> str:
    """Return the engine and name that a call goes to, for `making_of`.

    The tool's own name adds nothing, and in a call made by a tool, `called_name` is the tool that
    makes it.
    """
    return engine if is_nested or called_name == tool.name else f"{engine} {called_name}".strip()


def code_of(executor: object) -> str:
    """Return a hash of the code behind an executor; empty without code."""
    code = code_behind(executor)
    if code is None:
        return ""
    try:
        said = "\n".join(_describe_code(code))
    except BaseException as error:  # a foreign object may raise anything when it is looked at
        if ends_caller(error):
            raise
        return ""
    return said and _hash_data(said.encode("utf-8", "surrogatepass"))


def _describe_code(code: Any) -> Iterator[str]:
    while isinstance(code, functools.partial):
        yield from _describe_values((*code.args, *code.keywords.values()))
        code = code.func
    code = inspect.unwrap(code) if callable(code) else code
    code = getattr(code, "__func__", code)
    if hasattr(code, "__code__"):
        yield from _of_function(code)
    elif inspect.isroutine(code):
        yield f"{code.__module__}.{code.__qualname__}"
    else:
        yield from _of_class(type(code))


def _of_class(kind: type) -> Iterator[str]:
    for each in kind.__mro__:
        if each is object or is_own(each):
            continue
        for name, member in sorted(vars(each).items(), key=lambda pair: pair[0]):
            function = inspect.unwrap(getattr(member, "__func__", member)) if member else member
            if hasattr(function, "__code__"):
                yield name
                yield from _of_function(function)


def _of_function(function: Any) -> Iterator[str]:
    if is_own(function):
        return
    yield _of_code(function.__code__)
    yield from _describe_values(function.__defaults__ or ())
    yield from _describe_values((function.__kwdefaults__ or {}).values())


def _describe_values(values: Iterable[Any]) -> Iterator[str]:
    for each in values:
        # A list or a closure variable may change after each call.
        if isinstance(each, _FIXED):
            yield repr(each)


@functools.lru_cache(maxsize=1024)
def _of_code(code: CodeType) -> str:
    """Return a hash that is the same in one Python version."""
    constants = [
        _of_code(c) if isinstance(c, CodeType) else _write_constant(c) for c in code.co_consts
    ]
    parts = (code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, constants)
    return _hash_data(repr(parts).encode("utf-8", "surrogatepass"))


def _write_constant(value: object) -> str:
    # A set has another order in each process.
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _fields_of(tool: Tool) -> str:
    names = [name for name in tool.__struct_fields__ if name not in _OF_FILE]
    values = [getattr(tool, name) for name in names]
    encode = functools.partial(msgspec.json.encode, enc_hook=_of_object, order="deterministic")
    try:
        said = encode(values)
    except (TypeError, ValueError):
        said = repr(values).encode("utf-8", "surrogatepass")
    return _hash_data(said)


def _of_object(value: object) -> list[Any]:
    # Two such values cannot be compared except by identity.
    return [type(value).__qualname__, id(value)]


def _hash_data(data: bytes) -> str:
    # Loaded by name: most programs ask for no consent.
    return str(import_module("hashlib").sha256(data).hexdigest())
