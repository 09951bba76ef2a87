"""Tool lists of public servers, and lists of functions, with arguments for each tool.

`real_lists.json` holds what the schemas say: names, types, formats, bounds, defaults, references
and oddities. Of each description and title it has the length; the words are made here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import jsonschema

from tests.effort import IS_WHOLE
from tool_engine.testing.patterns import NoValueError, TextMaker

HOLD_MANY: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
HOLD_LIST: Final = ("prefixItems", "allOf", "anyOf", "oneOf")
HOLD_ONE: Final = (
    *("items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else"),
    "additionalItems",
)
SAMPLES: Final[dict[str, str]] = {
    "date-time": "2026-01-31T10:20:30Z",
    "date": "2026-01-31",
    "time": "10:20:30Z",
    "duration": "P1DT2H",
    "email": "a@example.com",
    "uri": "https://example.com/a",
    "uri-reference": "/a/b",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "regex": "^a+$",
}
"""A text of each format that is checked; any other counts as wrong here."""
WRONG: Final[tuple[Any, ...]] = ("\x00 no", -7, 2.5, True, None, [], [None], {}, {"none": 1})
WORDS: Final = "what this is for and how it is used "


def read_lists() -> dict[str, list[dict[str, Any]]]:
    """Where each list comes from, with its version -> its tools."""
    text = Path(__file__).with_name("real_lists.json").read_text(encoding="utf-8")
    return {
        origin: [_with_words(tool) for tool in tools] for origin, tools in json.loads(text).items()
    }


def _with_words(tool: dict[str, Any]) -> dict[str, Any]:
    hints = tool.get("annotations")
    schemas = ("inputSchema", "outputSchema", "parameters")
    return {
        **{key: _words(value) if type(value) is int else value for key, value in tool.items()},
        **({"annotations": {k: _text(v) for k, v in hints.items()}} if hints else {}),
        **{key: _schema_with_words(tool[key]) for key in schemas if key in tool},
    }


def _schema_with_words(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_schema_with_words(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = dict(schema)
    for key, value in schema.items():
        if key in ("description", "title", "$comment"):
            found[key] = _text(value)
        elif key in HOLD_MANY and isinstance(value, dict):
            found[key] = {name: _schema_with_words(each) for name, each in value.items()}
        elif key in HOLD_LIST or key in HOLD_ONE:
            found[key] = _schema_with_words(value)
    return found


def _text(value: Any) -> Any:
    return _words(value) if type(value) is int else value


def _words(length: int) -> str:
    return (WORDS * (length // len(WORDS) + 1))[:length]


class Judge:
    """Whether arguments are right, by another validator."""

    def __init__(self, schema: dict[str, Any], declared: set[str], *, takes_others: bool) -> None:
        kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        self._rules = kind(schema, format_checker=_formats())
        self._declared = declared
        self._takes_others = takes_others

    def accepts(self, sent: dict[str, Any]) -> bool:
        """Judge what is left of arguments: the undeclared are left out, and a null for nothing."""
        if self._rules.is_valid(sent):
            return True
        named = {k: v for k, v in sent.items() if self._takes_others or k in self._declared}
        given = {k: v for k, v in named.items() if v is not None}
        return self._rules.is_valid(named) or self._rules.is_valid(given)


@cache
def _formats() -> jsonschema.FormatChecker:
    checker = jsonschema.FormatChecker(())
    for name, right in SAMPLES.items():
        checker.checks(name)(
            lambda value, right=right: not isinstance(value, str) or value == right
        )
    return checker


def arguments_for(schema: dict[str, Any], random: Random) -> Iterator[dict[str, Any]]:
    """Yield arguments that are likely right, then such with one part that is likely wrong."""
    maker = _Maker(schema, random)
    shares = (0.0, 0.5, 0.5, 1.0, 1.0) if IS_WHOLE else (0.0, 0.5, 1.0)
    likely = [maker.make(schema, 0, share) for share in shares]
    likely = [each for each in likely if isinstance(each, dict)]
    spoilt = [maker.spoil(each) for each in likely]
    yield from likely
    yield from (each for each in spoilt if isinstance(each, dict))
    yield from ({**each, "no_such_argument": 1} for each in likely[-1:])


class _Maker:
    def __init__(self, root: dict[str, Any], random: Random) -> None:
        self._root, self._random = root, random

    def make(self, schema: Any, depth: int, share: float) -> Any:
        """Make a value that likely fits, with this share of what is optional."""
        schema = self._merge(schema)
        if "const" in schema or schema.get("enum"):
            return schema["const"] if "const" in schema else self._random.choice(schema["enum"])
        kind = schema.get("type", self._guess_type(schema))
        kind = self._random.choice(kind) if isinstance(kind, list) and kind else kind
        if kind == "object":
            return self._make_object(schema, depth, share)
        if kind == "array":
            return self._make_list(schema, depth, share)
        if kind in ("integer", "number"):
            return self._make_number(schema, kind)
        if kind == "string":
            return self._make_text(schema)
        return {"boolean": True, "null": None}.get(kind, "any")

    def spoil(self, value: Any) -> Any:
        """Replace, take out or add one part somewhere in a copy."""
        if self._random.random() < 0.3 or not isinstance(value, dict | list) or not value:
            return self._random.choice(WRONG)
        if isinstance(value, list):
            at = self._random.randrange(len(value))
            return [*value[:at], self.spoil(value[at]), *value[at + 1 :]]
        key = self._random.choice(sorted(value))
        if self._random.random() < 0.3:
            return {name: each for name, each in value.items() if name != key}
        return {**value, key: self.spoil(value[key])}

    def _merge(self, schema: Any) -> dict[str, Any]:
        """Bring what applies to a value into one schema, with one form of each union."""
        found: dict[str, Any] = {}
        waiting = [schema]
        while waiting:
            each = waiting.pop()
            if not isinstance(each, dict):
                continue
            pointer = each.get("$ref")
            if isinstance(pointer, str) and len(waiting) < 50:
                waiting.append(self._look_up(pointer))
            waiting += each.get("allOf", ())
            waiting += [
                self._random.choice(each[key]) for key in ("anyOf", "oneOf") if each.get(key)
            ]
            for key, value in each.items():
                if key == "properties":
                    found[key] = {**found.get(key, {}), **value}
                else:
                    found[key] = [*found.get(key, ()), *value] if key == "required" else value
        return found

    def _look_up(self, pointer: str) -> Any:
        found: Any = self._root
        for step in pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found[int(name)] if isinstance(found, list) else found.get(name, {})
        return found

    def _guess_type(self, schema: dict[str, Any]) -> str:
        return "object" if "properties" in schema else "array" if "items" in schema else "string"

    def _make_object(self, schema: dict[str, Any], depth: int, share: float) -> dict[str, Any]:
        required = schema.get("required", ())
        made = {
            name: self.make(each, depth + 1, share)
            for name, each in schema.get("properties", {}).items()
            if name in required or (depth < 4 and self._random.random() < share)
        }
        rest = schema.get("additionalProperties")
        if not made and isinstance(rest, dict) and depth < 6:
            made["key"] = self.make(rest, depth + 1, share)
        return made

    def _make_list(self, schema: dict[str, Any], depth: int, share: float) -> list[Any]:
        first = schema.get("prefixItems", ())
        rest, least = schema.get("items", {}), schema.get("minItems", 0)
        if isinstance(rest, list):
            first, rest = rest, schema.get("additionalItems", {})
        made = [self.make(each, depth + 1, share) for each in first]
        more = max(least - len(made), 0 if first or depth > 5 else 1)
        return made + [self.make(rest, depth + 1, share) for _ in range(more)]

    def _make_number(self, schema: dict[str, Any], kind: str) -> Any:
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        low = -high if low is None and isinstance(high, int | float) and high < 1 else low or 0
        step = schema.get("multipleOf", 1)
        likely = [low, low + step, high, 1]
        if kind == "number" and isinstance(high, int | float):
            likely.append((low + high) / 2)
        return self._random.choice([each for each in likely if each is not None])

    def _make_text(self, schema: dict[str, Any]) -> str:
        if schema.get("format") in SAMPLES:
            return SAMPLES[schema["format"]]
        if "pattern" in schema:
            try:
                return TextMaker(schema["pattern"], self._random).make(0, 40)
            except (NoValueError, ValueError):
                return "a"
        least = schema.get("minLength", 0)
        return "text"[: schema.get("maxLength", 4)].ljust(least, "x")
