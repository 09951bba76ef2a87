"""A hundred signatures as people write them, and what other libraries make of them.

`python -m tests.contracts.signatures`, in an environment with the peers, prints as JSON what each
makes of each.
"""

# No `from __future__ import annotations`: the peers read the hints of functions made here.
import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import uuid
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Literal, NamedTuple

import annotated_types as at
import pydantic
from typing_extensions import TypedDict


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Address(pydantic.BaseModel):
    street: str = pydantic.Field(min_length=2)
    code: Annotated[str, pydantic.StringConstraints(pattern=r"^\d{5}$")]


class User(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0, le=150)
    home: Address | None = None


class Tree(pydantic.BaseModel):
    value: int
    inner: list["Tree"] = []


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    name: str


class Renamed(pydantic.BaseModel):
    first: int = pydantic.Field(alias="firstNumber")


class Closed(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    x: int


class Checked(pydantic.BaseModel):
    x: int

    @pydantic.field_validator("x")
    @classmethod
    def check(cls, x: int) -> int:
        return x


class Roots(pydantic.RootModel[list[int]]):
    pass


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass
class Ruled:
    x: Annotated[int, pydantic.Field(ge=1)]


class Row(TypedDict):
    x: int


class Signature(NamedTuple):
    hint: Any
    right: Any
    wrong: Any
    """A value that breaks a rule of the hint."""


Of = pydantic.Field
BASIC: dict[str, Signature] = {
    "text": Signature(str, "a", 1),
    "whole": Signature(int, 1, "x"),
    "number": Signature(float, 1.5, "x"),
    "truth": Signature(bool, True, "x"),
    "list": Signature(list[int], [1], ["x"]),
    "mapping": Signature(dict[str, int], {"a": 1}, {"a": "x"}),
    "pair": Signature(tuple[int, str], [1, "a"], [1]),
    "set": Signature(set[int], [1, 2], ["x"]),
    "literal": Signature(Literal["a", "b"], "a", "c"),
    "union": Signature(int | str, "a", [1]),
    "enum": Signature(Colour, "red", "blue"),
    "number enum": Signature(Level, 1, 2),
    "date": Signature(dt.date, "2026-01-31", 1.5),
    "moment": Signature(dt.datetime, "2026-01-31T09:30:00Z", [1]),
    "id": Signature(uuid.UUID, "123e4567-e89b-12d3-a456-426614174000", [1]),
    "decimal": Signature(decimal.Decimal, "1.5", [1]),
    "path": Signature(pathlib.Path, "a/b", [1]),
    "bounds": Signature(Annotated[int, Of(ge=1, le=9)], 5, 10),
    "interval": Signature(Annotated[int, at.Interval(gt=0, lt=9)], 5, 9),
    "multiple": Signature(Annotated[int, at.MultipleOf(5)], 10, 11),
    "length": Signature(Annotated[str, at.Len(1, 3)], "abc", "abcd"),
    "pattern": Signature(Annotated[str, pydantic.StringConstraints(pattern="^a")], "ab", "b"),
    "few": Signature(Annotated[list[int], Of(max_length=1)], [1], [1, 2]),
    "validated": Signature(Annotated[int, pydantic.AfterValidator(abs)], 1, "x"),
    "strict": Signature(Annotated[int, Of(strict=True)], 1, "x"),
    "lower": Signature(Annotated[str, pydantic.StringConstraints(to_lower=True)], "a", 1),
    "model": Signature(User, {"name": "a", "age": 1}, {"name": "a", "age": -1}),
    "nested": Signature(
        User,
        {"name": "a", "age": 1, "home": {"street": "ab", "code": "12345"}},
        {"name": "a", "age": 1, "home": {"street": "ab", "code": "x"}},
    ),
    "tree": Signature(Tree, {"value": 1, "inner": [{"value": 2}]}, {"value": "x"}),
    "tagged": Signature(
        Annotated[Cat | Dog, Of(discriminator="kind")],
        {"kind": "dog", "name": "Rex"},
        {"kind": "cow", "name": "Rex"},
    ),
    "alias": Signature(Renamed, {"firstNumber": 1}, {"firstNumber": "x"}),
    "closed": Signature(Closed, {"x": 1}, {"x": "1x"}),
    "checked": Signature(Checked, {"x": 1}, {}),
    "root": Signature(Roots, [1], ["x"]),
    "dataclass": Signature(Point, {"x": 1}, {"y": 1}),
    "ruled dataclass": Signature(Ruled, {"x": 1}, {"x": 0}),
    "typed dict": Signature(Row, {"x": 1}, {}),
    "secret": Signature(pydantic.SecretStr, "a", 1),
    # What no library can show a model.
    "function": Signature(Callable[[], None], None, None),
    "own class": Signature(type("Own", (), {}), None, None),
}


def _forms_of(name: str, one: Signature) -> dict[str, Signature]:
    return {
        name: one,
        f"list of {name}": Signature(list[one.hint], [one.right], [one.wrong]),  # type: ignore[name-defined]
        f"optional {name}": Signature(one.hint | None, one.right, one.wrong),
    }


SIGNATURES: dict[str, Signature] = {
    name: each for key, one in BASIC.items() for name, each in _forms_of(key, one).items()
}


def function_of(signature: Signature) -> Callable[..., Any]:
    """Return a function with a parameter of the hint.

    It has another, as pydantic-ai unwraps a model that is alone.
    """

    def take(value: Any, more: int = 0) -> str:
        """Takes a value."""
        return str((value, more))

    take.__annotations__ = {"value": signature.hint, "more": int, "return": str}
    if type(None) in getattr(signature.hint, "__args__", ()):
        take.__defaults__ = (None, 0)
    return take


def _ask_fastmcp(function: Callable[..., Any]) -> Any:
    return import_module("fastmcp.tools").Tool.from_function(function).parameters


def _ask_pydantic_ai(function: Callable[..., Any]) -> Any:
    return import_module("pydantic_ai").Tool(function).function_schema.json_schema


def _ask_agents(function: Callable[..., Any]) -> Any:
    make = import_module("agents").function_tool
    return make(function, strict_mode=False).params_json_schema


PEERS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "fastmcp": _ask_fastmcp,
    "pydantic_ai": _ask_pydantic_ai,
    "agents": _ask_agents,
}


def ask_peers() -> dict[str, dict[str, Any]]:
    """Return each peer's schema of each signature; None: it refuses it."""
    found: dict[str, dict[str, Any]] = {peer: {} for peer in PEERS}
    for peer, ask in PEERS.items():
        for name, signature in SIGNATURES.items():
            try:
                found[peer][name] = ask(function_of(signature))
            except Exception:  # noqa: BLE001 - each refuses in its own way
                found[peer][name] = None
    return found


if __name__ == "__main__":
    print(json.dumps(ask_peers()))
