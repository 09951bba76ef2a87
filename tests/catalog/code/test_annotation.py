"""Does a type hint become a schema that stands alone and means the same?"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import re
import typing
import uuid
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import annotated_types
import attrs
import jsonschema_rs
import msgspec
import pydantic
import pytest

from tool_engine.catalog.code.annotation import described_as, is_native, read_hint
from tool_engine.catalog.code.metadata import UnsupportedHintError


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: list[int] = dataclasses.field(default_factory=list)


class Options(TypedDict):
    a: int
    b: NotRequired[str]


class Line(msgspec.Struct):
    start: Point
    end: Point


class Node(msgspec.Struct):
    next: Node | None = None


NODE = {
    "type": "object",
    "properties": {
        "next": {
            "anyOf": [{"$ref": "#/$defs/Node", "type": "object"}, {"type": "null"}],
            "type": ["object", "null"],
        }
    },
    "required": [],
    "additionalProperties": False,
}


POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "array", "items": {"type": "integer"}}},
    "required": ["x"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (int, {"type": "integer"}),
        (float | None, {"type": ["number", "null"]}),
        (int | str, {"type": ["integer", "string"]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1], {"type": ["integer", "string"], "enum": [1, "a"]}),
        (Literal["a"] | None, {"type": ["null", "string"], "enum": [None, "a"]}),
        (Color, {"type": "string", "enum": ["red", "blue"]}),
        (Color | None, {"type": ["string", "null"], "enum": ["red", "blue", None]}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (decimal.Decimal, {"type": "string"}),
        (dt.date, {"type": "string", "format": "date"}),
        (bytes, {"type": "string"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (
            tuple[int, str],
            {
                "type": "array",
                "minItems": 2,
                "maxItems": 2,
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "items": False,
            },
        ),
        (Annotated[int, msgspec.Meta(ge=1)], {"type": "integer", "minimum": 1}),
        (Point, POINT),
        (Point | None, {**POINT, "type": ["object", "null"]}),
        (
            Options,
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
                "required": ["a"],
                "additionalProperties": False,
            },
        ),
        (
            Line,
            {
                "type": "object",
                "properties": {"start": POINT, "end": POINT},
                "required": ["start", "end"],
                "additionalProperties": False,
            },
        ),
        (pathlib.Path, {"type": "string"}),
        (list[pathlib.PurePosixPath], {"type": "array", "items": {"type": "string"}}),
        (
            Node,
            {
                "type": "object",
                "properties": {
                    "next": {
                        "anyOf": [{"$ref": "#/$defs/Node", "type": "object"}, {"type": "null"}],
                        "type": ["object", "null"],
                        "default": None,
                    }
                },
                "required": [],
                "additionalProperties": False,
                "$defs": {"Node": NODE},
            },
        ),
        (
            Point | int | None,
            {
                "anyOf": [POINT, {"type": "integer"}, {"type": "null"}],
                "type": ["object", "integer", "null"],
            },
        ),
    ],
)
def test_schemas(hint: Any, schema: dict[str, Any]) -> None:
    """R2: hints become schemas without references."""
    found = read_hint(hint).schema
    assert found.keys() == schema.keys()
    for key, value in schema.items():
        if key in ("type", "enum") and isinstance(value, list):
            assert sorted(map(str, found[key])) == sorted(map(str, value))
        else:
            assert found[key] == value
    jsonschema_rs.Draft202012Validator(found)


def test_any() -> None:
    """R2: a hint of Any takes every JSON value."""
    validator = jsonschema_rs.Draft202012Validator(read_hint(Any).schema)
    values: list[Any] = [None, True, 1, 1.5, "a", [], {}]
    assert all(map(validator.is_valid, values))
    assert read_hint(list[Any]).schema == {"type": "array"}
    assert "anyOf" in read_hint(list[int | Point]).schema["items"]
    assert read_hint(msgspec.Raw).schema["type"][-1] == "null"
    either = msgspec.Meta(extra_json_schema={"anyOf": [{"minimum": 1}, {"type": "string"}]})
    assert read_hint(Annotated[int, either]).schema["anyOf"][0] == {"minimum": 1}


class Aliases:
    Whole = typing.NewType("Whole", Annotated[int, annotated_types.Ge(1)])


@pytest.mark.parametrize(
    ("hint", "rules"),
    [
        (Annotated[int, pydantic.Field(ge=1, le=9)], {"minimum": 1, "maximum": 9}),
        (Annotated[int, pydantic.Field(ge=1.0)], {"minimum": 1}),
        (Annotated[float, pydantic.Field(gt=0.5, lt=2, multiple_of=0.5)],
         {"exclusiveMinimum": 0.5, "exclusiveMaximum": 2, "multipleOf": 0.5}),
        (Annotated[int, annotated_types.Interval(gt=1, lt=9)],
         {"exclusiveMinimum": 1, "exclusiveMaximum": 9}),
        (Annotated[int, annotated_types.Ge(1), annotated_types.Ge(3), annotated_types.Gt(2)],
         {"minimum": 3}),
        (Annotated[int, annotated_types.Le(3), msgspec.Meta(le=5), annotated_types.Lt(4)],
         {"maximum": 3}),
        (Annotated[list[int], annotated_types.Len(1, 3)], {"minItems": 1, "maxItems": 3}),
        (Annotated[dict[str, int], annotated_types.MinLen(1)], {"minProperties": 1}),
        (Annotated[str, pydantic.StringConstraints(pattern="^a", max_length=3, min_length=1)],
         {"pattern": "^a", "maxLength": 3, "minLength": 1}),
        (Annotated[str, pydantic.Field(pattern=re.compile("^a"))], {"pattern": "^a"}),
        (pydantic.PositiveInt, {"exclusiveMinimum": 0}),
        (pydantic.conlist(int, min_length=2), {"minItems": 2}),
        (Annotated[int | None, pydantic.Field(ge=1)], {"minimum": 1}),
        (Annotated[int, annotated_types.Ge(1)] | None, {"minimum": 1}),
        (Aliases.Whole, {"minimum": 1}),
        (Annotated[int, pydantic.Field(json_schema_extra={"maximum": 3})], {"maximum": 3}),
        (Annotated[int, pydantic.Field(description="d", examples=[1])],
         {"description": "d", "examples": [1]}),
    ],
)  # fmt: skip
def test_rules_of_other_libraries(hint: Any, rules: dict[str, Any]) -> None:
    """R2: no bound of annotated_types or pydantic is dropped, also inside of lists."""
    found = read_hint(hint).schema
    assert rules == {key: found[key] for key in rules}
    assert found.keys() - rules.keys() <= {"type", "items", "additionalProperties"}
    items = read_hint(list[hint]).schema["items"]
    assert rules == {key: items[key] for key in rules}


@dataclasses.dataclass
class Ruled:
    x: Annotated[int, pydantic.Field(ge=1)]


@dataclasses.dataclass
class Defaulted:
    x: int = pydantic.Field(1, ge=1)


class Model(pydantic.BaseModel):
    x: int


class Bounded(TypedDict):
    x: list[Annotated[int, annotated_types.Gt(3)]]


class Stamped(pydantic.BaseModel):
    at: Annotated[dt.datetime, annotated_types.Timezone(None)]


class Marked(pydantic.BaseModel):
    x: Annotated[int, object()]


class Mixed(pydantic.BaseModel):
    x: Annotated[int, msgspec.Meta(ge=1)]


class Flagged(pydantic.BaseModel):
    x: str = pydantic.Field(pattern=re.compile("a", re.IGNORECASE))


@attrs.define
class Counted:
    x: int
    count: int = attrs.field(init=False, default=0)


class Twice(pydantic.BaseModel):
    x: Annotated[str, pydantic.Field(pattern="a"), pydantic.Field(pattern="b")]


class Misplaced(pydantic.BaseModel):
    x: Annotated[str, annotated_types.Ge(1)]


class Opaque(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    x: re.Match[str]


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (Annotated[int, object()], "is not understood"),
        (Annotated[str, pydantic.StringConstraints(pattern=re.compile("a", re.I))], "has flags"),
        (Annotated[str, pydantic.Field(pattern="a"), pydantic.Field(pattern="b")], "given twice"),
        (Annotated[str, annotated_types.Ge(1)], "'ge' is no rule of its type"),
        (Annotated[Model, msgspec.Meta(min_length=1)], "is not read by pydantic"),
        (Stamped, "Timezone(tz=None) is not understood"),
        (Marked | None, "is not understood"),
        (list[Mixed], "write pydantic's Field(...) with the same rule"),
        (Flagged, "models cannot be shown"),
        (Twice, "pattern is given twice, as 'a' and 'b'"),
        (Misplaced, "'ge' is no rule of its type"),
        (Opaque, "has no JSON form"),
        (list[Counted], "Counted.count has init=False, and no caller may give it: make it"),
    ],
)
def test_what_may_be_a_rule_is_refused(hint: Any, words: str) -> None:
    """R2: what constrains and is not understood is an error that says what to write."""
    with pytest.raises(UnsupportedHintError) as caught:
        read_hint(hint)
    assert words in str(caught.value)
    assert not str(caught.value).endswith(":")


@pytest.mark.parametrize("hint", [typing.Callable[[], None], re.Match, type("Own", (), {})])
def test_unsupported(hint: Any) -> None:
    """R2: a type without a JSON form, or without an end, is a typed error."""
    with pytest.raises(UnsupportedHintError):
        read_hint(hint)


def test_descriptions() -> None:
    """R2: Annotated may carry the description, as text or in a Meta."""
    assert described_as(Annotated[int, "a number"]) == "a number"
    assert described_as(Annotated[int, 3, msgspec.Meta(description="m")]) == "m"
    assert described_as(Annotated[int, msgspec.Meta(ge=1)]) is None
    assert described_as(int) is None


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (int, True),
        (list[dict[str, int | None]], True),
        (Literal["a"], True),
        (Annotated[str, "x"], True),
        (typing.Optional[str], True),  # noqa: UP045 - the old form is a different object
        (dict[int, str], False),
        (list[Point], False),
        (dt.date | None, False),
        (set[int], False),
        (Color, False),
        ([], False),
    ],
)
def test_native(hint: Any, expected: bool) -> None:
    """R2: only hints that ask for more than JSON gives cost a conversion."""
    assert is_native(hint) is expected
