"""Schemas from outside that are odd, old or hostile: what each becomes, as a definition and a list.

Imported from a list, the tool loads where what cannot be held can be left out with a note; in a
definition the same is an error with its place. No reference is ever fetched.
"""

from __future__ import annotations

import asyncio
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.growth import growth_of
from tool_engine import DefinitionError, ToolConfigLoader, ToolEngine, ToolEngineConfig
from tool_engine.catalog.importing import keep_held

LONG: Final = "n" * 500
REFUSED: Final = "-"


class Row(NamedTuple):
    """A schema, and what must become of it."""

    about: str
    schema: dict[str, Any]
    """Of the argument `a`."""
    written: str
    """What its error in a definition says; empty: it loads."""
    imported: str
    """What a note says of it in a list; empty: none; `-` before what its error says."""
    right: Any = ...
    wrong: Any = ...


TEXT: Final = {"type": "string"}
TUPLE: Final = [{"type": "string"}, {"type": "integer"}]
ROWS: Final = [
    Row("nullable", {**TEXT, "nullable": True}, "'nullable' is not supported", "", None, 1),
    Row(
        "a tuple of drafts before 2020",
        {"type": "array", "items": TUPLE},
        "2020-12",
        "",
        ["a", 1],
        ["a", "b"],
    ),
    Row(
        "a closed tuple",
        {"type": "array", "items": TUPLE, "additionalItems": False},
        "2020-12",
        "",
        ["a", 1],
        ["a", 1, 2],
    ),
    Row("a tuple in a tuple", {"items": [{"items": [TEXT]}]}, "2020-12", "", [["a"]], [[1]]),
    Row(
        "a reference into a tuple",
        {"type": "array", "items": [TEXT, {"$ref": "#/properties/a/items/0"}]},
        "2020-12",
        "",
        ["a", "b"],
        ["a", 1],
    ),
    Row(
        "exclusiveMinimum: true",
        {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "2020-12",
        "",
        0.5,
        0,
    ),
    Row(
        "dependencies on keys",
        {"type": "object", "dependencies": {"b": ["c"]}},
        "'dependencies'",
        "",
        {"b": 1, "c": 1},
        {"b": 1},
    ),
    Row(
        "dependencies on schemas",
        {"type": "object", "dependencies": {"b": {"required": ["c"]}}},
        "'dependencies'",
        "",
        {"b": 1, "c": 1},
        {"b": 1},
    ),
    Row("definitions", {"$ref": "#/definitions/t"}, "", "", "x", 1),
    Row("const", {"const": {"x": [1]}}, "", "", {"x": [1.0]}, {"x": [2]}),
    Row("an option twice", {"enum": ["a", "a", 1, 1.0]}, "", "", "a", "b"),
    Row("no required", {"type": "object", "required": []}, "", "", {}, []),
    Row(
        "required: true",
        {**TEXT, "required": True},
        "2020-12",
        "required True is not enforced",
        "x",
        1,
    ),
    Row("true", {"anyOf": [True]}, "", "", 1),
    Row("false", {"type": "object", "properties": {"b": False}}, "", "", {}, {"b": 1}),
    Row(
        "unevaluatedProperties",
        {"type": "object", "allOf": [{"properties": {"b": True}}], "unevaluatedProperties": False},
        "",
        "",
        {"b": 1},
        {"c": 1},
    ),
    Row(
        "look-around",
        {**TEXT, "pattern": "(?=a)"},
        "linear time",
        "pattern '(?=a)' is not enforced",
        "b",
        1,
    ),
    Row(
        "a back-reference", {**TEXT, "pattern": r"(a)\1"}, "linear time", "is not enforced", "b", 1
    ),
    Row(
        "no pattern",
        {**TEXT, "pattern": "["},
        "not a regular expression",
        "is not enforced",
        "b",
        1,
    ),
    Row(
        "a pattern of keys",
        {"type": "object", "patternProperties": {"(?!a)": TEXT}},
        "linear time",
        "is not enforced",
        {"b": 1},
        1,
    ),
    Row(
        "a default outside of its options",
        {"enum": ["a"], "default": "b"},
        "own rules",
        "the default 'b' does not fit",
        "a",
        "b",
    ),
    Row(
        "null by default",
        {**TEXT, "default": None},
        "own rules",
        "the default None does not fit",
        "a",
        1,
    ),
    Row(
        "a default that a reference refuses",
        {"$ref": "#/definitions/t", "default": 1},
        "own rules",
        "the default 1 does not fit",
        "a",
        1,
    ),
    Row(
        "$id",
        {"$id": "urn:x", **TEXT},
        "'$id' is not supported",
        "$id 'urn:x' is not enforced",
        "a",
        1,
    ),
    Row(
        "$anchor", {"$anchor": "x", **TEXT}, "'$anchor' is not supported", "is not enforced", "a", 1
    ),
    Row(
        "a reference to an anchor",
        {"$ref": "#x"},
        "there is no schema at '#x'",
        "-there is no schema at '#x'",
    ),
    Row(
        "$dynamicRef", {"$dynamicRef": "#x"}, "'$dynamicRef' is not supported", "is not enforced", 1
    ),
    Row(
        "$recursiveRef",
        {"$recursiveRef": "#"},
        "'$recursiveRef' is not supported",
        "is not enforced",
        1,
    ),
    Row("a file", {"$ref": "file:///etc/hostname"}, "nothing is fetched", "-nothing is fetched"),
    Row("a circle", {"allOf": [{"$ref": "#/properties/a"}]}, "it has no end", "-it has no end"),
    Row("no reference", {"$ref": 5}, "2020-12", "-"),
    Row(
        "a base that redirects",
        {"$id": "http://127.0.0.1:1/", "items": {"$ref": "x.json"}},
        "nothing is fetched",
        "-nothing is fetched",
    ),
    Row(
        "an unknown format",
        {**TEXT, "format": "binary"},
        "is not checked",
        "format 'binary' is not enforced",
        "b",
        1,
    ),
    Row(
        "an unknown keyword",
        {**TEXT, "x-order": 1},
        "is not supported",
        "x-order 1 is not enforced",
        "b",
        1,
    ),
    Row(
        "a bound beyond 64 bits",
        {"type": "integer", "maximum": 2**64},
        "64 bits",
        "is not enforced",
        2**63,
        "x",
    ),
    Row("a bound of 300 digits", {"type": "number", "maximum": 1e300}, "", "", 1, "x"),
    Row("a type in capitals", {"type": "STRING"}, "2020-12", "", "a", 1),
    Row("no type", {"type": "text"}, "2020-12", "-2020-12"),
    Row("a union with null", {"type": ["string", "null"]}, "", "", None, 1),
    *(
        Row(
            f"a key {name[:12]!r}",
            {
                "type": "object",
                "properties": {name: TEXT},
                "required": [name],
                "additionalProperties": False,
            },
            "",
            "",
            {name: "x"},
            {name: 1},
        )
        for name in ("__proto__", "", "a.b", "a b", "$ref", "中", "properties", LONG)
    ),
]


def whole(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "definitions": {"t": TEXT}}


def read(schema: dict[str, Any]) -> None:
    ToolConfigLoader().from_mapping({"name": "t", "description": "d", "parameters": schema})


@pytest.mark.parametrize("row", ROWS, ids=[row.about for row in ROWS])
def test_in_a_definition(row: Row) -> None:
    """17.3: what would not be held is an error at its place."""
    if not row.written:
        return read(whole(row.schema))
    with pytest.raises(DefinitionError) as caught:
        read(whole(row.schema))
    assert row.written in str(caught.value)
    assert "parameters.properties.a" in str(caught.value)
    return None


@pytest.mark.parametrize("row", ROWS, ids=[row.about for row in ROWS])
async def test_in_a_list(tmp_path: Path, row: Row) -> None:
    """17.3: what would not be held is left out with a note; the rest holds."""
    async with ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False)) as engine:
        listed = [{"name": "t", "inputSchema": whole(row.schema)}]
        await engine.import_tools(listed, lambda name, arguments: arguments)
        if row.imported.startswith(REFUSED):
            ((_, message),) = engine.load_errors
            assert row.imported[1:] in message
            return
        assert engine.load_errors == []
        notes = [each for each in engine.get_or_raise("t").findings if "was left out" in each]
        assert bool(notes) is bool(row.imported)
        assert row.imported in "\n".join(notes)
        assert row.right is ... or (await engine.execute("t", {"a": row.right})).is_success
        if row.wrong is not ...:
            assert (await engine.execute("t", {"a": row.wrong})).error_type == "validation_error"


@pytest.mark.parametrize(
    "name", ["__proto__", "a.b", "a b", "$ref", "1", "class", "中", "constructor", "n" * 128]
)
async def test_names_of_arguments(tmp_path: Path, name: str) -> None:
    """17.3: what JSON Schema takes as a name is one, and arrives under it."""
    schema = {"type": "object", "properties": {name: TEXT}, "required": [name]}
    async with ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False)) as engine:
        listed = [{"name": "t", "inputSchema": schema}]
        await engine.import_tools(listed, lambda _, arguments: {"keys": [*arguments]})
        assert (await engine.execute("t", {name: "x"})).output == {"keys": [name]}
        assert (await engine.execute("t", {name: 1})).error_type == "validation_error"
        assert (await engine.execute("t", {})).error_type == "validation_error"


@pytest.mark.parametrize("name", ["", LONG])
async def test_names_that_are_refused(tmp_path: Path, name: str) -> None:
    """17.3: of no character, or of more than 128."""
    async with ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False)) as engine:
        schema = {"type": "object", "properties": {name: TEXT}}
        await engine.import_tools([{"name": "t", "inputSchema": schema}], lambda *_: 1)
        ((_, message),) = engine.load_errors
    assert "a parameter's name has 1 to 128 characters" in message


@pytest.fixture
def visits() -> Iterator[tuple[str, list[str]]]:
    """The address of a server, and what was asked of it."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "string"}')

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


@pytest.mark.parametrize(
    "form",
    [
        lambda base: {"$ref": f"{base}/x.json"},
        lambda base: {"$id": f"{base}/", "$ref": "x.json"},
        lambda base: {"$schema": f"{base}/meta.json"},
        lambda base: {"anyOf": [{"$dynamicRef": f"{base}/x.json#a"}]},
        lambda base: {"$defs": {"b": {"$id": f"{base}/b", "items": {"$ref": "x.json"}}}},
    ],
)
async def test_nothing_is_fetched(tmp_path: Path, visits: tuple[str, list[str]], form: Any) -> None:
    """17.3: not when it is read, not when it is told, and not when a call is judged."""
    base, asked = visits
    for schema in (whole(form(base)), {"type": "object", **form(base)}):
        with pytest.raises(DefinitionError):
            await asyncio.to_thread(read, schema)
        async with ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False)) as engine:
            listed = {"name": "t", "inputSchema": schema, "outputSchema": form(base)}
            await engine.import_tools([listed], lambda *_: 1)
            if engine.get("t") is not None:
                engine.tool_definitions("openai")
                await engine.execute("t", {"a": [1]})
    assert asked == []


def test_a_hundred_thousand_schemas() -> None:
    """17.3: they are refused, in a time that grows with their number."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"items": deep}
    for schema in (
        {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(100_000)}},
        {"type": "object", "properties": {"a": {"anyOf": [{"const": n} for n in range(100_000)]}}},
        {"type": "object", "properties": {"a": deep}},
    ):
        with pytest.raises(DefinitionError) as caught:
            read(schema)
        assert len(str(caught.value)) < 300_000


def test_reading_a_list_takes_linear_time() -> None:
    """17.3: however many tuples stand in one another, dependencies and defaults there are."""

    def make(count: int) -> dict[str, Any]:
        properties = {
            f"p{n}": {
                "items": [TEXT, {"items": [TEXT]}],
                "default": 1,
                "dependencies": {"a": ["b"]},
            }
            for n in range(count)
        }
        return {"type": "object", "properties": properties}

    assert growth_of(lambda schema: keep_held(schema, []), make, most=20_000).exponent < 1.4
