"""Does a function that a definition names get values of its own types, wherever it runs?

The oracle is the same function as `@engine.tool` runs it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.calls.test_in_threads import until
from tests.executors.python.test_in_engine import Write, engine_of
from tool_engine import ToolEngine, ToolExecutionResult
from tool_engine.model.json.returned_value import to_text

BOUND = 120.0
"""Seconds: to start a worker that imports pydantic takes one, and many on a busy machine."""
APART = {"isolation": "process", "memory": "1GiB", "workers": 1}
HANDLERS = """
from __future__ import annotations
import dataclasses, datetime, decimal, enum, pathlib, threading, uuid
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, TypedDict, Union
from pydantic import AfterValidator, BaseModel, Field, field_validator, model_serializer
if TYPE_CHECKING:
    from tool_engine import ToolExecutionContext
    from nowhere import Unknown

gate = threading.Event()
class Color(enum.Enum):
    RED = "red"
@dataclasses.dataclass
class Line:
    price: decimal.Decimal
    tags: list[str] = dataclasses.field(default_factory=list)
class Address(BaseModel):
    street: str = Field(min_length=2)
class Customer(BaseModel):
    name: str
    addresses: list[Address] = []
    @field_validator("name")
    @classmethod
    def check_name(cls, name):
        if not name.istitle():
            raise ValueError("write it with a capital letter")
        return name
class Tree(BaseModel):
    name: str
    below: list[Tree] = []
class Named(TypedDict):
    name: str

def f(when: datetime.datetime, day: Optional[datetime.date], span: datetime.timedelta,
      money: decimal.Decimal, number: uuid.UUID, where: pathlib.Path, color: Color, line: Line,
      customer: Customer, tree: Tree, named: Named, unique: set[int], pair: tuple[int, str],
      data: bytes, choice: Literal["a", "b"], few: Annotated[int, Field(gt=0)],
      names: list[str], either: Union[int, datetime.date], plain: str = "p", **others: Any):
    "Gives back what it gets."
    given = dict(locals())
    given.pop("others")
    return [[type(each).__name__ for each in given.values()], given]
async def g(line: Line, context: ToolExecutionContext, unused: Unknown = None, plain: str = "x"):
    return [type(line).__name__, context.caller_id, line]
class Shop:
    async def sell(self, customer: Customer) -> Customer:
        return customer.model_copy(update={"name": customer.name + "!"})
shop = Shop()
def hang(text):
    gate.wait(60)
    return text
def stuck(value: Annotated[str, AfterValidator(hang)]):
    return value
def boom(text):
    raise ZeroDivisionError(text)
def broken(value: Annotated[str, AfterValidator(boom)]):
    return value
class Unwritten(BaseModel):
    name: str
    @model_serializer
    def write(self):
        raise LookupError("no form")
class Odd(BaseModel):
    name: str
    @model_serializer
    def write(self) -> Any:
        return object()
def unwritten(value: str): return Unwritten(name=value)
def odd(value: str): return Odd(name=value)
def large(value: str): return Tree(name="x" * 1_000_000, below=[Tree(name=value)] * 1000)
def kept(value: str):
    at = datetime.date(2026, 1, 2)
    return {"at": at, "all": {Color.RED}, "where": pathlib.Path("/a")}
"""

GOOD: dict[str, tuple[str, Any]] = {
    "when": ("string", "2026-01-31T09:30:00Z"),
    "day": ("string", "2026-01-31"),
    "span": ("string", "PT1H"),
    "money": ("string", "1.50"),
    "number": ("string", "123e4567-e89b-12d3-a456-426614174000"),
    "where": ("string", "/some/file"),
    "color": ("string", "red"),
    "line": ("object", {"price": "2.50", "tags": ["a"]}),
    "customer": ("object", {"name": "Ada", "addresses": [{"street": "Main"}]}),
    "tree": ("object", {"name": "a", "below": [{"name": "b", "below": [{"name": "c"}]}]}),
    "named": ("object", {"name": "n"}),
    "unique": ("array", [1, 2]),
    "pair": ("array", [1, "x"]),
    "data": ("string", "aGk="),
    "choice": ("string", "a"),
    "few": ("integer", 3),
    "names": ("array", ["n"]),
    "either": ("any", "2026-01-31"),
}
WRONG: dict[str, Any] = {
    "when": "tomorrow",
    "day": "2026-02-31",
    "span": "long",
    "money": "2,50",
    "number": "1",
    "color": "blue",
    "line": {"price": "2.50", "tags": [1]},
    "customer": {"name": "ada"},
    "tree": {"name": "a", "below": [{"name": 1}]},
    "named": {},
    "unique": ["a"],
    "pair": [1],
    "data": "!",
    "choice": "c",
    "few": 0,
    "names": [1],
    "either": "x",
}


def define(folder: Path, name: str, place: str, types: dict[str, str], **keys: Any) -> None:
    """Writes a definition whose parameters have these types."""
    folder.mkdir(exist_ok=True)
    apart = keys.pop("config", None)
    parameters = [
        {"name": each, "type": kind, "required": True, "description": "D."}
        for each, kind in types.items()
    ]
    entry = {"type": "custom", "handler": place, **({"config": apart} if apart else {})}
    definition = {
        "name": name,
        "description": "A sample of this test",
        "effect": "read",
        "parameters": parameters,
        "entry": entry,
        **keys,
    }
    (folder / f"{name}.yaml").write_text(json.dumps(definition))


def told(result: ToolExecutionResult) -> tuple[Any, ...]:
    """All that a caller sees of a result, but which tool it is of."""
    error = (result.error or "").replace(result.tool_name, "NAME")
    return result.error_type, error, result.validation_errors, to_text(result.output)


@pytest.fixture
def module(write: Write) -> str:
    return write(HANDLERS)


async def test_the_same_as_in_code(tmp_path: Path, module: str) -> None:
    """Every type, right and wrong: here and apart it is what `@engine.tool` makes of it."""
    types = {name: kind for name, (kind, _) in GOOD.items()}
    good = {name: value for name, (_, value) in GOOD.items()}
    define(tmp_path, "here", f"{module}:f", types)
    define(tmp_path, "apart", f"{module}:f", types, config=APART)
    found = (await asyncio.to_thread(import_module, module)).f
    async with asyncio.timeout(BOUND), engine_of(tmp_path) as engine:
        assert engine.load_errors == []
        engine.tool(name="code", effect="read")(found)
        oracle = await engine.execute("code", good)
        assert oracle.is_success, oracle.error
        assert oracle.output["result"][0][:3] == ["datetime", "date", "timedelta"]
        for name in ("here", "apart"):
            assert told(await engine.execute(name, good)) == told(oracle)
        for changed, value in WRONG.items():
            expected = await _refused(engine, "code", {**good, changed: value})
            for name in ("here", "apart"):
                assert await _refused(engine, name, {**good, changed: value}) == expected


async def _refused(engine: ToolEngine, name: str, arguments: dict[str, Any]) -> tuple[Any, ...]:
    """How a wrong call ends; the schema of the function in code may say it in other words."""
    result = await engine.execute(name, arguments)
    assert result.error_type == "validation_error", (name, result, to_text(arguments))
    (finding,) = result.validation_errors
    place = finding["path"].partition(".")[0].partition("[")[0]
    return place, result.output


@pytest.mark.parametrize("config", [None, APART], ids=["here", "apart"])
async def test_contexts_and_methods(
    tmp_path: Path, module: str, config: dict[str, Any] | None
) -> None:
    """The context comes along; names that only a type checker knows stand in nobody's way."""
    define(tmp_path, "g", f"{module}:g", {"line": "object"}, config=config)
    define(tmp_path, "sell", f"{module}:shop.sell", {"customer": "object"}, config=config)
    async with asyncio.timeout(BOUND), engine_of(tmp_path) as engine:
        assert engine.load_errors == []
        line = {"price": "1", "tags": []}
        result = await engine.execute("g", {"line": line})
        assert to_text(result.output) == to_text({"result": ["Line", None, line]})
        result = await engine.execute("sell", {"customer": {"name": "Ada"}})
        assert result.output == {"name": "Ada!", "addresses": []}


@pytest.mark.parametrize("config", [None, APART], ids=["here", "apart"])
@pytest.mark.parametrize(
    ("name", "error_type", "words"),
    [
        ("stuck", "timeout", ""),
        ("broken", "validation_error", "'value' does not fit: ZeroDivisionError: v"),
        ("unwritten", "execution_error", "cannot be written as JSON: PydanticSerializationError"),
        ("odd", "execution_error", ""),
        ("large", None, ""),
        ("kept", None, ""),
    ],
)
async def test_hostile_types(
    tmp_path: Path,
    module: str,
    config: dict[str, Any] | None,
    name: str,
    error_type: str | None,
    words: str,
) -> None:
    """A validator that hangs or raises, and a class that cannot write itself, end one call."""
    seconds = 3 if error_type == "timeout" else 60
    define(tmp_path, name, f"{module}:{name}", {"value": "string"}, config=config, timeout=seconds)
    async with asyncio.timeout(BOUND), engine_of(tmp_path) as engine:
        assert engine.load_errors == []
        result = await engine.execute(name, {"value": "v"})
        if module in sys.modules:
            sys.modules[module].gate.set()
            await until(lambda: engine.controller.get_metrics().zombies == 0)
        assert result.error_type == error_type, result.error
        assert words in (result.error or "")
    if name == "kept":
        written = {"at": "2026-01-02", "all": ["red"], "where": "/a"}
        assert to_text(result.output) == to_text(written)
    if name == "large":
        assert [len(result.output["name"]), len(result.output["below"])] == [1_000_000, 1_000]


LINES = """
from __future__ import annotations
import dataclasses
class Thing: ...
@dataclasses.dataclass
class Line:
    price: int
def f(value: HINT): ...
"""


@pytest.mark.parametrize("config", [None, APART], ids=["here", "apart"])
@pytest.mark.parametrize(
    ("hint", "kind", "words", "cured"),
    [
        ("int", "string", "declared as string, and the function takes integer", ("str", "string")),
        ("Line", "array", "declared as array, and the function takes object", ("Line", "object")),
        ("list[int]", "object", "as object, and the function takes array", ("list[int]", "array")),
        ("Nowhere", "string", "the type of 'value' cannot be read: NameError", ("str", "string")),
        ("Thing", "string", "'value': the type <class", ("str", "string")),
    ],
)
async def test_hints_that_do_not_fit(
    tmp_path: Path,
    write: Write,
    config: dict[str, Any] | None,
    hint: str,
    kind: str,
    words: str,
    cured: tuple[str, str],
) -> None:
    """What can never be right is a load error of the file, until it is as the message says."""
    place = write(LINES.replace("HINT", hint))
    define(tmp_path, "f", f"{place}:f", {"value": kind}, config=config)
    async with asyncio.timeout(BOUND), engine_of(tmp_path) as engine:
        ((_, message),) = engine.load_errors
        assert words in message
        assert "entry.handler" in message
        place = write(LINES.replace("HINT", cured[0]))
        define(tmp_path, "f", f"{place}:f", {"value": cured[1]}, config=config)
        await engine.reload()
        assert engine.load_errors == []


def test_what_needs_no_types_loads_nothing(tmp_path: Path, write: Write) -> None:
    """Neither what reads hints nor pydantic, for functions that take what JSON gives."""
    place = write("def f(a: str, b: 'int', c: list, d: dict, e: float, g, context): return a")
    types = {"a": "string", "b": "integer", "c": "array", "d": "object", "e": "number", "g": "any"}
    define(tmp_path, "f", f"{place}:f", types)
    program = (
        "import asyncio, sys\n"
        "from tool_engine import ToolEngine, ToolEngineConfig\n"
        "async def main():\n"
        f"    config = ToolEngineConfig(tools_directory={str(tmp_path)!r}, auto_reload=False)\n"
        "    async with ToolEngine(config) as engine:\n"
        "        assert engine.load_errors == [], engine.load_errors\n"
        "        given = dict(a='x', b=1, c=[], d={}, e=1.5, g=2)\n"
        "        assert (await engine.execute('f', given)).output == {'result': 'x'}\n"
        "asyncio.run(main())\n"
        "print([each for each in ('pydantic', 'tool_engine.catalog.code.adapting')\n"
        "       if each in sys.modules])\n"
    )
    path = {"PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=path, check=False
    )
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


async def test_an_edited_definition(tmp_path: Path, module: str) -> None:
    """Its function is fitted to the parameters that it declares now."""
    define(tmp_path, "sell", f"{module}:shop.sell", {"customer": "object"})
    async with asyncio.timeout(BOUND), engine_of(tmp_path) as engine:
        assert (await engine.execute("sell", {"customer": {"name": "Ada"}})).is_success
        define(tmp_path, "sell", f"{module}:shop.sell", {"customer": "string"}, version="1.0.1")
        await engine.reload()
        ((_, message),) = engine.load_errors
        assert "declared as string, and the function takes object" in message
        assert (await engine.execute("sell", {"customer": {"name": "Bo"}})).is_success
