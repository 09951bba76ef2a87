"""Does a tool's return value reach its caller as JSON, or the call fail with what to return?

Looked at: `as_output`, `to_text`, a session's text and the record of the same value; tools with and
without `result` limits, plain and async ones.
"""

from __future__ import annotations

import array
import asyncio
import dataclasses
import datetime as dt
import enum
import json
import threading
import uuid
from collections import OrderedDict, deque, namedtuple
from collections.abc import Iterator
from decimal import Decimal
from pathlib import PurePosixPath
from types import MappingProxyType, SimpleNamespace
from typing import Any

import attrs
import msgspec
import pydantic
import pytest

from tests.calls.samples import bare
from tool_engine import ToolEngine, ToolEngineConfig, ToolExecutionContext, ToolExecutionResult
from tool_engine.errors import ToolExecutionError
from tool_engine.model.json.returned_value import to_json
from tool_engine.output import to_text
from tool_engine.output.foreign_values import LONG, may_take_long, plain_output


class Model(pydantic.BaseModel):
    a: int = 1
    at: dt.date = dt.date(2026, 1, 2)
    inner: list[Model] = []


class Root(pydantic.RootModel[list[int]]):
    pass


@pydantic.dataclasses.dataclass
class Checked:
    a: int = 1


@attrs.define
class Attrs:
    a: Any = 1


@dataclasses.dataclass(repr=False)
class Data:
    a: Any = 1


class Struct(msgspec.Struct):
    a: Any = 1


class Mood(enum.Enum):
    GOOD = "good"


Pair = namedtuple("Pair", "a b")  # noqa: PYI024 - as users write it
FORM = {"a": 1, "at": "2026-01-02", "inner": []}


async def returned(value: Any, **spec: Any) -> ToolExecutionResult:
    """What an engine makes of `value`, returned by an async tool and by a plain one alike."""

    async def give() -> Any:
        return value

    def give_plainly() -> Any:
        return value

    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.register_tool(bare("give", **spec), give)
        engine.register_tool(bare("plain", **spec), give_plainly)
        result = await engine.execute("give")
        other = await engine.execute("plain")
        assert (result.output, result.error) == (other.output, other.error)
        (record, _) = await engine.query_call_records()
        assert record.is_success is result.is_success
        if result.is_success:
            assert "repr" not in json.dumps(record.result)
    return result


@pytest.mark.parametrize("limits", [{}, {"result": {"max_chars": 20_000}}])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Model(inner=[Model(a=2)]), {**FORM, "inner": [{**FORM, "a": 2}]}),
        ([Model()], {"result": [FORM]}),
        ({"m": {"n": (Model(),)}}, {"m": {"n": [FORM]}}),
        (Root([1]), {"result": [1]}),
        (Checked(), {"a": 1}),
        (Attrs(), {"a": 1}),
        ([Attrs(Attrs())], {"result": [{"a": {"a": 1}}]}),
        (Attrs(Model()), {"a": FORM}),
        (Data(Model()), {"a": FORM}),
        (Struct([Model()]), {"a": [FORM]}),
        (Pair(1, Model()), {"result": [1, FORM]}),
        (MappingProxyType({"a": Model()}), {"a": FORM}),
        (OrderedDict(a=Model()).values(), {"result": [FORM]}),
        (deque([1]), {"result": [1]}),
        (range(3), {"result": [0, 1, 2]}),
        ({1: 2}.keys(), {"result": [1]}),
        (array.array("i", [1]), {"result": [1]}),
        ({1}, {"result": [1]}),
        (None, {"result": None}),
        (dt.date(2026, 1, 2), {"result": "2026-01-02"}),
        (dt.timedelta(seconds=5), {"result": "PT5S"}),
        (Decimal("1.5"), {"result": "1.5"}),
        (Mood.GOOD, {"result": "good"}),
        (uuid.UUID(int=1), {"result": str(uuid.UUID(int=1))}),
        (PurePosixPath("a/b"), {"result": "a/b"}),
        ([PurePosixPath("a"), 2**70], {"result": ["a", 2**70]}),
    ],
)
async def test_what_has_a_form_in_json(value: Any, text: Any, limits: dict[str, Any]) -> None:
    """U17: models, classes of fields and collections are written as what they hold, in depth."""
    result = await returned(value, **limits)
    assert result.is_success, result.error
    assert json.loads(to_text(result.output)) == text


def numbers() -> Iterator[int]:
    yield 1


async def waits() -> None: ...


HUGE = 10**4300


class Huge(enum.Enum):
    ONE = HUGE


class Unsayable:
    """A key that has no text."""

    def __str__(self) -> str:
        raise ZeroDivisionError("no text")

    __repr__ = __str__


async def test_the_longest_number() -> None:
    """One of 4,300 digits is returned, and read as it was."""
    result = await returned({"a": HUGE - 1})
    assert json.loads(to_json(result.to_dict()))["output"] == {"a": HUGE - 1}


async def test_a_number_in_a_long_output() -> None:
    """It is refused, too."""
    result = await returned([HUGE, "x" * 50_000])
    assert "a number that it returned at '[0]' has too many digits" in str(result.error)


async def test_what_is_deeper_than_is_looked() -> None:
    """A number that nobody can write stops no answer and no log line there."""
    value: Any = HUGE
    for _ in range(100):
        value = [value]
    result = await returned(value)
    assert b"result" in to_json(result.to_dict())
    assert "result" in repr(result)


async def test_a_key_without_a_text() -> None:
    """It ends no call with an error that is not one of its result."""
    result = await returned({Unsayable(): 1})
    assert result.is_success, result.error
    assert "Unsayable" in to_text(result.output)


class Broken(pydantic.BaseModel):
    @pydantic.model_serializer
    def write(self) -> Any:
        raise ZeroDivisionError("no form")


@pytest.mark.parametrize("limits", [{}, {"result": {"max_chars": 20_000}}])
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (numbers, "the generator that it returned has no form in JSON: return a list"),
        (lambda: map(str, [1]), "return a list of what it gives"),
        (lambda: {"a": [numbers()]}, "the generator that it returned at 'a[0]' has no form"),
        (
            lambda: [waits()],
            "the coroutine that it returned at '[0]' has no form in JSON: await it",
        ),
        (object, "the object that it returned has no form in JSON: return text, numbers"),
        (lambda: {"a": SimpleNamespace(a=1)}, "SimpleNamespace that it returned at 'a'"),
        (lambda: ValueError("x"), "the ValueError that it returned has no form in JSON: raise it"),
        (lambda: Model, "the class Model that it returned has no form"),
        (lambda: Data(threading.Lock()), "that it returned at 'a' has no form"),
        (lambda: 1j, "the complex that it returned has no form"),
        (Broken, "the Broken that it returned cannot be written as JSON"),
        (lambda: HUGE, "a number that it returned has too many digits for JSON: return it as text"),
        (lambda: [1, -HUGE], "a number that it returned at '[1]' has too many digits"),
        (lambda: {"a": {"b": (HUGE,)}}, "a number that it returned at 'a.b[0]' has too many"),
        (lambda: {HUGE: 1}, "a number that it returned has too many digits"),
        (lambda: Huge.ONE, "a number that it returned has too many digits"),
    ],
)
async def test_what_has_no_form_in_json(make: Any, words: str, limits: dict[str, Any]) -> None:
    """U17: what would reach a model as a `repr` ends the call with what to return."""
    value = make()
    result = await returned(value, **limits)
    assert result.error_type == "execution_error"
    assert words in str(result.error)
    assert result.output == {}


def fold(levels: int, width: int = 2) -> dict[str, Any]:
    """Return a small value that holds one text `width ** levels` times."""
    value: dict[str, Any] = {"text": "x"}
    for _ in range(levels):
        value = {f"key_{number}": value for number in range(width)}
    return value


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    "limits", [{}, {"result": {"max_items": 9}}, {"output": {"type": "object"}}]
)
@pytest.mark.parametrize(
    "make",
    [
        lambda: fold(28),
        lambda: fold(3, 1000),
        lambda: [fold(28)],
        lambda: Data(fold(28)),
        lambda: [{"a": 1}, [], *[fold(6, 20)] * 3],
    ],
)
async def test_what_would_fill_the_memory(make: Any, limits: dict[str, Any]) -> None:
    """U17: a value that holds the same ones again and again is refused before it is written."""
    result = await returned(make(), **limits)
    assert result.error_type == "execution_error"
    assert "more than 500,000 of them: return each of them once" in str(result.error)


@pytest.mark.parametrize(
    "value",
    [fold(12), [fold(2)] * 1_000, {"rows": [[number, [number]] for number in range(300_000)]}],
)
async def test_what_is_large_and_not_folded(value: Any) -> None:
    """U17: what holds a few values twice, or very many once, is an output as it is."""
    result = await returned(value)
    assert result.error is None
    assert result.output == (value if isinstance(value, dict) else {"result": value})


async def test_a_form_that_takes_for_ever() -> None:
    """K29: what a returned object does to be written counts in the call's time, off the loop."""
    let_go = threading.Event()

    class Slow(Model):
        def model_dump(self, **_: Any) -> Any:
            let_go.wait(20)
            return {}

    async def give() -> Any:
        return [Slow()]

    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.register_tool(bare("give"), give)
        began = asyncio.get_running_loop().time()
        result = await engine.execute("give", {}, ToolExecutionContext(timeout=0.2))
        assert asyncio.get_running_loop().time() - began < 10
        assert result.error_type == "timeout"
        let_go.set()


def test_keys_that_are_the_same_in_json() -> None:
    """U17: no key is written twice; one that is no text gives way, as it does in a record."""
    assert to_text({1: "a", "1": "b"}) == '{"1\'": "a", "1": "b"}'
    assert to_text([{"x": {None: 1, "null": 2}}]) == '[{"x": {"null\'": 1, "null": 2}}]'
    assert to_text({True: 1, 2: 3}) == '{"true": 1, "2": 3}'


async def test_an_end_to_what_is_taken_apart() -> None:
    """A value that holds itself, twice even, is left to the text, which cuts it."""
    endless: list[Any] = [PurePosixPath("a")]
    endless.append(endless)
    assert (await returned(endless)).is_success
    assert "…" in to_text(plain_output(endless))
    with pytest.raises(ToolExecutionError):
        plain_output([[object()]])
    shared: Any = [Model()]
    for _ in range(40):
        shared = [shared, shared]
    assert isinstance(plain_output(shared)["result"], list)


async def test_what_raises_for_its_own_words() -> None:
    """An object whose `repr` raises is refused like any other, and named by its class."""

    class Strange:
        def __repr__(self) -> str:
            raise ValueError("no words")

    for value in (Strange(), {"a": Strange()}):
        result = await returned(value)
        assert result.error_type == "execution_error"
        assert "the Strange that it returned" in str(result.error)


@pytest.mark.parametrize(
    ("value", "is_long"),
    [
        ({"content": [{"type": "text", "text": "3"}]}, False),
        ({"rows": [[1, 2.5, None]] * 10}, False),
        ({"rows": [[1] * 100] * 10}, False),
        ({"content": [{"type": "text", "text": "x" * (LONG + 1)}]}, True),
        ({"some": ["x" * LONG, {"more": "x"}]}, True),
        ({"rows": [[0] * 100_000] * 10}, True),
        ({"rows": [{"name": "x" * 1_000}] * 10_000}, True),
    ],
)
def test_only_what_may_be_long_is_left_to_a_thread(value: dict[str, Any], *, is_long: bool) -> None:
    """Promise 9: what is looked at as a whole is judged as what is looked at in part."""
    assert may_take_long(value) is is_long
