"""What a subscriber or a reader of records may never see."""

from typing import Any

import pytest

from tool_engine import ToolEngine, ToolEngineEvent

DEFINITION: dict[str, Any] = {
    "name": "log_in",
    "description": "Logs in.",
    "parameters": [
        {
            "name": "pin",
            "type": "string",
            "required": True,
            "description": "The pin.",
            "secret": True,
        },
        {"name": "user", "type": "string", "description": "Who."},
    ],
}


@pytest.mark.parametrize("fails", [False, True])
async def test_secret_parameter(fails: bool) -> None:
    """A secret parameter shows in no event and no record, wherever the tool puts its value."""
    engine = ToolEngine()
    events: list[ToolEngineEvent] = []
    engine.subscribe(events.append)

    async def log_in(pin: str, user: str = "") -> dict[str, str]:
        if fails:
            raise ValueError(f"wrong pin {pin}")
        return {"said": f"the pin is {pin}", "user": user}

    engine.register_tool(DEFINITION, log_in)
    await engine.execute("log_in", {"pin": "topsecret7", "user": "ada"})
    record = (await engine.query_call_records())[0]
    assert "topsecret7" not in repr(events)
    assert "topsecret7" not in repr(record)
    assert record.params["user"] == "ada"
    await engine.close()


async def test_secret_that_is_part_of_an_id() -> None:
    """What the engine names by itself stays whole in the event, so that it leads to the record."""
    engine = ToolEngine()
    shown: list[ToolEngineEvent] = []
    engine.subscribe(shown.append, "execution_completed")

    async def log_in(pin: str, user: str = "") -> None:
        return None

    tool = engine.register_tool(DEFINITION, log_in)
    result = await engine.execute("log_in", {"pin": tool.definition_hash[:6]})
    metadata = shown[0].execution_result.metadata  # type: ignore[union-attr]
    assert metadata["definition_hash"] == tool.definition_hash
    assert metadata["call_id"] == result.call_id
    await engine.close()


async def test_secret_by_key() -> None:
    """Output under a key that usually holds a secret is hidden in the event, not for the caller."""
    engine = ToolEngine()
    events: list[ToolEngineEvent] = []
    engine.subscribe(events.append, "execution_completed")

    async def sign_in() -> dict[str, str]:
        return {"token": "abc", "user": "ada"}

    engine.register_tool({"name": "sign_in", "description": "Signs in."}, sign_in)
    result = await engine.execute("sign_in")
    assert result.output == {"token": "abc", "user": "ada"}
    shown = events[0].execution_result
    assert shown is not None
    assert shown.output == {"token": "[hidden]", "user": "ada"}
    await engine.close()
