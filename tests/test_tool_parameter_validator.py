"""Does the validator find everything that is wrong, and only that?"""

from __future__ import annotations

import copy
import enum
import json
import math
from collections import ChainMap, OrderedDict, UserDict, deque
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from tool_engine.errors import DefinitionError
from tool_engine.model.call import ValidationError
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.redaction import HIDDEN
from tool_engine.validation import ToolParameterValidator

STRICT = ToolParameterValidator(strict=True)
LENIENT = ToolParameterValidator()


def parameter(name: str, type: str = "string", **fields: Any) -> ToolParameter:  # noqa: A002 - as in YAML
    return ToolParameter(name, type, **fields)


def tool(*parameters: ToolParameter, **fields: Any) -> Tool:
    return Tool("t", "t", "1.0", "", ToolCategory.CUSTOM, [], list(parameters), {}, **fields)


def errors(declared: Tool, params: Any) -> list[ValidationError]:
    """The findings of a call that must be refused."""
    result = STRICT.validate(declared, params)
    assert not result.is_valid
    assert result.validated_params == {}
    assert all(finding.level == "error" for finding in result.errors)
    assert json.dumps([finding.to_dict() for finding in result.errors], allow_nan=False)
    return result.errors


def error(declared: Tool, params: Any) -> ValidationError:
    """The one finding of a call that must be refused."""
    (finding,) = errors(declared, params)
    return finding


def accepted(declared: Tool, params: Any) -> dict[str, Any]:
    """The arguments to run with of a call that must be right."""
    result = STRICT.validate(declared, params)
    assert result.errors == []
    assert result.warnings == []
    assert result.is_valid
    return result.validated_params


HTTP_REQUEST = tool(
    parameter("url", required=True, validation={"pattern": "^https?://"}),
    parameter("method", default="GET", validation={"enum": ["GET", "POST", "PUT"]}),
    parameter("headers", "object"),
    parameter("timeout", "number", default=30, validation={"min": 1, "max": 300}),
)


# The rules of each type


@pytest.mark.parametrize(
    ("declared", "value", "error_type", "expected", "words"),
    [
        (
            parameter("p", validation={"pattern": "^https?://"}),
            "ftp://x",
            "constraint_violation",
            "^https?://",
            "'p' must match the pattern ^https?://, got \"ftp://x\"",
        ),
        (
            parameter("p", validation={"min_length": 3}),
            "ab",
            "constraint_violation",
            "at least 3 characters",
            "'p' must have at least 3 characters, got 2",
        ),
        (
            parameter("p", validation={"max_length": 1}),
            "ab",
            "constraint_violation",
            "at most 1 character",
            "'p' must have at most 1 character, got 2",
        ),
        (
            parameter("p", validation={"enum": ["GET", "POST"]}),
            "PSOT",
            "invalid_enum",
            ["GET", "POST"],
            '\'p\' must be one of "GET", "POST", got "PSOT": did you mean "POST"?',
        ),
        (
            parameter("p", "number", validation={"min": 1}),
            0.5,
            "constraint_violation",
            ">= 1",
            "'p' must be a number >= 1, got 0.5",
        ),
        (
            parameter("p", "number", validation={"max": 300}),
            500,
            "constraint_violation",
            "<= 300",
            "'p' must be a number <= 300, got 500",
        ),
        (
            parameter("p", "integer", validation={"min": 1}),
            0,
            "constraint_violation",
            ">= 1",
            "'p' must be an integer >= 1, got 0",
        ),
        (
            parameter("p", "integer"),
            1.5,
            "type_mismatch",
            "integer",
            "'p' must be an integer, got the number 1.5",
        ),
        (
            parameter("p", "boolean"),
            "true",
            "type_mismatch",
            "boolean",
            "'p' must be true or false, got the string \"true\": send it without quotes",
        ),
        (
            parameter("p", "array", validation={"min_items": 2}),
            [1],
            "constraint_violation",
            "at least 2 items",
            "'p' must have at least 2 items, got 1",
        ),
        (
            parameter("p", "array", validation={"max_items": 1}),
            [1, 2],
            "constraint_violation",
            "at most 1 item",
            "'p' must have at most 1 item, got 2",
        ),
    ],
)
def test_rule(
    declared: ToolParameter, value: Any, error_type: str, expected: Any, words: str
) -> None:
    """K8-K12: each rule of a type has its finding, with type, expectation and a cure."""
    finding = error(tool(declared), {"p": value})
    assert finding == ValidationError("p", error_type, words, expected, value)


def test_array_items() -> None:
    """K12: each item is checked, and its finding names its index."""
    declared = tool(parameter("tags", "array", validation={"items": {"type": "string"}}))
    assert accepted(declared, {"tags": ["a", "b"]}) == {"tags": ["a", "b"]}
    assert [finding.path for finding in errors(declared, {"tags": ["a", 1, None]})] == [
        "tags[1]",
        "tags[2]",
    ]


NESTED = tool(
    parameter(
        "order",
        "object",
        validation={
            "properties": {
                "lines": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"sku": "string", "count": {"type": "integer", "min": 1}},
                        "required": ["sku"],
                    },
                },
                "note": "string",
            },
            "required": ["lines"],
        },
    )
)


def test_every_depth_all_at_once() -> None:
    """K13: properties and required hold at any depth, and all findings come at once."""
    lines = [{"sku": "a"}, {"sku": 1, "count": 0}, {"cuont": 2}, 7]
    found = errors(NESTED, {"order": {"lines": lines, "note": 5}})
    assert {(finding.path, finding.error_type) for finding in found} == {
        ("order.lines[1].sku", "type_mismatch"),
        ("order.lines[1].count", "constraint_violation"),
        ("order.lines[2].sku", "missing_required"),
        ("order.lines[2].cuont", "extra_parameter"),
        ("order.lines[3]", "type_mismatch"),
        ("order.note", "type_mismatch"),
    }
    assert {finding.parameter for finding in found} == {"order"}


def test_missing_required() -> None:
    """K13: a missing parameter is named with the type that it wants."""
    finding = error(HTTP_REQUEST, {})
    assert finding == ValidationError(
        "url", "missing_required", "missing required parameter 'url' (string)", "string", None
    )
    assert "'order.lines' (array)" in error(NESTED, {"order": {}}).message


def test_required_without_a_schema() -> None:
    """K13: a required key that declares no type, or no schema at all, is missed too."""
    declared = tool(parameter("o", "object", schema={"required": ["a"]}), parameter("p", "object"))
    assert error(declared, {"o": {}}).message == "missing required parameter 'o.a'"


@pytest.mark.parametrize(
    ("type_name", "value", "ending"),
    [
        ("integer", "5", 'an integer, got the string "5": send it without quotes'),
        ("number", " 5 ", 'a number, got the string " 5 ": send it without quotes'),
        ("integer", "five", 'an integer, got the string "five"'),
        ("integer", "[" * 5000, "…"),
        ("integer", "5" * 200_000, "…"),
        (
            "array",
            "[1]",
            'an array, got the string "[1]": send the array itself, not a string that holds it',
        ),
        ("array", "{}", 'an array, got the string "{}"'),
        ("string", 5, "a string, got the integer 5: send it in quotes"),
        ("string", True, "a string, got true: send it in quotes"),
        ("string", [], "a string, got the array []"),
        ("object", None, "an object, got null"),
        ("integer", True, "an integer, got true"),
        ("number", False, "a number, got false"),
    ],
)
def test_type_mismatch(type_name: str, value: Any, ending: str) -> None:
    """K9-K13: a value of another type is refused with what to send instead; bool is no number."""
    finding = error(tool(parameter("p", type_name, required=True)), {"p": value})
    assert finding.error_type == "type_mismatch"
    assert finding.expected == type_name
    assert finding.message.endswith(ending)


@pytest.mark.parametrize(
    ("options", "value", "cure"),
    [
        ([1, 2], "1", 'got "1": send 1'),
        (["1", "2"], 1, 'got 1: send "1"'),
        ([1, 0], True, "got true"),
        (["GET"], "get", 'got "get": send "GET"'),
        (["GET"], [1], "got [1]"),
    ],
)
def test_enum_is_exact(options: list[Any], value: Any, cure: str) -> None:
    """U18: an option is matched as JSON: 1 is not "1" and true is not 1; the right form is told."""
    declared = tool(parameter("p", "any", validation={"enum": options}))
    finding = error(declared, {"p": value})
    assert finding.error_type == "invalid_enum"
    assert finding.expected == options
    assert finding.message.endswith(cure)
    assert accepted(declared, {"p": options[0]}) == {"p": options[0]}


# Unknown parameters


def test_unknown_is_refused_when_strict() -> None:
    """U18: strict refuses an unknown parameter and names the one that was meant."""
    missing, extra = errors(HTTP_REQUEST, {"ulr": "https://a.b"})
    assert missing.path == "url"
    assert missing.message.endswith(": you sent 'ulr', did you mean 'url'?")
    assert extra == ValidationError(
        "ulr",
        "extra_parameter",
        "unknown parameter 'ulr': did you mean 'url'?",
        ["url", "method", "headers", "timeout"],
        "ulr",
    )


def test_unknown_is_kept_out_when_not_strict() -> None:
    """U18: not strict, an unknown parameter is kept out at any depth, and a warning says so."""
    result = LENIENT.validate(NESTED, {"order": {"lines": [{"sku": "a", "x": 1}]}, "zzz": 2})
    assert result.is_valid
    assert result.errors == []
    assert result.validated_params == {"order": {"lines": [{"sku": "a"}]}}
    assert [(f.path, f.level, f.error_type) for f in result.warnings] == [
        ("order.lines[0].x", "warning", "extra_parameter"),
        ("zzz", "warning", "extra_parameter"),
    ]
    assert result.warnings[0].message == (
        'unknown parameter \'order.lines[0].x\' was left out: known are "sku", "count"'
    )


def test_unknown_stays_a_warning_beside_errors() -> None:
    """U18: not strict, an unknown parameter is no error even where something else is one."""
    result = LENIENT.validate(HTTP_REQUEST, {"ulr": "https://a.b"})
    assert [finding.error_type for finding in result.errors] == ["missing_required"]
    assert "did you mean 'url'?" in result.errors[0].message
    assert [finding.level for finding in result.warnings] == ["warning"]


def test_unknown_where_nothing_is_declared() -> None:
    """A tool without parameters says that there are none to send."""
    assert error(tool(), {"a": 1}).message == "unknown parameter 'a': there are none to send"
    assert accepted(tool(), None) == {}


@pytest.mark.parametrize(
    ("sent", "meant"), [("userName", "user_name"), ("USER-NAME", "user_name"), ("qqq", None)]
)
def test_nearest_parameter(sent: str, meant: str | None) -> None:
    """A name in another spelling is recognised; a far one gets the list of all."""
    message = error(tool(parameter("user_name"), parameter("id")), {sent: "x"}).message
    assert message.endswith(f"did you mean '{meant}'?" if meant else 'known are "user_name", "id"')


def test_open_objects_keep_every_key() -> None:
    """An object without declared properties is open: every key in it is kept."""
    declared = tool(parameter("headers", "object"))
    assert accepted(declared, {"headers": {"a": 1, "b": {"c": []}}}) == {
        "headers": {"a": 1, "b": {"c": []}}
    }


# Defaults and null


@pytest.mark.parametrize("default", [0, "", False, [], {}, None, 1.5, "x"])
def test_default_is_filled(default: Any) -> None:
    """U18: every default is filled in, the falsy ones and null too."""
    declared = tool(parameter("p", "any", default=default, has_default=True), parameter("q"))
    assert accepted(declared, {}) == {"p": default}
    assert accepted(declared, {"q": "x"}) == {"p": default, "q": "x"}
    assert accepted(declared, {"p": 7}) == {"p": 7}
    assert LENIENT.validate(declared, {"zzz": 1}).validated_params == {"p": default}


def test_default_of_null_needs_no_type() -> None:
    """U18: a default of null says "none given", whatever the type."""
    declared = tool(parameter("p", "string", default=None, has_default=True))
    assert accepted(declared, {}) == {"p": None}
    assert accepted(declared, {"p": None}) == {"p": None}


def test_defaults_are_never_shared() -> None:
    """A list or object that is a default is a new one for each call, in depth."""
    declared = tool(parameter("p", "array", default=[{"a": []}]), parameter("n", "number"))
    for params in ({}, {"n": 1.5}, {"zzz": 1}):
        first = LENIENT.validate(declared, params).validated_params["p"]
        first[0]["a"].append(1)
        assert LENIENT.validate(declared, params).validated_params["p"] == [{"a": []}]
    own: list[Any] = []
    assert accepted(declared, {"p": own})["p"] == own


def test_defaults_inside_objects() -> None:
    """Defaults of optional keys are filled at every depth; null only where it may stand."""
    properties = {
        "mode": {"type": "string", "default": "r"},
        "tags": {"type": "array", "default": []},
        "left_out": {"type": "string", "default": None},
        "kept": {"default": None},
        "must": {"type": "integer", "default": 3, "required": True},
    }
    declared = tool(parameter("o", "object", validation={"properties": properties}))
    filled: dict[str, Any] = {"mode": "r", "tags": [], "kept": None, "must": 1}
    first = accepted(declared, {"o": {"must": 1}})
    assert first == {"o": filled}
    first["o"]["tags"].append(1)
    assert accepted(declared, {"o": {"must": 1, "mode": "w"}})["o"]["mode"] == "w"
    assert accepted(declared, {"o": {"must": 1}}) == {"o": filled}
    assert error(declared, {"o": {}}).error_type == "missing_required"


def test_null_for_an_optional_parameter() -> None:
    """U18: null for an optional parameter counts as left out, unless its schema allows null."""
    declared = tool(
        parameter("a", default="x"),
        parameter("b", "integer"),
        parameter("c", "any"),
        parameter("d", "string", schema={"type": ["string", "null"]}),
        parameter("e", required=True),
    )
    params = {"a": None, "b": None, "c": None, "d": None, "e": "y"}
    assert accepted(declared, params) == {"a": "x", "c": None, "d": None, "e": "y"}
    finding = error(declared, {"e": None})
    assert (finding.path, finding.error_type) == ("e", "type_mismatch")


# Numbers


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("type_name", ["number", "integer", "any", "string"])
def test_not_finite(type_name: str, value: float) -> None:
    """K9: NaN and the infinities are refused, in open places and inside values too."""
    declared = tool(parameter("p", type_name), parameter("o", "object"), parameter("l", "array"))
    finding = error(declared, {"p": value})
    assert finding.error_type == "type_mismatch"
    assert finding.message.startswith("'p' must be a finite number, got ")
    assert error(declared, {"o": {"a": [value]}}).path == "o.a[0]"
    assert error(declared, {"l": [1, {"b": value}]}).path == "l[1].b"


def test_whole_numbers() -> None:
    """K10: 1.0 is an integer and is handed over as 1, wherever the schema says integer."""
    declared = tool(
        parameter("i", "integer", default=2.0),
        parameter("n", "number"),
        parameter("o", "object", validation={"properties": {"i": "integer", "n": "number"}}),
        parameter("l", "array", validation={"items": "integer"}),
        parameter("u", "any", schema={"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        parameter("m", "object", schema={"additionalProperties": {"type": "integer"}}),
    )
    params = {
        "i": 1.0,
        "n": 1.0,
        "o": {"i": 3.0, "n": 3.0},
        "l": [1.0, 2],
        "u": 4.0,
        "m": {"a": 5.0},
    }
    assert repr(accepted(declared, params)) == repr(
        {"i": 1, "n": 1.0, "o": {"i": 3, "n": 3.0}, "l": [1, 2], "u": 4, "m": {"a": 5}}
    )
    assert repr(accepted(declared, {})) == "{'i': 2}"
    assert accepted(declared, {"i": 1e300}) == {"i": int(1e300)}


def test_whole_and_other_numbers_in_one_call() -> None:
    """K9, K10: floats go to `number` as they are, to `integer` as 1, and NaN goes nowhere."""
    declared = tool(parameter("i", "integer"), parameter("n", "number"), parameter("x", "any"))
    assert repr(accepted(declared, {"i": 1.0, "n": 2.0})) == "{'i': 1, 'n': 2.0}"
    assert repr(accepted(declared, {"n": 2.5, "x": 3.0})) == "{'n': 2.5, 'x': 3.0}"
    assert error(declared, {"n": 1, "x": math.nan}).path == "x"


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize("sign", [1, -1])
def test_huge_integers(digits: int, sign: int) -> None:
    """K10: an integer of any size is compared rightly, and told of in few characters."""
    value = sign * 10**digits
    declared = tool(
        parameter("p", "integer", validation={"min": 0, "max": 9}), parameter("q", "any")
    )
    for finding in errors(declared, {"p": value, "q": value}):
        assert finding.error_type == "constraint_violation"
        assert len(finding.message) < 100
        assert "digits" in finding.message
    assert accepted(declared, {"q": value}) == {"q": value}


# What is no JSON


class Level(enum.IntEnum):
    LOW = 1


class Color(str, enum.Enum):
    RED = "red"


class Text(str):
    __slots__ = ()


class Real(float):
    __slots__ = ()


@pytest.mark.parametrize(
    ("params", "plain"),
    [
        ({"p": Level.LOW}, {"p": 1}),
        ({"p": Color.RED}, {"p": "red"}),
        ({"p": Text("a")}, {"p": "a"}),
        ({"p": Text("ä")}, {"p": "ä"}),
        ({"p": Real(1.5)}, {"p": 1.5}),
        ({"p": (1, (2,))}, {"p": [1, [2]]}),
        ({"p": OrderedDict(a=1)}, {"p": {"a": 1}}),
        ({"p": MappingProxyType({Text("k"): Level.LOW})}, {"p": {"k": 1}}),
        (UserDict(p=ChainMap({"a": 1})), {"p": {"a": 1}}),
        ({Text("p"): 1}, {"p": 1}),
        ({"p": "\U0001f600中"}, {"p": "\U0001f600中"}),
    ],
)
def test_subclasses_become_plain(params: Any, plain: dict[str, Any]) -> None:
    """What is a string, number, list or mapping by descent is handed over as the plain type."""
    found = accepted(tool(parameter("p", "any")), params)
    assert found == plain
    assert json.dumps(found) == json.dumps(plain)
    assert type(found) is dict
    assert type(found["p"]) is type(plain["p"])


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ({1}, "p", "'p' must be a JSON value, got a value of type set: send text, a number, true"),
        (b"x", "p", "'p' must be a JSON value, got a value of type bytes"),
        (Decimal(1), "p", "'p' must be a JSON value, got a value of type Decimal"),
        ([deque()], "p[0]", "'p[0]' must be a JSON value, got a value of type deque"),
        ({"a": {1: 2}}, "p.a", "'p.a' must have only text as keys, got a key of type int"),
        ({"\ud800": 2}, "p", "'p' must have keys of valid Unicode, got a key with half of a"),
        ("a\udfff", "p", "'p' must be valid Unicode text, got half of a surrogate pair"),
        (["ä", "\ud83d"], "p[1]", "'p[1]' must be valid Unicode text"),
    ],
)
def test_not_json(value: Any, path: str, words: str) -> None:
    """What JSON cannot hold is a finding at its place, never an exception."""
    for type_name in ("any", "string", "array", "object"):
        finding = errors(tool(parameter("p", type_name)), {"p": value})[0]
        if finding.path == path:
            assert finding.error_type == "type_mismatch"
            assert finding.message.startswith(words)
        else:
            assert type_name in finding.message
    assert error(tool(parameter("p", "any")), {"p": value}).path == path


def test_not_json_beside_other_findings() -> None:
    """A value that JSON cannot hold does not hide what is wrong elsewhere."""
    found = errors(NESTED, {"order": {"lines": [{"sku": {1}}, {"sku": 5, 3: 1}]}, "\ud800": 1})
    assert [(finding.path, finding.error_type) for finding in found] == [
        ("order.lines[0].sku", "type_mismatch"),
        ("order.lines[1]", "type_mismatch"),
        ("", "type_mismatch"),
        ("order.lines[1].sku", "type_mismatch"),
    ]


@pytest.mark.parametrize("params", [{1: 2}, {"\ud800": 1}, {None: "x"}])
def test_keys_that_are_no_text(params: dict[Any, Any]) -> None:
    """A parameter name that is no text is a finding about the arguments as a whole."""
    finding = error(tool(parameter("a", "integer")), params)
    assert (finding.path, finding.error_type) == ("", "type_mismatch")


@pytest.mark.parametrize("params", [[1], "{}", b"{}", 5, True, ("a",)])
def test_arguments_that_are_no_mapping(params: Any) -> None:
    """Arguments that are no mapping at all are one finding, with what to send."""
    finding = error(HTTP_REQUEST, params)
    assert (finding.path, finding.error_type, finding.expected) == ("", "type_mismatch", "object")
    assert finding.message.startswith('the arguments must be an object such as {"url": …}')
    assert ("decode the JSON text first" in finding.message) is isinstance(params, str | bytes)
    assert "{} for none" in error(tool(), params).message


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


@pytest.mark.parametrize("type_name", ["any", "object", "array", "string"])
def test_too_deep(type_name: str) -> None:
    """More than 64 levels are refused, the arguments themselves counted, however many more."""
    declared = tool(parameter("p", type_name), parameter("q", "integer"))
    for value in (nested(64), nested(100_000)):
        deep, other = errors(declared, {"p": value, "q": "x"})
        assert (deep.path, deep.error_type) == ("p", "constraint_violation")
        assert "at most 64 levels of nesting" in deep.message
        assert other.path == "q"
    assert accepted(tool(parameter("p", "any")), {"p": nested(63)}) == {"p": nested(63)}


def test_values_that_hold_themselves() -> None:
    """A value that holds itself, twice even, is refused at once."""
    value: list[Any] = []
    value += [value, value]
    mapping: dict[str, Any] = {}
    mapping["p"] = mapping
    declared = tool(parameter("p", "any"))
    assert "holds itself" in error(declared, {"p": value}).message
    assert "holds itself" in error(declared, mapping).message


def test_too_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small value that unfolds into a giant one is refused; the other findings stay."""
    monkeypatch.setattr("tool_engine.validation.shape.MAX_VALUES", 5000)
    value: Any = [1]
    for _ in range(40):
        value = [value, value]
    found = errors(tool(parameter("p", "any"), parameter("q", "any")), {"p": value, "q": 1})
    assert [finding.path for finding in found] == ["p", "q"]
    assert "at most 5,000 values" in found[0].message


def test_recursive_schema() -> None:
    """A schema that refers to itself is followed as deep as the value goes."""
    kids = {"type": "array", "items": {"$ref": "#/properties/p"}}
    tree = {"type": "object", "properties": {"n": {"type": "integer"}, "kids": kids}}
    declared = tool(parameter("p", "object", schema=tree))
    assert repr(accepted(declared, {"p": {"kids": [{"n": 1.0}]}})) == "{'p': {'kids': [{'n': 1}]}}"
    found = errors(declared, {"p": {"kids": [{"n": "x", "kids": [{"n": {2}}, {"n": True}]}]}})
    assert [finding.path for finding in found] == [
        "p.kids[0].kids[0].n",
        "p.kids[0].n",
        "p.kids[0].kids[1].n",
    ]
    assert errors(declared, {"p": nested(100_000)})[0].error_type == "constraint_violation"


# What is repeated to a model


@pytest.mark.parametrize("value", ["hunter2-hunter2", 12345678, {"k": "hunter2-hunter2"}])
def test_secret_parameters_are_hidden(value: Any) -> None:
    """The value of a secret parameter is in no finding."""
    declared = tool(
        parameter("key", "array", secret=True, validation={"items": {"enum": [1, 2]}}),
        parameter("pin", secret=True, validation={"max_length": 3, "pattern": "^x"}),
    )
    found = errors(declared, {"key": value, "pin": "hunter2-hunter2"})
    found += errors(declared, {"key": [value, {value["k"]} if isinstance(value, dict) else 3]})
    assert len(found) == 5
    for finding in found:
        assert "hunter2" not in str(finding)
        assert "12345678" not in str(finding)
    assert found[0].actual == HIDDEN
    assert "got a hidden" in found[0].message


def test_secrets_by_name_and_shape_are_hidden() -> None:
    """A value under a telling key, or with the shape of a secret, is hidden too."""
    token = "ghp_" + "a" * 30
    declared = tool(parameter("p", "integer"), parameter("password", "integer"))
    found = errors(declared, {"p": f"see {token}", "password": "hunter2"})
    assert token not in str(found)
    assert "hunter2" not in str(found)
    assert found[0].actual == f"see {HIDDEN}"
    assert token not in str(errors(declared, {token: 1}))
    deep = errors(declared, {"p": [{"api_key": "hunter2"}]})
    assert deep[0].actual == [{"api_key": HIDDEN}]


@pytest.mark.parametrize(
    "value",
    [
        "x" * 300_000,
        ["x" * 5000] * 30,
        [list(range(50))] * 50,
        {str(index): index for index in range(100)},
        [[[[[[[[1]]]]]]]],
        '\n"\\' * 400,
    ],
)
def test_values_are_cut(value: Any) -> None:
    """Of a long value, at most 200 characters are repeated, in the message and in `actual`."""
    finding = error(tool(parameter("p", "integer")), {"p": value})
    assert len(finding.message) < 300
    assert len(json.dumps(finding.actual, ensure_ascii=False)) <= 420


def test_long_names_and_options_are_cut() -> None:
    """Long parameter names and long lists of options keep a message short."""
    options = [f"option-{index}" for index in range(1000)]
    declared = tool(parameter("p", validation={"enum": options}))
    assert len(error(declared, {"p": "x"}).message) < 300
    finding = error(declared, {"q" * 300_000: 1})
    assert len(finding.message) < 300
    assert len(finding.path) < 100


def test_paths_of_odd_keys() -> None:
    """A key with a dot or a space stands in brackets, so that a path reads one way only."""
    declared = tool(parameter("h", "object", schema={"additionalProperties": {"type": "string"}}))
    found = errors(declared, {"h": {"a.b": 1, "c d": 2, "e": 3}})
    assert [finding.path for finding in found] == ['h["a.b"]', 'h["c d"]', "h.e"]


@pytest.mark.parametrize(
    ("declared", "params", "more"),
    [
        (parameter("p", "array", validation={"items": "string"}), {"p": [1] * 1100}, "1000"),
        (parameter("p", "array", validation={"items": "string"}), {"p": [1] * 20_000},
         "more than 1000"),
        (parameter("p", "array"), {"p": [math.nan] * 20_000}, "19900"),
        (parameter("p"), dict.fromkeys(map(str, range(20_000)), 1), "19900"),
        (NESTED.parameters[0], {"order": {"lines": [{"x": 1}] * 20_000}}, "more than 21000"),
    ],
)  # fmt: skip
def test_findings_are_counted_past_a_hundred(
    declared: ToolParameter, params: dict[str, Any], more: str
) -> None:
    """Past a hundred findings, a last one counts the others, as far as counting costs little."""
    found = errors(tool(declared), params)
    assert len(found) == 101
    assert found[-1].message == f"and {more} more findings: correct these first"
    warned = LENIENT.validate(tool(declared), params)
    assert len(warned.errors) in (0, 101)
    assert len(warned.warnings) in (0, 101)


def test_hostile_pattern() -> None:
    """X5: a pattern runs in linear time, whatever the value is."""
    declared = tool(parameter("p", validation={"pattern": "^(a+)+$"}))
    assert error(declared, {"p": "a" * 300_000 + "!"}).error_type == "constraint_violation"
    assert accepted(declared, {"p": "a" * 300_000})


# Raw schemas


@pytest.mark.parametrize(
    ("schema", "value", "error_type", "words"),
    [
        ({"type": ["string", "null"]}, 5, "type_mismatch", "null or a string, got the integer 5"),
        ({"const": "x"}, "y", "invalid_enum", 'be "x", got "y"'),
        ({"exclusiveMinimum": 1}, 1, "constraint_violation", "be a number > 1, got 1"),
        ({"exclusiveMaximum": 1}, 1, "constraint_violation", "be a number < 1, got 1"),
        ({"multipleOf": 5}, 7, "constraint_violation", "be a multiple of 5, got 7"),
        ({"uniqueItems": True}, [1, 1], "constraint_violation", "not hold the same item twice"),
        ({"minProperties": 1}, {}, "constraint_violation", "have at least 1 key, got 0"),
        ({"maxProperties": 0}, {"a": 1}, "constraint_violation", "have at most 0 keys, got 1"),
        ({"not": {"type": "string"}}, "x", "constraint_violation", "not have the form"),
        ({"contains": {"type": "string"}}, [1], "constraint_violation", "'contains' asks for"),
        (
            {"propertyNames": {"maxLength": 1}},
            {"ab": 1},
            "constraint_violation",
            "have keys that each have at most 1 character",
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            [],
            "type_mismatch",
            "be a string or an integer, got the array []",
        ),
        (
            {
                "anyOf": [
                    {"maxLength": 1},
                    {"properties": {"a": {"type": "integer"}}, "minItems": 1},
                ]
            },
            "abc",
            None,
            "",
        ),
        (
            {"oneOf": [{"type": "string"}, {"required": ["a"], "type": "object"}]},
            {},
            "constraint_violation",
            "fit one of 2 forms: (1) it must be a string, or (2) it must have the key 'a'",
        ),
        (
            {"anyOf": [{"type": "string"}, {"properties": {"a": {"type": "integer"}}}]},
            {"a": "x"},
            "constraint_violation",
            "(2) 'a' must be an integer",
        ),
        (
            {"oneOf": [{"type": "integer"}, {"minimum": 2}]},
            3,
            "constraint_violation",
            "fit exactly one of the allowed forms",
        ),
        ({"properties": {"a": False}}, {"a": 1}, "constraint_violation", "be left out"),
        ({"prefixItems": [{"type": "integer"}]}, ["x"], "type_mismatch", "'p[0]' must be an int"),
        ({"prefixItems": [{}], "items": False}, [1, 2], "constraint_violation", "be left out"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "missing_required", "'p.b'"),
        (
            {"properties": {"a": {}}, "unevaluatedProperties": False},
            {"b": 1},
            "extra_parameter",
            "unknown parameter 'p.b': known are \"a\"",
        ),
        (
            {
                "properties": {"a": {"type": "string"}},
                "patternProperties": {"^x": {"type": "integer"}},
                "additionalProperties": False,
            },
            {"b": 1},
            "extra_parameter",
            "unknown parameter 'p.b'",
        ),
        (
            {"if": {"type": "integer"}, "then": {"minimum": 5}},
            3,
            "constraint_violation",
            "be a number >= 5, got 3",
        ),
        ({"unevaluatedItems": False}, [1], "constraint_violation", "the rule 'unevaluatedItems'"),
    ],
)
def test_raw_schema(schema: dict[str, Any], value: Any, error_type: str | None, words: str) -> None:
    """X5: every keyword of a raw schema has its finding, in words."""
    declared = tool(parameter("p", "any", schema=schema))
    if error_type is None:
        assert accepted(declared, {"p": value}) == {"p": value}
        return
    finding = error(declared, {"p": value})
    assert finding.error_type == error_type
    assert words in finding.message


def test_references_to_one_schema() -> None:
    """X5: several references to one schema are followed once each."""
    schema = {"allOf": [{"$ref": "#/properties/n"}, {"$ref": "#/properties/n"}]}
    declared = tool(parameter("n", "integer"), parameter("p", "any", schema=schema))
    assert repr(accepted(declared, {"p": 1.0})) == "{'p': 1}"
    assert {finding.path for finding in errors(declared, {"p": "x"})} == {"p"}


def test_pattern_properties() -> None:
    """X5: beside key patterns, declared keys are still checked one by one."""
    schema = {
        "properties": {"a": {"type": "string"}},
        "patternProperties": {"^x": {"type": "integer"}},
        "additionalProperties": False,
    }
    declared = tool(parameter("p", "object", schema=schema))
    assert repr(accepted(declared, {"p": {"a": "s", "x1": 1.0}})) == "{'p': {'a': 's', 'x1': 1}}"
    found = errors(declared, {"p": {"a": 1, "x1": "s"}})
    assert {finding.path for finding in found} == {"p.a", "p.x1"}


# The validator itself


def test_input_is_never_changed() -> None:
    """The caller's arguments stay as they are, and nothing of them is shared with the result."""
    params = {"order": {"lines": [{"sku": "a", "count": 1.0, "x": 1}]}, "zzz": {"y": [1]}}
    before = copy.deepcopy(params)
    result = LENIENT.validate(NESTED, params)
    result.validated_params["order"]["lines"].append(1)
    assert params == before
    scalars = {"url": "https://a.b"}
    accepted(HTTP_REQUEST, scalars)["url"] = "changed"
    assert scalars == {"url": "https://a.b"}


def test_compiled_once_per_tool_and_mode() -> None:
    """A tool is compiled on its first use, and the result goes when the tool goes."""
    declared = tool(parameter("p"))
    assert not [key for key in declared.__dict__ if key.startswith("compiled")]
    first = STRICT.compiled(declared)
    assert ToolParameterValidator(strict=True).compiled(declared) is first
    assert LENIENT.compiled(declared) is not first
    edited = msgspec.structs.replace(declared, version="2.0")
    assert STRICT.compiled(edited) is not first


def test_accept_leaves_the_rest_to_explain() -> None:
    """`accept` answers only for calls without anything to tell."""
    compiled = LENIENT.compiled(HTTP_REQUEST)
    assert compiled.accept({"url": "https://a.b"}) == {
        "url": "https://a.b",
        "method": "GET",
        "timeout": 30,
    }
    assert compiled.accept({"url": "https://a.b", "zzz": 1}) is None
    assert compiled.accept({"url": 5}) is None
    assert compiled.accept([]) is None
    assert compiled.explain(None).errors[0].error_type == "missing_required"
    assert compiled.explain({"url": "https://a.b"}).validated_params == compiled.accept(
        {"url": "https://a.b"}
    )


@pytest.mark.parametrize(
    "declared",
    [
        tool(parameter("a")),
        tool(parameter("a"), parameter("b", default="x")),
        tool(parameter("a"), parameter("b", "number")),
        tool(parameter("a"), parameter("b", "array", default=[])),
    ],
)
def test_every_variant_of_accept(declared: Tool) -> None:
    """Each variant of the fast path takes what is right and passes on what it cannot vouch for."""
    compiled = STRICT.compiled(declared)
    defaults = {item.name: item.default for item in declared.parameters if item.has_default}
    assert compiled.accept({"a": "x"}) == {**defaults, "a": "x"}
    assert compiled.accept({"a": "中"}) == {**defaults, "a": "中"}
    assert compiled.accept({"a": Text("x")}) == {**defaults, "a": "x"}
    assert compiled.accept(UserDict(a="x")) == {**defaults, "a": "x"}
    assert compiled.accept(None) == defaults
    for wrong in ({"a": "\ud800"}, {"a": 1}, {"a": True}, {"a": None}, {1: 1}, {"a": {1}}, 5):
        assert compiled.accept(wrong) is None
        assert not STRICT.validate(declared, wrong).is_valid or wrong == {"a": None}


# Definitions that make no sense


@pytest.mark.parametrize(
    ("parameters", "path", "words"),
    [
        ([parameter("p", "str")], "parameters[0]", "unknown type 'str': did you mean 'string'?"),
        ([parameter("p", "zzz")], "parameters[0]", "unknown type 'zzz': known are string, number"),
        (
            [parameter("a"), parameter("p", validation={"pattern": "(?=a)"})],
            "parameters[1]",
            "patterns know no look-around and no back-references",
        ),
        ([parameter("p", validation={"min_length": "3"})], "parameters[0]", "at minLength"),
        ([parameter("p", schema={"$ref": "http://127.0.0.1:1/"})], "parameters[0]", "127.0.0.1"),
        ([parameter("p", validation={"enum": [{1}]})], "parameters[0]", "use plain JSON values"),
        ([parameter("p", "array", validation={"items": 5})], "parameters[0]", "JSON Schema"),
        (
            [parameter("p", validation={"minlength": 3})],
            "parameters[0].validation.minlength",
            "did you mean 'min_length'?",
        ),
        (
            [parameter("p", validation={"zzz": 3})],
            "parameters[0].validation.zzz",
            "put it under `schema`",
        ),
        (
            [parameter("p"), parameter("p")],
            "parameters[1].name",
            "already declared as parameters[0]",
        ),
        (
            [parameter("p"), parameter("q", "integer", default="x")],
            "parameters[1].default",
            "the default of 'q' must be an integer, got \"x\"",
        ),
        (
            [parameter("p", "any", default=math.nan)],
            "parameters[0].default",
            "must be a finite number, got NaN",
        ),
        (
            [
                parameter(
                    "p", "object", default={"b": 1}, validation={"properties": {"a": "string"}}
                )
            ],
            "parameters[0].default",
            "the default of 'p' must not have the key 'b'",
        ),
    ],
)
def test_definition_error(parameters: list[ToolParameter], path: str, words: str) -> None:
    """A tool made in code whose parameters make no sense is refused with place and cure."""
    with pytest.raises(DefinitionError) as caught:
        STRICT.validate(tool(*parameters), {})
    assert caught.value.path == path
    assert words in str(caught.value)
    assert "tool 't'" in str(caught.value)


def test_definition_error_lists_everything() -> None:
    """All problems of a tool come at once, and the source file is named."""
    declared = tool(parameter("p", "str"), parameter("q", "int"), source="tools/t.yaml")
    with pytest.raises(DefinitionError) as caught:
        LENIENT.compiled(declared)
    assert len(caught.value.problems) == 2
    assert caught.value.file == "tools/t.yaml"


def test_secret_default_is_hidden() -> None:
    """The default of a secret parameter is neither in an error nor in what models are told."""
    declared = tool(parameter("key", secret=True, default="hunter2"))
    assert "hunter2" not in str(declared.parameters_schema)
    assert accepted(declared, {}) == {"key": "hunter2"}
    wrong = tool(parameter("key", "integer", secret=True, default="hunter2"))
    with pytest.raises(DefinitionError) as caught:
        LENIENT.compiled(wrong)
    assert "hunter2" not in str(caught.value)
