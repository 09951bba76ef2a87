"""What handlers return and raise that is no plain JSON and no plain exception, by name.

Handlers of it run in each place, so that what becomes of these can be compared.
"""

from __future__ import annotations

import array
import asyncio
import collections
import datetime as dt
import decimal
import enum
import fractions
import io
import pathlib
import re
import types
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import attrs
import msgspec
import pydantic

from tool_engine.errors import InvalidArgumentsError, ToolExecutionError
from tool_engine.model.call import ValidationError


class Choice(enum.Enum):
    TEXT = "a"
    NUMBER = 1


class Word(enum.StrEnum):
    ONE = "x"


class Flags(enum.Flag):
    A = 1
    B = 2


@dataclass
class Fields:
    a: int = 1
    b: Any = field(default_factory=lambda: {1})


class Record(msgspec.Struct):
    a: int = 1
    b: bytes = b"x"


class Pair(NamedTuple):
    a: int = 1
    b: int = 2


class Model(pydantic.BaseModel):
    a: int = 1
    b: bytes = b"x"
    day: dt.date = dt.date(2020, 1, 1)


class Unwritable(pydantic.BaseModel):
    b: bytes = b"\xff"


@attrs.define
class Attributes:
    a: int = 1


class View(Mapping[str, Any]):
    """A mapping that is no dict."""

    def __getitem__(self, key: str) -> Any:
        return {"a": 1, "b": b"x"}[key]

    def __iter__(self) -> Iterator[str]:
        return iter("ab")

    def __len__(self) -> int:
        return 2


class Broken(View):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("broken")


class Buffer:
    """What lends its memory, as numpy's arrays do."""

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(b"x")


class Secretive:
    """What raises, or leaves, when it is looked at."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act

    @property
    def __class__(self) -> Any:
        return self.act()

    @__class__.setter
    def __class__(self, kind: Any) -> None: ...


def nest(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def hold_itself() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def unfold() -> Any:
    """Lists whose JSON would have ten thousand million entries."""
    value: Any = [1]
    for _ in range(10):
        value = [value] * 10
    return value


def released() -> memoryview:
    view = memoryview(b"a")
    view.release()
    return view


def count() -> Iterator[int]:
    yield 1


async def count_slowly() -> AsyncIterator[int]:
    yield 1


VALUES: dict[str, Callable[[], Any]] = {
    "memoryview": lambda: memoryview(b"abc"),
    "memoryview inside": lambda: [memoryview(b"abc"), 1],
    "memoryview of numbers": lambda: memoryview(array.array("i", [1, 2])),
    "released": released,
    "bytes": lambda: b"abc",
    "bytes, no text": lambda: b"\xff",
    "bytearray": lambda: {"a": bytearray(b"abc")},
    "array": lambda: array.array("i", [1, 2]),
    "buffer": Buffer,
    "set": lambda: {1},
    "frozenset": lambda: {"s": frozenset([2])},
    "tuple": lambda: (1, 2),
    "named tuple": Pair,
    "deque": lambda: collections.deque([1]),
    "range": lambda: range(3),
    "keys": {"a": 1}.keys,
    "counter": lambda: collections.Counter("aab"),
    "proxy": lambda: types.MappingProxyType({"a": 1}),
    "user string": lambda: collections.UserString("x"),
    "view": View,
    "broken": Broken,
    "decimal": lambda: decimal.Decimal("1.10"),
    "decimal NaN": lambda: decimal.Decimal("NaN"),
    "fraction": lambda: fractions.Fraction(1, 3),
    "complex": lambda: 1j,
    "moment": lambda: dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    "day": lambda: [dt.date(2020, 1, 1), dt.time(1, 2), dt.timedelta(seconds=1)],
    "uuid": lambda: uuid.UUID(int=1),
    "path": lambda: pathlib.PurePosixPath("/x"),
    "enum": lambda: [*Choice, Flags.A | Flags.B, Word.ONE],
    "enum key": lambda: {Choice.TEXT: 1, Word.ONE: 2},
    "dataclass": Fields,
    "class": lambda: Fields,
    "struct": lambda: [Record()],
    "pydantic": lambda: [Model()],
    "pydantic, unwritable": Unwritable,
    "attrs": Attributes,
    "generator": count,
    "async generator": count_slowly,
    "iterator": lambda: iter([1]),
    "file": lambda: io.StringIO("x"),
    "NaN": lambda: float("nan"),
    "infinity": lambda: {"a": [float("inf"), -float("inf")]},
    "NaN and bytes": lambda: [2**70, float("nan"), b"x"],
    "number as key": lambda: {1: 2},
    "keys that collide": lambda: {1: 2, "1": 3, None: 4, "null": 5},
    "keys inside": lambda: {"a": b"x", "b": [{1: 2}]},
    "other keys": lambda: {(1, 2): 1, b"a": 2, dt.date(2020, 1, 1): 3},
    "half": lambda: "a\ud800b",
    "half as key": lambda: {"\ud800": 1, "b": b"x"},
    "beyond 64 bit": lambda: {"a": 2**64, "b": -(2**70)},
    "too many digits": lambda: [10**5000, b"x"],
    "zero below": lambda: [-0.0, 1e16, 1.7e308],
    "none": lambda: None,
    "ellipsis": lambda: ...,
    "function": lambda: len,
    "exception": lambda: ValueError("x"),
    "pattern": lambda: re.compile("x"),
    "object": lambda: {"a": [types.SimpleNamespace(a=1)]},
    "holds itself": hold_itself,
    "unfolds": unfold,
    "deep": lambda: nest(100),
    "deep, with bytes": lambda: [nest(100), b"x"],
    "very deep": lambda: {"a": nest(3000)},
    "class raises": lambda: Secretive(shout),
    "class exits": lambda: {"a": [Secretive(leave)]},
    "raw": lambda: [msgspec.Raw(b'{"a":1}')],
}
"""The same in each place: what a model reads of it, or the error that says what to return."""
ONLY_HERE = frozenset(
    (
        *("NaN", "infinity", "NaN and bytes", "number as key", "keys that collide", "keys inside"),
        *("other keys", "enum key", "half", "half as key", "holds itself", "very deep"),
    )
)
"""Those that JSON would change: from another place they are an error that says so."""


def shout() -> NoReturn:
    raise KeyError("no")


def leave() -> NoReturn:
    raise SystemExit(3)


def odd(name: str, act: Callable[[], Any]) -> BaseException:
    """An exception with a property of that name, which does something else."""
    kind = type("OddError", (ValueError,), {name: property(lambda _: act())})
    return kind("odd")  # type: ignore[no-any-return]


class WordlessError(ValueError):
    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__()
        self.act = act

    def __str__(self) -> str:
        return self.act()  # type: ignore[no-any-return]


class UnshownError(ValueError):
    def __repr__(self) -> str:
        raise RuntimeError("a secret of another call")


class ClosedError(ValueError):
    def __getattribute__(self, name: str) -> Any:
        raise KeyError(name)


class Nameless(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__name__", "__qualname__", "__module__", "__mro__"):
            raise KeyError(name)
        return super().__getattribute__(name)


class NamelessError(ValueError, metaclass=Nameless): ...


class UndetailedError(ToolExecutionError):
    @property
    def details(self) -> Any:
        raise KeyError("details")

    @details.setter
    def details(self, value: Any) -> None: ...


class QuotaError(ToolExecutionError):
    error_type = "quota"


class NumberedError(ToolExecutionError):
    error_type = 5  # type: ignore[assignment]


def name_kind(name: str) -> BaseException:
    kind = type("Renamed", (ValueError,), {})
    kind.__name__ = kind.__qualname__ = name
    return kind("x")  # type: ignore[no-any-return]


def in_a_ring(name: str) -> BaseException:
    first, second = ValueError("a"), ValueError("b")
    setattr(first, name, second)
    setattr(second, name, first)
    return first


def with_notes(notes: Any) -> BaseException:
    error = ValueError("noted")
    error.__notes__ = notes
    return error


def in_groups() -> BaseException:
    error: Exception = ValueError("x")
    for _ in range(3000):
        error = ExceptionGroup("g", [error])
    return error


PROPERTIES = (
    *("__traceback__", "__cause__", "__context__", "__notes__", "__class__", "__dict__", "args"),
    *("__suppress_context__", "details", "is_final", "error_type", "findings", "with_traceback"),
)
FINDING = ValidationError("name[0].first", "x", "bad", 1, "a").to_dict()
ERRORS: dict[str, Callable[[], BaseException]] = {
    **{f"{name} raises": lambda name=name: odd(name, shout) for name in PROPERTIES},  # type: ignore[misc]
    **{f"{name} exits": lambda name=name: odd(name, leave) for name in PROPERTIES},  # type: ignore[misc]
    "class of another": lambda: odd("__class__", lambda: ToolExecutionError),
    "words raise": lambda: WordlessError(shout),
    "words exit": lambda: WordlessError(leave),
    "words are no text": lambda: WordlessError(lambda: 5),
    "words of 100 MB": lambda: WordlessError(lambda: "x" * 100_000_000),
    "repr raises": lambda: UnshownError("x"),
    "argument of 100 MB": lambda: ValueError("y" * 100_000_000),
    "own words of 100 MB": lambda: ToolExecutionError("z" * 100_000_000),
    "closed": lambda: ClosedError("x"),
    "nameless": lambda: NamelessError("x"),
    "long name": lambda: name_kind("L" * 1_000_000),
    "name of two lines": lambda: name_kind("Bad\nName"),
    "details raise": lambda: UndetailedError("x"),
    "details of themselves": lambda: ToolExecutionError("x", details={"a": hold_itself()}),
    "details of 30 MB": lambda: ToolExecutionError("x", details={"a": "x" * 30_000_000}),
    "details, no JSON": lambda: ToolExecutionError("x", details={"a": {1}, "b": float("nan")}),
    "own type": lambda: QuotaError("x"),
    "number as type": lambda: NumberedError("x"),
    "findings": lambda: InvalidArgumentsError("x", [FINDING]),
    "no findings": lambda: InvalidArgumentsError("x", [{}, {**FINDING, "message": 1}, 5]),  # type: ignore[list-item]
    "base": lambda: BaseException("x"),
    "causes in a ring": lambda: in_a_ring("__cause__"),
    "contexts in a ring": lambda: in_a_ring("__context__"),
    "notes": lambda: with_notes(["a\ud800", 5, None]),
    "notes, no list": lambda: with_notes(5),
    "notes of 50 MB": lambda: with_notes(["n" * 50_000_000]),
    "groups": in_groups,
    "time": lambda: TimeoutError("x"),
    "exit": lambda: SystemExit("x"),
    "generator": lambda: GeneratorExit("x"),
    "half": lambda: ValueError("a\ud800"),
    "empty": ValueError,
    "after all of them": lambda: ValueError("x"),
}
"""The same in each place: type, words, and what else is said of it."""
OWN_WORDS: dict[str, Callable[[], BaseException]] = {
    "cancelled": lambda: asyncio.CancelledError("x"),
    "memory": lambda: MemoryError("x"),
    "stop": lambda: StopIteration(1),
}
"""Of which each place has its own words."""


def give(name: str) -> Any:
    return VALUES[name]()


async def give_late(name: str) -> Any:
    return VALUES[name]()


def throw(name: str) -> None:
    error = (ERRORS | OWN_WORDS)[name]()
    raise error


async def throw_late(name: str) -> None:
    error = (ERRORS | OWN_WORDS)[name]()
    raise error


def measure(name: str) -> int:
    return len(name)


async def measure_late(name: str) -> int:
    return len(name)
