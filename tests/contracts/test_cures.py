"""Each cure that a message about a definition offers is applied to the input that brought it.

A row of `CURES` is a broken definition, the cure that its message must offer, and what its reader
does then: the words of the message where it names them, else what stands for what it leaves to the
reader. After that the definition loads, its executor has nothing to say, and no finding is left.
`test_every_cure_has_a_row` reads the source of the catalog: a new cure without a row fails there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.meta.sources import tree
from tool_engine.catalog.group_links import link_faults
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.config import ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool

CATALOG = Path(__file__).parents[2] / "tool_engine" / "catalog"
HEAD = "name: t\ndescription: Does a thing.\n"
GROUP = "kind: group\nname: g\ndescription: A group.\n"
SERVER = "kind: mcp_server\nname: s\n"
Q = "parameters: [{name: q, type: string, required: true, description: x}]\n"
HTTP = "entry: {type: http, request: {url: 'https://example.com/{q}'}}\n"

Heal = Callable[[str, DefinitionProblem], str]


class Row(NamedTuple):
    """A broken definition, a part of the cure, and how the cure is applied."""

    broken: str
    cure: str
    heal: Heal


def swap(old: str, new: str) -> Heal:
    """Writes `new` in place of `old`, as the reader of a cure in words would."""

    def heal(text: str, problem: DefinitionProblem) -> str:
        del problem
        assert old in text
        return text.replace(old, new, 1)

    return heal


def near(old: str) -> Heal:
    """Writes the word that the message asks about in place of `old`."""

    def heal(text: str, problem: DefinitionProblem) -> str:
        assert f"; did you mean {problem.nearest!r}?" in problem.message
        return text.replace(old, problem.nearest, 1)

    return heal


def said(old: str, pattern: str, form: str = "{}") -> Heal:
    """Writes what `pattern` finds in the cure in place of `old`."""

    def heal(text: str, problem: DefinitionProblem) -> str:
        found = re.search(pattern, problem.cure)
        assert found is not None, problem.cure
        return text.replace(old, form.format(found[1]), 1)

    return heal


def at_place(text: str, problem: DefinitionProblem) -> str:
    """Takes out the line that the message points to."""
    lines = text.splitlines(keepends=True)
    assert problem.line is not None
    del lines[problem.line - 1]
    return "".join(lines)


LIST = r"write it as a list: (\[.*\])$"
REWRITTEN = r"for each parameter: (\[.*\])$"
ARGV = "entry: {type: builtin, handler: run_command, argv: [%s]}\n"
REQUEST = "entry: {type: http, request: {url: 'https://a.example/%s'}}\n"
SHORT = "parameters: [{name: q, type: string, description: x, %s}]\n"
WHOLE = SHORT.replace("string", "integer")

CURES = [
    # Keys and words.
    Row(HEAD + "effect: read\nretries: {attempts: 2}\n", "", near("retries")),
    Row(HEAD + "Category: file\n", "", near("Category")),
    Row(HEAD + "params: []\n", "", near("params")),
    Row(HEAD + "effect: READ\n", "", near("READ")),
    Row(HEAD + Q.replace("type: string", "type: str"), "", near("str")),
    Row(HEAD + Q + HTTP.replace("{url", "{method: get, url"), "", near("get")),
    Row(HEAD + Q + HTTP.replace("type: http", "type: rest"), "", near("rest")),
    Row(HEAD + Q + HTTP.replace("type: http", "type: HTTP"), "", near("HTTP")),
    Row(HEAD + "outputSchema: {type: object}\n", "", near("outputSchema")),
    Row(HEAD + "frobnicate: 1\n", "the keys here are name, version, description", at_place),
    Row(HEAD + "rules: x\n", "or remove it", at_place),
    Row(
        HEAD.replace("name: ", "name: {{ ").replace("\n", " }}\n", 1),
        "in quotes where it begins with a brace",
        lambda text, _: HEAD,
    ),
    Row(
        GROUP.replace("kind: group\n", "") + "tools: [a]\n",
        "add kind: group",
        lambda text, _: "kind: group\n" + text,
    ),
    Row("name: t\n", "add it", lambda text, _: text + "description: x\n"),
    Row(
        HEAD + "parameters: [{name: q, type: string, description: The city, as Oslo}]\n",
        'put quotation marks round the text: description: "The city, as Oslo"',
        swap("The city, as Oslo", '"The city, as Oslo"'),
    ),
    # Several types, and schemas where other formats have them.
    Row(
        HEAD + SHORT.replace("string", "[string, null]") % "max_length: 5",
        'write "null", in quotes',
        swap("null", '"null"'),
    ),
    Row(
        HEAD + SHORT % "not: {const: a}",
        "write it in schema",
        swap("not: {const: a}", "schema: {not: {const: a}}"),
    ),
    Row(
        HEAD + SHORT.replace("string", "[boolean, 'null']") % "min: 5, enum: [true, null]",
        "the rules for them are enum",
        swap("min: 5, ", ""),
    ),
    Row(
        HEAD + SHORT.replace("string", "[string, 'null']") % "schema: {type: string}",
        "move it there",
        swap(
            "type: [string, 'null'], description: x, schema: {type: string}",
            "type: string, description: x",
        ),
    ),
    Row(
        HEAD + "parameters: {inputSchema: {type: object, properties: {q: {type: string}}}}\n",
        "move what it holds to parameters",
        lambda *_: HEAD + "parameters: {type: object, properties: {q: {type: string}}}\n",
    ),
    Row(
        HEAD + "entry: {type: custom, input_schema: {type: object, properties: {q: {}}}}\n",
        "move what it holds to parameters",
        lambda *_: (
            HEAD + "entry: {type: custom}\nparameters: {type: object, properties: {q: {}}}\n"
        ),
    ),
    Row(
        HEAD + "parameters: {type: object, inputSchema: {type: object, properties: {q: {}}}}\n",
        "move what it holds to parameters",
        lambda *_: HEAD + "parameters: {type: object, properties: {q: {}}}\n",
    ),
    Row(
        HEAD + "parameters: {type: object, properties: {q: {type: string, nullable: true}}}\n",
        "write type: [string, 'null']",
        swap("type: string, nullable: true", "type: [string, 'null']"),
    ),
    Row(
        HEAD + "parameters: {type: object, dependencies: {q: [r]}}\n",
        "write dependentRequired",
        swap("dependencies", "dependentRequired"),
    ),
    # Forms.
    Row(HEAD + "tags: a, b c\n", "write it as a list", said("a, b c", LIST)),
    Row(HEAD + "tags: yes\n", "write it as a list", said("yes", LIST)),
    Row(HEAD + "tags: '{a}: b'\n", "write it as a list", said("'{a}: b'", LIST)),
    Row(
        HEAD + Q + "entry: {type: builtin, handler: run_command, argv: 'ls \"a b\" {q}'}\n",
        "write it as a list",
        said("'ls \"a b\" {q}'", LIST),
    ),
    Row(
        HEAD + Q + 'entry: {type: builtin, handler: run_command, argv: "ls {q}"}\n',
        "write it as a list",
        said('"ls {q}"', LIST),
    ),
    Row(
        HEAD + Q + "entry: {type: builtin, handler: run_command, argv: [ls, {q}]}\n",
        "quote it: '{q}'",
        swap("[ls, {q}]", "[ls, '{q}']"),
    ),
    Row(
        HEAD + "accepts: ['host:https://']\n",
        "write the host alone, such as host:example.com",
        said("host:https://", r"such as (\S+)$"),
    ),
    Row(
        HEAD + "accepts: ['tool:web/a']\n",
        "* stands for any, as in tool:web_*",
        said("tool:web/a", r"as in (\S+)$"),
    ),
    *(
        Row(HEAD + f"accepts: ['{label}']\n", "", near(label))
        for label in ("host:HTTP://x/y", "Tool*", "host:example.com:80")
    ),
    Row(HEAD + "timeout: 5s\n", "without quotes or unit", swap("5s", "5")),
    Row(HEAD + "timeout: '5'\n", "without quotes or unit", swap("'5'", "5")),
    *(
        Row(HEAD + f"timeout: {quote}{number}{quote}\n", cure, heal)
        for quote in ("", "'")
        for number, cure, heal in (
            ("1e400", "between", said(f"{quote}1e400{quote}", r"and ([\de]+),")),
            ("1e-999", "or leave the key out", at_place),
            ("1e-999", "or a larger one", said(f"{quote}1e-999{quote}", r"write ([\de.-]+) or")),
            ("-1e-400", "or a larger one", said(f"{quote}-1e-400{quote}", r"write ([\de.-]+) or")),
            (".inf", "leave the key out for its default", at_place),
            (".inf", "write a plain number", swap(f"{quote}.inf{quote}", "1e9")),
        )
    ),
    *(
        Row(HEAD + WHOLE % f"{key}: {number}", "from -9", said(number, r"to (\d+),"))
        for key in ("default", "max")
        for number in (str(2**64), f"'{2**64}'")
    ),
    Row(HEAD + "idempotent: yes\n", "write true", said("yes", r"write (\w+)")),
    Row(HEAD + "version: 1.10\n", "quote it", swap("1.10", '"1.10"')),
    Row(HEAD + "rate: 5\n", "write it as 10/s", said("5", r"write it as ([^,]+),")),
    Row(HEAD + "rate: 5 per second\n", "write it as 10/s", said("5 per second", r"as ([^,]+),")),
    Row("name: 5\ndescription: x\n", "a letter or _ first", swap("5", "five")),
    Row("name: a b\ndescription: x\n", "a letter or _ first", swap("a b", "a_b")),
    Row(HEAD + "timeout:\n", "give it a value or remove the key", at_place),
    Row(HEAD + "tags: ['']\n", "give it a value or remove the key", swap("['']", "[a]")),
    Row(HEAD + "examples: []\n", "", at_place),
    Row(
        HEAD + SHORT % "required: [q]",
        "belong into validation.required",
        swap(
            "type: string, description: x, required: [q]",
            "type: object, description: x, validation: {properties: {q: string}, required: [q]}",
        ),
    ),
    Row(
        HEAD + "output: {type: object}\nreturns: {type: object}\n",
        "give one",
        swap("returns: {type: object}\n", ""),
    ),
    Row(HEAD + "output: {type: object, properties: {'': string}}\n", "", swap("''", "a")),
    Row(HEAD + "output: {min: 3}\n", "add one beside it", swap("min: 3", "min: 3, type: integer")),
    # Parameters in the way of other formats.
    Row(
        HEAD + "parameters: {q: string, n: {type: integer, min: 1}}\n",
        "for each parameter",
        said("{q: string, n: {type: integer, min: 1}}", REWRITTEN),
    ),
    Row(HEAD + "parameters: {q: 5}\n", "for each parameter", said("{q: 5}", REWRITTEN)),
    Row(
        HEAD + "parameters: {type: array, properties: {}}\n",
        "write type: object",
        swap("{type: array, properties: {}}", "{type: object, properties: {a: {type: array}}}"),
    ),
    Row(
        HEAD + "parameters: {type: object, $schema: 'urn:mine'}\n",
        "remove the key",
        swap(", $schema: 'urn:mine'", ""),
    ),
    Row(
        HEAD + "parameters: {type: object, properties: {'': {}}}\n",
        "change it",
        swap("''", "a"),
    ),
    Row(
        HEAD + "parameters: {type: object, properties: {a: {writeOnly: true, default: b}}}\n",
        "this one with secret: true",
        swap(
            "{type: object, properties: {a: {writeOnly: true, default: b}}}",
            "[{name: a, type: string, secret: true, default: b, description: d}]",
        ),
    ),
    Row(
        HEAD + "inputSchema: {type: object, properties: {q: {type: string, enum: [a]}}}\n",
        "rename it to parameters",
        swap("inputSchema", "parameters"),
    ),
    Row(
        HEAD + "inputSchema: {q: string}\n",
        "rename it to parameters, and",
        said("inputSchema: {q: string}", REWRITTEN, "parameters: {}"),
    ),
    # Entries in the way of other formats.
    Row(
        HEAD + "parameters: [{name: expression, type: string, description: x, required: true}]\n"
        "entry: {type: calculator}\n",
        "write type: builtin",
        said("type: calculator", r"write (type: builtin, handler: \w+)"),
    ),
    Row(
        HEAD + "effect: read\nentry: {type: sql, source: s, sql: 'SELECT 1'}\n",
        "write type: builtin",
        said("type: sql", r"handler: (\w+)", "type: builtin, handler: {}"),
    ),
    Row(
        HEAD + "entry: {type: command, argv: [ls]}\n",
        "write type: builtin",
        said("type: command", r"handler: (\w+)", "type: builtin, handler: {}"),
    ),
    Row(
        HEAD + "parameters: [{name: path, type: string, description: x, required: true}]\n"
        "entry: {type: file, root: .}\n",
        "write type: builtin",
        said("type: file", r"handler: (\w+)", "type: builtin, handler: {}"),
    ),
    # Rules of parameters.
    Row(
        HEAD + SHORT % "min: 3",
        "the rules for it are pattern, min_length",
        swap("min: 3", "min_length: 3"),
    ),
    Row(
        HEAD + SHORT.replace("string", "boolean") % "min: 3",
        "it has no rules",
        swap(", min: 3", ""),
    ),
    Row(
        HEAD + SHORT % "min_length: 3, max_length: 1",
        "change one of the two",
        swap("max_length: 1", "max_length: 4"),
    ),
    Row(HEAD + SHORT % "enum: [a, a]", "remove one", swap("[a, a]", "[a]")),
    Row(
        HEAD + SHORT % "min_length: 1, validation: {min_length: 1}",
        "remove one",
        swap(", validation: {min_length: 1}", ""),
    ),
    Row(HEAD + SHORT % "default: ", "remove the key for no default", swap(", default: ", "")),
    Row(HEAD + SHORT % "default: 5", "quote it", swap("5", "'5'")),
    Row(
        HEAD + SHORT % "max_length: 2, default: abc",
        "change the default or the rule",
        swap("abc", "ab"),
    ),
    Row(
        HEAD + SHORT % "required: true, default: a",
        "remove one of the two",
        swap(", default: a", ""),
    ),
    Row(
        HEAD + Q.replace("]", ", {name: q, type: string, description: z}]"),
        "rename or remove one",
        swap(", {name: q, type: string, description: z}", ""),
    ),
    Row(HEAD + SHORT % "pattern: '(a'", "mend it", swap("(a", "(a)")),
    Row(HEAD + SHORT % "pattern: '(?=a)b'", "write it without", swap("(?=a)", "")),
    Row(HEAD + SHORT % f"pattern: '{'a' * 100_000}'", "simplify it", swap("a" * 100_000, "a+")),
    Row(
        HEAD + SHORT % "schema: {$ref: '#/x'}",
        "add $defs",
        swap("$ref: '#/x'", "$ref: '#/$defs/x', $defs: {x: {const: a}}"),
    ),
    Row(
        HEAD + SHORT % "schema: {$ref: '#/x', $defs: {some: {const: a}}}",
        "the definitions here are",
        swap("#/x", "#/$defs/some"),
    ),
    Row(
        HEAD + SHORT % "schema: {$ref: '#/$defs/soem', $defs: {some: {const: a}}}",
        "",
        near("#/$defs/soem"),
    ),
    Row(
        HEAD + SHORT % "schema: {$ref: 'http://a.b/c'}",
        "copy what it means under $defs",
        swap("$ref: 'http://a.b/c'", "$ref: '#/$defs/c', $defs: {c: {const: a}}"),
    ),
    Row(
        HEAD + SHORT % "schema: {$dynamicRef: '#c'}",
        "name the schema under $defs",
        swap("$dynamicRef: '#c'", "$ref: '#/$defs/c', $defs: {c: {const: a}}"),
    ),
    Row(
        HEAD + SHORT.replace("string", "any") % "schema: {anyOf: [{$ref: '#'}]}",
        "refer to it from properties or items",
        swap("anyOf: [{$ref: '#'}]", "items: {$ref: '#'}"),
    ),
    Row(HEAD + SHORT % "schema: {zzzzz: 1}", "remove it", swap("{zzzzz: 1}", "{const: a}")),
    Row(HEAD + SHORT % "schema: {minlength: 1}", "", near("minlength")),
    Row(
        HEAD + SHORT % "schema: {format: fax}",
        "use a pattern or remove it",
        swap("format: fax", "pattern: '^[0-9]+$'"),
    ),
    Row(
        HEAD + SHORT % "min_length: 1, schema: {minLength: 2}",
        "move it there",
        swap("min_length: 1, schema: {minLength: 2}", "min_length: 2"),
    ),
    Row(
        HEAD + SHORT % "schema: {type: integer}",
        "include it or remove the key",
        swap("{type: integer}", "{const: a}"),
    ),
    Row(
        HEAD + SHORT % "schema: {const: a, minItems: x}",
        "mend it",
        swap("minItems: x", "minItems: 1"),
    ),
    Row(
        HEAD + SHORT % "schema: {anyOf: [{const: a, default: a}]}",
        "move it to the parameter's own",
        swap(", default: a}]}", "}]}, default: a"),
    ),
    # What goes together.
    Row(
        HEAD + "retry: {attempts: 2}\n", "add effect: read", lambda text, _: text + "effect: read\n"
    ),
    Row(
        HEAD + Q + "concurrency: {key: params.q, collision: single_flight}\n",
        "add effect: read",
        lambda text, _: text + "effect: read\n",
    ),
    Row(HEAD + Q + "concurrency: {key: params.zzz}\n", "", swap("params.zzz", "params.q")),
    Row(HEAD + "result: {strategy: head}\n", "add max_chars", swap("head", "head, max_chars: 100")),
    Row(HEAD + "result: {select: 'a['}\n", "correct it", swap("a[", "a")),
    Row(HEAD + "result: {select: '$.a'}\n", "leave out the $.", swap("$.a", "a")),
    Row(
        HEAD + Q + HTTP.replace("{q}'", "{q}', query: {v: 1.10}"),
        "quote it to send what is written",
        swap("1.10", "'1.10'"),
    ),
    Row(HEAD + "accepts: [zzz]\n", "the labels are user", swap("zzz", "user")),
    Row(
        HEAD + "permission: {execution: auto, client_may_answer: true}\n",
        "write execution: ask_once or ask_always",
        swap("auto", "ask_once"),
    ),
    Row(HEAD + "accepts: ['effect:zzz']\n", "the effects are read", swap("zzz", "read")),
    *(
        Row(HEAD + f"accepts: ['{label}']\n", "", near(label))
        for label in ("tol:x", "Tool:x", "tools:x", "effect:Read", "User")
    ),
    Row(
        HEAD + Q + HTTP.replace("https://example.com", "http://127.0.0.1:8080"),
        "add allow",
        lambda text, problem: text.replace(
            "type: http", f"type: http, {_found(r'add (allow: .*) to the entry', problem)}"
        ),
    ),
    Row(
        HEAD + Q + HTTP.replace("https://example.com", "http://localhost"),
        "add allow",
        lambda text, problem: text.replace(
            "type: http", f"type: http, {_found(r'add (allow: .*) to the entry', problem)}"
        ),
    ),
    Row(
        HEAD + "entry: {type: http}\n",
        "write entry.request, or entry.handler",
        swap("type: http", "type: http, request: {url: 'https://example.com/'}"),
    ),
    Row(
        HEAD + Q.replace("description: x", "description: x, schema: {const: 1}"),
        "correct them",
        swap("const: 1", "const: a"),
    ),
    # Groups.
    Row(SERVER, "add the program as command", lambda text, _: text + "command: x\n"),
    Row(SERVER + "command: x\nurl: https://x\n", "remove one of them", swap("command: x\n", "")),
    Row(SERVER + "url: x.example\n", "begin it with https://", swap("x.ex", "https://x.ex")),
    Row(SERVER + "command: x\ntype: http\n", "write stdio", swap("http", "stdio")),
    Row(SERVER + "command: x\nheaders: {}\n", "remove it", swap("headers: {}\n", "")),
    Row(
        SERVER + "command: x\nbucket: a\nconcurrency: {bucket: a}\n",
        "give one",
        swap("bucket: a\n", ""),
    ),
    Row(
        SERVER + "command: x\nenv: {A: '${input:a}'}\n",
        "set a variable, and write ${env:NAME}",
        swap("input:a", "env:NAME"),
    ),
    Row(SERVER + "command: x\nargs: ['${A}']\n", "write ${env:A}", swap("${A}", "${env:A}")),
    Row(
        SERVER + "command: x\nargs: ['${file:/a}']\n",
        "put it into env or headers",
        swap("args: ['${file:/a}']", "env: {A: '${file:/a}'}"),
    ),
    Row(GROUP, "add tools, tags", lambda text, _: text + "tags: [a]\n"),
    Row(GROUP + "tools: [a, a]\n", "remove one", swap("[a, a]", "[a]")),
    Row(GROUP + "tools: [a]\n'off': [zzz]\n", "add it to tools", swap("[a]", "[a, zzz]")),
    Row(
        GROUP + "skills: [{name: s, desc: x, prompt: y, always_load: true, alwaysLoad: true}]\n",
        "give one",
        swap(", alwaysLoad: true", ""),
    ),
    Row(
        GROUP + "skills: [{name: s, desc: x, prompt: y}, {name: s, desc: x, prompt: y}]\n",
        "rename or remove one",
        swap("name: s", "name: z"),
    ),
    Row(
        GROUP + "rules: Use it {{if a}} now.\n",
        "put it first",
        swap("Use it {{if a}} now.", "'{{if a}} Use it now.'"),
    ),
    Row(
        GROUP + "rules: Use {{names}}.\n", "the marks are {{tools}}", swap("{{names}}", "{{tools}}")
    ),
    # Who may call it.
    Row(HEAD + "audience: [model]\n", "write [model, code]", swap("[model]", "[model, code]")),
    Row(HEAD + "aliases: [t, u]\n", "remove it here", swap("[t, u]", "[u]")),
    Row(
        HEAD + Q.replace("name: q", "name: command") + "vcp_command: Read\n",
        "rename the parameter",
        swap("name: command", "name: q"),
    ),
    Row(
        HEAD + "effect: write\nannotations: {readOnlyHint: true}\n",
        "correct one of the two",
        swap("true", "false"),
    ),
    Row(
        HEAD + "idempotent: true\nannotations: {idempotentHint: false}\n",
        "correct one of the two",
        swap("false", "true"),
    ),
    Row(
        HEAD + "effect: read\nannotations: {destructiveHint: true}\n",
        "correct one of the two",
        swap("true", "false"),
    ),
    # The text itself.
    Row("", "write a definition, which has name and description", lambda *_: HEAD),
    Row(HEAD + "---\n", "remove the line, or write a tool", swap("---\n", "")),
    Row(HEAD + "---\n" + HEAD, "rename or remove one", swap("name: t", "name: u")),
    Row(HEAD + "name: t\n", "remove one of the two", at_place),
    Row(
        HEAD + "entry: {type:custom}\n",
        "write a blank after the colon",
        lambda text, problem: text.replace("type:custom", problem.cure.partition("colon: ")[2]),
    ),
    Row(HEAD + "icon: a\tb\n", "write a blank instead", swap("\t", " ")),
    Row(HEAD + "icon: 'a\u202eb'\n", "write it as an escape", swap("'a\u202eb'", '"a\\u202eb"')),
    Row("%YAML 1.2\n---\n" + HEAD, "add the line, or remove %YAML", lambda text, _: text + "...\n"),
    Row("%YAML 1.1\n---\n" + HEAD, "remove the line", swap("%YAML 1.1\n", "")),
    Row("%TAG ! x\n---\n" + HEAD, "remove the line", at_place),
    Row("%FOO\n---\n" + HEAD, "remove the line", at_place),
    Row(HEAD + "icon: @a\n", 'quote the whole text: "@a"', swap("@a", '"@a"')),
    Row(HEAD + "tags: [@a]\n", "quote text that holds special characters", swap("@a", "'@a'")),
    Row(HEAD + "icon: #a\n", 'quote a text that begins with #: "#a"', swap("#a", '"#a"')),
    Row(
        HEAD + ARGV % "ls, '|', sort",
        "make a workflow of both programs, or write a script",
        swap("ls, '|', sort", "sh, -c, 'ls | sort'"),
    ),
    Row(HEAD + ARGV % "ls, $HOME", "write the value", swap("$HOME", "/home")),
    Row(
        HEAD + REQUEST % "$MY_HOST", "write ${env:MY_HOST} for", swap("$MY_HOST", "${env:MY_HOST}")
    ),
    Row(HEAD + "author: Me too #a\n", 'text: "Me too #a"', swap("Me too #a", '"Me too #a"')),
    Row(HEAD + "author: >\n  A\n  - b\n", "write | before it", swap(">", "|")),
    Row(HEAD + "icon: a: b\n", "quote text that holds a colon", swap("a: b", "'a: b'")),
    Row(HEAD + "tags: [a\n", "close the bracket", swap("[a", "[a]")),
    Row(HEAD + "tags: [a b\n", "close the bracket", swap("[a b", "[a, b]")),
    Row(HEAD + "icon: 'a\n", "close the quotation marks", swap("'a", "'a'")),
    Row(HEAD + 'icon: "a\\q"\n', "or use 'single quotes'", swap('"a\\q"', "'a\\q'")),
    Row(HEAD + "icon\n", "write key: value", swap("icon\n", "icon: a\n")),
    Row(HEAD + "<<: {icon: a}\n", "write the keys out", swap("<<: {icon: a}", "icon: a")),
    Row(
        HEAD + "icon: &x a\nauthor: *x\n", "", swap("icon: &x a\nauthor: *x", "icon: a\nauthor: a")
    ),
    Row(HEAD + "&x icon: a\n", "remove it", swap("&x ", "")),
    Row(HEAD + "!!int '5': a\n", "remove its tag", swap("!!int '5'", "icon")),
    Row(HEAD + "timeout: !!int x\n", "remove the tag", swap("!!int x", "5")),
    Row(HEAD + "icon: !mine x\n", "remove", swap("!mine ", "")),
    Row(HEAD + 'icon: "a\\0b"\n', "remove it", swap("\\0", "")),
    Row(
        HEAD + "examples: [{params: {x: " + "[" * 60 + "]" * 60 + "}, description: x}]\n",
        "make it flatter",
        swap("[" * 60 + "]" * 60, "[]"),
    ),
]


def _found(pattern: str, problem: DefinitionProblem) -> str:
    found = re.search(pattern, problem.cure)
    assert found is not None, problem
    return found[1]


def problems_of(text: str) -> list[DefinitionProblem]:
    """All that is wrong with a text, and all that it is warned of."""
    loader = ToolConfigLoader()
    try:
        made = loader.load_definitions(text, "t.yaml")
    except DefinitionError as error:
        return list(error.problems)
    found = [problem for tool in made if isinstance(tool, Tool) for problem in _run(tool)]
    warnings = [finding for each in made for finding in each.findings]
    return found + [_warning(finding) for finding in warnings]


def _run(tool: Tool) -> list[DefinitionProblem]:
    return ExecutorRegistry().check(tool)


def _warning(finding: str) -> DefinitionProblem:
    message = finding.split(": ", 2)[2]
    near = re.search(r"did you mean '(.*?)'\?", message)
    return DefinitionProblem(
        message, "t.yaml", nearest=near[1] if near else "", cure=message.partition("; ")[2]
    )


@pytest.mark.parametrize("row", CURES, ids=lambda row: repr(row.broken.removeprefix(HEAD))[:60])
def test_the_cure_cures(row: Row) -> None:
    """What the message says to do, done to the input that brought it, leaves nothing wrong."""
    problems = problems_of(row.broken)
    offered = [problem for problem in problems if row.cure in problem.cure]
    assert offered, problems
    healed = row.heal(row.broken, offered[0])
    assert healed != row.broken
    assert problems_of(healed) == [], healed


def test_a_list_in_a_cure_is_yaml_that_says_the_same() -> None:
    """Whatever stands in the text, the list of the cure is read as its words."""
    for text, words in (
        ("a", ["a"]),
        ("{a}, [b], c: d, 'e', #f, - g, *h, no, 1, ~", None),
        ('"quoted", \\backslash', None),
        ("[a, b]", ["a", "b"]),
    ):
        (problem,) = problems_of(HEAD + yaml.safe_dump({"tags": text}, width=10_000))
        read = yaml.safe_load(problem.cure.removeprefix("write it as a list: "))
        assert read == (words or [word.strip() for word in text.strip("[]").split(",")])


def cure_of(call: Callable[[], object]) -> str:
    """The cure of the one problem that a call ends with."""
    with pytest.raises(DefinitionError) as raised:
        call()
    return raised.value.problems[0].cure


def test_a_text_that_is_read_in_the_wrong_way() -> None:
    """The method that the cure names reads it."""
    loader = ToolConfigLoader()
    cure = cure_of(lambda: loader.load_text(GROUP + "tags: [a]\n"))
    assert cure == "read it with load_definitions or load_file_definitions"
    assert loader.load_definitions(GROUP + "tags: [a]\n")
    two = HEAD + "---\n" + HEAD.replace("name: t", "name: u")
    cure = cure_of(lambda: loader.load_text(two))
    assert cure == "split the text, or read all of its tools with load_tools or load_file_tools"
    assert len(loader.load_tools(two)) == 2
    assert all(map(loader.load_text, two.split("---\n")))


def test_a_file_that_is_too_long_or_does_not_end() -> None:
    """It is split, and its last line is ended."""
    loader = ToolConfigLoader()
    many = [f"name: t{n}\ndescription: {'x' * 90_000}\n" for n in range(20)]
    assert cure_of(lambda: loader.load_tools("---\n".join(many))) == "split it"
    assert all(map(loader.load_text, many))
    file = HEAD.rstrip().encode()
    (finding,) = loader.load_definitions(file, "t.yaml")[0].findings
    assert finding.endswith("; end it with a line break")
    assert loader.load_definitions(file + b"\n", "t.yaml")[0].findings == []


def test_a_link_to_a_file_that_is_no_definition(tmp_path: Path) -> None:
    """The file itself is checked, and says what is wrong; in place of the link it is read."""
    elsewhere, folder = tmp_path / "elsewhere.yaml", tmp_path / "tools"
    elsewhere.write_text("name: t\n")
    folder.mkdir()
    link = folder / "t.yaml"
    link.symlink_to(elsewhere)
    cure = cure_of(lambda: ToolConfigLoader().load_file_definitions(str(link)))
    assert cure == "check the file itself, or put it in place of the link"
    assert "add it" in cure_of(lambda: ToolConfigLoader().load_file_definitions(str(elsewhere)))
    link.unlink()
    link.write_text(HEAD)
    assert ToolConfigLoader().load_file_definitions(str(link))


async def test_definitions_in_code() -> None:
    """A group is registered as one, and a second one of its name is renamed."""
    group = {"kind": "group", "name": "g", "description": "A group.", "tags": ["a"]}
    engine = ToolEngine()
    cure = cure_of(lambda: engine.register_tool(group, print))
    assert cure == "register it as a group, or remove kind"
    server = {"kind": "mcp_server", "name": "s", "command": "x"}
    cure = cure_of(lambda: engine.register_tool(server, print))
    assert cure == "put it into mcp_servers of the configuration, or remove kind"
    assert ToolEngineConfig(mcp_servers={"s": {"command": "x"}}).mcp_servers
    engine.register_group(group)
    assert cure_of(lambda: engine.register_group(group)) == "rename one of the two"
    engine.register_group({**group, "name": "h"})


def test_a_group_and_the_tools_beside_it() -> None:
    """A tool that is not there is defined or left out; one that is off is selected."""

    def faults(text: str) -> list[str]:
        loader = ToolConfigLoader()
        (group,) = loader.load_definitions(text)
        assert isinstance(group, ToolGroup)
        return [fault.cure for fault in link_faults(group, index)]

    index = ToolIndex([ToolConfigLoader().load_text(HEAD)])
    assert faults(GROUP + "tools: [t, zzzzz]\n") == ["add a definition of it, or remove the name"]
    assert faults(GROUP + "tags: [a]\n'off': [t]\n") == ["select it, or remove it here"]
    assert faults(GROUP + "tools: [t]\n'off': [t]\n") == []


def test_a_further_name_that_another_tool_has() -> None:
    """17.8: with another one, both tools are found."""
    engine = ToolEngine()
    engine.register_tool({"name": "t", "description": "Does a thing."}, print)
    other = {"name": "u", "description": "Does another one.", "aliases": ["t"]}
    assert cure_of(lambda: engine.register_tool(other, print)) == "give it another one"
    engine.register_tool({**other, "aliases": ["v"]}, print)
    assert engine.load_errors == []


ELSEWHERE = (
    "read it with load_definitions",
    "check the file itself",
    "split the text, or read all",
    "split it",
    "end it with a line break",
    "register it as a group",
    "rename one of the two",
    "add a definition of it",
    "select it, or remove",
    "give it another one",
    "put it into mcp_servers of",
    # tests/catalog/servers/test_cures.py
    "write a mapping with command or url",
    'write "type": "sse" if it is that',
    "put it under ",
    "list the servers under mcpServers",
    'write {"NAME": {...}}',
    "remove one, or rename it",
    # tests/cli/files/test_lock_command.py and tests/cli/mcp/test_approving.py approve what these
    # name.
    "`tool-engine lock --approve ",
    "read it, then `tool-engine",
)
"""Cures that no text of one definition brings: the tests above apply them."""


NUMBERS = ("1e-400", "-1e-400", "5e-324", "-0.0", "0.0", "1e400", "-1e400", "0x0", "0x10", "1e19")
NUMERIC = (
    "timeout: %s",
    "max_uses: %s",
    "result: {limit: %s}",
    "retry: {attempts: 2, on: [timeout], backoff: %s}\nidempotent: true",
    "concurrency: {priority: %s}",
    "concurrency: {weight: %s}",
    "concurrency: {queue_timeout: %s}",
    "concurrency: {key: tool, key_limit: %s}",
    SHORT.strip().replace("string", "number") % "min: %s",
    SHORT.strip().replace("string", "number") % "default: %s",
    SHORT.strip() % "max_length: %s",
)


@pytest.mark.parametrize("key", NUMERIC)
@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_that_no_key_can_hold(number: str, key: str) -> None:
    """C4: underflows, zeros, other bases: each loads, or what is said to be right loads."""
    # What it is to be instead may be said in two steps: a number that is one, then its bounds.
    for _ in range(2):
        if problems := problems_of(HEAD + key % number + "\n"):
            number = _better_number(problems[-1])
    assert problems_of(HEAD + key % number + "\n") == []


def _better_number(problem: DefinitionProblem) -> str:
    bound = re.search(r"expected (more than|at least|at most) (-?\d+)", problem.message)
    if bound is not None:
        return str(int(bound[2]) + (bound[1] == "more than"))
    if "expected a whole number" in problem.message:
        return "1"
    found = re.search(r"write ([\de.-]+) or|and ([\de]+),", problem.cure)
    assert found is not None, problem.message
    return found[1] or found[2]


def test_every_cure_has_a_row() -> None:
    """No cure is written in the catalog that no row of the table has brought and applied."""
    seen = {problem.cure for row in CURES for problem in problems_of(row.broken)}
    missing = [
        f"{file.name}:{line}: {' … '.join(parts)}"
        for file in sorted(CATALOG.rglob("*.py"))
        for line, parts in _cures_in(file)
        if not any(_fits(parts, cure) for cure in seen) and not _is_elsewhere(parts)
    ]
    assert not missing, "\n".join(missing)


def _is_elsewhere(parts: list[str]) -> bool:
    return any(" … ".join(parts).startswith(cure) for cure in ELSEWHERE)


def _fits(parts: list[str], cure: str) -> bool:
    return re.search(".*".join(map(re.escape, parts)), cure, re.DOTALL) is not None


def _cures_in(file: Path) -> Iterator[tuple[int, list[str]]]:
    """The texts that a file gives as cures, each as the parts that are always the same."""
    for node in ast.walk(tree(file)):
        values: list[ast.expr] = []
        if isinstance(node, ast.Call):
            values = [each.value for each in node.keywords if each.arg == "cure"]
        elif isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "cure" for target in node.targets
        ):
            values = [node.value]
        for value in values:
            for text in _texts(value):
                if any(len(part) > 3 for part in text):
                    yield value.lineno, text


def _texts(value: ast.expr) -> Iterator[list[str]]:
    if isinstance(value, ast.IfExp):
        yield from _texts(value.body)
        yield from _texts(value.orelse)
    elif isinstance(value, ast.BoolOp):
        for each in value.values:
            yield from _texts(each)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield [value.value]
    elif isinstance(value, ast.JoinedStr):
        yield [str(part.value) for part in value.values if isinstance(part, ast.Constant)]
