"""What is wrong with a message by the official SDK's own types of what may be sent?

The parameter types of OpenAI's and Anthropic's SDKs are `TypedDict`s that say which fields have to
be there, be they null; Gemini's are models that forbid what they do not know.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, Final, NotRequired, Required

from anthropic.types import MessageParam
from google.genai.types import Content
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import ValidationError
from typing_extensions import get_type_hints, is_typeddict

__all__ = ["PARAMETERS", "message_faults", "required_nulls", "value_faults"]

PARAMETERS: Final[dict[str, Any]] = {
    "openai": ChatCompletionMessageParam,
    "openai_responses": ResponseInputItemParam,
    "anthropic": MessageParam,
}
"""Wire -> the type of one message, or item, of a conversation."""
_WRAPPERS: Final = (Required, NotRequired, typing.Annotated)


def message_faults(wire: str, messages: Sequence[Any]) -> list[str]:
    """What is wrong with the messages of a conversation, in words."""
    if wire != "gemini":
        hint = PARAMETERS[wire]
        return [
            f"message {place}{fault}"
            for place, each in enumerate(messages)
            for fault in value_faults(each, hint)
        ]
    found = []
    for place, each in enumerate(messages):
        try:
            Content.model_validate(each)
        except ValidationError as error:
            found.append(f"message {place}: {error}")
    return found


def value_faults(value: Any, hint: Any) -> list[str]:
    """What keeps a value from being one of the type; of a union, what is least wrong."""
    return _look_at(hint)(value)


@cache
def _look_at(hint: Any) -> Callable[[Any], list[str]]:
    """What tells the faults of a value of this type: types are taken apart once."""
    hint, _ = _unwrapped(hint)
    if is_typeddict(hint):
        return partial(_object_faults, hint)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return partial(_union_faults, [_look_at(each) for each in inner])
    if origin is typing.Literal:
        return lambda value: [] if value in inner else [f": {value!r} is none of {inner}"]
    if hint in (Any, object, typing.Any) or isinstance(hint, typing.TypeVar | str):
        return lambda _: []
    return partial(_plain_faults, origin or hint, inner)


def required_nulls(hint: Any) -> Iterator[tuple[str, str]]:
    """The fields that have to be there and may be null: the type they are in, and their name."""
    seen: set[Any] = set()
    waiting = [hint]
    while waiting:
        each, _ = _unwrapped(waiting.pop())
        if not is_typeddict(each):
            waiting += [inner for inner in typing.get_args(each) if not isinstance(inner, str)]
        elif each not in seen:
            seen.add(each)
            for name, (field, is_required) in _fields(each).items():
                waiting.append(field)
                if is_required and type(None) in typing.get_args(field):
                    yield each.__name__, name


def _union_faults(alternatives: Sequence[Callable[[Any], list[str]]], value: Any) -> list[str]:
    """None if an alternative fits; else those of the one that is of the same kind."""
    found = []
    for each in alternatives:
        faults = each(value)
        if not faults:
            return []
        found.append(faults)
    return min(found, key=lambda each: (len(each), "type" in "".join(each)))


def _object_faults(hint: Any, value: Any) -> list[str]:
    if not isinstance(value, dict):
        return [f": {value!r:.60} is no {hint.__name__}"]
    found = []
    for name, (field, is_required) in _fields(hint).items():
        if name in value:
            inner = _look_at(field)(value[name])
            # An object of another kind is none of this one, whatever else is in it.
            found += [f".{name}{fault}" for fault in inner * (9 if name in _KINDS else 1)]
        elif is_required:
            found.append(f".{name}: has to be there, in {hint.__name__}")
    return found


_KINDS: Final = ("type", "role")


def _plain_faults(kind: Any, inner: tuple[Any, ...], value: Any) -> list[str]:
    if not isinstance(kind, type) and kind is not None:
        return []
    name = getattr(kind, "__name__", "null")
    expected = next((each for known, each in _PLAIN.items() if kind is known), None)
    if expected is not None or kind is None:
        is_one = value is None if kind is None else isinstance(value, expected or ())
        is_flag = isinstance(value, bool) and kind in (int, float)
        return [] if is_one and not is_flag else [f": {value!r:.60} is no {name}"]
    if issubclass(kind, typing.Mapping):
        return [] if isinstance(value, dict) else [f": {value!r:.60} is no object"]
    if not issubclass(kind, typing.Iterable) or not isinstance(value, list):
        # Files and models of the SDK are nothing that is sent here.
        return [f": {value!r:.60} is no {name}"]
    look = _look_at(inner[0] if inner else Any)
    return [f"[{place}]{fault}" for place, each in enumerate(value) for fault in look(each)]


_PLAIN: Final[dict[Any, tuple[type, ...]]] = {
    str: (str,),
    bytes: (bytes,),
    bool: (bool,),
    int: (int,),
    float: (int, float),
    type(None): (type(None),),
}
"""A type without parts -> what may stand for it."""


@cache
def _fields(hint: Any) -> dict[str, tuple[Any, bool]]:
    """Name -> its type, and whether it has to be there."""
    found = get_type_hints(hint, include_extras=True)
    is_total = getattr(hint, "__total__", True)
    return {name: _unwrapped(each, is_required=is_total) for name, each in found.items()}


def _unwrapped(hint: Any, *, is_required: bool = False) -> tuple[Any, bool]:
    while typing.get_origin(hint) in _WRAPPERS:
        if typing.get_origin(hint) is Required:
            is_required = True
        elif typing.get_origin(hint) is NotRequired:
            is_required = False
        hint = typing.get_args(hint)[0]
    return hint, is_required
