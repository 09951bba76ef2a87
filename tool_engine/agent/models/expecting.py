"""Does a request still fit the conversation that was recorded?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tool_engine.agent.models.script import Expectation
from tool_engine.model.chat import ChatRequest
from tool_engine.protocols.chunks import field, plain

_OWN_ROLES: Final = frozenset({"assistant", "model"})
_OWN_ITEMS: Final = frozenset({"function_call", "reasoning"})
_MARKS: Final = frozenset({"role", "type"})
_SHOWN: Final = 300


def misfit(expected: Expectation, request: ChatRequest, sent_names: Mapping[str, str]) -> str:
    """Return what of `expected` the request lacks, in words; empty: nothing.

    `sent_names` holds the name sent to the provider, for each expected tool.
    """
    last = plain(_last_said(request.messages))
    said = "\n".join(_texts(last))
    # Results may be objects, which a script quotes as JSON.
    written = json.dumps(last, ensure_ascii=False, default=str)
    for text in _listed(expected.contains):
        if text not in said and text not in written:
            return f"the last messages do not hold {text!r}; they say {_shown(said)}"
    for text in _listed(expected.system):
        if text not in request.system:
            return f"the system prompt does not hold {text!r}; it says {_shown(request.system)}"
    told = tools_told(request.tools)
    for name in expected.tools:
        if sent_names[name] not in told and (request.tools or name not in request.system):
            return f"the model is not told of the tool {name!r}, but of {sorted(told) or 'none'}"
    if expected.may_call not in (None, request.may_call):
        return f"may_call is {request.may_call}, not {expected.may_call}"
    return ""


def tools_told(tools: Any) -> set[str]:
    if not isinstance(tools, list | tuple):
        return set()
    declared: list[Any] = []
    for tool in tools:
        listed = field(tool, "functionDeclarations")
        declared += listed if isinstance(listed, list) else [field(tool, "function", tool)]
    return {name for each in declared if isinstance(name := field(each, "name"), str)}


def _last_said(messages: Sequence[Any]) -> list[Any]:
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if field(message, "role") in _OWN_ROLES or field(message, "type") in _OWN_ITEMS:
            return list(messages[place + 1 :])
    return list(messages)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if key not in _MARKS:
                yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _listed(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
