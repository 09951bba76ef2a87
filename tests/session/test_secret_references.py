"""What is said of a reference that stands in a secret argument, and refers to nothing?"""

from __future__ import annotations

import pytest

from tool_engine import ToolEngine, ToolEngineConfig, ToolSession

SECRET = "hunter-zebra-quagga"
WRONG = (
    f"$VAR_REF{{{{{SECRET}}}}}",
    f"$VAR_REF{{{{{SECRET}:5",
    f"$VAR_REF{{{{ {SECRET} }}}}",
    f"$VAR_REF{{{{a:{SECRET}}}}}",
)


@pytest.mark.parametrize("where", ["the argument", "a part of it"])
@pytest.mark.parametrize("sent", WRONG)
async def test_a_secret_that_looks_like_a_reference(sent: str, where: str) -> None:
    """The secret is in no error, finding, record or event; another argument's name is said."""
    async with ToolEngine(ToolEngineConfig(auto_reload=False)) as engine:
        pin = {"name": "pin", "type": "string", "description": "P.", "secret": True}
        inner = {"type": "object", "properties": {"pin": {"type": "string", "writeOnly": True}}}
        login = {"name": "login", "type": "object", "description": "L.", "schema": inner}
        word = {"name": "word", "type": "string", "description": "W."}
        tool = {"name": "log_in", "description": "L.", "parameters": [pin, login, word]}
        engine.register_tool(tool, lambda pin="", login=None, word="": None)
        events: list[str] = []
        engine.subscribe(lambda event: events.append(repr(event.to_dict())))
        session = ToolSession(engine, "one")
        arguments = {"pin": sent} if where == "the argument" else {"login": {"pin": sent}}
        result = await session.execute("log_in", arguments)
        assert result.error_type == "validation_error"
        assert SECRET not in repr(result)
        assert SECRET not in repr(await engine.store.query_call_records())
        assert SECRET not in "".join(events)
        shown = await session.execute("log_in", {"word": "$VAR_REF{{nothing}}"})
        assert "'nothing'" in str(shown.error)
