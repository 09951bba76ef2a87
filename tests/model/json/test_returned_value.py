"""Which mapping and which text does a tool's return value become?"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import math
import sys
from collections import OrderedDict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import PurePosixPath
from types import MappingProxyType, ModuleType
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.model.json.returned_value import as_output, copy_plain, is_path, to_text


class Point(msgspec.Struct):
    x: int = 1


@dataclasses.dataclass
class Place:
    name: str
    point: Any = None


class Broken:
    def __repr__(self) -> str:
        raise OSError("no repr")


class Mood(enum.Enum):
    GOOD = "good"


class Text(str):
    __slots__ = ()


def test_dict_is_handed_over_as_it_is() -> None:
    """U17: a dict is the output itself; nothing is copied on the way."""
    value = {"result": 1}
    assert as_output(value) is value


@pytest.mark.parametrize(
    ("value", "output"),
    [
        (MappingProxyType({"a": 1}), {"a": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (Point(2), {"x": 2}),
        (Place("a", Point()), {"name": "a", "point": Point()}),
        (None, {"result": None}),
        ("text", {"result": "text"}),
        (0, {"result": 0}),
        ([1], {"result": [1]}),
        (Place, {"result": Place}),
    ],
)
def test_output_is_a_mapping(value: Any, output: dict[str, Any]) -> None:
    """U17: mappings and values with fields become a dict, all else `{"result": value}`."""
    found = as_output(value)
    assert found == output
    assert type(found) is dict


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (Text("中\n"), "中\n"),
        ({"text": "中"}, '{"text": "中"}'),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ([1, (2,)], "[1, [2]]"),
        (Point(), '{"x": 1}'),
        ([Place("a", Point())], '[{"name": "a", "point": {"x": 1}}]'),
        ({"m": MappingProxyType({"a": 1})}, '{"m": {"a": 1}}'),
        (dt.date(2026, 1, 2), '"2026-01-02"'),
        (dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC), '"2026-01-02T03:00:00+00:00"'),
        (dt.time(3), '"03:00:00"'),
        (Decimal("1.50"), '"1.50"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (PurePosixPath("a/b"), '"a/b"'),
        (Mood.GOOD, '"good"'),
        ({1}, "[1]"),
        (b"x", "\"b'x'\""),
        (Place, "\"<class '"),
        (Broken(), '"<Broken>"'),
    ],
)
def test_text(value: Any, text: str) -> None:
    """A37: strings as they are, everything else as JSON; what JSON cannot hold by its repr."""
    assert to_text(value).startswith(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, '"NaN"'),
        ([math.inf, -math.inf, 1.5, None], '["Infinity", "-Infinity", 1.5, null]'),
        ({1: {(2, 3): Point()}, "a": ({4},)}, '{"1": {"(2, 3)": {"x": 1}}, "a": [[4]]}'),
        ([10**5000], '["<int>"]'),
        ([math.nan, Broken()], '["NaN", "<Broken>"]'),
        ({Text("k"): math.nan}, '{"k": "NaN"}'),
    ],
)
def test_text_of_what_json_cannot_hold(value: Any, text: str) -> None:
    """A37: NaN, odd keys and giant numbers are written so that any JSON reader takes the text."""
    assert to_text(value) == text
    json.loads(to_text(value))


class Listed(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("broken")


def test_what_raises_when_it_is_read() -> None:
    """The rest is there, and a result still has a text and a JSON form."""
    output = {"a": 1, "b": [Listed([2])]}
    assert to_text(output) == '{"a": 1, "b": ["[2]"]}'
    assert copy_plain(output) == {"a": 1, "b": ["[2]"]}


@pytest.mark.parametrize("held", [b"ab", bytearray(b"ab"), memoryview(b"ab")])
def test_bytes_read_alike_whatever_holds_them(held: Any) -> None:
    """The address of a view says nothing; a record has the bytes, too."""
    assert to_text({"a": held}) == '{"a": "b\'ab\'"}'


def test_text_of_endless_values() -> None:
    """A value that holds itself or nests too deep is cut, never an exception."""
    endless: list[Any] = []
    endless.append(endless)
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert "…" in to_text(endless)
    assert "…" in to_text({"a": deep})


@pytest.mark.parametrize("value", ["a\ud800", {"k\ud800": ["\udfff"]}, [math.nan, "\ud800"]])
def test_text_can_always_be_sent(value: Any) -> None:
    """Half of a surrogate pair is written as its escape, so that the text can be encoded."""
    assert "\\ud" in to_text(value)
    to_text(value).encode()


def test_tools_can_be_handed_over() -> None:
    """K50: a tool that tells of tools gives their fields, in its output and in its text."""
    text = "name: a\ndescription: d\ntags: [x]\nentry: {type: custom}\n"
    tool = ToolConfigLoader().load_text(text)
    output = as_output(tool)
    assert (output["tags"], output["implementation_config"]) == (["x"], {"type": "custom"})
    assert '"tags": ["x"]' in to_text({"tools": [tool]})
    assert '"implementation_config": {"type": "custom"}' in to_text({"tools": [tool]})


def test_a_value_looked_at_while_a_thread_imports_pathlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is there before its names are."""
    monkeypatch.setitem(sys.modules, "pathlib", ModuleType("pathlib"))
    assert not is_path("a")
