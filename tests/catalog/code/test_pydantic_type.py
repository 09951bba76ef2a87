"""Do types that only pydantic reads become tools that hold to all that they say?"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import enum
import pathlib
import subprocess
import sys
import threading
import typing
from decimal import Decimal
from typing import Annotated, Any, Literal

import annotated_types
import attrs
import jsonschema_rs
import msgspec
import pydantic
import pytest
from typing_extensions import TypedDict

from tests.contracts.signatures import Cat, Dog, Renamed
from tool_engine import (
    DefinitionError,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolExecutionResult,
)
from tool_engine.catalog.code import adapting, annotation
from tool_engine.catalog.code.annotation import read_hint
from tool_engine.catalog.code.metadata import UnsupportedHintError


class Address(pydantic.BaseModel):
    """Where it is."""

    street: str = pydantic.Field(min_length=2, description="The street.")
    code: Annotated[str, pydantic.StringConstraints(pattern=r"^\d{5}$")]


class User(pydantic.BaseModel):
    name: str
    age: Annotated[int, pydantic.Field(ge=0, lt=150)] = 3
    home: Address | None = None
    tags: Annotated[list[str], annotated_types.MaxLen(2)] = []


class Tree(pydantic.BaseModel):
    value: int
    inner: list[Tree] = []


class SecretTree(pydantic.BaseModel):
    key: pydantic.SecretStr = pydantic.SecretStr("hidden")
    inner: list[SecretTree] = []


class Choice(pydantic.BaseModel):
    mode: Literal["a"] | None


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    x: int


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    at: dt.datetime
    part: Decimal
    names: set[str]


@dataclasses.dataclass
class Ruled:
    x: Annotated[int, pydantic.Field(ge=1)]
    y: int = pydantic.Field(5, ge=5)


@pydantic.dataclasses.dataclass
class Checked:
    x: int = pydantic.Field(gt=0)


@dataclasses.dataclass
class Holder:
    user: User


class Row(TypedDict):
    x: Annotated[int, annotated_types.Gt(3)]
    at: pathlib.PurePosixPath


@dataclasses.dataclass
class Left:
    left: int


@dataclasses.dataclass
class Right:
    right: int


@attrs.define
class Part:
    number: int = attrs.field(validator=attrs.validators.ge(1))


class Colour(enum.Enum):
    RED = "red"


Box = typing.TypeVar("Box")


class Boxed(pydantic.BaseModel, typing.Generic[Box]):
    inside: Box


class Roots(pydantic.RootModel[list[int]]):
    """Roots."""


def _tool_of(hint: Any, work: Any = None, default: Any = None, *, is_async: bool = True) -> Any:
    """Return a function with one parameter `v` of a type, which gives its argument to `work`."""

    async def take(v: Any) -> Any:
        return v if work is None else work(v)

    def take_plain(v: Any) -> Any:
        return v if work is None else work(v)

    function = take if is_async else take_plain
    function.__annotations__ = {"v": hint}
    if default is not None:
        function.__defaults__ = (default,)
    return function


async def _called(
    function: Any,
    sent: dict[str, Any],
    context: ToolExecutionContext | None = None,
    **keys: Any,
) -> ToolExecutionResult:
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.tool("t", description="d", **keys)(function)
        return await engine.execute("t", sent, context)


Absolute = Annotated[int, pydantic.AfterValidator(abs)]
Lower = Annotated[str, pydantic.StringConstraints(to_lower=True, strip_whitespace=True)]
Late = Annotated[dt.date, annotated_types.Ge(dt.date(2026, 1, 1))]
Pet = Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]
RIGHT: list[tuple[Any, Any, Any]] = [
    (User, {"name": "a"}, User(name="a")),
    (User | None, None, None),
    (list[User], [{"name": "a", "age": 1}], [User(name="a", age=1)]),
    (dict[str, Address], {"k": {"street": "ab", "code": "12345"}},
     {"k": Address(street="ab", code="12345")}),
    (Tree, {"value": 1, "inner": [{"value": 2, "inner": [{"value": 3}]}]},
     Tree(value=1, inner=[Tree(value=2, inner=[Tree(value=3)])])),
    (Pet, {"kind": "dog", "name": "Rex"}, Dog(kind="dog", name="Rex")),
    (Pet | None, None, None),
    (Pet | None, {"kind": "cat", "lives": 9}, Cat(kind="cat", lives=9)),
    (Left | Right | None, None, None),
    (Choice, {"mode": None}, Choice(mode=None)),
    (pydantic.JsonValue, {"a": [1, None]}, {"a": [1, None]}),
    (Renamed, {"firstNumber": 1}, Renamed(firstNumber=1)),
    (Open, {"x": 1, "y": 2}, Open.model_validate({"x": 1, "y": 2})),
    (Strict, {"at": "2026-01-31T09:30:00Z", "part": "1.5", "names": ["a"]},
     Strict(at=dt.datetime(2026, 1, 31, 9, 30, tzinfo=dt.UTC), part=Decimal("1.5"), names={"a"})),
    (Ruled, {"x": 1}, Ruled(1, 5)),
    (Checked, {"x": 1}, Checked(x=1)),
    (Holder, {"user": {"name": "a"}}, Holder(User(name="a"))),
    (Row, {"x": 4, "at": "a/b"}, {"x": 4, "at": pathlib.PurePosixPath("a/b")}),
    (Left | Right, {"right": 1}, Right(1)),
    (Boxed[Address], {"inside": {"street": "ab", "code": "12345"}},
     Boxed[Address](inside=Address(street="ab", code="12345"))),
    (Roots, [1, 2], Roots([1, 2])),
    (Part, {"number": 1}, Part(1)),
    (Colour, "red", Colour.RED),
    (pathlib.Path, "a/b", pathlib.Path("a/b")),
    (list[pathlib.Path | None], ["a", None], [pathlib.Path("a"), None]),
    (Absolute, -3, 3),
    (list[Absolute], [-3], [3]),
    (Lower, " ABC ", "abc"),
    (Late, "2026-02-01", dt.date(2026, 2, 1)),
    (Annotated[int, pydantic.Field(strict=True)], 1, 1),
    (Annotated[int, annotated_types.Predicate(lambda n: n % 2 == 0)], 2, 2),
    (pydantic.AwareDatetime, "2026-01-31T09:30:00Z",
     dt.datetime(2026, 1, 31, 9, 30, tzinfo=dt.UTC)),
]  # fmt: skip


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(("hint", "sent", "made"), RIGHT)
async def test_the_function_gets_the_declared_type(
    hint: Any, sent: Any, made: Any, is_async: bool
) -> None:
    """What is sent arrives as the type of the hint, and the schema lets it pass."""
    got: list[Any] = []
    result = await _called(_tool_of(hint, got.append, is_async=is_async), {"v": sent})
    assert result.error is None
    assert got == [made]
    assert type(got[0]) is type(made)
    jsonschema_rs.Draft202012Validator(read_hint(hint).schema)


@pytest.mark.parametrize(
    ("hint", "sent", "path"),
    [
        (User, {"name": "a", "age": -1}, "v.age"),
        (User, {"name": "a", "age": 150}, "v.age"),
        (User, {"name": "a", "tags": ["a", "b", "c"]}, "v.tags"),
        (User, {"name": "a", "home": {"street": "ab", "code": "x"}}, "v.home.code"),
        (User, {}, "v.name"),
        (list[User], [{"name": "a"}, {"name": 1}], "v[1].name"),
        (Tree, {"value": 1, "inner": [{"value": 2, "inner": [{"value": "x"}]}]},
         "v.inner[0].inner[0].value"),
        (Tree, {"value": 1, "inner": [{"value": 2, "inner": [{}]}]}, "v.inner[0].inner[0].value"),
        (Pet, {"kind": "dog", "lives": 1}, "v"),
        (Ruled, {"x": 0}, "v.x"),
        (Checked, {"x": 0}, "v.x"),
        (Row, {"x": 3, "at": "a"}, "v.x"),
        (Part, {"number": 0}, "v"),
        (Late, "2025-12-31", "v"),
        (Annotated[int, annotated_types.Predicate(lambda n: n % 2 == 0)], 1, "v"),
        (pathlib.Path, 1, "v"),
        (Strict, {"at": "2026-01-31T09:30:00Z", "part": "x", "names": []}, "v.part"),
        (pydantic.AwareDatetime, "2026-01-31", "v"),
    ],
)  # fmt: skip
async def test_what_breaks_a_rule_is_refused_with_its_place(
    hint: Any, sent: Any, path: str
) -> None:
    """A rule of the type is enforced, and the finding says where it was broken."""
    ran: list[Any] = []
    result = await _called(_tool_of(hint, ran.append), {"v": sent})
    assert result.error_type == "validation_error"
    assert not ran
    assert path in [each["path"] for each in result.validation_errors]


def test_constraints_are_in_the_schema() -> None:
    """Each rule of a model that JSON Schema can say is shown to models; defaults are words."""
    assert read_hint(User).schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {
                "type": "integer",
                "minimum": 0,
                "exclusiveMaximum": 150,
                "description": "Default: 3",
            },
            "home": {
                "type": ["object", "null"],
                "description": "Where it is.",
                "properties": {
                    "street": {"type": "string", "minLength": 2, "description": "The street."},
                    "code": {"type": "string", "pattern": r"^\d{5}$"},
                },
                "required": ["street", "code"],
                "additionalProperties": False,
            },
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        },
        "required": ["name"],
        "additionalProperties": False,
    }


async def test_a_model_knows_what_was_sent() -> None:
    """No default is sent in place of a caller: what was left out is unset, as in a patch."""

    def unset(user: User) -> dict[str, Any]:
        return user.model_dump(exclude_unset=True)

    result = await _called(_tool_of(User, unset), {"v": {"name": "a"}})
    assert result.output == {"name": "a"}


@pytest.mark.parametrize(
    ("hint", "default", "shown"),
    [
        (User, User(name="a"), {"name": "a"}),
        (Absolute, -3, None),
        (Late, dt.date(2026, 1, 2), "2026-01-02"),
        (pathlib.Path, pathlib.Path("a"), "a"),
        (SecretTree, SecretTree(key=pydantic.SecretStr("mine")), None),
    ],
)
async def test_a_default_of_the_signature(hint: Any, default: Any, shown: Any) -> None:
    """Models are shown a default that JSON can say; the function gets its own in any case."""
    got: list[Any] = []
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.tool("t", description="d")(_tool_of(hint, got.append, default))
        (parameter,) = engine.get_or_raise("t").parameters
        assert (parameter.default, parameter.required) == (shown, False)
        assert (await engine.execute("t")).error is None
    assert got == [default]


async def test_a_default_that_does_not_fit_is_refused() -> None:
    """A default of another type is a mistake of the author, found at registration."""
    with pytest.raises(DefinitionError, match="does not fit its type"):
        await _called(_tool_of(User, None, "text"), {})


def _raise(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("ask for less"), "'v[1]' does not fit: ask for less"),
        (AssertionError("ask for less"), "'v[1]' does not fit: ask for less"),
        (LookupError("ask for less"), "'v' does not fit: LookupError: ask for less"),
        (ValueError(), "'v[1]' does not fit: "),
    ],
)
async def test_a_validator_that_raises(error: Exception, words: str, is_async: bool) -> None:
    """What a validator raises is a validation error with the path and its words."""

    def check(value: int) -> int:
        return _raise(error) if value == 2 else value

    hint = list[Annotated[int, pydantic.AfterValidator(check)]]
    retry = {"attempts": 3, "backoff": 0.001}
    function = _tool_of(hint, is_async=is_async)
    result = await _called(function, {"v": [1, 2]}, retry=retry, idempotent=True)
    assert result.error_type == "validation_error"
    assert words in str(result.error)
    assert result.metadata["attempts"] == 1


class Login(pydantic.BaseModel):
    key: pydantic.SecretStr

    @pydantic.field_validator("key")
    @classmethod
    def check(cls, key: pydantic.SecretStr) -> pydantic.SecretStr:
        raise ValueError(f"{key.get_secret_value()} is too short")


async def test_a_validator_that_says_a_secret() -> None:
    """The value of a secret is hidden where a validator repeats it, in result and record."""
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.tool("t", description="d")(_tool_of(Login))
        result = await engine.execute("t", {"v": {"key": "Kx7-hunter2"}})
        records = await engine.store.query_call_records()
    assert result.error_type == "validation_error"
    assert "is too short" in str(result.error)
    assert "hunter2" not in str((result, result.to_dict(), records))


class Vault(pydantic.BaseModel):
    name: str = ""
    pin: pydantic.Secret[int] | None = None


@pytest.mark.parametrize(
    ("hint", "sent", "wrong"),
    [
        (pydantic.Secret[int], 73918462, ["73918462"]),
        (pydantic.Secret[int] | None, 73918462, ["73918462"]),
        (list[pydantic.Secret[str]], ["73918462"], "73918462"),
        (pydantic.Secret[Vault], {"name": "73918462"}, ["73918462"]),
        (Vault, {"pin": 73918462}, {"pin": ["73918462"]}),
        (pydantic.SecretStr, "73918462", ["73918462"]),
    ],
)
async def test_each_kind_of_secret_is_hidden(hint: Any, sent: Any, wrong: Any) -> None:
    """What pydantic keeps from being printed stands in no record, event, error or finding."""
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        seen: list[Any] = []
        engine.tool("t", description="d")(_tool_of(hint, repr))
        engine.subscribe(lambda event: seen.append(event.to_dict()))
        right = await engine.execute("t", {"v": sent})
        refused = await engine.execute("t", {"v": wrong})
        records = [each.to_dict() for each in await engine.store.query_call_records()]
    assert right.is_success, right.error
    assert refused.error_type == "validation_error"
    assert "73918462" not in f"{records} {refused.to_dict()} {seen}"


async def test_a_tree_of_secrets() -> None:
    """What is secret in a tree is so at each depth."""
    seen: list[Any] = []

    async def sign(tree: SecretTree) -> int:
        seen.append(tree)
        return 1

    deep = {"key": "hunter2", "inner": [{"key": "hunter3", "inner": [{"key": "hunter4"}]}]}
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.tool(description="d")(sign)
        assert (await engine.execute("sign", {"tree": deep})).is_success
        wrong = {"inner": [{"inner": ["hunter5"]}, {"key": ["hunter6"]}]}
        refused = await engine.execute("sign", {"tree": wrong})
        records = [each.to_dict() for each in await engine.store.query_call_records()]
    assert seen[0].inner[0].inner[0].key.get_secret_value() == "hunter4"
    assert refused.error_type == "validation_error"
    assert "hunter" not in f"{records} {refused.to_dict()}"


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_validator_that_hangs_is_under_the_deadline(is_async: bool) -> None:
    """The caller has its result by the deadline, and the event loop goes on."""
    freed, threads = threading.Event(), list[int]()

    def hang(value: int) -> int:
        threads.append(threading.get_ident())
        freed.wait(20)
        return value

    hint = Annotated[int, pydantic.AfterValidator(hang)]
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.tool("t", description="d")(_tool_of(hint, is_async=is_async))
        result = await engine.execute("t", {"v": 1}, ToolExecutionContext(timeout=0.1))
        freed.set()
    assert result.error_type == "timeout"
    assert threads != [threading.get_ident()]


async def test_code_of_other_classes_leaves_the_loop_as_well() -> None:
    """`__post_init__` runs code of the author like a validator, and is treated like one."""
    threads: list[int] = []

    @dataclasses.dataclass
    class Slow:
        x: int

        def __post_init__(self) -> None:
            threads.append(threading.get_ident())

    assert (await _called(_tool_of(Slow, lambda _: None), {"v": {"x": 1}})).error is None
    assert threads != [threading.get_ident()]


@dataclasses.dataclass
class Computed:
    x: int
    double: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.double = 2 * self.x


@pydantic.dataclasses.dataclass
class Fixed:
    x: int
    kind: str = pydantic.Field("fixed", init=False)


@pytest.mark.parametrize(("kind", "name"), [(Computed, "double"), (Fixed, "kind")])
async def test_a_field_that_its_class_makes_is_asked_of_no_model(kind: Any, name: str) -> None:
    """It is no part of the schema, and one that is sent is left out with a warning."""
    tool = _tool_of(kind, lambda value: getattr(value, name))
    assert list(read_hint(kind).schema["properties"]) == ["x"]
    for sent in {"x": 4}, {"x": 4, name: 5}:
        result = await _called(tool, {"v": sent})
        assert result.output == {"result": getattr(kind(4), name)}
        assert len(result.validation_errors) == len(sent) - 1


def test_what_is_pydantics_own_stays_on_the_loop() -> None:
    """A thread is taken only for functions that pydantic did not write."""
    for hint, runs in (
        (User, False),
        (Tree, False),
        (Strict, False),
        (pydantic.SecretStr | User, False),
        (Absolute, True),
        (Login, True),
        (Annotated[int, annotated_types.Predicate(bool)] | None, True),
        (Boxed[Absolute], True),
        (Annotated[User, pydantic.Field(default_factory=lambda: User(name="a"))], True),
    ):
        typed = read_hint(hint).typed
        assert (typed is not None and typed.runs_code) is runs, hint


async def test_a_thread_gives_what_it_has_and_keeps_a_cancellation() -> None:
    """Values and errors come back, and a cancellation waits for the end of the thread."""
    assert await adapting.run_in_thread(lambda: 3) == 3
    with pytest.raises(KeyError):
        await adapting.run_in_thread(lambda: dict[str, int]()["a"])
    freed, begun = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        freed.wait(20)

    task = asyncio.create_task(adapting.run_in_thread(work))
    await asyncio.to_thread(begun.wait, 20)
    task.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not task.done()
    freed.set()
    with pytest.raises(asyncio.CancelledError):
        await task


# Results


class Unwritable(pydantic.BaseModel):
    x: int = 1

    @pydantic.model_serializer
    def write(self) -> dict[str, Any]:
        raise LookupError("no form today")


@pytest.mark.parametrize(
    ("value", "output"),
    [
        (User(name="a"), {"name": "a", "age": 3, "home": None, "tags": []}),
        ({"of": [Renamed(firstNumber=1)]}, {"of": [{"first": 1}]}),
        (Checked(x=1), {"x": 1}),
        (Roots([1]), {"result": [1]}),
        (Holder(User(name="a", tags=["b"])),
         {"user": {"name": "a", "age": 3, "home": None, "tags": ["b"]}}),
        (Part(2), {"number": 2}),
        (Row(x=1, at=pathlib.PurePosixPath("a")), {"x": 1, "at": pathlib.PurePosixPath("a")}),
    ],
)  # fmt: skip
async def test_results_are_written_in_their_own_form(value: Any, output: Any) -> None:
    """A result is asked for its own JSON form, wherever in the result it stands."""
    result = await _called(_tool_of(int, lambda _: value), {"v": 1})
    assert result.output == output


@pytest.mark.parametrize("value", [Unwritable(), [Unwritable()], {"a": {"b": Unwritable()}}])
async def test_a_model_that_cannot_be_written(value: Any) -> None:
    """A serializer that raises is an execution error with its words, never a `repr`."""
    result = await _called(_tool_of(int, lambda _: value), {"v": 1})
    assert result.error_type == "execution_error"
    assert "no form today" in str(result.error)


# Bounds and loading


def _nest(depth: int) -> Any:
    made: Any = int
    for number in range(depth):
        made = pydantic.create_model(f"M{number}", a=(made, ...), b=(made, ...))
    return made


def test_a_schema_that_doubles_is_refused() -> None:
    """Models that name each other twice would be written out without end."""
    assert read_hint(_nest(4)).schema["type"] == "object"
    with pytest.raises(UnsupportedHintError, match="more than 5000 parts"):
        read_hint(_nest(40))


def test_without_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pydantic is not installed, what needs it is an error that says so."""

    def import_nothing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(annotation, "import_module", import_nothing)
    with pytest.raises(UnsupportedHintError, match="User is checked by pydantic 2, which is not"):
        read_hint(User)
    with pytest.raises(UnsupportedHintError, match=r"write msgspec.Meta\(...\)"):
        read_hint(Absolute)
    assert read_hint(pathlib.Path).schema == {"type": "string"}


PROGRAM = """
import dataclasses, enum, pathlib, sys
from typing import Annotated, Literal, TypedDict
import annotated_types, msgspec
from tool_engine import ToolEngine

@dataclasses.dataclass
class A:
    x: Annotated[int, msgspec.Meta(ge=1)]

class B(TypedDict):
    a: A

class C(enum.Enum):
    X = "x"

engine = ToolEngine()

@engine.tool
def take(b: B, c: C, n: Annotated[int, annotated_types.Ge(1)], p: pathlib.Path = pathlib.Path("a"),
         one: Literal["a", 1] = 1, both: int | str | None = None) -> A:
    "Takes."

print("pydantic" in sys.modules)
"""


def test_pydantic_is_loaded_only_for_what_needs_it() -> None:
    """Tools of other types load no pydantic."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=50
    )
    assert run.stdout.strip() == "False"


def test_a_recursive_struct_judges_its_made_defaults() -> None:
    """A class that refers to itself is converted and its made defaults are judged, too."""
    checked = annotation.read_hint(Looped)
    assert checked.typed is None
    assert checked.schema["properties"]["inner"]["items"]["type"] == "object"


class Looped(msgspec.Struct):
    inner: list[Looped] = []
    n: int = msgspec.field(default_factory=lambda: "ten")  # type: ignore[assignment]


async def test_a_made_default_deep_inside_is_judged() -> None:
    """A wrong default is found at each depth of a class that refers to itself."""
    got: list[Any] = []
    for sent, is_right in (
        ({"n": 1, "inner": [{"n": 2, "inner": [{"n": 3}]}]}, True),
        ({"n": 1, "inner": [{"n": 2, "inner": [{}]}]}, False),
    ):
        result = await _called(_tool_of(Looped, got.append), {"v": sent})
        assert (result.error_type == "validation_error") is not is_right
    assert len(got) == 1
    assert isinstance(got[0].inner[0].inner[0], Looped)
