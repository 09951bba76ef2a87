"""How is a value, a place or a rule put into words, short and without secrets?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from tool_engine.redaction import HIDDEN, is_secret_key, redact
from tool_engine.validation.shape import Path

MAX_TEXT: Final = 200
"""The most characters of a value that are repeated to a model."""
_MAX_KEY: Final = 64
_MAX_ITEMS: Final = 20
_MAX_DEPTH: Final = 4
# Longer than what is shown, so that a secret is seen as a whole before the text is cut.
_MAX_READ: Final = 4096
_MAX_DIGITS_BITS: Final = 1024
_PLAIN_KEY: Final = re.compile(r"[^\s.\[\]\"']+")
_NOUNS: Final = {
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


def write_noun(type_name: str) -> str:
    """Return a JSON type with its article, such as `an integer`."""
    return _NOUNS.get(type_name, type_name)


def type_of(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "boolean", str: "string", int: "integer", float: "number", list: "array"}
    return names.get(type(value), "object")


def cut_text(text: str, limit: int = MAX_TEXT) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def path_text(path: Path) -> str:
    """Return a path as people write it: `headers.accept`, `items[2].name`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif not text:
            text = _key_text(step)
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{_key_text(step)}"
        else:
            text += f"[{json.dumps(_key_text(step), ensure_ascii=False)}]"
    return text


def name_subject(path: Path) -> str:
    """Return what a message is about: the quoted path, or the arguments as a whole."""
    return f"'{path_text(path)}'" if path else "the arguments"


def show_value(value: Any, path: Path, secrets: frozenset[str]) -> Any:
    """Return a short copy of `value` to repeat: JSON values, bounded, secrets hidden."""
    keys = [step for step in path if isinstance(step, str)]
    # Arguments that came as one text cannot be distinguished.
    is_mixture = bool(secrets) and not path and isinstance(value, str)
    if is_mixture or not secrets.isdisjoint(keys) or any(map(is_secret_key, keys)):
        return HIDDEN if value is not None else None
    value = redact(_bound_value(value, 0), secrets, secrets)
    if isinstance(value, str):
        return cut_text(value)
    return value if len(json_text(value, limit=None)) <= MAX_TEXT else json_text(value)


def json_text(value: Any, limit: int | None = MAX_TEXT) -> str:
    """Return `value` as JSON on one line, cut to `limit`."""
    text = json.dumps(value, ensure_ascii=False)
    return text if limit is None else cut_text(text, limit)


def text_of(value: Any) -> str:
    """Return a value as short JSON, whatever its size."""
    return json_text(_bound_value(value, 0))


def list_values(values: Iterable[Any]) -> str:
    """Return values as JSON, separated by commas, cut where the list grows long."""
    text = ""
    for value in values:
        if len(text) > MAX_TEXT:
            break
        text += (", " if text else "") + json_text(_bound_value(value, 0), _MAX_KEY)
    return cut_text(text)


def _key_text(key: str) -> str:
    return cut_text(str(redact(_make_encodable(key[:_MAX_READ]))), _MAX_KEY)


def _make_encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _bound_value(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _make_encodable(value[:_MAX_READ])
    if isinstance(value, int) and value.bit_length() > _MAX_DIGITS_BITS:
        return f"a number of about {int(value.bit_length() * 0.30103) + 1} digits"
    if isinstance(value, list | dict) and depth >= _MAX_DEPTH:
        return "…"
    if isinstance(value, list):
        items = [_bound_value(item, depth + 1) for item in value[:_MAX_ITEMS]]
        return items if len(value) <= _MAX_ITEMS else [*items, f"… {len(value)} items"]
    if isinstance(value, dict):
        entries = [
            (_make_encodable(str(key)[:_MAX_READ]), _bound_value(item, depth + 1))
            for key, item, _ in zip(value, value.values(), range(_MAX_ITEMS), strict=False)
        ]
        more = [("…", f"{len(value)} keys")] if len(value) > _MAX_ITEMS else []
        return dict(entries + more)
    return value
