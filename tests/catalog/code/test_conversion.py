"""Does a function get only values that are what its hints promise, or is the call refused?"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import enum
import uuid
from decimal import Decimal
from typing import Annotated, Any, NamedTuple, NewType, TypedDict

import annotated_types
import msgspec
import pydantic
import pytest

from tool_engine import (
    DefinitionError,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEventType,
    ToolExecutionResult,
)
from tool_engine.approval.callback import CallbackApprover


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Flags(enum.Flag):
    A = 1


@dataclasses.dataclass
class Price:
    amount: Decimal
    parts: list[Decimal] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Positive:
    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x must not be negative")


@dataclasses.dataclass
class Odd:
    x: int

    def __post_init__(self) -> None:
        raise LookupError(self.x)


class Day(msgspec.Struct):
    when: dt.datetime


class Row(TypedDict):
    d: Decimal


class Pair(NamedTuple):
    a: int
    b: Decimal


Money = NewType("Money", Decimal)
Aware = Annotated[dt.datetime, msgspec.Meta(tz=True)]
KINDS: list[tuple[Any, Any, str]] = [
    (int, "1", "v"),
    (float, "1.5", "v"),
    (bool, 1, "v"),
    (str, 1, "v"),
    (Colour, "blue", "v"),
    (Level, 2, "v"),
    (Flags, 8, "v"),
    (dt.datetime, "zz", "v"),
    (Aware, "2026-01-01T00:00:00", "v"),
    (dt.date, "2026-02-30", "v"),
    (dt.time, "9:9", "v"),
    (dt.timedelta, "P99999999999999999D", "v"),
    (Decimal, "1,5", "v"),
    (Decimal, "NaN", "v"),
    (Decimal | None, "-Infinity", "v"),
    (Money, "1e999999999", "v"),
    (dict[str, list[Price]], {"k": [{"amount": "1", "parts": ["0", "sNaN"]}]}, "v.k[0].parts[1]"),
    (Money, "x", "v"),
    (uuid.UUID, "12", "v"),
    (bytes, "@@@", "v"),
    (bytearray, "@@@", "v"),
    (set[Decimal], ["1", "x"], "v[1]"),
    (frozenset[dt.date], ["x"], "v[0]"),
    (tuple[int, Decimal], [1, "x"], "v[1]"),
    (tuple[Decimal, ...], ["1", "2", "x"], "v[2]"),
    (list[Decimal], ["1", "x"], "v[1]"),
    (dict[str, Decimal], {"a": "x"}, "v"),
    (dict[int, str], {"a": "x"}, "v"),
    (dict[uuid.UUID, int], {"a": 1}, "v"),
    (Decimal | None, "x", "v"),
    (dt.datetime | int, "x", "v"),
    (Price, {"amount": "x"}, "v.amount"),
    (Price, {"amount": "1", "parts": ["x"]}, "v.parts[0]"),
    (list[Price], [{"amount": "1"}, {"amount": "x"}], "v[1].amount"),
    (Positive, {"x": -1}, "v"),
    (Odd, {"x": 1}, "v"),
    (Day, {"when": "x"}, "v.when"),
    (Row, {"d": "x"}, "v.d"),
    (Pair, [1, "x"], "v[1]"),
]


async def called(function: Any, sent: dict[str, Any], **keys: Any) -> ToolExecutionResult:
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.tool("t", description="d", **keys)(function)
        return await engine.execute("t", sent)


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(("hint", "bad", "path"), KINDS)
async def test_what_does_not_convert_is_refused(
    hint: Any, bad: Any, path: str, is_async: bool
) -> None:
    """A value of the right JSON type that is none of the hint's ends as `validation_error`."""
    ran: list[Any] = []

    async def wait(v: Any, context: Any) -> None:
        ran.append(v)

    def work(v: Any, context: Any) -> None:
        ran.append(v)

    function = wait if is_async else work
    function.__annotations__ = {"v": hint}
    result = await called(function, {"v": bad})
    assert result.error_type == "validation_error", result.error
    assert not ran
    (finding,) = result.validation_errors
    assert (finding["path"], finding["parameter"], finding["level"]) == (path, "v", "error")
    assert f"'{path}'" in finding["message"]
    assert finding["message"] in str(result.error)
    assert finding["expected"]
    assert finding["actual"] is not None


async def test_all_of_them_are_told() -> None:
    """Each argument that does not convert has its finding, and none of them says the secret."""

    async def take(a: Decimal, b: dt.datetime, password: Decimal) -> None: ...

    result = await called(take, {"a": "x", "b": "y", "password": "hunter2"})
    assert [each["path"] for each in result.validation_errors] == ["a", "b", "password"]
    assert "hunter2" not in str((result.error, result.validation_errors))


async def test_nobody_is_asked_for_what_does_not_convert() -> None:
    """It takes no slot, asks for no consent, and no event says that it started."""
    asked: list[Any] = []
    seen: list[Any] = []

    async def take(a: Decimal) -> None: ...

    approver = CallbackApprover(asked.append)
    config = ToolEngineConfig("none", auto_reload=False)
    async with ToolEngine(config, approver=approver) as engine:
        engine.tool("t", description="d", permission={"execution": "ask_always"})(take)
        engine.subscribe(lambda event: seen.append(event.event_type))
        result = await engine.execute("t", {"a": "x"})
    assert result.error_type == "validation_error"
    assert not asked
    assert ToolEngineEventType.VALIDATION_ERROR in seen
    assert ToolEngineEventType.EXECUTION_STARTED not in seen


async def test_conversion_is_not_tried_again() -> None:
    """What does not convert is no failure that `retry` mends, nor one that a breaker counts."""
    tries = []

    @dataclasses.dataclass
    class Picky:
        x: int

        def __post_init__(self) -> None:
            tries.append(self.x)
            raise ValueError("never")

    async def take(v: Any) -> None: ...

    take.__annotations__ = {"v": Picky}
    retry = {"attempts": 3, "backoff": 0.001}
    result = await called(take, {"v": {"x": 1}}, retry=retry, idempotent=True)
    assert result.error_type == "validation_error"
    assert tries == [1]


async def test_who_shares_the_run_is_told_as_well() -> None:
    """With `single_flight`, each of the calls has the findings of the one that ran."""

    async def take(v: Positive) -> None: ...

    take.__annotations__ = {"v": Positive}
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        shared = {"collision": "single_flight", "key": "params"}
        engine.tool("t", description="d", effect="read", concurrency=shared)(take)
        calls = [engine.execute("t", {"v": {"x": -1}}) for _ in range(3)]
        for result in await asyncio.gather(*calls):
            assert result.error_type == "validation_error"
            assert [each["path"] for each in result.validation_errors] == ["v"]


# Defaults that a function makes


def made(value: Any) -> Any:
    return lambda: value


Short = Annotated[str, msgspec.Meta(max_length=2)]


class Nested(msgspec.Struct):
    n: Short = msgspec.field(default_factory=lambda: "long")


@dataclasses.dataclass
class Deep:
    inner: list[Nested]


@dataclasses.dataclass
class Wrong:
    x: int = dataclasses.field(default_factory=lambda: "ten")  # type: ignore[assignment]


@dataclasses.dataclass
class Right:
    when: dt.datetime = dataclasses.field(default_factory=dt.datetime.now)
    tags: set[str] = dataclasses.field(default_factory=lambda: {"a"})
    note: Any = dataclasses.field(default_factory=object)


field = pydantic.Field


@pytest.mark.parametrize(
    ("hint", "sent", "path"),
    [
        (Wrong, {"v": {}}, "v.x"),
        (Wrong | None, {"v": {}}, "v.x"),
        (list[Wrong], {"v": [{"x": 1}, {}]}, "v[1].x"),
        (tuple[int, Wrong], {"v": [1, {}]}, "v[1].x"),
        (dict[str, Wrong], {"v": {"k": {}}}, "v.k.x"),
        (Nested, {"v": {}}, "v.n"),
        (Deep, {"v": {"inner": [{"n": "a"}, {}]}}, "v.inner[1].n"),
        (Annotated[int, field(default_factory=made("ten"))], {}, "v"),
        (Annotated[str, field(max_length=2, default_factory=made("long"))], {}, "v"),
        (Annotated[int, annotated_types.Gt(3), field(default_factory=made(1))], {}, "v"),
        (Annotated[list[int], field(default_factory=made(["x"]))], {}, "v[0]"),
        (Annotated[Decimal, field(default_factory=made(object()))], {}, "v"),
    ],
)
async def test_a_made_default_is_judged(hint: Any, sent: dict[str, Any], path: str) -> None:
    """A default that a function makes for the call is refused where it breaks its own rules."""
    ran: list[Any] = []

    async def take(v: Any) -> None:
        ran.append(v)

    take.__annotations__ = {"v": hint}
    result = await called(take, sent)
    assert result.error_type == "validation_error", result
    assert not ran
    (finding,) = result.validation_errors
    assert finding["path"] == path
    assert "default" in finding["message"]


async def test_right_defaults_are_handed_on() -> None:
    """What a function makes, and is right, reaches the tool as it is, made once a call."""
    numbers = iter(range(10))

    async def take(
        v: Right, n: Annotated[int, field(default_factory=lambda: next(numbers))]
    ) -> dict[str, Any]:
        return {
            "n": n,
            "kinds": [type(v.when).__name__, type(v.tags).__name__, type(v.note).__name__],
        }

    take.__annotations__ = {
        "v": Right,
        "n": Annotated[int, field(default_factory=lambda: next(numbers))],
    }
    for number in range(2):
        result = await called(take, {"v": {}})
        assert result.output == {"n": number, "kinds": ["datetime", "set", "object"]}


@dataclasses.dataclass
class Known:
    x: int = dataclasses.field(default_factory=list)  # type: ignore[assignment]


class Struck(msgspec.Struct):
    x: Annotated[list[int], msgspec.Meta(min_length=1)] = []


class Tuple(NamedTuple):
    x: int = "ten"  # type: ignore[assignment]


@pytest.mark.parametrize(
    "hint",
    [
        *(Known, Struck, Tuple, list[Known], Known | None, dict[str, Known]),
        Annotated[int, field(default_factory=list)],
        Annotated[list[int], annotated_types.MinLen(1), field(default_factory=list)],
    ],
)
async def test_a_known_default_is_judged_at_registration(hint: Any) -> None:
    """A default that is the same for every call is refused when the tool is registered."""

    async def take(v: Any) -> None: ...

    take.__annotations__ = {"v": hint}
    with pytest.raises(DefinitionError, match="default"):
        await called(take, {})
