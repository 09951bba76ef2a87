"""Which texts are tools, with exactly these values, and which are refused, and where?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.properties.definition_reading import is_same, read_values
from tool_engine import DefinitionError, ToolConfigLoader
from tool_engine.catalog.yaml.strict_yaml import load_documents

H = "name: t\ndescription: d\n"


def P(text: str) -> str:  # noqa: N802 - as short as the table needs
    """A definition with one parameter."""
    return f"{H}parameters:\n  - {{name: p, description: d, {text}}}\n"


NAMES = "name: t\ndescription: d\n"
VALUES = [
    # plain text that a YAML 1.1 reader, or a quick eye, takes for something else
    *(
        (text, text)
        for text in ("no", "No", "NO", "yes", "on", "off", "y", "n", "nil", "none", "None")
    ),
    *((text, text) for text in ("1:30", "190:20:30", "2024-01-01", "2001-12-14t21:59:43.10-05:00")),
    *((text, text) for text in ("012", "-012", "007.5", "00", "1_000", "0b11", "0o8", "0x", "0xG")),
    *(
        (text, text)
        for text in ("1.2.3", "1e", "e3", ".", "..", "+", "-x", "0x1.8p3", "1,000", "10%")
    ),
    *(
        (text, text)
        for text in ("tRue", "NUL", "=", "a#b", "a:b", "http://x/y?z=1", "a, b", "C:\\x")
    ),
    # constants and numbers of YAML 1.2
    ("", None),
    ("~", None),
    ("null", None),
    ("NULL", None),
    ("true", True),
    ("TRUE", True),
    ("False", False),
    ("0", 0),
    ("-0", 0),
    ("+12", 12),
    ("0x1F", 31),
    ("0o17", 15),
    ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -(2**63)),
    ("1.10", 1.1),
    ("1.", 1.0),
    (".5", 0.5),
    ("-1e3", -1000.0),
    ("6.02E+23", 6.02e23),
    # quoted, tagged and written over several lines
    ("'no'", "no"),
    ("'it''s'", "it's"),
    ('"1.10"', "1.10"),
    ('"a\\tb\\u00e9\\n"', "a\tb\u00e9\n"),
    ('"a\\\n   b"', "ab"),
    ('"a\n\n   b"', "a\nb"),
    ("!!str 12", "12"),
    ("!!str no", "no"),
    ("!!str", ""),
    ("!!int 12", 12),
    ("!!float 1", 1),
    ("!!bool true", True),
    ("!!null null", None),
    ("a\n  b\n\n  c", "a b\nc"),
    ("|\n  a\n   b\n", "a\n b\n"),
    ("|-\n  a\n", "a"),
    ("|+\n  a\n", "a\n\n"),
    (">\n  a\n  b\n\n  c\n", "a b\nc\n"),
    (">-\n  1.10\n", "1.10"),
    ("|2\n   a\n", " a\n"),
    # lists and mappings
    ("[]", []),
    ("{}", {}),
    ("[a, 'b', 1, no, ]", ["a", "b", 1, "no"]),
    ("{a: 1, 'b': [x], \"c\":2}", {"a": 1, "b": ["x"], "c": 2}),
    ("[a: 1, b]", [{"a": 1}, "b"]),
    ("{a:b: 1, c:d: e}", {"a:b": 1, "c:d": "e"}),
    ("\n- a\n- - b\n  - c\n-\n", ["a", ["b", "c"], None]),
    ("\n  a: 1\n  ? b\n  : 2\n", {"a": 1, "b": 2}),
    ("{'1': a, \"true\": b, '<<': c, 'a:b': }", {"1": "a", "true": "b", "<<": "c", "a:b": None}),
    ("{a: , b: }", {"a": None, "b": None}),
    ("!!map {a: !!seq [1]}", {"a": [1]}),
    ("x # a comment", "x"),
    ("é😀", "é😀"),
    ("'  '", "  "),
]
TEXTS = [
    (NAMES.replace("\n", "\r\n"), ["t"]),
    (NAMES.replace("\n", "\r"), ["t"]),
    ("\ufeff" + NAMES, ["t"]),
    ("# a comment\n---\n" + NAMES + "...\n# the end\n", ["t"]),
    ("%YAML 1.2\n---\n" + NAMES + "...\n", ["t"]),
    (NAMES + "---\nname: u\ndescription: d\n", ["t", "u"]),
    (NAMES + "...\n---\nname: u\ndescription: d\n...\n", ["t", "u"]),
    ("--- # first\n" + NAMES + "--- {name: u, description: d}\n", ["t", "u"]),
    ("{name: t, description: d}", ["t"]),
    ('"name": "t"\n"description": "d"\n', ["t"]),
    ("? name\n: t\n? description\n: d\n", ["t"]),
]

REFUSED: list[tuple[str | bytes, tuple[int, int], str, str]] = [
    ("name: t\x00\n", (1, 8), "", "the character U+0000 is not allowed"),
    ("name: t\x07\n", (1, 8), "", "the character U+0007 is not allowed"),
    ("name: t # \x1b[2J\n", (1, 11), "", "the character U+001B is not allowed"),
    ("name: \x7f\n", (1, 7), "", "the character U+007F is not allowed"),
    ("name: t\x85description: d\n", (1, 8), "", "the character U+0085 is not allowed"),
    ("name: t # \u2028description: x\n", (1, 11), "", "the character U+2028 is not allowed"),
    ("name: t \u2029\n", (1, 9), "", "the character U+2029 is not allowed"),
    ("name: t # \u202e\n", (1, 11), "", "the character U+202E is not allowed"),
    ("description: \u2066x\n", (1, 14), "", "the character U+2066 is not allowed"),
    ("name: \ufefft\n", (1, 7), "", "the character U+FEFF is not allowed"),
    ("\ufeff\ufeffname: t\n", (1, 1), "", "the character U+FEFF is not allowed"),
    ("name: \uffff\n", (1, 7), "", "the character U+FFFF is not allowed"),
    (b"name: \xff\n", (1, 7), "", "byte 0xFF is not UTF-8"),
    (b"name: \xc3(\n", (1, 7), "", "byte 0xC3 is not UTF-8"),
    (b"description: \xed\xa0\x80\n", (1, 14), "", "byte 0xED is not UTF-8"),
    (b"\xff\xfen\x00a\x00", (1, 1), "", "the file is UTF-16"),
    (b"\xfe\xff\x00n", (1, 1), "", "the file is UTF-16"),
    (b"n\x00a\x00m\x00e\x00:\x00", (1, 2), "", "the character U+0000 is not allowed"),
    ('description: "a\\0b"\n', (1, 1), "", "the key 'name' is missing"),
    (
        'description: "\\ud800"\n',
        (1, 17),
        "",
        "not valid YAML: while parsing a quoted scalar, found invalid Unico",
    ),
    ('name: "\\x00"\n', (1, 1), "", "the key 'description' is missing"),
    (H + "name: u\n", (3, 1), "name", "the key 'name' is already given on line 1"),
    (
        H + "entry: {type: custom, type: http}\n",
        (3, 23),
        "entry.type",
        "the key 'type' is already given on line 3",
    ),
    (H + '"name": t\n', (3, 1), "name", "the key 'name' is already given on line 1"),
    (H + "? name\n: x\n", (3, 3), "name", "the key 'name' is already given on line 1"),
    (
        H + "effect: read\ntags: []\neffect: write\n",
        (5, 1),
        "effect",
        "the key 'effect' is already given on line 3",
    ),
    (
        P("type: string, default: a, default: b"),
        (4, 57),
        "parameters[0].default",
        "the key 'default' is already given on line 4",
    ),
    (
        P("type: object, default: {a: 1, b: {c: 1, c: 2}}"),
        (4, 71),
        "parameters[0].default.b.c",
        "the key 'c' is already given on line 4",
    ),
    (
        H + "parameters: []\nparameters: []\n",
        (4, 1),
        "parameters",
        "the key 'parameters' is already given on line 3",
    ),
    (H + "tags: &t [a]\n", (3, 7), "tags", "the anchor &t is not allowed"),
    (H + "author: &a x\n", (3, 9), "author", "the anchor &a is not allowed"),
    (H + "author: *a\n", (3, 9), "author", "the alias *a is not allowed"),
    (H + "tags: [*a, *b]\n", (3, 8), "tags[0]", "the alias *a is not allowed"),
    ("&a name: t\ndescription: d\n", (1, 1), "name", "the anchor &a stands at a key"),
    ("*a : t\n", (1, 1), "", "a key must be text, not a list, a mapping or an alias"),
    (H + "<<: {effect: read}\n", (3, 1), "<<", "the merge key << is not allowed"),
    (H + "entry: {<<: *a}\n", (3, 8), "entry", "the key 'type' is missing"),
    (H + "entry:\n  <<: [{type: http}]\n", (4, 3), "entry.<<", "the merge key << is not allowed"),
    (H + "author: !mine x\n", (3, 9), "author", "the tag !mine is not allowed"),
    (H + "author: !!binary aGk=\n", (3, 9), "author", "the tag !!binary is not allowed"),
    (
        H + "author: !!timestamp 2024-01-01\n",
        (3, 9),
        "author",
        "the tag !!timestamp is not allowed",
    ),
    (H + "tags: !!set {a}\n", (3, 7), "tags", "the tag !!set is not allowed"),
    (H + "tags: !!omap [a: 1]\n", (3, 7), "tags", "the tag !!omap is not allowed"),
    (
        H + "author: !!python/name:os.system x\n",
        (3, 9),
        "author",
        "the tag !!python/name:os.system is not allowed",
    ),
    (
        H + "entry: !!python/object/apply:os.system [ls]\n",
        (3, 8),
        "entry",
        "the tag !!python/object/apply:os.system is not allowed",
    ),
    (
        H + "author: !<tag:example.com,2024:x> y\n",
        (3, 9),
        "author",
        "the tag tag:example.com,2024:x is not allowed",
    ),
    (H + "author: ! x\n", (3, 9), "author", "the tag ! is not allowed"),
    (H + 'author: ! "12"\n', (3, 9), "author", "the tag ! is not allowed"),
    ("! name: t\ndescription: d\n", (1, 1), "name", "the tag ! is not allowed"),
    (H + "tags: ! [a]\n", (3, 7), "tags", "the tag ! is not allowed"),
    (H + "timeout: !!int 1.5\n", (3, 10), "timeout", "'1.5' does not fit its tag"),
    (H + "timeout: !!float x\n", (3, 10), "timeout", "'x' does not fit its tag"),
    (H + "idempotent: !!bool no\n", (3, 13), "idempotent", "'no' does not fit its tag"),
    (H + "author: !!null x\n", (3, 9), "author", "'x' does not fit its tag"),
    ("%TAG ! tag:x,2024:\n---\nname: t\ndescription: d\n", (1, 1), "", "%TAG is not allowed"),
    ("%TAG !! tag:x,2024:\n---\nname: t\ndescription: d\n", (1, 1), "", "%TAG is not allowed"),
    (
        "%YAML 1.1\n---\nname: t\ndescription: d\n...\n",
        (1, 1),
        "",
        "the %YAML directive asks for other rules",
    ),
    (
        "%YAML 1.2\n---\nname: t\ndescription: d\n",
        (5, 1),
        "",
        "a text that begins with %YAML ends with a line ..., and here is no",
    ),
    (
        "%FOO\n---\nname: t\ndescription: d\n",
        (1, 5),
        "",
        "not valid YAML: while scanning a directive, found unknown directiv",
    ),
    (H + "1: x\n", (3, 1), "1", "the key 1 must be text"),
    (H + "1.10: x\n", (3, 1), "['1.10']", "the key 1.10 must be text"),
    (H + "0x1F: x\n", (3, 1), "0x1F", "the key 0x1F must be text"),
    (H + "true: x\n", (3, 1), "true", "the key true must be text"),
    (H + "null: x\n", (3, 1), "null", "the key null must be text"),
    (H + "~: x\n", (3, 1), "~", "the key ~ must be text"),
    (H + ": x\n", (3, 1), "", "not valid YAML: while parsing a block mapping, did not find expect"),
    (H + "[a]: x\n", (3, 1), "", "a key must be text, not a list, a mapping or an alias"),
    (H + "{a: 1}: x\n", (3, 1), "", "a key must be text, not a list, a mapping or an alias"),
    (H + "!!int 1: x\n", (3, 1), "1", "a key must be text"),
    (H + "? [a]\n: x\n", (3, 3), "", "a key must be text, not a list, a mapping or an alias"),
    (
        H + "parameters: [{name: p, type: object, description: d, default: {a:1}}]\n",
        (3, 64),
        "parameters[0].default.a:1",
        "the key 'a:1' has no value",
    ),
    (
        H + "output: {type: object, properties: {a:string}}\n",
        (3, 37),
        "output.properties.a:string",
        "the key 'a:string' has no value",
    ),
    (
        H + "entry: {type: http, request: {headers: {Accept:json}}}\n",
        (3, 41),
        "entry.request.headers.Accept:json",
        "the key 'Accept:json' has no value",
    ),
    (H + "version: 1.10\n", (3, 10), "version", "expected text, got the number 1.10"),
    (H + "version: 2\n", (3, 10), "version", "expected text, got the number 2"),
    (H + "version: 0x1F\n", (3, 10), "version", "expected text, got the number 0x1F"),
    (H + "version: 1e3\n", (3, 10), "version", "expected text, got the number 1e3"),
    (H + "icon: .5\n", (3, 7), "icon", "expected text, got the number .5"),
    (H + "rate: 10\n", (3, 7), "rate", "expected text, got the number 10"),
    (H + "tags: [1.10]\n", (3, 8), "tags[0]", "expected text, got the number 1.10"),
    (H + "author: true\n", (3, 9), "author", "expected text, got true"),
    (H + "author: null\n", (3, 9), "author", "expected text, got nothing"),
    ("name: 12\ndescription: d\n", (1, 7), "name", "expected text, got the number 12"),
    ("name: t\ndescription: 0o17\n", (2, 14), "description", "expected text, got the number 0o17"),
    (
        H + "entry: {type: custom, handler: 1.0}\n",
        (3, 32),
        "entry.handler",
        "expected text, got the number 1.0",
    ),
    (
        P("type: string, default: 1.10"),
        (4, 54),
        "parameters[0].default",
        "expected a string, got the number 1.10",
    ),
    (
        P("type: string, enum: [a, 0x1F]"),
        (4, 55),
        "parameters[0].enum[1]",
        "expected a string, got the number 0x1F",
    ),
    (
        P("type: string, enum: [true]"),
        (4, 52),
        "parameters[0].enum[0]",
        "expected a string, got true",
    ),
    (
        P("type: integer, default: 1.5"),
        (4, 55),
        "parameters[0].default",
        "expected an integer, got the number 1.5",
    ),
    (
        P("type: integer, default: 012"),
        (4, 55),
        "parameters[0].default",
        "expected an integer, got the text '012'",
    ),
    (
        P("type: integer, default: 1_000"),
        (4, 55),
        "parameters[0].default",
        "expected an integer, got the text '1_000'",
    ),
    (
        P("type: number, default: 1:30"),
        (4, 54),
        "parameters[0].default",
        "expected a number, got the text '1:30'",
    ),
    (
        P("type: boolean, default: no"),
        (4, 55),
        "parameters[0].default",
        "expected a boolean, got the text 'no'",
    ),
    (
        P("type: boolean, default: on"),
        (4, 55),
        "parameters[0].default",
        "expected a boolean, got the text 'on'",
    ),
    (
        P("type: number, default: '1'"),
        (4, 54),
        "parameters[0].default",
        "expected a number, got the text '1'",
    ),
    (H + "timeout: 1_000\n", (3, 10), "timeout", "expected a number, got the text '1_000'"),
    (H + "timeout: 1:30\n", (3, 10), "timeout", "expected a number, got the text '1:30'"),
    (H + "timeout: 012\n", (3, 10), "timeout", "expected a number, got the text '012'"),
    (H + "timeout: 5s\n", (3, 10), "timeout", "expected a number, got the text '5s'"),
    (
        H + "timeout: 2024-01-01\n",
        (3, 10),
        "timeout",
        "expected a number, got the text '2024-01-01'",
    ),
    (H + "idempotent: yes\n", (3, 13), "idempotent", "expected true or false, got the text 'yes'"),
    (H + "idempotent: Off\n", (3, 13), "idempotent", "expected true or false, got the text 'Off'"),
    (H + "timeout: 0x1G\n", (3, 10), "timeout", "expected a number, got the text '0x1G'"),
    (H + "timeout: '5'\n", (3, 10), "timeout", "expected a number, got the text '5'"),
    (H + "timeout: .inf\n", (3, 10), "timeout", ".inf is not a number that JSON can carry"),
    (H + "timeout: .NaN\n", (3, 10), "timeout", ".NaN is not a number that JSON can carry"),
    (
        H + "timeout: 1e999\n",
        (3, 10),
        "timeout",
        "the number 1e999 is outside the range of numbers",
    ),
    (
        H + "timeout: 1e-999\n",
        (3, 10),
        "timeout",
        "the number 1e-999 is outside the range of numbers",
    ),
    (
        H + "timeout: 99999999999999999999\n",
        (3, 10),
        "timeout",
        "the integer 99999999999999999999 does not fit into 64 bits",
    ),
    (
        P("type: integer, default: 9223372036854775808"),
        (4, 55),
        "parameters[0].default",
        "the integer 9223372036854775808 does not fit into 64 bits",
    ),
    (
        P("type: integer, max: 0x10000000000000000"),
        (4, 51),
        "parameters[0].max",
        "the integer 0x10000000000000000 does not fit into 64 bits",
    ),
    ("name: [\n", (2, 1), "", "not valid YAML: while parsing a flow node, did not find expected n"),
    (
        "name: 'x\n",
        (2, 1),
        "",
        "not valid YAML: while scanning a quoted scalar, found unexpected e",
    ),
    (
        'name: "x\n',
        (2, 1),
        "",
        "not valid YAML: while scanning a quoted scalar, found unexpected e",
    ),
    (
        "name: {a: 1\n",
        (2, 1),
        "",
        "not valid YAML: while parsing a flow mapping, did not find expecte",
    ),
    ("name: a: b\n", (1, 8), "", "not valid YAML: mapping values are not allowed in this context"),
    (
        "name:\n\tx: 1\n",
        (2, 1),
        "",
        "not valid YAML: while scanning for the next token, found character",
    ),
    (
        "\tname: t\n",
        (1, 1),
        "",
        "not valid YAML: while scanning for the next token, found character",
    ),
    (
        H + "  tags: [a]\n",
        (3, 7),
        "",
        "not valid YAML: mapping values are not allowed in this context",
    ),
    (" name: t\ndescription: d\n", (1, 2), "", "the key 'description' is missing"),
    (
        "name: t\n description: d\n",
        (2, 13),
        "",
        "not valid YAML: mapping values are not allowed in this context",
    ),
    (
        H + "tags:\n - a\n- b\n",
        (5, 1),
        "",
        "not valid YAML: while parsing a block mapping, did not find expect",
    ),
    (
        H + "tags: [a, b\n",
        (4, 1),
        "",
        "not valid YAML: while parsing a flow sequence, did not find expect",
    ),
    (H + "tags: a]\n", (3, 7), "tags", "expected a list, got the text 'a]'"),
    (
        "name: @x\n",
        (1, 7),
        "",
        "not valid YAML: while scanning for the next token, found character",
    ),
    (
        "name: `x`\n",
        (1, 7),
        "",
        "not valid YAML: while scanning for the next token, found character",
    ),
    (
        "name: %x\n",
        (1, 7),
        "",
        "not valid YAML: while scanning for the next token, found character",
    ),
    (
        'name: "\\q"\n',
        (1, 8),
        "",
        "not valid YAML: while parsing a quoted scalar, found unknown escap",
    ),
    (
        H + "author: |3x\n",
        (3, 11),
        "",
        "not valid YAML: while scanning a block scalar, did not find expect",
    ),
    (
        H + "author: >\n x\n  y\n z: 1\nw\n",
        (8, 1),
        "",
        "not valid YAML: while scanning a simple key, could not find expect",
    ),
    ("- name: t\n", (1, 1), "", "a definition is a mapping with name, description, …"),
    ("name: t\tx\ndescription: d\n", (1, 7), "name", "a tab stands in an unquoted text"),
    ("", (1, 1), "", "the file is empty"),
    ("# only a comment\n", (1, 1), "", "the file is empty"),
    ("---\n", (2, 1), "", "a definition is a mapping with name, description, …"),
    ("name\n", (1, 1), "", "a definition is a mapping with name, description, …"),
    ("name:\n", (1, 1), "", "the key 'description' is missing"),
    ("name: t\n", (1, 1), "", "the key 'description' is missing"),
    (
        "name: t\ndescription\n",
        (3, 1),
        "",
        "not valid YAML: while scanning a simple key, could not find expect",
    ),
    ("name: t\ndescription:\n", (2, 13), "description", "expected text, got nothing"),
    (H + "parameters:\n", (3, 12), "parameters", "expected a list or a mapping, got nothing"),
    (H + "parameters:\n  - name: p\n", (4, 5), "parameters[0]", "the key 'type' is missing"),
    (
        H + "parameters:\n  - name: p\n    type: string\n",
        (4, 5),
        "parameters[0]",
        "the key 'description' is missing",
    ),
    (H + "parameters:\n  -\n", (4, 4), "parameters[0]", "expected a mapping, got nothing"),
    (H + "entry:\n", (3, 7), "entry", "expected a mapping, got nothing"),
    (
        H + "entry: {type: http",
        (4, 1),
        "",
        "not valid YAML: while parsing a flow mapping, did not find expecte",
    ),
    (H + "outp", (4, 1), "", "not valid YAML: while scanning a simple key, could not find expect"),
    (
        H + "output:\n  type: object\n  properties:\n",
        (5, 14),
        "output.properties",
        "expected a mapping, got nothing",
    ),
    (H + "---\n", (4, 1), "", "there is nothing after this ---"),
    ("---\n---\nname: t\ndescription: d\n", (2, 1), "", "there is nothing after this ---"),
    (H + "---\n# nothing\n", (5, 1), "", "there is nothing after this ---"),
    (
        H + "...\nname: t\ndescription: d\n",
        (4, 1),
        "",
        "not valid YAML: did not find expected <document start>",
    ),
    (
        H + "---\nname: t\ndescription: d\n",
        (4, 7),
        "name",
        "the tool 't' is already defined on line 1",
    ),
    (H + "---\n- x\n", (4, 1), "", "a definition is a mapping with name, description, …"),
    (H + "---\nname: u\n", (4, 1), "", "the key 'description' is missing"),
    (
        H + "---\nname: u\ndescription: d\nversion: 1.10\n",
        (6, 10),
        "version",
        "expected text, got the number 1.10",
    ),
    (H + "--- x\n", (3, 5), "", "a definition is a mapping with name, description, …"),
    (H + "categories: http\n", (3, 1), "categories", "unknown key 'categories'"),
    (H + "catagory: http\n", (3, 1), "catagory", "unknown key 'catagory'"),
    (
        H + "category: HTTP\n",
        (3, 11),
        "category",
        "expected one of http, database, file, ai, notification, custom, go",
    ),
    (
        H + "effect: readonly\n",
        (3, 9),
        "effect",
        "expected one of read, write, unknown, got the text 'readonly'",
    ),
    (H + "timeout: 0\n", (3, 10), "timeout", "expected more than 0, got the number 0"),
    (H + "timeout: -1\n", (3, 10), "timeout", "expected more than 0, got the number -1"),
    (H + "retry: 3\neffect: read\n", (3, 8), "retry", "expected a mapping, got the number 3"),
    (
        H + "retry: {attempts: 2}\n",
        (3, 1),
        "retry",
        "retry applies only to tools that may safely run twice",
    ),
    (
        H + "output: {type: strng}\n",
        (3, 16),
        "output.type",
        "expected one of string, number, integer, boolean, array, object, a",
    ),
    (H + "output: any\nreturns: any\n", (4, 1), "returns", "output and returns say the same"),
    (
        P("type: int"),
        (4, 37),
        "parameters[0].type",
        "expected one of string, number, integer, boolean, array, object, any, g",
    ),
    (
        P("type: string, minLength: 1"),
        (4, 45),
        "parameters[0].minLength",
        "unknown key 'minLength'",
    ),
    (
        P("type: string, min: 1"),
        (4, 45),
        "parameters[0].min",
        "min does not apply to the type string",
    ),
    (
        P("type: string, pattern: '('"),
        (4, 54),
        "parameters[0].pattern",
        "the pattern '(' is not a regular expression: missing ), unterminat",
    ),
    (
        P("type: string, pattern: '(?=x)'"),
        (4, 54),
        "parameters[0].pattern",
        "the pattern '(?=x)' uses lookaround, a back-reference or a possess",
    ),
    (
        P("type: integer, min: 0x1F, max: 3"),
        (4, 51),
        "parameters[0].min",
        "min 31 is above max 3: no value would pass",
    ),
    (
        P("type: string, validation: {min_lenght: 1}"),
        (4, 58),
        "parameters[0].validation.min_lenght",
        "unknown key 'min_lenght'",
    ),
    (
        P("type: string, schema: {$ref: '#'}"),
        (4, 53),
        "parameters[0].schema",
        "this schema refers to itself without a step into the value",
    ),
    (
        P("type: object, required: [a]"),
        (4, 55),
        "parameters[0].required",
        "expected true or false, got a list",
    ),
    (
        P("type: string, schema: {minLength: 1.5}"),
        (4, 65),
        "parameters[0].schema.minLength",
        "not JSON Schema 2020-12: 1.5 is not of type 'integer'",
    ),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_values(text: str, value: Any) -> None:
    """K3, K4: what is written has this value, of this kind; another reader finds the same."""
    whole = f"a: {text}\n"
    (document,) = load_documents(whole, "x")
    assert is_same(document.value, {"a": value})
    assert is_same(read_values(whole), [{"a": value}])


@pytest.mark.parametrize(("text", "names"), TEXTS)
def test_texts(text: str, names: list[str]) -> None:
    """K3: line ends, byte order mark, comments and documents change nothing about the tools."""
    assert [tool.name for tool in ToolConfigLoader().load_tools(text, "x")] == names
    assert [tool.name for tool in ToolConfigLoader().load_tools(text.encode(), "x")] == names


@pytest.mark.parametrize(("text", "place", "path", "words"), REFUSED)
def test_refused(text: str | bytes, place: tuple[int, int], path: str, words: str) -> None:
    """K3: each is refused at its place, with what is wrong and a cure or the nearest word."""
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().load_tools(text, "x.yaml")
    first = caught.value.problems[0]
    assert (first.file, (first.line, first.column), first.path) == ("x.yaml", place, path)
    assert first.message.startswith(words)
    for problem in caught.value.problems:
        assert problem.cure or problem.nearest or problem.expected, problem


def test_the_tables_are_long_enough() -> None:
    """K3: the purpose of the issue: no file of this table loads silently."""
    assert len(REFUSED) >= 90
    assert len(VALUES) + len(TEXTS) >= 60
