"""Is a time written in one way, wherever a client reads it?"""

from __future__ import annotations

import re
from typing import Any

from tests.server.conftest import Client
from tests.server.test_sessions import keep_session
from tool_engine import ToolEngine

TIME = re.compile(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?([^"]*)"')
BODY = {"arguments": {"a": 1, "b": 2}}
WAYS: tuple[dict[str, str], ...] = (
    {},
    {"accept": "text/event-stream"},
    {"prefer": "respond-async"},
    {"idempotency-key": "one"},
    {"idempotency-key": "one"},
    {"idempotency-key": "one", "accept": "text/event-stream"},
)
PATHS = (
    *("/v1/records?limit=3", "/v1/tasks?results=true", "/v1/engine", "/v1/sessions"),
    *("/v1/sessions/chat-1", "/v1/tools/add/definition"),
)


async def test_one_form(olga: Client, engine: ToolEngine) -> None:
    """A result is the same, byte for byte, over each way; so two of them can be compared."""
    await keep_session(engine)
    texts: dict[str, str] = {}
    for number, headers in enumerate(WAYS):
        path: Any = "/v1/tools/add/calls"
        answer = await olga.send("POST", path, json=BODY, headers=headers)
        texts[f"{number} {headers}"] = answer.text
    for path in PATHS:
        texts[path] = (await olga.get(path)).text
    for path, text in texts.items():
        assert {*TIME.findall(text)} == {"+00:00"}, path
