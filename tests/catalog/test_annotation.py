"""Does a type hint become a schema that stands alone and means the same?"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import typing
import uuid
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import jsonschema_rs
import msgspec
import pytest

from tool_engine.catalog.annotation import (
    UnsupportedHintError,
    annotation_schema,
    described_as,
    is_native,
)


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
    found = annotation_schema(hint)
    assert found.keys() == schema.keys()
    for key, value in schema.items():
        if key in ("type", "enum") and isinstance(value, list):
            assert sorted(map(str, found[key])) == sorted(map(str, value))
        else:
            assert found[key] == value
    jsonschema_rs.Draft202012Validator(found)


def test_any() -> None:
    """R2: a hint of Any takes every JSON value."""
    validator = jsonschema_rs.Draft202012Validator(annotation_schema(Any))
    values: list[Any] = [None, True, 1, 1.5, "a", [], {}]
    assert all(map(validator.is_valid, values))
    assert annotation_schema(list[Any]) == {"type": "array"}
    assert "anyOf" in annotation_schema(list[int | Point])["items"]
    assert annotation_schema(msgspec.Raw)["type"][-1] == "null"
    either = msgspec.Meta(extra_json_schema={"anyOf": [{"minimum": 1}, {"type": "string"}]})
    assert annotation_schema(Annotated[int, either])["anyOf"][0] == {"minimum": 1}


@pytest.mark.parametrize("hint", [complex, typing.Callable[[], None], Node, type("Own", (), {})])
def test_unsupported(hint: Any) -> None:
    """R2: a type without a JSON form, or without an end, is a typed error."""
    with pytest.raises(UnsupportedHintError):
        annotation_schema(hint)


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
