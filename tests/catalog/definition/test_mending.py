"""Is all that is wrong with a definition found at once, and nothing that only follows from it?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine import Tool, ToolEngine
from tool_engine.catalog.definition.stand_ins import stand_ins
from tool_engine.catalog.definition.structure import definition_schema
from tool_engine.catalog.loader import load_checked
from tool_engine.cli.files.checking import check_tool
from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.executors.executor_registry import ExecutorRegistry

HTTP = """\
name: find_book
version: "1.0.0"
description: Finds a book.
category: http
tags: [books]
timeout: 5
effect: read
retry: {attempts: 2}
concurrency: {bucket: books, key: params.title}
parameters:
  - name: title
    type: string
    required: true
    description: Its title
    validation: {min_length: 1}
  - name: year
    type: integer
    default: 1999
    description: Its year
    validation: {min: 1, max: 3000}
  - {name: shelf, type: string, description: Where, validation: {enum: [a, b]}}
entry:
  type: http
  request:
    method: GET
    url: https://example.com/books/{title}
    query: {year: "{year}", shelf: "{shelf}"}
    max_bytes: 1000
  response: {select: items}
result: {max_chars: 100}
"""
FILE = """\
name: read_note
description: Reads a note.
status: testing
permission: ask_once
max_uses: 3
parameters:
  - {name: path, type: string, required: true, description: Which}
  - {name: limit, type: integer, description: How much, default: 3}
entry:
  type: builtin
  handler: read_file
  root: notes
  config: {max_bytes: 1000, ignore: ["*.log"]}
examples:
  - params: {path: a}
"""


class Slip(NamedTuple):
    old: str
    new: str
    at: str
    """What stands where it is found."""
    words: str


OF_HTTP = [
    Slip("name: find_book", "nam: find_book", "nam:", "did you mean 'name'?"),
    Slip('"1.0.0"', "1.10", "1.10", "got the number 1.10; quote it"),
    Slip("category: http", "category: htp", "htp", "did you mean 'http'?"),
    Slip("[books]", "books", "books", "write it as a list"),
    Slip("timeout: 5", "timeout: 5s", "5s", "a plain number without quotes or unit"),
    Slip("effect: read", "efect: read", "efect:", "did you mean 'effect'?"),
    Slip("retry: {attempts: 2}", "retry: {attempts: 0}", "0}\nconc", "at least 1"),
    Slip("bucket: books", "buckt: books", "buckt:", "did you mean 'bucket'?"),
    Slip("key: params.title", "key: params.titl", "params.titl}", "did you mean 'title'?"),
    Slip("parameters:\n", "paramters:\n", "paramters:", "did you mean 'parameters'?"),
    Slip("required: true", "requird: true", "requird:", "did you mean 'required'?"),
    Slip("{min_length: 1}", "{min_length: -1}", "-1}", "at least 0"),
    Slip("default: 1999", "default: 4000", "4000", "the parameter's own rules"),
    Slip("    description: Its year", "    descripton: Its year", "descripton:", "'description'"),
    Slip("enum: [a, b]", "enum: [a, a]", "a]", "is listed twice"),
    Slip("  request:", "  requst:", "requst:", "did you mean 'request'?"),
    Slip("method: GET", "method: FETCH", "FETCH", "expected one of GET"),
    Slip('shelf: "{shelf}"', 'shelf: "{shelf}", more: "{zz}"', '"{zz}"', "'zz', which is not decl"),
    Slip("max_bytes: 1000", "max_bytes: all", "all", "expected a whole number"),
    Slip("select: items", "select: '[['", "'[['", "JMESPath"),
    Slip("result: {max_chars: 100}", "result: {max_chars: 0}", "0}", "at least 100"),
    Slip("result:", "colour: red\nresult:", "colour:", "unknown key 'colour'; the keys here are"),
]
OF_FILE = [
    Slip("description: Reads a note.", "descripton: Reads a note.", "descripton:", "'description'"),
    Slip("status: testing", "status: tested", "tested", "did you mean 'testing'?"),
    Slip("ask_once", "ask_once_more", "ask_once_more", "expected one of auto"),
    Slip("max_uses: 3", "max_uses: 0", "0\n", "at least 1"),
    Slip("default: 3}", "default: x}", "x}", "expected an integer"),
    Slip("type: builtin", "typ: builtin", "typ:", "did you mean 'type'?"),
    Slip("handler: read_file", "handler: read_fil", "read_fil\n", "did you mean 'read_file'?"),
    Slip("root: notes", "root: '{path}'", "'{path}'", "a call does not choose"),
    Slip("config: {max_bytes", "config: {max_byts", "max_byts:", "did you mean 'max_bytes'?"),
    Slip(": 1000,", ": -1,", "-1,", "between 1 and"),
    Slip('["*.log"]', "'*.log'", "'*.log'", "must be a list of globs"),
    Slip("examples:", "exampels:", "exampels:", "did you mean 'examples'?"),
    Slip("  - params:", "  - parms:", "parms:", "did you mean 'params'?"),
]


def check(tool: Tool) -> list[DefinitionProblem]:
    """As the command line checks tools: which handlers there are is known."""
    return check_tool(tool, ExecutorRegistry())


def problems_of(text: str) -> list[DefinitionProblem]:
    try:
        load_checked(text, "t.yaml", check)
    except DefinitionError as error:
        return list(error.problems)
    return []


def read_place(text: str, problem: DefinitionProblem) -> str:
    assert problem.line is not None
    assert problem.column is not None
    lines = text.splitlines(keepends=True)
    return "".join(lines[problem.line - 1 :])[problem.column - 1 :]


def assert_all_are_found(text: str, slips: list[Slip]) -> None:
    for slip in slips:
        assert slip.old in text
        text = text.replace(slip.old, slip.new, 1)
    problems = problems_of(text)
    for slip in slips:
        same = [
            each
            for each in problems
            if slip.words in each.message and read_place(text, each).startswith(slip.at)
        ]
        assert len(same) == 1, (slip, [*map(str, problems)])
    assert len(problems) == len(slips), [*map(str, problems)]


@pytest.mark.parametrize("text", [HTTP, FILE])
def test_nothing_is_wrong(text: str) -> None:
    assert problems_of(text) == []


@pytest.mark.parametrize(
    ("text", "slip"), [*((HTTP, slip) for slip in OF_HTTP), *((FILE, slip) for slip in OF_FILE)]
)
def test_one_mistake_is_one_problem(text: str, slip: Slip) -> None:
    """K3: also one that makes others of what was right, such as a misspelled key."""
    assert_all_are_found(text, [slip])


@given(slips=st.sets(st.sampled_from(OF_HTTP), min_size=2))
def test_each_mistake_in_one_look(slips: set[Slip]) -> None:
    """K3: however many there are, and whatever one hides of another."""
    assert_all_are_found(HTTP, sorted(slips))


@given(slips=st.sets(st.sampled_from(OF_FILE), min_size=2))
def test_each_mistake_of_what_runs_it(slips: set[Slip]) -> None:
    """K3: what an executor refuses is found beside what the format refuses."""
    assert_all_are_found(FILE, sorted(slips))


@pytest.mark.parametrize(
    ("text", "places"),
    [
        # What an author meant is not known, so nothing is said of what depends on it.
        ("name: a\ndescription: d\neffect: destroy\nretry: {attempts: 2}\n", ["effect"]),
        ("kind: gruop\nname: g\ntools: [a]\n", ["kind"]),
        ("name: g\ntools: [a]\n", ["tools"]),
        (
            (
                "name: a\ndescription: d\nparameters: [3]\n"
                "entry: {type: http, request: {url: 'https://a.b/{q}'}}\n"
            ),
            ["parameters[0]"],
        ),
        (
            (
                "name: a\ndescription: d\nparameters: [{name: q, type: txt, description: d}]\n"
                "entry: {type: builtin, handler: run_command, argv: [ls, '{q?-l}']}\n"
            ),
            ["parameters[0].type"],
        ),
        (
            (
                "name: a\ndescription: d\nparameters: [{name: q, type: string, description: d}]\n"
                "entry: {type: http, request: {url: 'https://a.b', colour: '{q}'}}\n"
            ),
            ["entry.request.colour"],
        ),
        (
            (
                "name: a\ndescription: d\nentry: {type: builtin, handler: read_file, root: 5}\n"
                "parameters: [{name: pth, type: string, description: d, required: true}]\n"
            ),
            ["entry.root", "parameters.pth"],
        ),
        (
            (
                "name: a\ndescription: d\nparameters: [{name: user, type: any, description: d}]\n"
                "entry: {type: http, request: {url: 'https://a.b/{usr}'}}\n"
            ),
            ["entry.request.url"],
        ),
        (
            "name: a\ndescription: d\noutput: {type: objekt}\nversion: 3\n",
            ["version", "output.type"],
        ),
        (
            "name: a\ndescription: d\ninputSchema: {type: object, propertis: {}}\n",
            ["inputSchema", "inputSchema.propertis"],
        ),
    ],
)
def test_what_follows_is_no_problem(text: str, places: list[str]) -> None:
    assert sorted(each.path for each in problems_of(text)) == sorted(places)


def test_definitions_written_in_code() -> None:
    """K3, E3: a mapping is looked at as a text is."""
    definition = {
        "name": "a",
        "descripton": "Reads.",
        "parameters": [{"name": "path", "typ": "strng", "description": "d", "required": True}],
        "entry": {"type": "builtin", "handler": "read_file", "config": {"max_byte": -1}},
    }
    with pytest.raises(DefinitionError) as caught:
        ToolEngine().register_tool(definition)
    assert sorted(each.path for each in caught.value.problems) == [
        "descripton",
        "entry.config.max_byte",
        "entry.config.max_byte",
        "entry.root",
        "parameters[0].typ",
        "parameters[0].typ",
    ]


def rules_in(schema: dict[str, Any], place: str) -> Iterator[tuple[str, Any]]:
    """Each key's rule in a part of the schema of definitions, with its place."""
    for key, rule in (schema.get("properties", {}) if isinstance(schema, dict) else {}).items():
        if isinstance(rule, dict):
            yield f"{place}.{key}", rule
        yield from rules_in(rule, f"{place}.{key}")
    if isinstance(schema, dict) and isinstance(schema.get("items"), dict):
        yield from rules_in(schema["items"], f"{place}[]")


RULES = [
    found
    for name, schema in definition_schema()["$defs"].items()
    for found in rules_in(schema, name)
]


@pytest.mark.parametrize("rule", [pytest.param(rule, id=place) for place, rule in RULES])
def test_stand_ins_are_right(rule: dict[str, Any]) -> None:
    """Each key of a definition has a value that its own rule allows."""
    whole = {**rule, "$defs": definition_schema()["$defs"]}
    validator = jsonschema_rs.Draft202012Validator(whole)
    values = stand_ins(rule, "word")
    assert values
    assert all(map(validator.is_valid, values)), values
