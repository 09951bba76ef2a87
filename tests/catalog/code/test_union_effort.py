"""No argument is read a number of times that doubles with each of its levels.

Looked at: pydantic's unions (each form is tried at each level), its tagged unions (one form is),
and the JSON Schema of such types, which is judged first.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

import pydantic
import pytest

from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.catalog.code.pydantic_type import MOST_READINGS, PydanticType, count_forms

readings: list[int] = []


class Counted(pydantic.BaseModel):
    @pydantic.model_validator(mode="after")
    def count(self) -> Any:
        readings.append(1)
        return self


class Sum(Counted):
    inner: Union[Sum, Product, None] = None  # noqa: UP007 - the form that users write


class Product(Counted):
    inner: Union[Sum, Product, None] = None  # noqa: UP007 - the form that users write


class Left(Counted):
    inner: list[Left | Right | int] = []


class Right(Counted):
    inner: list[Left | Right | int] = []


class Named(Counted):
    kind: Literal["named"] = "named"
    inner: Annotated[Named | Other, pydantic.Field(discriminator="kind")] | None = None


class Other(Counted):
    kind: Literal["other"] = "other"
    inner: Annotated[Named | Other, pydantic.Field(discriminator="kind")] | None = None


class Tree(Counted):
    inner: list[Tree] = []


def nest(levels: int, wrap: Any, leaf: Any) -> Any:
    value = leaf
    for _ in range(levels):
        value = wrap(value)
    return value


WRAPS: dict[str, tuple[Any, Any, Any, int]] = {
    "union": (Sum, lambda inner: {"inner": inner}, {}, 12),
    "union in lists": (Left, lambda inner: {"inner": [inner]}, {}, 12),
    "wide union": (Left, lambda inner: {"inner": [inner, inner]}, {}, 6),
}
"""The type, how a value gets one more level, the innermost value, and how many levels are read."""


@pytest.mark.parametrize("levels", [3, 6, 12, 25, 60])
@pytest.mark.parametrize("name", WRAPS)
def test_a_union_that_holds_itself(name: str, levels: int) -> None:
    """9: it is read, or refused with what to do; the readings are bounded in both cases."""
    hint, wrap, leaf, most = WRAPS[name]
    levels = min(levels, 12) if name == "wide union" else levels
    readings.clear()
    typed, value = PydanticType(hint), nest(levels, wrap, leaf)
    if levels <= most:
        assert typed.validate(value) is not None
    else:
        with pytest.raises(ValueError, match="send fewer levels, or give the union a discrim"):
            typed.validate(value)
    # In its smart mode pydantic reads a form up to twice: strictly first.
    assert len(readings) <= 4 * MOST_READINGS


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Named, nest(60, lambda inner: {"kind": "named", "inner": inner}, {"kind": "other"})),
        (Tree, nest(30, lambda inner: {"inner": [inner]}, {})),
        (Tree, {"inner": [{}] * 5_000}),
        (list[Left], [{"inner": [{"inner": [1]}]}] * 5_000),
        (pydantic.JsonValue, nest(60, lambda inner: {"inner": inner}, 1)),
    ],
)
def test_what_is_read_in_proportion_is_read(hint: Any, value: Any) -> None:
    readings.clear()
    PydanticType(hint).validate(value)
    assert len(readings) <= 100_000


def test_what_counts_as_a_form() -> None:
    def count(hint: Any) -> dict[str, int]:
        return count_forms(pydantic.TypeAdapter(hint).core_schema)

    assert count(Sum) == count(list[Left]) == {"object": 2}
    for hint in (Named, Tree, Tree | int, pydantic.JsonValue, int | str):
        assert count(hint) == {}, hint


async def test_a_call_is_refused_with_its_place() -> None:
    async def solve(task: Sum) -> str:
        return "solved"

    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.tool(description="d")(solve)
        deep = nest(40, lambda inner: {"inner": inner}, {})
        result = await engine.execute("solve", {"task": deep})
        assert result.error_type == "validation_error"
        assert "'task' does not fit: it has too many levels" in str(result.error)
        assert (await engine.execute("solve", {"task": {"inner": {}}})).is_success
