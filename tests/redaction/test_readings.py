"""As which texts may a tool have got what was sent to it as a secret?"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pytest

from tool_engine import (
    Tool,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolExecutionError,
)
from tool_engine.redaction import OwnSecrets, secrets_of
from tool_engine.redaction.own import list_readings

WORD = "zebrafishHorse77"
OTHER = "giraffeMonkey88"
WORD_PART = {"type": "string", "writeOnly": True}
FILLED = {"properties": {"word": {**WORD_PART, "default": WORD}}}


def secret(kind: str, **more: Any) -> dict[str, Any]:
    return {"name": "pin", "type": kind, "description": "P.", "secret": True, **more}


def with_schema(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "pin", "type": "object", "description": "P.", "schema": schema, **more}


def definition(parameter: dict[str, Any]) -> dict[str, Any]:
    return {"name": "t", "description": "T.", "parameters": [parameter]}


CALLS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a float as a whole number": (secret("integer"), {"pin": 7391846250.0}, "7391846250"),
    "a large float": (secret("integer"), {"pin": 1.5e15}, "1500000000000000"),
    "in a list": (secret("array", items="integer"), {"pin": [7391846250.0]}, "7391846250"),
    "a part": (
        with_schema({"properties": {"word": {"type": "integer", "writeOnly": True}}}),
        {"pin": {"word": 7391846250.0}},
        "7391846250",
    ),
    "a default": (secret("string", default=WORD), {}, WORD),
    "a default for null": (secret("string", default=WORD), {"pin": None}, WORD),
    "a default inside": (
        secret("object", properties={"word": {"type": "string", "default": WORD}}),
        {"pin": {}},
        WORD,
    ),
    "the default of a part": (with_schema(FILLED), {"pin": {}}, WORD),
    "the default of a part in a list": (
        {**with_schema({"items": {"type": "object", **FILLED}}), "type": "array"},
        {"pin": [{}]},
        WORD,
    ),
    "a part of a default": (with_schema(FILLED, default={"word": OTHER}), {}, OTHER),
    "a key": (secret("object"), {"pin": {WORD: 1}}, WORD),
    "a key of a part": (
        with_schema({"properties": {"word": {"type": "object", "writeOnly": True}}}),
        {"pin": {"word": {"in": [{WORD: 1}]}}},
        WORD,
    ),
}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("case", CALLS)
async def test_what_the_tool_got(case: str, fails: bool, tmp_path: Path) -> None:
    """A secret is hidden as the tool got it, where validation changed it or filled it in."""
    parameter, params, needle = CALLS[case]
    events: list[ToolEngineEvent] = []

    def repeat(pin: Any = None) -> dict[str, Any]:
        assert needle in json.dumps(pin)
        if fails:
            raise ToolExecutionError(f"no {json.dumps(pin)}", details={"pin": [pin]})
        return {"text": f"got {json.dumps(pin)}", "other": [pin]}

    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:
        engine.subscribe(events.append)
        engine.register_tool(definition(parameter), repeat)
        result = await asyncio.wait_for(engine.execute("t", params), 30)
        (record,) = await engine.query_call_records()
    assert result.is_success is not fails
    shown = [event.execution_result for event in events]
    assert needle not in repr((record, result.error, result.metadata, events, shown))
    assert "[hidden]" in repr(record.error if fails else record.result)


KINDS: dict[str, Any] = {
    "2026-01-31T09:30:00Z": dt.datetime,
    "2026-01-31": dt.date,
    "09:30:00Z": dt.time,
    "PT90M": dt.timedelta,
    "1.5e3": Decimal,
    "123E4567-E89B-12D3-A456-426614174000": UUID,
    "emVicmFmaXNoSG9yc2U3Nw==": bytes,
}


@pytest.mark.parametrize("sent", KINDS)
async def test_what_a_hint_made_of_it(sent: str, tmp_path: Path) -> None:
    """A secret is hidden as the value that a type hint asks for, as `str`, `repr` and JSON."""
    got: list[Any] = []

    def repeat(pin: Any) -> Any:
        """Repeats the pin."""
        got.append(pin)
        return {"text": f"got {words(pin)} {pin!r}", "value": pin}

    hint: Any = Annotated[KINDS[sent], msgspec.Meta(extra_json_schema={"writeOnly": True})]
    repeat.__annotations__["pin"] = hint
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:
        engine.tool()(repeat)
        result = await asyncio.wait_for(engine.execute("repeat", {"pin": sent}), 30)
        (record,) = await engine.query_call_records()
    assert result.is_success, result.error
    assert type(got[0]) is KINDS[sent]
    assert words(got[0]) not in repr(record.result)
    assert record.result["text"].startswith("got [hidden] ")
    assert "[hidden]" in str(record.result["value"])


def words(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def tool(parameter: dict[str, Any]) -> Tool:
    return ToolConfigLoader().from_mapping(definition(parameter))


def test_what_is_declared_is_no_secret() -> None:
    """Names of parameters and of declared properties stay, and so does a default not in use."""
    made = tool(secret("object", properties={"user": "string"}, default={"user": WORD}))
    own = secrets_of(made, {"pin": {"user": OTHER}})
    assert own.hide({"user": 1, "pin": 2, "text": WORD}) == {"user": 1, "pin": 2, "text": WORD}
    assert secrets_of(made, {}).hide({"text": WORD}) == {"text": "[hidden]"}
    assert OwnSecrets({"pin": {"user": OTHER}}, ["pin"]).text("the user") == "the user"


def test_a_number_is_found_in_both_forms() -> None:
    """A whole number and the float that it equals are one value; what is no number has one form."""
    assert OwnSecrets({"pin": 12345}, ["pin"]).hide([12345.0, 12345, 12346.0, "12345.0"]) == [
        *("[hidden]", "[hidden]", 12346.0, "[hidden]")
    ]
    assert OwnSecrets({"pin": "12345"}, ["pin"]).hide([12345.0]) == ["[hidden]"]
    huge = [float("inf"), float("nan"), 10**400]
    assert OwnSecrets({"pin": huge}, ["pin"]).hide(huge) == ["[hidden]"] * 3


def test_a_long_text_is_read_as_it_is() -> None:
    """What is longer than any value of a type hint costs nothing more."""
    assert list(list_readings("/" + "a" * 20_000)) == ["/" + "a" * 20_000]
