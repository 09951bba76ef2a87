"""Does any input from outside take more than its share of time?

Each reader of foreign input is given texts and values that double, and the time that it takes is
fitted. Looked at: arguments (strict, cut off, malformed), their validation, replies of text
protocols, definitions, expressions, statements (tests/executors/sql), secrets in texts and values,
texts for people, results for models and for records, near names, searches, and tools
registered in code.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.effort import IS_WHOLE, is_tried
from tests.growth import growth_of
from tool_engine import (
    Tool,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineError,
    ToolParameterValidator,
)
from tool_engine.catalog.strict_yaml import load_all
from tool_engine.executors.calculator import calculate
from tool_engine.executors.sql.rows import _make_distinct
from tool_engine.knowledge.snapshot import restore_value, shorten_snapshot, take_snapshot
from tool_engine.model.json.returned_value import as_output, to_text
from tool_engine.model.json.weighing import measure_packed
from tool_engine.output.shaping import is_quick
from tool_engine.protocols import get_protocol
from tool_engine.protocols.arguments.argument_text import read_arguments
from tool_engine.redaction import OwnSecrets, redact, redact_text
from tool_engine.redaction.own import list_readings
from tool_engine.session.formatting import text_in_pieces
from tool_engine.session.variables.store import copy_value
from tool_engine.visible import cut_middle, escape_hidden

MOST: Final = 1.5
"""The exponent of what is linear, with a logarithm and what a busy machine adds."""
UNITS: Final = (
    *("a", "ab ", "a\n", "\n", " ", "\\", '"', "'", "`", "``` ", "~~~\n", "<", "[", "{", "("),
    *("]", "}", '{"a":', '[{"a": 1}, ', '"a": "b", ', "[[],", "//", "/*", "*/", "# ", "- "),
    *("a: ", "? ", "&a ", "*a ", "1+", "1.", "9", "sqrt(", "^", "=", ",", ";", ":", "%41"),
    *("\\u0041", "&amp;", "$VAR_REF{{a}}", "{{", "password=x ", "key: ", "-----BEGIN ", "eyJh."),
    *("https://a:b@c/ ", "Bearer ", "QUJD", "token", "\u4e2d", "a\u0301", "\u0301", "\u200b"),
    *("\U0001f469\u200d", "\U0001f1e9\U0001f1ea", "\x00", "\ud800", "\x1b[", "\u300c\u59cb\u300d"),
    *("<function_call>", "<<<[TOOL_REQUEST]>>>", '<function_call>{"name": "x"', "</", "<a>"),
    *("| password | ", "|aa", "<a b=", "name='a' ", "<aa>", "key = '''", "git+ssh://a"),
    *("x:\u300c\u59cb\u300d", "<think>", "%2f%2B", "&#47;&#43;", "%252f%252B", "\\/+"),
)
FRESH: Final = itertools.count()
"""What was seen before may be remembered."""
VALUES: Final[dict[str, Callable[[int], Any]]] = {
    "numbers": lambda n: list(range(n)),
    "lists": lambda n: [[] for _ in range(n)],
    "texts": lambda n: ["abc"] * n,
    "pairs": lambda n: [["password", "x"]] * n,
    "rows": lambda n: [{"id": each, "name": "x", "token": "y"} for each in range(n)],
    "keys": lambda n: {f"key{next(FRESH)}": each for each in range(n)},
    "secrets": lambda n: {f"password{next(FRESH)}": "x" for _ in range(n)},
    "hidden keys": lambda n: {f"Bearer abcdefghijkl{each:08}": each for each in range(n)},
    "one key": lambda n: {"k" * n: 1},
    "one text": lambda n: "x y" * n,
    "deep": lambda n: _nested(min(n, 400)),
    "one name": lambda n: ["id"] * n,
    "numbered names": lambda n: [*(f"id_{each}" for each in range(n)), *["id"] * n],
}
LOADER: Final = ToolConfigLoader()


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def _tool(schema: dict[str, Any]) -> Tool:
    parameter = {"name": "v", "type": schema.pop("type"), "description": "d", "schema": schema}
    return LOADER.from_mapping({"name": "take", "description": "d", "parameters": [parameter]})


TOOLS: Final = {
    "numbers": _tool({"type": "array", "items": {"type": "integer", "minimum": 0}}),
    "unique": _tool({"type": "array", "uniqueItems": True}),
    "names": _tool({"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}}),
    "closed": _tool(
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    ),
    "forms": _tool({"type": "array", "items": {"anyOf": [{"const": each} for each in range(20)]}}),
    "contains": _tool({"type": "array", "contains": {"const": "never"}}),
    "patterns": _tool({"type": "object", "patternProperties": {"^k": {"type": "string"}}}),
}
VALIDATOR: Final = ToolParameterValidator()
PROTOCOLS: Final = {name: get_protocol(name) for name in ("vcp", "function_call")}


def _validating(tool: Tool) -> Callable[[Any], object]:
    return lambda value: VALIDATOR.validate(tool, {"v": value})


TEXTS: Final[dict[str, Callable[[str], object]]] = {
    "arguments": read_arguments,
    "arguments cut off": lambda text: read_arguments('{"a": "' + text),
    "finished arguments": lambda text: read_arguments('{"a": ' + text + " }"),
    "malformed arguments": lambda text: read_arguments('{"a": [' + text + "]}"),
    "vcp": PROTOCOLS["vcp"].parse,
    "function_call": PROTOCOLS["function_call"].parse,
    "definition": lambda text: load_all(text, "a.yaml"),
    "definition in flow": lambda text: load_all("{a: [" + text, "a.yaml"),
    "calculation": calculate,
    "secrets": redact_text,
    "secrets of a call": OwnSecrets({"a": "a" * 10_000, "b": "open/sesame"}, ["a", "b"]).text,
    "secrets that stand there often": OwnSecrets({"a": "/+/+"}, ["a"]).text,
    "readings of a secret": lambda text: [*list_readings(text)],
    "for people": lambda text: cut_middle(escape_hidden(text), 1000),
    "result": lambda text: text_in_pieces({"a": text}),
    "record": lambda text: restore_value(take_snapshot({"a": text})),
}
OBJECTS: Final[dict[str, Callable[[Any], object]]] = {
    **{f"arguments: {name}": _validating(tool) for name, tool in TOOLS.items()},
    "secrets": redact,
    "readings of a secret": lambda value: [*list_readings(value, ())],
    "result": text_in_pieces,
    "output": lambda value: to_text(as_output(value)),
    "size": measure_packed,
    "record": lambda value: shorten_snapshot(take_snapshot(value)),
    "variable": lambda value: copy_value(value, in_pieces=True),
    "is it short": is_quick,
    "columns": lambda value: _make_distinct(list(map(str, value))),
}


def _tried(work: Callable[[Any], object]) -> Callable[[Any], object]:
    def attempt(given: Any) -> object:
        with contextlib.suppress(ToolEngineError, ValueError, RecursionError):
            return work(given)
        return None

    return attempt


def is_steep(work: Callable[[Any], object], make: Callable[[int], Any], most: int) -> bool:
    """Whether the time grows faster than the input, also when it is measured once more."""
    return all(growth_of(work, make, most=size).exponent > MOST for size in (most, 2 * most))


def _given_to(reader: str, readers: Iterable[str], inputs: Iterable[str]) -> Iterator[str]:
    """The inputs that a reader is tried with: a quarter, the others at the next readers."""
    place = list(readers).index(reader)
    return (each for number, each in enumerate(inputs) if is_tried((place, number), 4))


@pytest.mark.parametrize("reader", TEXTS)
def test_texts(reader: str) -> None:
    """Twice the text takes about twice the time, whatever it repeats."""
    work, units = _tried(TEXTS[reader]), _given_to(reader, TEXTS, UNITS)
    assert [unit for unit in units if is_steep(work, unit.__mul__, 100_000)] == []


@pytest.mark.parametrize("reader", OBJECTS)
def test_values(reader: str) -> None:
    """Twice the value takes about twice the time, whatever is in it."""
    work, names = _tried(OBJECTS[reader]), _given_to(reader, OBJECTS, VALUES)
    assert [name for name in names if is_steep(work, VALUES[name], 50_000)] == []


def test_tools_that_are_registered_one_by_one(tmp_path: Path) -> None:
    """Each is added to a snapshot of all others, which is neither sorted nor gone through."""
    entry = {"type": "builtin", "handler": "echo"}
    message = {"name": "message", "type": "string", "description": "The text"}

    def make(count: int) -> tuple[ToolEngine, list[dict[str, Any]]]:
        engine = ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path)))
        names = [f"tool_{number * 7919 % count}" for number in range(count)]
        shared = {"description": "Says it again.", "parameters": [message], "entry": entry}
        return engine, [{"name": name, **shared} for name in names]

    def register_all(given: tuple[ToolEngine, list[dict[str, Any]]]) -> None:
        engine, definitions = given
        # A collection goes through all tools that there are, which is not what is asked here.
        gc.disable()
        try:
            for each in definitions:
                engine.register_tool(each)
        finally:
            gc.enable()

    assert growth_of(register_all, make, start=1_500, most=6_000).exponent < MOST


def test_tools_that_share_a_file() -> None:
    """Each is read by itself: what stands beside it in the file costs it nothing."""

    def make(count: int) -> bytes:
        each = "---\nname: tool_{0}\ndescription: Number {0} of them\n"
        return "".join(map(each.format, range(count))).encode()

    assert growth_of(LOADER.load_definitions, make, start=100, most=3_200).exponent < MOST


LARGE: Final = 200_000 if IS_WHOLE else 40_000
"""Numbers in a value that is dealt with in pieces."""
FLAT: Final = 0.5
"""The exponent of what takes the same time for twice the levels, on a busy machine."""
LINKS: Final[dict[str, Callable[[list[int], Any], Any]]] = {
    "lists": lambda few, inner: [*few, inner],
    "mappings": lambda few, inner: {"few": few, "inner": inner},
}


def _is_flat(work: Callable[[Any], object], link: str) -> bool:
    """Whether as many values take as long on twice the levels, in one of a few tries."""

    def make(levels: int) -> Any:
        value: Any = 0
        for _ in range(levels):
            value = LINKS[link]([0] * (LARGE // levels), value)
        return value

    return any(
        growth_of(work, make, start=50, most=200, at_first=2).exponent < FLAT for _ in range(4)
    )


@pytest.mark.thinned(2)
@pytest.mark.parametrize("reader", OBJECTS)
@pytest.mark.parametrize("link", LINKS)
def test_levels(reader: str, link: str) -> None:
    """As many values take as long, however many levels they stand on.

    Looked at: whatever measures, weighs or searches all that is below a level, at each level.
    """
    assert _is_flat(_tried(OBJECTS[reader]), link)


@pytest.mark.parametrize("link", LINKS)
def test_what_weighs_each_level_is_found(link: str) -> None:
    """The values are large enough for it, also where the weighing itself is quick."""

    def weigh(value: Any) -> None:
        while value:
            msgspec.json.encode(value)
            value = value["inner"] if isinstance(value, dict) else value[-1]

    assert not _is_flat(weigh, link)
