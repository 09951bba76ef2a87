"""Which generated arguments fit a tool's parameters?

They are made from the schema, keyword by keyword, independently of the validator that must accept
them. Extremes are frequent: the least and the greatest number, the shortest and the longest text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from tool_engine.model.json.references import resolve_pointer
from tool_engine.testing.patterns import MAX_TEXT, NoValueError, TextMaker, plain_text

ANNOTATIONS: Final = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "$comment",
        "readOnly",
        "writeOnly",
    }
)
_UNDERSTOOD: Final = ANNOTATIONS | {
    *("type", "enum", "const", "pattern", "minLength", "maxLength"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("items", "minItems", "maxItems", "uniqueItems"),
    *("properties", "required", "additionalProperties", "anyOf"),
}
_OF_ALL: Final = _UNDERSTOOD - {"anyOf", "enum", "const"} | {"$schema", "$defs", "definitions"}
_ANY_TYPE: Final = ("string", "number", "integer", "boolean", "array", "object", "null")
_DEEPEST: Final = 20
_FEW_LEVELS: Final = 3
_MAX_VALUES: Final = 10_000
_MORE_TEXT: Final = 40
_MORE_ITEMS: Final = 3
_SPAN: Final = 1_000
_EDGES: Final = ("exclusiveMinimum", "exclusiveMaximum")


class ArgumentMaker:
    """Generates arguments that fit.

    Args:
        schema: The tool's `parameters_schema`.
        random: Makes the choices.
        known: Arguments that fit, such as the definition's examples; their values stand in for
            what cannot be made from the schema.
    """

    def __init__(
        self, schema: Mapping[str, Any], random: Random, known: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        self._schema = schema
        self._random = random
        self._known = known
        self._left = 0
        self._texts: dict[str, TextMaker] = {}
        self._depth = 0
        self.notes: dict[str, str] = {}
        """Parameter -> why no value could be made for it."""

    def arguments(self, *, whole: bool = False, may_lack: bool = False) -> dict[str, Any]:
        """Return arguments that fit.

        Args:
            whole: Whether all optional parameters are included and lists are non-empty if allowed.
            may_lack: Whether to leave out a required parameter for which no value can be made.

        Raises:
            NoValueError: A required parameter has no value that could be made.
        """
        for keyword in self._schema:
            if keyword not in _OF_ALL:
                raise NoValueError(f"no arguments are made where all of them have {keyword!r}")
        made: dict[str, Any] = {}
        required = self._schema.get("required", ())
        for name, schema in self._schema.get("properties", {}).items():
            if not whole and name not in required and self._random.random() < 0.4:
                continue
            self._left = _MAX_VALUES
            try:
                made[name] = self._make_value(schema, whole)
            except NoValueError as error:
                known = [each[name] for each in self._known if name in each]
                if known:
                    made[name] = self._random.choice(known)
                elif name in required and not may_lack:
                    raise NoValueError(
                        f"no value can be made for the required parameter {name!r}; give the "
                        f"definition an example: {error}"
                    ) from None
                self.notes[name] = f"{error}; {'an example is used' if known else 'left out'}"
        return made

    def text_maker(self, pattern: str) -> TextMaker:
        """Return the maker of texts for `pattern`, or raise `NoValueError`."""
        maker = self._texts.get(pattern)
        if maker is None:
            maker = self._texts[pattern] = TextMaker(pattern, self._random)
        return maker

    def _make_value(self, schema: Any, whole: bool) -> Any:
        self._left -= 1
        if self._left < 0:
            raise NoValueError(f"a value of more than {_MAX_VALUES} parts is not made")
        if not isinstance(schema, dict):
            schema = {}
        if "$ref" in schema:
            return self._make_referenced(schema, whole)
        for keyword in schema:
            if keyword not in _UNDERSTOOD:
                raise NoValueError(f"no values are made from the keyword {keyword!r}")
        if "anyOf" in schema:
            return self._make_value(self._one_branch(schema), whole)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._random.choice(_fitting_options(schema))
        kind = self._random.choice(types_of(schema) or _ANY_TYPE)
        return self._of_kind(kind, schema, whole)

    def _make_referenced(self, schema: dict[str, Any], whole: bool) -> Any:
        beside = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
        meant = resolve_pointer(self._schema, schema["$ref"])
        if not isinstance(meant, dict) or (beside.keys() - ANNOTATIONS) & meant.keys():
            raise NoValueError("no values are made where a $ref has other rules beside it")
        self._depth += 1
        try:
            if self._depth > _DEEPEST:
                raise NoValueError(f"no values are made of more than {_DEEPEST} levels of a $ref")
            return self._make_value({**meant, **beside}, whole and self._depth < _FEW_LEVELS)
        finally:
            self._depth -= 1

    def _of_kind(self, kind: str, schema: dict[str, Any], whole: bool) -> Any:
        if kind == "string":
            return self._make_text(schema)
        if kind == "integer":
            return self._make_integer(schema)
        if kind == "number":
            return self._make_number(schema)
        if kind == "boolean":
            return self._random.random() < 0.5
        if kind == "array":
            return self._make_list(schema, whole)
        return self._make_object(schema, whole) if kind == "object" else None

    def _one_branch(self, schema: dict[str, Any]) -> dict[str, Any]:
        outer = {keyword: value for keyword, value in schema.items() if keyword != "anyOf"}
        branch = self._random.choice(schema["anyOf"])
        if not isinstance(branch, dict) or (outer.keys() - ANNOTATIONS) & branch.keys():
            raise NoValueError("no values are made where anyOf repeats a keyword beside it")
        return {**outer, **branch}

    def _picks_optional(self) -> bool:
        """Return True where a value is made that may be left out; never in many references."""
        return self._depth < _FEW_LEVELS and self._random.random() < 0.6

    def _make_text(self, schema: dict[str, Any]) -> str:
        least = int(schema.get("minLength", 0))
        most = int(schema.get("maxLength", least + _MORE_TEXT))
        if least > MAX_TEXT:
            raise NoValueError(f"texts of more than {MAX_TEXT} characters are not made")
        if "pattern" in schema:
            limit = int(schema.get("maxLength", MAX_TEXT))
            return self.text_maker(schema["pattern"]).make(least, limit)
        length = self._pick_between(least, min(most, MAX_TEXT))
        self._left -= length // 10
        return plain_text(self._random, length)

    def _pick_between(self, least: int, most: int) -> int:
        """Return a whole number between the two, often one of them."""
        if least > most:
            raise NoValueError(f"nothing lies between {least} and {most}")
        return self._random.choice((least, most, self._random.randint(least, most)))

    def _make_integer(self, schema: dict[str, Any]) -> int:
        low, high = _range_of(schema)
        step = schema.get("multipleOf", 1)
        if not float(step).is_integer():
            raise NoValueError(f"no values are made for multipleOf {step}")
        step = int(step)
        first, last = -_SPAN * step, _SPAN * step
        if low is not None:
            first = _round_up(low, schema.get("exclusiveMinimum") == low)
            last = first + _SPAN * step
        if high is not None:
            last = _round_down(high, schema.get("exclusiveMaximum") == high)
            first = last - _SPAN * step if low is None else first
        return self._pick_between(-(-first // step), last // step) * step

    def _make_number(self, schema: dict[str, Any]) -> int | float:
        if "multipleOf" in schema:
            return self._make_integer(schema)
        low, high = _range_of(schema)
        if low is None:
            low = -_SPAN if high is None else high - _SPAN
        high = low + _SPAN if high is None else high
        closed = [
            edge
            for edge, keyword in zip((low, high), _EDGES, strict=True)
            if schema.get(keyword) != edge
        ]
        if low > high or (low == high and len(closed) < len(_EDGES)):
            raise NoValueError(f"no number lies between {low} and {high}")
        between = low + (high - low) * self._random.uniform(0.25, 0.75)
        inside = [between] if math.isfinite(between) and low < between < high else []
        if not closed + inside:
            raise NoValueError(f"no number was found between {low} and {high}")
        chosen: int | float = self._random.choice(closed + inside)
        return chosen

    def _make_list(self, schema: dict[str, Any], whole: bool) -> list[Any]:
        least = int(schema.get("minItems", 0))
        most = int(schema.get("maxItems", least + _MORE_ITEMS))
        if whole:
            least = max(least, min(1, most))
        # Lists in lists in lists grow without bound, so the deep ones are short.
        is_deep = self._left < _MAX_VALUES - 1_000 or self._depth >= _FEW_LEVELS
        count = least if whole or is_deep else self._pick_between(least, min(most, least + 50))
        make = self._make_unique_items if schema.get("uniqueItems") else self._make_items
        return make(schema.get("items", {}), count, least, whole)

    def _make_items(self, items: Any, count: int, least: int, whole: bool) -> list[Any]:
        return [self._make_value(items, whole) for _ in range(count)]

    def _make_unique_items(self, items: Any, count: int, least: int, whole: bool) -> list[Any]:
        found: dict[str, Any] = {}
        for _ in range(20 * (count + 1)):
            if len(found) < count:
                value = self._make_value(items, whole)
                found.setdefault(json.dumps(value, sort_keys=True), value)
        if len(found) < least:
            raise NoValueError(f"{least} different items were not found")
        return list(found.values())

    def _make_object(self, schema: dict[str, Any], whole: bool) -> dict[str, Any]:
        properties = schema.get("properties", {})
        required = schema.get("required", ())
        made = {
            name: self._make_value(item, whole)
            for name, item in properties.items()
            if whole or name in required or self._picks_optional()
        }
        rest = schema.get("additionalProperties", {})
        for name in required:
            if name not in made:
                made[name] = self._make_value(rest, whole)
        if not properties and rest is not False and self._random.random() < 0.7:
            made.setdefault(plain_text(self._random, 5), self._make_value(rest, whole))
        return made


def types_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the types that a schema names; none when it names none."""
    declared = schema.get("type", ())
    return (declared,) if isinstance(declared, str) else tuple(declared)


def _fitting_options(schema: dict[str, Any]) -> list[Any]:
    extra = schema.keys() - ANNOTATIONS - {"enum", "type"}
    if extra:
        raise NoValueError(f"no values are made from enum beside {min(extra)!r}")
    kinds = types_of(schema)
    fitting = [
        each for each in schema["enum"] if not kinds or any(_is_kind(each, k) for k in kinds)
    ]
    if not fitting:
        raise NoValueError("no option of the enum has the declared type")
    return fitting


def _is_kind(value: Any, kind: str) -> bool:
    return _KINDS[kind](value)


_KINDS: Final[dict[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
    ),
}


def _range_of(schema: Mapping[str, Any]) -> tuple[Any, Any]:
    lows = [schema[key] for key in ("minimum", "exclusiveMinimum") if key in schema]
    highs = [schema[key] for key in ("maximum", "exclusiveMaximum") if key in schema]
    return max(lows, default=None), min(highs, default=None)


def _round_up(low: float, is_exclusive: bool) -> int:
    return math.floor(low) + 1 if is_exclusive else math.ceil(low)


def _round_down(high: float, is_exclusive: bool) -> int:
    return math.ceil(high) - 1 if is_exclusive else math.floor(high)
