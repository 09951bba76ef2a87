"""Does a tool that no pattern of a token names exist for its owner, whatever it may do?"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import SCOPES, Client, served, write_tokens
from tests.server.test_events import reading
from tests.server.test_sessions import keep_session
from tool_engine import ToolEngine
from tool_engine.server import create_app
from tool_engine.server.app import OPERATIONS

HIDDEN, NEVER, BOUND = "zebra", "quagg", 15.0
ZEBRA = """
name: {name}
description: {description}
effect: read
permission: {permission}
parameters:
  - {{name: message, type: string, required: true, description: What to say}}
entry: {{type: builtin, handler: echo}}
"""
SCOPES_OF = {"few": ["call", "read"], "max": list(SCOPES)}
DONE = frozenset(("pause_calls", "drain_calls"))
"""What stops the others."""
BODIES: dict[str, Any] = {
    "call_tool": {"arguments": {"message": "x"}},
    "roll_back": {"generation": 1},
    "read_reply": {"protocol": "function_call", "reply": "none"},
    "answer_approval": {"is_allowed": True},
    "approve_definitions": {"names": {HIDDEN: "none"}},
}


def write_zebra(folder: Path, name: str = HIDDEN, **fields: str) -> None:
    said = {"name": name, "description": "It hides.", "permission": "auto", **fields}
    (folder / f"{name}.yaml").write_text(ZEBRA.format(**said))


@pytest.fixture
async def people(engine: ToolEngine, tmp_path: Path) -> AsyncIterator[dict[str, Client]]:
    """Those for whom there is no zebra, by what they may do; and olga, who has used it."""
    write_zebra(tmp_path / "tools")
    write_zebra(tmp_path / "tools", "zebra_2", permission="ask_always")
    await engine.reload()
    few = {name: {"scopes": scopes, "tools": ["a*"]} for name, scopes in SCOPES_OF.items()}
    tokens = write_tokens(tmp_path / "few.json", {"olga": {"scopes": SCOPES}, **few})
    app = await asyncio.to_thread(create_app, engine, auth=str(tokens))
    async with served(app) as service:
        found = {name: service.client(name) for name in ("olga", *few)}
        assert (await found["olga"].get("/metrics")).status == 200  # they count from here on
        asking = asyncio.create_task(found["olga"].call("zebra_2", message="wait"))
        async with asyncio.timeout(BOUND):
            while not await engine.approvals.pending():  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)
        write_zebra(tmp_path / "tools", description="It hides well.")
        await engine.reload()
        path, body = f"/v1/tools/{HIDDEN}/calls", {"arguments": {"message": "done"}}
        for headers in ({}, {"prefer": "respond-async"}, {"idempotency-key": "one"}):
            answer = await found["olga"].send("POST", path, json=body, headers=headers)
            assert answer.status < 300
        await keep_session(engine)
        assert (await found["olga"].get("/metrics")).text.count(HIDDEN)
        yield found
        asking.cancel()


async def find_ids(olga: Client, engine: ToolEngine) -> dict[str, str]:
    """What belongs to the hidden tool, by the parts of paths that stand for it."""
    (task, *_) = (await olga.get(f"/v1/tasks?tool_name={HIDDEN}")).json["items"]
    (record, *_) = (await olga.get(f"/v1/records?tool_name={HIDDEN}")).json["items"]
    (asked,) = await engine.approvals.pending()
    return {
        "name": HIDDEN,
        "task_id": task["id"],
        "record_id": record["record_id"],
        "call_id": record["call_id"],
        "token": asked.token,
        "session_id": "chat-1",
        "format": "openai",
    }


@pytest.mark.parametrize("who", SCOPES_OF)
async def test_no_answer_names_it(people: dict[str, Client], engine: ToolEngine, who: str) -> None:
    """It is refused in the words of what never was, and no list or total has its name."""
    client, ids = people[who], await find_ids(people["olga"], engine)
    for each in OPERATIONS:
        if each.name in DONE or each.name == "stream_events":
            continue
        shown = []
        for values in (ids, dict.fromkeys(ids, NEVER) | {"format": "openai"}):
            path = re.sub(r"\{(\w+)\}", lambda part: values[part[1]], each.path)  # noqa: B023 - at once
            options = {} if each.body is None else {"json": BODIES.get(each.name, {})}
            answer = await client.send(each.method, path, **options)
            text = answer.text
            for value in {*values.values()} - {"openai"}:
                text = text.replace(value, "")
            shown.append((answer.status, text))
        if "{" in each.path:
            assert shown[0] == shown[1], each.name
        assert HIDDEN not in shown[0][1], (each.name, shown[0])


@pytest.mark.parametrize("who", SCOPES_OF)
async def test_no_event_names_it(
    people: dict[str, Client], engine: ToolEngine, tmp_path: Path, who: str
) -> None:
    """Neither those of calls nor those of reloads."""
    async with reading(people[who]) as reader:
        await people["olga"].call(HIDDEN, message="unheard")
        (tmp_path / "tools" / "zebra.yaml").unlink()
        await engine.reload()
        await people[who].call("add", a=1, b=2)
        heard: list[Any] = []
        while not heard or heard[-1][0] != "execution_completed":
            heard.append(await reader.next())
    assert HIDDEN not in repr(heard)
