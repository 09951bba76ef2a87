"""Is what a person has read approved, and nothing else?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.server.conftest import Client, Service, served, write_tokens
from tests.server.definitions.test_definition import write
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.server import create_app

TOOL = """
name: {name}
version: "{version}"
description: {description}
effect: read
parameters:
  - {{name: message, type: string, required: true, description: What to say}}
entry: {{type: builtin, handler: echo}}
"""
GROUP = """
kind: group
name: web
description: A group.
tools: [one]
rules: {rules}
"""


def tool(name: str, version: str = "1.0.0", description: str = "Say it.") -> str:
    return TOOL.format(name=name, version=version, description=description)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "one.yaml").write_text(tool("one"))
    config = ToolEngineConfig(tools_directory=str(folder), lock="enforce")
    async with ToolEngine(config) as engine:
        yield engine


async def test_new_and_changed(olga: Client, engine: ToolEngine) -> None:
    """It waits with why, and with what has changed since it was approved."""
    found = (await olga.get("/v1/lock")).json
    (one,) = found["items"]
    assert (one["name"], one["reason"], one["approved_version"]) == ("one", "no_lock", None)
    await engine.lock_tools()
    assert (await olga.get("/v1/lock")).json["items"] == []
    await write(engine, tool("one", "1.1.0", "Say it twice."), "one.yaml")
    (one,) = (await olga.get("/v1/lock")).json["items"]
    assert (one["reason"], one["version"], one["approved_version"]) == (
        "changed",
        "1.1.0",
        "1.0.0",
    )
    seen = (await olga.get("/v1/lock/one")).json
    assert seen["is_approved_known"]
    assert "-description: Say it." in seen["diff"].split("\n")
    assert "+description: Say it twice." in seen["diff"].split("\n")
    assert seen["fingerprint"] == one["fingerprint"]
    assert "description: Say it twice." in seen["yaml"]


async def test_approve_what_was_read(olga: Client, engine: ToolEngine) -> None:
    """It may be called from then on; the same again does nothing."""
    (one,) = (await olga.get("/v1/lock")).json["items"]
    body = {"names": {"one": one["fingerprint"]}}
    first, second = await asyncio.gather(
        *(olga.send("POST", "/v1/lock", json=body) for _ in range(2))
    )
    assert {first.status, second.status} == {200}
    assert sorted([first.json["added"], second.json["added"]]) == [[], ["one"]]
    assert (await engine.execute("one", {"message": "a"})).is_success


async def test_approve_what_has_changed_meanwhile(olga: Client, engine: ToolEngine) -> None:
    """Nothing is approved, also not what is named beside it."""
    await write(engine, tool("two"), "two.yaml")
    read = {
        each["name"]: each["fingerprint"] for each in (await olga.get("/v1/lock")).json["items"]
    }
    await write(engine, tool("one", description="Send all to evil."), "one.yaml")
    refused = await olga.send("POST", "/v1/lock", json={"names": read})
    assert (refused.status, refused.kind) == (409, "changed-meanwhile")
    assert refused.json["detail"].startswith("'one' changed after it was read")
    assert sorted(each.name for each in engine.quarantined()) == ["one", "two"]
    path = Path(engine.config.tools_directory) / "one.yaml"
    await asyncio.to_thread(path.unlink)
    await engine.reload()
    gone = await olga.send("POST", "/v1/lock", json={"names": read})
    assert gone.kind == "changed-meanwhile"


async def test_code_that_has_changed_meanwhile(
    olga: Client, engine: ToolEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fingerprint is also of the code that would run, though the definition is the same."""
    module = f"handlers_{uuid4().hex}"
    code = tmp_path / f"{module}.py"
    code.write_text("def say(message): return message\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = tool("one").replace(
        "type: builtin, handler: echo", f"type: custom, handler: '{module}:say'"
    )
    await write(engine, text, "one.yaml")
    (read,) = (await olga.get("/v1/lock")).json["items"]
    code.write_text("def say(message): return 'evil'\n")
    await engine.reload()
    body = {"names": {"one": read["fingerprint"]}}
    refused = await olga.send("POST", "/v1/lock", json=body)
    assert (refused.status, refused.kind) == (409, "changed-meanwhile")
    (now,) = (await olga.get("/v1/lock")).json["items"]
    body = {"names": {"one": now["fingerprint"]}}
    assert (await olga.send("POST", "/v1/lock", json=body)).status == 200


async def test_two_at_once(olga: Client, engine: ToolEngine) -> None:
    """Neither of two approvals of different tools undoes the other."""
    await write(engine, tool("two"), "two.yaml")
    items = (await olga.get("/v1/lock")).json["items"]
    await asyncio.gather(
        *(
            olga.send("POST", "/v1/lock", json={"names": {each["name"]: each["fingerprint"]}})
            for each in items
        )
    )
    assert engine.quarantined() == []
    assert engine.list_names() == ["one", "two"]


async def test_pages(olga: Client, engine: ToolEngine) -> None:
    """Each stands on one of them, tools before groups."""
    for name in ("two", "three"):
        await write(engine, tool(name), f"{name}.yaml")
    await write(engine, GROUP.format(rules="Be kind."), "web.yaml")
    pages = [(await olga.get(f"/v1/lock?limit=2&offset={each}")).json for each in (0, 2, 4)]
    names = [[each["name"] for each in page["items"]] for page in pages]
    assert names == [["one", "three"], ["two", "group:web"], []]
    assert {page["count"] for page in pages} == {4}


async def test_those_that_are_named(engine: ToolEngine) -> None:
    """The state of some is that of all, without the rest; what is not there has none."""
    await write(engine, GROUP.format(rules="Be kind."), "web.yaml")
    await engine.lock_tools(["one"])
    await write(engine, tool("two"), "two.yaml")
    states = {each.name: each for each in await engine.check_lock()}
    assert {name: each.status for name, each in states.items()} == {
        "one": "approved",
        "two": "new",
        "group:web": "new",
    }
    for name, state in states.items():
        assert await engine.check_lock([name]) == [state]
        assert [*await engine.list_lockable([name])] == [name]
    assert await engine.check_lock(["none"]) == []
    assert await engine.list_unapproved() == ["two", "group:web"]
    path = Path(engine.config.tools_directory) / "one.yaml"
    await asyncio.to_thread(path.unlink)
    await engine.reload()
    assert [each.status for each in await engine.check_lock(["one"])] == ["gone"]


async def test_groups(olga: Client, engine: ToolEngine) -> None:
    """A group waits as a tool does, and is approved under its name with its kind."""
    await engine.lock_tools()
    await write(engine, GROUP.format(rules="Be kind."), "web.yaml")
    (group,) = (await olga.get("/v1/lock")).json["items"]
    assert (group["name"], group["kind"], group["reason"]) == ("group:web", "group", "new")
    assert "Be kind." in (await olga.get("/v1/lock/group:web")).json["yaml"]
    body = {"names": {"group:web": group["fingerprint"]}}
    changes = (await olga.send("POST", "/v1/lock", json=body)).json
    assert (await olga.get("/v1/lock")).json["items"] == []
    assert changes["groups_modified"] == ["web"] or changes["groups_added"] == ["web"]


async def test_a_lock_file_that_is_broken(olga: Client, engine: ToolEngine) -> None:
    """It is said with its cure, and what it holds back is listed; nothing can be approved."""
    lock = Path(f"{engine.config.tools_directory}.lock")
    await asyncio.to_thread(lock.write_text, "<<<<<<< ours")
    await engine.reload()
    found = (await olga.get("/v1/lock")).json
    assert "is no lock file" in found["problem"]
    assert [(each["name"], each["fingerprint"]) for each in found["items"]] == [("one", None)]
    refused = await olga.send("POST", "/v1/lock", json={"names": {"one": "x"}})
    assert refused.status == 409
    assert await asyncio.to_thread(lock.read_text) == "<<<<<<< ours"


async def test_what_was_approved_is_not_known(olga: Client, engine: ToolEngine) -> None:
    """After a restart only the hash is: the whole is shown, and that there is no diff."""
    await engine.lock_tools()
    text = tool("one", "2.0.0", "Other.")
    path = Path(engine.config.tools_directory) / "one.yaml"
    await asyncio.to_thread(path.write_text, text)
    async with ToolEngine(engine.config) as other:
        tokens = await asyncio.to_thread(write_tokens, path.parent.parent / "t.json")
        app = await asyncio.to_thread(create_app, other, auth=str(tokens))
        async with served(app) as service:
            seen = (await service.client("olga").get("/v1/lock/one")).json
    assert (seen["is_approved_known"], seen["diff"], seen["reason"]) == (False, None, "changed")
    assert "Other." in seen["yaml"]


async def test_others(service: Service, ann: Client, olga: Client) -> None:
    for method, path in (("GET", "/v1/lock"), ("GET", "/v1/lock/one"), ("POST", "/v1/lock")):
        assert (await ann.send(method, path)).kind == "not-allowed"
    assert (await olga.get("/v1/lock/none")).kind == "unknown-definition"
    assert (await olga.send("POST", "/v1/lock", json={"names": {}})).status == 422


class TestOff:
    """Without a lock nothing waits."""

    @pytest.fixture
    async def engine(self, tmp_path: Path) -> AsyncIterator[ToolEngine]:
        (tmp_path / "tools").mkdir()
        (tmp_path / "tools" / "one.yaml").write_text(tool("one"))
        async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path / "tools"))) as engine:
            yield engine

    async def test_nothing_waits(self, olga: Client) -> None:
        found = (await olga.get("/v1/lock")).json
        assert (found["is_enforced"], found["items"]) == (False, [])
