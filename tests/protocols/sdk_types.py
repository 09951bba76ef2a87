"""What is wrong with a message by the official SDK's own types of what may be sent?

The parameter types of OpenAI's and Anthropic's SDKs are `TypedDict`s that say which fields have to
be there, be they null; Gemini's are models that forbid what they do not know.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Sequence
from functools import cache
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
    hint, _ = _unwrapped(hint)
    if is_typeddict(hint):
        return [*_object_faults(value, hint)]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _best([value_faults(value, each) for each in inner])
    if origin is typing.Literal:
        return [] if value in inner else [f": {value!r} is none of {inner}"]
    if hint in (Any, object, typing.Any) or isinstance(hint, typing.TypeVar | str):
        return []
    return _plain_faults(value, origin or hint, inner)


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


def _best(faults: list[list[str]]) -> list[str]:
    """Of the alternatives, one that fits; else the one that is of the same kind."""
    return min(faults, key=lambda each: (len(each), "type" in "".join(each)), default=[])


def _object_faults(value: Any, hint: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f": {value!r:.60} is no {hint.__name__}"
        return
    for name, (field, is_required) in _fields(hint).items():
        if name in value:
            inner = value_faults(value[name], field)
            # An object of another kind is none of this one, whatever else is in it.
            yield from (f".{name}{fault}" for fault in inner * (9 if name in _KINDS else 1))
        elif is_required:
            yield f".{name}: has to be there, in {hint.__name__}"


_KINDS: Final = ("type", "role")


def _plain_faults(value: Any, kind: Any, inner: tuple[Any, ...]) -> list[str]:
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
    each_hint = inner[0] if inner else Any
    return [
        f"[{place}]{fault}"
        for place, each in enumerate(value)
        for fault in value_faults(each, each_hint)
    ]


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
