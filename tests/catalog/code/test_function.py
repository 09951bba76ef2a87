"""Does a Python function become the tool that its author had in mind?"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional

import annotated_types
import msgspec
import pydantic
import pytest

from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.catalog.code.adapting import (
    adapted_handler,
    argument_converter,
    context_parameter,
)
from tool_engine.catalog.code.function import (
    tool_from_function,
)
from tool_engine.errors import DefinitionError, ToolExecutionError
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory


@dataclasses.dataclass
class Point:
    x: int


def weather(
    city: str,
    days: Annotated[int, msgspec.Meta(ge=1, le=7)] = 3,
    unit: Literal["c", "f"] = "c",
    at: dt.date | None = None,
    *,
    near: Annotated[list[Point], "Places close by."] = [],  # noqa: B006 - never changed
    context: ToolExecutionContext | None = None,
    **rest: Any,
) -> str:
    """Tells the weather.

    Only for cities.

    Args:
        city: The name of
            the city.
        days: How many days.
        unit: Celsius or Fahrenheit.
        at: The first day.
    """
    return f"{city}{days}{unit}{at}{near}{context}{rest}"


def parameters(tool: Tool) -> dict[str, ToolParameter]:
    return {parameter.name: parameter for parameter in tool.parameters}


def test_signature_hints_and_docstring() -> None:
    """R2: name, description and parameters come from the function."""
    tool = tool_from_function(weather, category="http", tags=["net"], timeout=3, effect="read")
    assert (tool.name, tool.handler, tool.source) == ("weather", "weather", None)
    assert tool.description == "Tells the weather.\n\nOnly for cities."
    assert (tool.category, tool.tags) == (ToolCategory.HTTP, ["net"])
    assert (tool.timeout, tool.effect, tool.findings) == (3.0, "read", [])
    assert parameters(tool) == {
        "city": ToolParameter("city", "string", True, description="The name of the city."),
        "days": ToolParameter(
            "days",
            "integer",
            default=3,
            description="How many days.",
            validation={"min": 1, "max": 7},
        ),
        "unit": ToolParameter(
            "unit",
            "string",
            default="c",
            description="Celsius or Fahrenheit.",
            validation={"enum": ["c", "f"]},
        ),
        "at": ToolParameter(
            "at",
            "string",
            description="The first day.",
            schema={"type": ["string", "null"], "format": "date"},
        ),
        "near": ToolParameter(
            "near",
            "array",
            default=[],
            description="Places close by.",
            validation={
                "items": {
                    "type": "object",
                    "validation": {"properties": {"x": "integer"}, "required": ["x"]},
                }
            },
        ),
    }


@pytest.mark.parametrize(
    "docstring",
    [
        "Adds.\n\nArgs:\n    a: The A.\n",
        "Adds.\n\nParameters\n----------\na : int\n    The A.\n",
        "Adds.\n\n:param a: The A.\n",
    ],
)
def test_docstring_styles(docstring: str) -> None:
    """R2: Google, NumPy and Sphinx docstrings are read."""

    def add(a: int) -> int:
        return a

    add.__doc__ = docstring
    tool = tool_from_function(add)
    assert tool.description == "Adds."
    assert tool.parameters[0].description == "The A."


def test_optional_without_default() -> None:
    """R2: Optional is not required; None is what the function gets."""

    def find(
        a: Annotated[Optional[int], msgspec.Meta(description="The A.")],  # noqa: UP045 - as written
        b: Any,
        c: int = None,  # type: ignore[assignment]  # noqa: RUF013 - as written
    ) -> None:
        """Finds."""

    found = parameters(tool_from_function(find))
    assert (found["a"].required, found["a"].has_default, found["a"].default) == (False, True, None)
    assert found["a"].description == "The A."
    assert found["b"].required
    assert (found["c"].required, found["c"].has_default) == (False, False)


def test_a_missing_description_is_a_finding() -> None:
    """R2, U20: a parameter nobody described is told, and does not stop the tool."""

    def add(first_number: int, _: int = 0) -> None:
        """Adds."""

    tool = tool_from_function(add)
    assert [p.description for p in tool.parameters] == ["first number", "_"]
    assert "'first_number' has no description" in tool.findings[0]


class Greeter:
    """Greets people."""

    def __call__(self, name: str) -> str:
        return name

    def greet(self, name: str) -> str:
        """Greets one."""
        return name


class Documented:
    def __call__(self, name: str) -> str:
        """Greets again."""
        return name


def test_other_callables() -> None:
    """R2: methods, partials and callable objects are functions, too."""
    assert tool_from_function(Greeter().greet).description == "Greets one."
    assert tool_from_function(Greeter(), name="g").description == "Greets people."
    assert tool_from_function(Documented()).description == "Greets again."
    bound = functools.partial(weather, unit="f")
    tool = tool_from_function(bound, name="w")
    assert parameters(tool)["unit"].default == "f"
    assert tool.description.startswith("Tells")


def test_given_name_and_description() -> None:
    """R2: what is passed wins over what is derived."""
    tool = tool_from_function(lambda: 1, name="one", description="Gives one.", idempotent=True)
    assert (tool.name, tool.description, tool.idempotent) == ("one", "Gives one.", True)


def positional(a: int, /) -> None:
    """X."""


def many(*a: int) -> None:
    """X."""


def bare(a) -> None:  # type: ignore[no-untyped-def]
    """X."""


def foreign(a: Callable[[], None]) -> None:
    """X."""


def unknown(a: Missing) -> None:  # type: ignore[name-defined]  # noqa: F821 - on purpose
    """X."""


def silent(a: int) -> None:
    pass


@pytest.mark.parametrize(
    ("function", "path", "words"),
    [
        (positional, "parameters[0]", "'a' is positional-only; remove the /"),
        (many, "parameters[0]", "declare one list instead"),
        (bare, "parameters[0]", "annotate it: a: str"),
        (foreign, "parameters[0]", "make of it in the function what you need"),
        (unknown, "", "cannot be read: name 'Missing'"),
        (silent, "description", "write a docstring"),
        (3, "", "cannot be read"),
    ],
)
def test_refused(function: Any, path: str, words: str) -> None:
    """R2: what cannot become a tool is a typed error that names the parameter and the cure."""
    with pytest.raises(DefinitionError) as caught:
        tool_from_function(function)
    assert caught.value.path == path
    assert words in str(caught.value)
    assert caught.value.file.startswith("<function ")


def test_wrong_keys_are_refused() -> None:
    """R2: keys of a definition are checked like those in a file."""
    with pytest.raises(DefinitionError, match="did you mean 'timeout'"):
        tool_from_function(weather, timout=3)
    with pytest.raises(DefinitionError, match="letters"):
        tool_from_function(lambda: 1, description="d")


def test_context_parameter() -> None:
    """R2: the context is found by name or by type, and never declared."""

    def typed(where: ToolExecutionContext, a: int) -> None:
        """X."""

    assert context_parameter(weather) == "context"
    assert context_parameter(typed) == "where"
    assert list(parameters(tool_from_function(typed))) == ["a"]
    assert context_parameter(positional) is None
    assert context_parameter(unknown) is None


def test_argument_converter() -> None:
    """R2: the function gets the Python values that its hints promise."""
    convert = argument_converter(weather)
    assert convert is not None
    arguments = {"city": "x", "at": "2024-01-02", "near": [{"x": 1}]}
    assert convert(arguments) == {
        "city": "x",
        "at": dt.date(2024, 1, 2),
        "near": [Point(1)],
    }
    assert arguments["at"] == "2024-01-02"
    with pytest.raises(ToolExecutionError, match="'at' does not fit"):
        convert({"at": "tomorrow"})
    assert argument_converter(positional) is None


@pytest.mark.parametrize("docstring", ["Odd.\n\n:param: x", "Odd.\n\nArgs:\nx", "Odd.\n\n:x y z w"])
def test_an_odd_docstring(docstring: str) -> None:
    """R2: a docstring in no known style is no error."""

    def odd(a: int) -> None: ...

    odd.__doc__ = docstring
    assert tool_from_function(odd).description.startswith("Odd.")


def test_arguments_that_are_left_out() -> None:
    """R2: arguments that a call leaves out are not converted."""
    convert = argument_converter(weather)
    assert convert is not None
    assert convert({"city": "x"}) == {"city": "x"}


class Looker:
    async def __call__(self, day: dt.date, where: ToolExecutionContext | None = None) -> Any:
        """Looks."""
        return day, where


async def test_adapted_handler() -> None:
    """R2: a handler gets converted values, and the context under the name that it has for it."""

    def plain(day: dt.date) -> dt.date:
        return day

    def simple(a: int, context: ToolExecutionContext) -> int:
        return a

    context = ToolExecutionContext()
    day = dt.date(2024, 1, 2)
    assert adapted_handler(simple) is simple
    assert adapted_handler(plain)(day="2024-01-02") == day
    for function in (Looker(), functools.partial(Looker().__call__)):
        handler = adapted_handler(function)
        assert inspect.iscoroutinefunction(handler)
        assert await handler(context=context, day="2024-01-02") == (day, context)
    renamed = adapted_handler(_renamed)
    assert renamed(context=context, a=1) == (1, context)


def _renamed(a: int, where: ToolExecutionContext) -> Any:
    return a, where


def test_a_context_that_may_be_none() -> None:
    """R2: the context is found behind Optional, too."""
    assert context_parameter(Looker()) == "where"


# Rules in pydantic's and annotated_types' words


def pay(
    amount: Annotated[int, annotated_types.Interval(ge=1, le=100)],
    to: Annotated[str, pydantic.StringConstraints(pattern="^[a-z]+$")],
    note: str = pydantic.Field("none", max_length=5, description="A note."),
    tags: list[Annotated[int, annotated_types.Gt(0)]] = pydantic.Field(default_factory=list),  # noqa: B008 - as users write it
    at: Annotated[dt.date | None, pydantic.Field(default=None)] = None,
    kind: Annotated[str, pydantic.Field(default="new", min_length=1)] = "own",
) -> Any:
    """Pays."""
    return {"amount": amount, "to": to, "note": note, "tags": tags, "at": at, "kind": kind}


async def test_rules_of_other_libraries_are_enforced() -> None:
    """R2: a bound is enforced whoever's words it is in, and a `Field` gives its default."""
    right = {"amount": 5, "to": "ann"}
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.tool()(pay)
        found = parameters(engine.get_or_raise("pay"))
        assert found["note"].description == "A note."
        assert [name for name, each in found.items() if each.required] == ["amount", "to"]
        for _ in range(2):
            result = await engine.execute("pay", right)
            filled: dict[str, Any] = {"note": "none", "tags": [], "at": None, "kind": "own"}
            assert result.output == {**right, **filled}
            result.output["tags"].append(1)
        for wrong in (
            {"amount": 10**9},
            {"amount": 0},
            {"to": "../../X"},
            {"note": "too long"},
            {"tags": [1, 0]},
            {"kind": ""},
        ):
            result = await engine.execute("pay", {**right, **wrong})
            assert result.error_type == "validation_error", wrong


def _with_default(default: Any, hint: Any = int) -> Any:
    def tool(a: Any = default) -> None:
        """Does."""

    tool.__annotations__["a"] = hint
    return tool


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_with_default(pydantic.Field(ge=1, alias="b")), "alias of Field is not understood"),
        (_with_default(pydantic.Field(5, le=3)), "the default breaks the parameter's own rules"),
        (
            _with_default(0, Annotated[int, pydantic.Field(ge=1)]),
            "breaks the parameter's own rules",
        ),
        (_with_default(object()), "has no JSON form, so that models cannot be told of it"),
        (_with_default(pydantic.Field(object())), "has no JSON form"),
        (
            _with_default(inspect.Parameter.empty, Annotated[int, object()]),
            "is not understood",
        ),
    ],
)
def test_what_would_be_dropped_is_refused(function: Any, words: str) -> None:
    """R2: a rule or a default that cannot be kept is an error that names the parameter."""
    with pytest.raises(DefinitionError, match=words) as caught:
        tool_from_function(function)
    assert str(caught.value.path).startswith("parameters[0]")


def test_a_field_without_default_is_required() -> None:
    """R2: `Field(...)` with rules alone asks for the parameter."""
    for field in (pydantic.Field(ge=1), pydantic.Field(..., ge=1)):
        (parameter,) = tool_from_function(_with_default(field)).parameters
        assert parameter.required
        assert parameter.validation == {"min": 1}


def test_a_method_in_the_body_of_its_class_is_refused() -> None:
    """Its first parameter is no argument, whatever type it gets: the cure is another call."""
    engine = ToolEngine()
    for word, cure in (("self", r"\(object\.method\)"), ("cls", r"\(Class\.method\)")):
        code = (
            "class Shop:\n"
            "    @engine.tool()\n"
            f"    def find({word}{{}}, text: str) -> str:\n"
            "        'Finds.'\n"
            "        return text\n"
        )
        for hint in ("", ": str"):
            with pytest.raises(DefinitionError, match=cure):
                exec(code.format(hint), {"engine": engine})  # noqa: S102 - a class as its author writes it
    with pytest.raises(DefinitionError, match=r"\(Class\.method\)"):
        engine.tool()(vars(Shop)["find"])
    engine.tool()(Shop.find)
    engine.tool(name="look")(Shop().look)
    assert engine.list_names() == ["find", "look"]


class Shop:
    @classmethod
    def find(cls, text: str) -> str:
        "Finds."
        return text

    def look(self, text: str) -> str:
        "Looks."
        return text
