"""What does a client learn of the calls that have ended?"""

from __future__ import annotations

from tests.server.conftest import Client, Service
from tool_engine import ToolEngine, ToolExecutionContext
from tool_engine.server.paging import make_cursor


async def test_own_records(service: Service, ann: Client, olga: Client) -> None:
    """Each has its own; one that operates has all, and may ask for those of one."""
    bob = service.client("bob")
    for client, number in ((ann, 1), (bob, 2), (ann, 3)):
        await client.call("add", a=number, b=0)
    mine = (await ann.get("/v1/records")).json
    assert [each["params"]["a"] for each in mine["items"]] == [3, 1]
    assert (await ann.get("/v1/records?caller_id=bob")).json == {"items": [], "next": None}
    assert len((await olga.get("/v1/records")).json["items"]) == 3
    assert len((await olga.get("/v1/records?caller_id=bob")).json["items"]) == 1
    assert (await ann.get("/v1/statistics")).json["total_records"] == 2
    assert (await ann.get("/v1/statistics?caller_id=bob")).json["total_records"] == 0
    assert (await ann.get("/v1/statistics")).json["by_process"] == {}
    (found,) = (await ann.get("/v1/statistics?by_process=true")).json["by_process"].values()
    assert (found["total"], found["failed"]) == (2, 0)

    theirs = (await bob.get("/v1/records")).json["items"][0]["record_id"]
    assert (await bob.get(f"/v1/records/{theirs}")).json["params"] == {"a": 2, "b": 0}
    for record_id in (theirs, "none"):
        answer = await ann.get(f"/v1/records/{record_id}")
        words = answer.json["detail"].partition("; see GET /v1/records")
        assert words[:2] == (f"there is no record {record_id!r}", "; see GET /v1/records")


async def test_pages(ann: Client) -> None:
    """Each record stands on one page, the newest first."""
    for number in range(5):
        await ann.call("add", a=number, b=0)
    found, cursor = [], ""
    while True:
        page = (await ann.get(f"/v1/records?limit=2{cursor}")).json
        found += [each["params"]["a"] for each in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert found == [4, 3, 2, 1, 0]


async def test_cursors_that_are_none(service: Service, ann: Client) -> None:
    """That of another's record is as unknown as one that was never given."""
    bob = service.client("bob")
    for number in range(2):
        await bob.call("add", a=number, b=0)
    theirs = (await bob.get("/v1/records?limit=1")).json["next"]
    assert (await bob.get(f"/v1/records?cursor={theirs}")).status == 200
    for cursor in (theirs, make_cursor("none"), "!", "nix"):
        answer = await ann.get(f"/v1/records?cursor={cursor}")
        assert (answer.status, answer.kind) == (404, "unknown-cursor")


async def test_filters(ann: Client) -> None:
    """What is asked for is what comes; a time without a zone is none."""
    await ann.call("add", a=1, b=0)
    await ann.call("add", a="x", b=0)
    failed = (await ann.get("/v1/records?outcome=failed")).json["items"]
    assert [each["error_type"] for each in failed] == ["validation_error"]
    assert (await ann.get("/v1/records?tool_name=null")).json["items"] == []
    assert (await ann.get("/v1/records?start=2026-01-01T00:00:00")).status == 400
    assert (await ann.get("/v1/records?start=2026-01-01T00:00:00Z")).status == 200
    late = "/v1/records?start=2030-01-01T00:00:00Z&end=2029-01-01T00:00:00Z"
    assert (await ann.get(late)).kind == "not-possible"


async def test_calls_of_a_call(ann: Client, engine: ToolEngine) -> None:
    """What a tool has called is found by the call that it had."""

    @engine.tool(effect="read")
    async def both(context: ToolExecutionContext) -> int:
        """Add two times."""
        await engine.execute("add", {"a": 1, "b": 1}, context)
        return 2

    await ann.call("both")
    (mine,) = (await ann.get("/v1/records?tool_name=both")).json["items"]
    (below,) = (await ann.get(f"/v1/records?parent_call_id={mine['call_id']}")).json["items"]
    assert below["tool_name"] == "add"
    again = (await ann.get(f"/v1/records?call_id={below['call_id']}")).json["items"]
    assert again == [below]


async def test_a_long_result(ann: Client, engine: ToolEngine) -> None:
    """A record has its beginning; what is kept of it is there for one that asks for it."""
    text = "long " * 100_000

    async def tell() -> str:
        return text

    engine.register_tool(
        {"name": "tell", "description": "Tell.", "result": {"max_chars": 1000}}, tell
    )
    await ann.call("tell")
    (shown,) = (await ann.get("/v1/records")).json["items"]
    assert "_truncated" in shown["result"]
    path = f"/v1/records/{shown['record_id']}"
    assert (await ann.get(path)).json == shown
    assert (await ann.get(f"{path}?whole=true")).json["result"] == {"result": text}


async def test_admission(ann: Client, olga: Client) -> None:
    """Sums are for all, single calls for their own."""
    await ann.call("add", a=1, b=0)
    for client in (ann, olga):
        seen = (await client.get("/v1/admission")).json
        assert seen["metrics"]["total_acquired"] == 1
        assert seen["held"] == seen["waiting"] == []
