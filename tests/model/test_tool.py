"""The loaded tool and its parts."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import msgspec
import pytest

from tool_engine import Tool, ToolCategory, ToolEngineEvent, ToolEngineEventType, ToolParameter
from tool_engine.model.settings.concurrency import ToolConcurrency, ToolRate
from tool_engine.model.tool import PACKED_FIELDS, RetryPolicy, pack_tool


def tool(**keys: Any) -> Tool:
    fields: dict[str, Any] = {
        "id": "x",
        "name": "x",
        "version": "1.0.0",
        "description": "d",
        "category": ToolCategory.HTTP,
        "tags": [],
        "parameters": [],
        "implementation_config": {},
    }
    return Tool(**{**fields, **keys})


def test_categories() -> None:
    """K15: the six categories, which are texts."""
    assert [each.value for each in ToolCategory] == [
        *("http", "database", "file", "ai", "notification", "custom")
    ]
    assert ToolCategory("http") == "http"


def test_bucket() -> None:
    """C13, U7: the declared bucket, else the category."""
    assert tool().bucket == "http"
    assert tool(concurrency=ToolConcurrency(bucket="own")).bucket == "own"


@pytest.mark.parametrize(
    ("entry", "handler"), [({"handler": "h"}, "h"), ({}, "x"), ({"handler": ""}, "x")]
)
def test_handler(entry: dict[str, Any], handler: str) -> None:
    """U17: the entry's handler, else the tool's own name."""
    assert tool(implementation_config=entry).handler == handler


@pytest.mark.parametrize(
    ("status", "is_enabled"),
    [("published", True), ("testing", True), ("draft", False), ("deprecated", False)],
)
def test_enabled(status: str, is_enabled: bool) -> None:
    """U20: models are told of tools in testing and published."""
    assert tool(status=status).is_enabled is is_enabled


@pytest.mark.parametrize(
    ("keys", "may_retry"),
    [
        ({}, False),
        ({"effect": "read"}, True),
        ({"effect": "write"}, False),
        ({"effect": "write", "idempotent": True}, True),
        ({"implementation_config": {"request": {"idempotency_key": True}}}, True),
        ({"implementation_config": {"request": {"idempotency_key": False}}}, False),
        ({"implementation_config": {"request": None}}, False),
    ],
)
def test_may_retry(keys: dict[str, Any], may_retry: bool) -> None:
    """U16: only what is known to be harmless is run twice."""
    assert tool(**keys).may_retry is may_retry


def test_schema_is_made_once() -> None:
    """K51: one schema per tool; an edited tool has its own."""
    parameter = ToolParameter("a", "integer", required=True)
    first = tool(parameters=[parameter])
    assert first.parameters_schema is first.parameters_schema
    edited = msgspec.structs.replace(first, parameters=[])
    assert edited.parameters_schema["properties"] == {}
    assert first.parameters_schema["properties"]["a"]["type"] == "integer"


PARAMETERS = [
    ToolParameter("a", "integer", required=True, secret=True),
    ToolParameter("b", "number", default=1.0, validation={"enum": [1.0, 2]}),
]
LISTS: dict[str, Any] = {
    "tags": ["x", "é"],
    "parameters": PARAMETERS,
    "implementation_config": {"type": "custom", "config": {"n": 1, "f": 1.0, "none": None}},
    "output": {"type": "object", "properties": {"a": {}}},
    "examples": [{"params": {"a": 1}}],
    "tests": [{"params": {"a": 1}, "expect": [1, None]}],
    "accepts": ["user", "host:*"],
    "findings": ["here: it is odd"],
}


@pytest.mark.parametrize("keys", [LISTS, {}, {"output": None, "category": ToolCategory.AI}])
def test_a_packed_tool_is_the_same(keys: dict[str, Any]) -> None:
    """Issue 4, 5: what keeps a tool small changes nothing about it."""
    plain = tool(**keys)
    packed = pack_tool(plain)
    assert packed == plain
    assert not packed != plain  # noqa: SIM202 - another method
    assert repr(packed) == repr(plain)
    assert repr(packed).startswith("Tool('x' 1.0.0 from code, takes ")
    assert msgspec.json.encode(packed) == msgspec.json.encode(plain)
    for field in Tool.__struct_fields__:
        assert type(getattr(packed, field)) is type(getattr(plain, field))
    assert (packed.bucket, packed.handler) == (plain.bucket, plain.handler)
    assert packed.parameters_schema == plain.parameters_schema
    assert packed.secret_names == plain.secret_names
    assert pack_tool(packed) == packed


def test_packed_tools_are_values() -> None:
    """K51: a packed tool is copied, pickled and edited like any other; others differ from it."""
    packed = pack_tool(tool(**LISTS))
    pickled = pickle.loads(pickle.dumps(packed))  # noqa: S301 - our own, made here
    for same in (copy.copy(packed), copy.deepcopy(packed), pickled):
        assert same == packed
    edited = msgspec.structs.replace(packed, tags=["y"], version="2")
    assert (edited.tags, edited.version, edited.parameters) == (["y"], "2", PARAMETERS)
    assert edited != packed
    assert packed.__eq__("packed") is NotImplemented
    with pytest.raises(TypeError, match="unhashable"):
        hash(packed)
    with pytest.raises(AttributeError):
        packed.tags = []  # type: ignore[misc]


@pytest.mark.parametrize("field", LISTS)
def test_what_is_read_is_the_readers(field: str) -> None:
    """K51: what a reader does to a list or mapping of a loaded tool does not change the tool."""
    packed = pack_tool(tool(**LISTS))
    read = getattr(packed, field)
    read.clear()
    assert getattr(packed, field) == LISTS[field]


def test_packed_tools_concern_no_collection() -> None:
    """Issue 4, 5: the garbage collector does not visit a packed tool, even when it is in use."""
    packed = pack_tool(tool(**LISTS))
    assert not gc.is_tracked(packed)
    assert packed.parameters_schema["required"] == ["a"]
    assert not gc.is_tracked(packed)
    assert not gc.is_tracked(msgspec.structs.replace(packed, source="elsewhere"))
    limits = ToolConcurrency(bucket="b")
    assert not gc.is_tracked(pack_tool(tool(concurrency=limits, rate=ToolRate(1, 1.0), **LISTS)))


def test_fields_on_the_class() -> None:
    """A field that may be packed is found on the class too, as tools for documentation do."""
    assert {*LISTS, "category", "input_schema", "annotations"} == PACKED_FIELDS
    assert all(getattr(Tool, field) is not None for field in PACKED_FIELDS)


def test_tool_is_immutable() -> None:
    """K51: a tool is a value."""
    with pytest.raises(AttributeError):
        tool().name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (ToolRate(10, 1.0), "10/s"),
        (ToolRate(5, 60.0), "5/min"),
        (ToolRate(5, 3600.0), "5/h"),
        (ToolRate(5, 86400.0), "5/d"),
        (ToolRate(3, 2.5), "3/2.5s"),
    ],
)
def test_rate_reads_as_written(rate: ToolRate, text: str) -> None:
    """C17: a rate shows as a definition writes it."""
    assert str(rate) == text


def test_retry_defaults() -> None:
    """U16: what a retry policy leaves out."""
    assert RetryPolicy(3) == RetryPolicy(3, 0.1, ("execution_error", "timeout", "worker_lost"))


@pytest.mark.parametrize(
    ("keys", "has_default"),
    [({}, False), ({"default": 0}, True), ({"has_default": True}, True), ({"default": ""}, True)],
)
def test_parameter_defaults(keys: dict[str, Any], has_default: bool) -> None:
    """K5, U18: a falsy default is a default; a null one has to be said."""
    assert ToolParameter("a", "string", **keys).has_default is has_default


def test_event_fields() -> None:
    """K47, U14: an event's fields in their order; times are UTC."""
    event = ToolEngineEvent(ToolEngineEventType.LOAD_ERROR, "x", None, "bad")
    assert (event.event_type, event.tool_name, event.error) == ("load_error", "x", "bad")
    assert (event.tool, event.validation_errors, event.execution_result) == (None, None, None)
    assert event.call_id is None
    assert event.timestamp.utcoffset() is not None
    assert event.data == {}
