"""Which fields beyond OpenAI's do servers want back with a reply?

Servers in front of models that reason send signatures and reasoning under keys of their own, and
refuse a conversation in which they are missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tool_engine.protocols.chunks import dump_object, read_field

_REASONING: Final = ("reasoning_content", "reasoning")
_DETAILS: Final = "reasoning_details"
"""OpenRouter's: https://openrouter.ai/docs/use-cases/reasoning-tokens"""
_EXTRA: Final = frozenset({"extra_content", "provider_specific_fields"})
"""Gemini's signatures: https://ai.google.dev/gemini-api/docs/thought-signatures, and LiteLLM's."""
_ALL: Final = _EXTRA.union(_REASONING, (_DETAILS,))
_GROWING: Final = ("text", "summary", "data")


def _list_undeclared(value: Any) -> Any:
    """Return the fields that the SDK's classes do not declare; None: unknown."""
    is_mapping = type(value) is dict or isinstance(value, Mapping)
    return value if is_mapping else getattr(value, "model_extra", None)


def get_undeclared(value: Any, name: str) -> Any:
    """Return an undeclared field of an SDK object, faster than `field`."""
    extra = _list_undeclared(value)
    return read_field(value, name) if extra is None else extra.get(name)


def copy_extra(value: Any) -> dict[str, Any]:
    extra = _list_undeclared(value)
    if extra is not None and _EXTRA.isdisjoint(extra):
        return {}
    found = {name: dump_object(get_undeclared(value, name)) for name in sorted(_EXTRA)}
    return {name: each for name, each in found.items() if isinstance(each, dict) and each}


class KeptFields:
    """The fields that go back with a message, joined from its deltas."""

    def __init__(self) -> None:
        self._extra: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._details: list[_Detail] = []

    def take(self, delta: Any) -> str | None:
        """Take a delta's fields, and return the reasoning that it adds.

        Servers that send it under two keys send the same text twice.
        """
        extra = _list_undeclared(delta)
        if extra is not None and _ALL.isdisjoint(extra):
            return None
        self._extra.update(copy_extra(delta))
        details = get_undeclared(delta, _DETAILS)
        for each in details if isinstance(details, list | tuple) else ():
            self._add_detail(dump_object(each))
        thoughts = [(key, get_undeclared(delta, key)) for key in _REASONING]
        written = [(key, text) for key, text in thoughts if isinstance(text, str) and text]
        for key, text in written:
            self._texts.setdefault(key, []).append(text)
        return written[0][1] if written else None

    def fields(self) -> dict[str, Any]:
        texts = {key: "".join(parts) for key, parts in self._texts.items()}
        joined = [each.join() for each in self._details]
        details = {_DETAILS: joined} if joined else {}
        return {**texts, **details, **self._extra}

    def _add_detail(self, detail: Any) -> None:
        if not self._details or not self._details[-1].add(detail):
            self._details.append(_Detail(detail))


class _Detail:
    def __init__(self, value: Any) -> None:
        self._value = value
        self._parts: dict[str, list[str]] = {}

    def add(self, more: Any) -> bool:
        value = self._value
        if not isinstance(value, dict) or not isinstance(more, dict) or more.get("index") is None:
            return False
        if any(more.get(key) != value.get(key) for key in ("index", "type")):
            return False
        for key, item in more.items():
            if key in _GROWING and isinstance(item, str) and isinstance(value.get(key), str):
                self._parts.setdefault(key, [value[key]]).append(item)
            elif item is not None:
                value[key] = item
        return True

    def join(self) -> Any:
        texts = {key: "".join(parts) for key, parts in self._parts.items()}
        return {**self._value, **texts} if texts else self._value
