"""Does a definition load as exactly the tool that its author wrote, or not at all?"""

from __future__ import annotations

import asyncio
import os
from enum import Enum
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import DefinitionError
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.settings.concurrency import ToolConcurrency, ToolRate
from tool_engine.model.tool import RetryPolicy, ToolCategory

HTTP_REQUEST = """\
# tools/http_request.yaml
name: http_request
version: "1.0.0"
description: 发送 HTTP 请求并返回响应
category: http
tags:
  - network
  - api
  - request

# 参数定义
parameters:
  - name: url
    type: string
    required: true
    description: 请求 URL
    validation:
      pattern: "^https?://"

  - name: method
    type: string
    required: false
    default: "GET"
    description: HTTP 方法
    validation:
      enum: ["GET", "POST", "PUT", "DELETE", "PATCH"]

  - name: headers
    type: object
    required: false
    description: 请求头

  - name: body
    type: object
    required: false
    description: 请求体（POST/PUT/PATCH）

  - name: timeout
    type: number
    required: false
    default: 30
    description: 超时时间（秒）
    validation:
      min: 1
      max: 300

# 入口配置
entry:
  type: builtin          # builtin | external | custom
  handler: http_request  # 执行器名称

# 可选：输出定义
output:
  type: object
  properties:
    status_code: integer
    headers: object
    body: any
"""
HEAD = "name: t\ndescription: d\n"


def parameter(text: str) -> str:
    return f"{HEAD}parameters:\n  - {{name: p, description: d, {text}}}\n"


@pytest.fixture
def loader() -> ToolConfigLoader:
    return ToolConfigLoader()


def refusal(text: str | bytes) -> DefinitionError:
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().load_text(text, "x.yaml")
    return caught.value


def test_http_request_loads_verbatim(loader: ToolConfigLoader, tmp_path: Path) -> None:
    """K14: the seed's http_request example loads verbatim, with K4-K7 as written there."""
    file = tmp_path / "http_request.yaml"
    file.write_text(HTTP_REQUEST, encoding="utf-8")
    tool = loader.load_file(file)
    assert tool.id == tool.name == tool.handler == "http_request"
    assert tool.version == "1.0.0"
    assert tool.description == "发送 HTTP 请求并返回响应"
    assert tool.category is ToolCategory.HTTP
    assert tool.tags == ["network", "api", "request"]
    assert tool.implementation_config == {"type": "builtin", "handler": "http_request"}
    assert [(p.name, p.type, p.required) for p in tool.parameters] == [
        ("url", "string", True),
        ("method", "string", False),
        ("headers", "object", False),
        ("body", "object", False),
        ("timeout", "number", False),
    ]
    assert tool.parameters[0].validation == {"pattern": "^https?://"}
    assert tool.parameters[1].default == "GET"
    assert tool.parameters[1].validation == {"enum": ["GET", "POST", "PUT", "DELETE", "PATCH"]}
    assert tool.parameters[4].default == 30
    assert tool.parameters[4].validation == {"min": 1, "max": 300}
    assert tool.output == {
        "type": "object",
        "properties": {
            "status_code": {"type": "integer"},
            "headers": {"type": "object"},
            "body": {},
        },
    }
    assert tool.status == "published"
    assert tool.source == str(file)
    assert tool.findings == []
    assert len(tool.definition_hash) == 64


def test_smallest_definition(loader: ToolConfigLoader) -> None:
    """U17: without an entry the handler is the tool's own name; the rest has its defaults."""
    tool = loader.load_text(HEAD)
    assert (tool.version, tool.category, tool.tags, tool.parameters) == (
        "1.0.0",
        ToolCategory.CUSTOM,
        [],
        [],
    )
    assert tool.handler == "t"
    assert tool.output is None
    assert tool.source == "<text>"


def test_every_key(loader: ToolConfigLoader) -> None:
    """U20, U7: each documented key reaches the tool."""
    tool = loader.load_text(
        HEAD
        + """\
author: Ada
icon: "🔧"
shareable_scope: team
status: testing
timeout: 5
retry: {attempts: 3, backoff: 1, on: [timeout]}
effect: write
idempotent: true
concurrency: {bucket: slow, priority: 1, weight: 2}
rate: 5/2s
returns: {type: array, items: string}
entry: {type: http, request: {method: GET, url: "https://x/{p}"}, response: a.b, allow: ["h:1"]}
parameters:
  - {name: p, type: string, description: d, secret: true, schema: {format: uuid}}
"""
    )
    assert (tool.author, tool.icon, tool.shareable_scope, tool.status) == (
        "Ada",
        "🔧",
        "team",
        "testing",
    )
    assert tool.timeout == 5.0
    assert tool.retry == RetryPolicy(3, 1.0, ("timeout",))
    assert (tool.effect, tool.idempotent) == ("write", True)
    assert tool.concurrency == ToolConcurrency("slow", 1, 2)
    assert tool.bucket == "slow"
    assert tool.rate == ToolRate(5, 2.0)
    assert tool.output == {"type": "array", "items": {"type": "string"}}
    assert tool.implementation_config["request"] == {"method": "GET", "url": "https://x/{p}"}
    assert tool.parameters[0].secret
    assert tool.parameters_schema["properties"]["p"]["format"] == "uuid"


@pytest.mark.parametrize(
    "kind", ["builtin", "external", "custom", "http", "javascript", "python", "workflow"]
)
def test_entry_types(loader: ToolConfigLoader, kind: str) -> None:
    """K6, X6: the seed's and the originals' entry types are all known."""
    tool = loader.load_text(f"{HEAD}entry: {{type: {kind}, handler: h}}\n")
    assert tool.implementation_config == {"type": kind, "handler": "h"}


@pytest.mark.parametrize("category", list(ToolCategory))
def test_categories(loader: ToolConfigLoader, category: ToolCategory) -> None:
    """K15: the six categories are known by their value."""
    assert loader.load_text(f"{HEAD}category: {category.value}\n").category is category


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/s", ToolRate(10, 1.0)),
        ("100/min", ToolRate(100, 60.0)),
        ("1000/h", ToolRate(1000, 3600.0)),
        ("1/d", ToolRate(1, 86400.0)),
        ("5/2s", ToolRate(5, 2.0)),
        ("5/0.5min", ToolRate(5, 30.0)),
    ],
)
def test_rates(loader: ToolConfigLoader, text: str, rate: ToolRate) -> None:
    """U7: a rate is a number of calls and a period."""
    assert loader.load_text(f"{HEAD}rate: {text}\n").rate == rate


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("type: string, pattern: '^a'", {"type": "string", "pattern": "^a"}),
        (
            "type: string, min_length: 1, max_length: 2",
            {"type": "string", "minLength": 1, "maxLength": 2},
        ),
        ("type: string, enum: [a, b], default: b", {"type": "string", "enum": ["a", "b"]}),
        ("type: integer, validation: {min: 1, max: 3}", {"minimum": 1, "maximum": 3}),
        ("type: number, min: 0.5, default: 0.5", {"minimum": 0.5}),
        ("type: integer, enum: [1, 2.0]", {"enum": [1, 2.0]}),
        ("type: boolean, default: false", {"type": "boolean", "default": False}),
        (
            "type: array, items: integer, min_items: 1, validation: {max_items: 2}",
            {"items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        ),
        (
            "type: object, properties: {a: string, b: {type: integer, min: 1, required: true}}",
            {
                "properties": {"a": {"type": "string"}, "b": {"type": "integer", "minimum": 1}},
                "required": ["b"],
                "additionalProperties": False,
            },
        ),
        (
            "type: object, validation: {properties: {a: any}, required: [a]}",
            {"properties": {"a": {}}, "required": ["a"]},
        ),
        ("type: object, validation: {required: [a]}", {"required": ["a"]}),
        ("type: array, schema: {uniqueItems: true}", {"uniqueItems": True}),
        ("type: string, schema: {type: [string, 'null']}, default: null", {"default": None}),
        ("type: array, items: {enum: [1, a]}", {"items": {"enum": [1, "a"]}}),
    ],
)
def test_rules_of_each_type(loader: ToolConfigLoader, text: str, schema: dict[str, Any]) -> None:
    """K8, K9, K10, K11, K12, K13, X5: each rule, flat or in its block, becomes its keyword."""
    tool = loader.load_text(parameter(text))
    found = tool.parameters_schema["properties"]["p"]
    assert found.items() >= schema.items()
    jsonschema_rs.Draft202012Validator(tool.parameters_schema)


REFUSED = [
    ("", (1, 1), "", "empty"),
    ("# only a comment\n", (1, 1), "", "empty"),
    ("- a\n", (1, 1), "", "mapping with name"),
    ("just text\n", (1, 1), "", "got the text 'just text'"),
    ("description: d\n", (1, 1), "", "'name' is missing"),
    ("name: t\n", (1, 1), "", "'description' is missing"),
    ("name: a b\ndescription: d\n", (1, 7), "name", "letters, digits"),
    ("name: t\ndescription: ' '\n", (2, 14), "description", "empty"),
    ("name: t\ndescription:\n", (2, 13), "description", "got nothing; give it a value"),
    (HEAD + "author: {}\n", (3, 9), "author", "expected text, got a mapping"),
    (HEAD + "retry: often\neffect: read\n", (3, 8), "retry", "got the text 'often'"),
    (HEAD + "version: 1.10\n", (3, 10), "version", "expected text, got the number 1.10; quote it"),
    (HEAD + "category: htpp\n", (3, 11), "category", "did you mean 'http'"),
    (HEAD + "tags: a, b\n", (3, 7), "tags", "write it as a list: [a, b]"),
    (HEAD + "tags: [a, 1]\n", (3, 11), "tags[1]", "quote it"),
    (HEAD + "catagory: http\n", (3, 1), "catagory", "did you mean 'category'"),
    (HEAD + "zzz: 1\n", (3, 1), "zzz", "the keys here are name"),
    (HEAD + "entry: {type: buildin}\n", (3, 15), "entry.type", "builtin, external, custom"),
    (HEAD + "entry: {type: http, reqest: {}}\n", (3, 21), "entry.reqest", "'request'"),
    (HEAD + "entry: {handler: h}\n", (3, 8), "entry", "'type' is missing"),
    (HEAD + "entry: []\n", (3, 8), "entry", "expected a mapping, got a list"),
    (HEAD + "output: 3\n", (3, 9), "output", "or a mapping with a type"),
    (HEAD + "output: {type: objct}\n", (3, 16), "output.type", "'object'"),
    (
        HEAD + "output: {type: object, properties: {a: strin}}\n",
        (3, 40),
        "output.properties.a",
        "did you mean 'string'",
    ),
    (HEAD + "output: any\nreturns: any\n", (4, 1), "returns", "give one"),
    (HEAD + "timeout: 0\n", (3, 10), "timeout", "more than 0"),
    (HEAD + "timeout: 5s\n", (3, 10), "timeout", "plain number"),
    (HEAD + "timeout: .inf\n", (3, 10), "timeout", "or leave the key out for its default"),
    (HEAD + "idempotent: yes\n", (3, 13), "idempotent", "write true"),
    (HEAD + "effect: reads\n", (3, 9), "effect", "did you mean 'read'"),
    (HEAD + "rate: 10/x\n", (3, 7), "rate", "write it as 10/s, 100/min, 1000/h or 5/2s"),
    (HEAD + "rate: 10\n", (3, 7), "rate", "write it as 10/s"),
    (HEAD + "rate: 1/0s\n", (3, 7), "rate", "write it as 10/s, 100/min, 1000/h or 5/2s"),
    (HEAD + "retry: {attempts: 2}\n", (3, 1), "retry", "effect: read or idempotent: true"),
    (HEAD + "effect: read\nretry: {attempts: 0}\n", (4, 19), "retry.attempts", "at least 1"),
    (HEAD + "effect: read\nretry: {attempts: 101}\n", (4, 19), "retry.attempts", "at most 100"),
    (
        HEAD + "effect: read\nretry: {attempts: 2, on: [cancelled]}\n",
        (4, 27),
        "retry.on[0]",
        "timeout, execution_error",
    ),
    (HEAD + "effect: read\nretry: {attempts: 2, on: []}\n", (4, 26), "retry.on", "empty"),
    (HEAD + "---\n" + HEAD, (4, 1), "", "one tool"),
    (HEAD + "parameters: {a: 1}\n", (3, 13), "parameters", "expected a list, or the JSON Schema"),
    (HEAD + "parameters: [3]\n", (3, 14), "parameters[0]", "expected a mapping"),
    (
        HEAD + "parameters:\n  - {name: p, type: string}\n",
        (4, 5),
        "parameters[0]",
        "'description' is missing",
    ),
    (
        HEAD + "parameters:\n  - {name: a.b, type: string, description: d}\n",
        (4, 12),
        "parameters[0].name",
        "no spaces",
    ),
    (
        HEAD
        + "parameters:\n  - {name: p, type: string, description: d}\n"
        + "  - {name: p, type: string, description: d}\n",
        (5, 12),
        "parameters[1].name",
        "already declared as parameters[0]",
    ),
]
PARAMETER_REFUSED = [
    ("type: sting", "type", "did you mean 'string'"),
    ("type: some", "type", "expected one of string"),
    ("type: any, min: 1", "min", "the rules for it are enum"),
    ("type: string, min: 1", "min", "the rules for it are pattern, min_length"),
    ("type: boolean, validation: {enum: [true]}", "validation.enum", "it has no rules"),
    ("type: array, enum: [a]", "enum", "items, min_items, max_items"),
    ("type: string, minLength: 1", "minLength", "did you mean 'min_length'"),
    ("type: string, validation: {maximum: 1}", "validation.maximum", "did you mean 'max'"),
    ("type: string, pattern: '('", "pattern", "not a regular expression"),
    ("type: string, pattern: '(?=a)b'", "pattern", "linear time"),
    ("type: string, pattern: '(a)\\1'", "pattern", "linear time"),
    ("type: string, pattern: 'a{1000000}'", "pattern", "too large"),
    ("type: string, min_length: -1", "min_length", "at least 0"),
    ("type: string, min_length: 3, max_length: 2", "min_length", "above max_length 2"),
    ("type: integer, validation: {min: 3, max: 2}", "validation.min", "no value would pass"),
    ("type: array, min_items: 3, validation: {max_items: 1}", "min_items", "above"),
    ("type: integer, min: 1, validation: {min: 1}", "validation.min", "remove one"),
    ("type: string, enum: []", "enum", "empty"),
    ("type: string, enum: [a, 1]", "enum[1]", "expected a string, got the number 1; quote it"),
    ("type: number, enum: [1, true]", "enum[1]", "expected a number, got true"),
    ("type: integer, enum: [1, 1.50]", "enum[1]", "expected an integer, got the number 1.50"),
    ("type: string, enum: [a, b, a]", "enum[2]", "listed twice"),
    ("type: integer, default: '1'", "default", "expected an integer, got the text '1'"),
    ("type: string, default: 1", "default", "quote it"),
    ("type: string, default: null", "default", "remove the key"),
    ("type: boolean, default: 'yes'", "default", "expected a boolean"),
    ("type: integer, min: 1, default: 0", "default", "own rules"),
    ("type: string, enum: [a], default: b", "default", "own rules"),
    ("type: array, items: integer, default: [1, x]", "default[1]", "own rules"),
    ("type: object, properties: {a: string}, default: {b: 1}", "default", "own rules"),
    ("type: string, schema: {format: uuid}, default: x", "default", "own rules"),
    ("type: object, required: [a]", "required", "validation.required"),
    (
        "type: object, validation: {properties: {a: any}, required: [b]}",
        "validation.required[0]",
        "not in properties (a)",
    ),
    (
        "type: object, properties: {a: {type: object, required: [x], properties: {y: any}}}",
        "properties.a.required[0]",
        "not in properties (y)",
    ),
    ("type: array, items: {min: 1}", "items.min", "min needs a type"),
    ("type: array, items: {type: string, default: 1}", "items.default", "expected a string"),
    ("type: string, schema: {}", "schema", "empty"),
    ("type: string, schema: [1]", "schema", "expected a mapping"),
    ("type: string, schema: {$ref: '#/x'}", "schema.$ref", "there is no schema at"),
    ("type: string, schema: {minlength: 1}", "schema.minlength", "'minLength'"),
    ("type: string, schema: {contentEncoding: base64}", "schema.contentEncoding", "remove it"),
    ("type: string, schema: {format: money}", "schema.format", "not checked"),
    ("type: string, schema: {pattern: '(?!a)'}", "schema.pattern", "linear time"),
    ("type: string, schema: {minLength: x}", "schema.minLength", "2020-12"),
    ("type: string, schema: {type: integer}", "schema.type", "contradicts"),
    ("type: string, schema: {description: d}", "schema.description", "its own key"),
    ("type: string, min_length: 1, schema: {minLength: 2}", "schema.minLength", "its own key"),
]


@pytest.mark.parametrize(("text", "place", "path", "words"), REFUSED)
def test_refused(text: str, place: tuple[int | None, int | None], path: str, words: str) -> None:
    """K3, X6, U20: what is wrong is refused with file, line, column, path and cure."""
    error = refusal(text)
    assert (error.file, (error.line, error.column), error.path) == ("x.yaml", place, path)
    assert words in str(error)


@pytest.mark.parametrize(("text", "path", "words"), PARAMETER_REFUSED)
def test_refused_parameters(text: str, path: str, words: str) -> None:
    """K8-K13: rules that do not fit their type, each other or the default are refused."""
    problems = refusal(parameter(text)).problems
    assert f"parameters[0].{path}" in [problem.path for problem in problems]
    assert any(words in problem.message for problem in problems)
    assert all(problem.line == 4 for problem in problems)


def test_all_problems_at_once() -> None:
    """K3: one look shows every problem of a file, in the order of the text, YAML faults too."""
    text = """\
name: a b
version: 1.10
parameters:
  - {name: x, type: sring, description: d}
  - {name: x, type: integer, description: d, validation: {min: 5, max: 3}, minimum: 2}
rate: often
timeout: .nan
rate: 1/s
"""
    problems = refusal(text).problems
    assert sorted(problem.line or 0 for problem in problems) == [1, 1, 2, 4, 5, 5, 5, 5, 6, 7, 8]
    assert str(problems[-1]).startswith("x.yaml:")


def test_problems_are_limited() -> None:
    """K3: a hostile file cannot make its own report endless."""
    text = HEAD + "parameters:\n" + "  - 1\n" * 5000
    assert len(refusal(text).problems) <= MAX_PROBLEMS


def test_required_with_default_is_a_finding(loader: ToolConfigLoader) -> None:
    """K5: a default that can never be used is told, with its place."""
    tool = loader.load_text(parameter("type: integer, required: true, default: 1"), "x.yaml")
    (finding,) = tool.findings
    assert finding.startswith("x.yaml:4:62: parameters[0].default: ")


def test_hash_counts_content_only(loader: ToolConfigLoader) -> None:
    """U10: any change of content changes the hash; layout, comments and file do not."""
    first = loader.load_text(HTTP_REQUEST, "a.yaml").definition_hash
    relaid = HTTP_REQUEST.replace("# 参数定义", "\n# other").replace('"GET",', "GET,")
    relaid = relaid.replace("min: 1\n      max: 300", "max: 300\n      min: 1")
    assert loader.load_text(relaid, "b.yaml").definition_hash == first
    for old, new in [("max: 300", "max: 301"), ("请求头", "请求"), ("- api", "- apis")]:
        assert loader.load_text(HTTP_REQUEST.replace(old, new)).definition_hash != first


def test_a_null_default_is_a_default(loader: ToolConfigLoader) -> None:
    """K5: a default of null is told from no default."""
    text = parameter("type: string, default: null, schema: {type: [string, 'null']}")
    assert loader.load_text(text).parameters[0].has_default
    assert not loader.load_text(parameter("type: string")).parameters[0].has_default


def test_load_file_reports_what_cannot_be_read(loader: ToolConfigLoader, tmp_path: Path) -> None:
    """K3: a missing file, a folder and a pipe are errors that name the path."""
    (tmp_path / "d.yaml").mkdir()
    os.mkfifo(tmp_path / "p.yaml")
    for name, words in [("no", "No such file"), ("d", "regular"), ("p", "regular")]:
        with pytest.raises(DefinitionError, match=words) as caught:
            loader.load_file(tmp_path / f"{name}.yaml")
        assert caught.value.file == str(tmp_path / f"{name}.yaml")


def test_load_directory(loader: ToolConfigLoader, tmp_path: Path) -> None:
    """K3, U13, U20: .yaml and .yml load; one bad file is an error and never stops the others."""
    names = ["b.yaml", "a.yml", "c.YAML", ".h.yaml", "d.yaml~", "#e.yaml#", "f.txt", "g.yaml.swp"]
    for name in names:
        (tmp_path / name).write_text(HEAD.replace("t", name[0], 1), encoding="utf-8")
    (tmp_path / "bad.yaml").write_text("name: [", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "s.yaml").write_text("name: s\ndescription: d\n", encoding="utf-8")
    for name in "abc":
        suffix = {"a": "a.yml", "b": "b.yaml", "c": "c.YAML"}[name]
        (tmp_path / suffix).write_text(f"name: {name}\ndescription: d\n", encoding="utf-8")
    assert [tool.name for tool in loader.load_directory(tmp_path)] == ["a", "b", "c"]
    ((file, message),) = loader.load_errors
    assert file == str(tmp_path / "bad.yaml")
    assert message.startswith(f"{file}:2:1: ")
    assert [tool.name for tool in loader.load_directory(tmp_path, recursive=True)] == [*"abcs"]


def test_duplicate_names(loader: ToolConfigLoader, tmp_path: Path) -> None:
    """U13: files that define one name are all refused, each naming the others."""
    for name in "xy":
        (tmp_path / f"{name}.yaml").write_text(HEAD, encoding="utf-8")
    (tmp_path / "z.yaml").write_text("name: z\ndescription: d\n", encoding="utf-8")
    assert [tool.name for tool in loader.load_directory(tmp_path)] == ["z"]
    assert [Path(file).name for file, _ in loader.load_errors] == ["x.yaml", "y.yaml"]
    assert "y.yaml" in loader.load_errors[0][1]
    assert "x.yaml" in loader.load_errors[1][1]


def test_missing_directory(loader: ToolConfigLoader, tmp_path: Path) -> None:
    """U11: a folder that is not there holds no tools, and is reported."""
    assert loader.load_directory(tmp_path / "no") == []
    ((_, message),) = loader.load_errors
    assert "does not exist; create it" in message


class Color(Enum):
    RED = "red"


def test_from_mapping(loader: ToolConfigLoader) -> None:
    """R2: a definition written in code loads like a file, and belongs to no file."""
    tool = loader.from_mapping(
        {
            "name": "t",
            "description": "d",
            "category": ToolCategory.AI,
            "tags": ("a",),
            "parameters": [
                {"name": "p", "type": "string", "description": "d", "enum": (Color.RED,)},
                {"name": "q", "type": "number", "description": "d", "default": 1.5},
                {
                    "name": "r",
                    "type": "integer",
                    "description": "d",
                    "required": True,
                    "default": 1,
                },
            ],
        }
    )
    assert tool.source is None
    assert tool.category is ToolCategory.AI
    assert tool.tags == ["a"]
    assert tool.parameters[0] == ToolParameter(
        "p", "string", description="d", validation={"enum": ["red"]}
    )
    assert tool.findings[0].startswith("<code>: parameters[2].default: ")
    assert tool.definition_hash == loader.load_text(loader.export_to_yaml(tool)).definition_hash


@pytest.mark.parametrize(
    ("mapping", "path", "words"),
    [
        ([], "", "a definition is a mapping"),
        ({"name": "t"}, "", "'description' is missing"),
        ({"name": {1}}, "name", "a set cannot be part"),
        ({"tags": [float("nan")]}, "tags[0]", "nan is not a number"),
        ({"timeout": 2**70}, "timeout", "64 bits"),
        ({"name": "\ud800"}, "name", "surrogate"),
        ({1: 2}, "", "the key 1 must be text"),
    ],
)
def test_from_mapping_refuses(
    loader: ToolConfigLoader, mapping: Any, path: str, words: str
) -> None:
    """R2: what YAML could not have said is refused in code, too."""
    with pytest.raises(DefinitionError, match=words) as caught:
        loader.from_mapping(mapping)
    assert (caught.value.file, caught.value.line, caught.value.path) == ("<code>", None, path)


def test_from_mapping_refuses_endless_nesting(loader: ToolConfigLoader) -> None:
    """R2: a mapping that holds itself is refused, not a recursion error."""
    loop: dict[str, Any] = {}
    loop["entry"] = loop
    with pytest.raises(DefinitionError, match="nested more than 50"):
        loader.from_mapping(loop)


def test_tools_do_not_share_defaults(loader: ToolConfigLoader) -> None:
    """K5: what one tool holds is not the other's."""
    one, two = loader.load_text(HEAD), loader.load_text(HEAD)
    assert one == two
    assert one.implementation_config is not two.implementation_config
    assert msgspec.structs.replace(one, name="u").handler == "u"


def test_a_wrong_default_beside_another_fault() -> None:
    """All problems at once: a fault in one parameter hides no wrong default in another."""
    text = """
name: t
description: d
parameters:
  - {name: n, type: integer, default: 50, description: x, validation: {min: 1, max: 10}}
  - {name: m, type: strin, description: y}
"""
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().load_text(text, "t.yaml")
    paths = [problem.path for problem in caught.value.problems]
    assert "parameters[0].default" in paths
    assert "parameters[1].type" in paths


@pytest.mark.parametrize(
    "entry",
    [
        '{type: builtin, handler: run_command, argv: [sh, -c, "echo {x}"]}',
        "{type: builtin, handler: sql_query, source: shop, sql: 'select 1; select 2'}",
        '{type: python, handler: "os:system; x"}',
        "{type: python, handler: no_such_module:f}",
        "{type: builtin, handler: read_file}",
        "{type: http, request: {url: 5}}",
        "{type: workflow, steps: 5}",
    ],
)
async def test_the_loader_says_what_an_engine_says(tmp_path: Path, entry: str) -> None:
    """What executors find wrong with an entry is a load error of both, with its line."""
    parameter = "parameters: [{name: x, type: string, description: An x.}]"
    text = f"name: a\ndescription: Does a.\n{parameter}\nentry: {entry}\n"
    (tmp_path / "a.yaml").write_text(text)
    loader = ToolConfigLoader()
    assert await asyncio.to_thread(loader.load_directory, tmp_path) == []
    async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine:
        assert engine.load_errors == loader.load_errors != []
    assert "a.yaml:4:" in loader.load_errors[0][1]


def test_a_handler_that_names_no_function_is_not_registered() -> None:
    """One truth: what a file is refused for, code is refused for, too."""
    entry = {"type": "python", "handler": "os:system; x"}
    with pytest.raises(DefinitionError, match="names no function"):
        ToolEngine().register_tool({"name": "a", "description": "d", "entry": entry})
