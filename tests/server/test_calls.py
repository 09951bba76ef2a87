"""How does a client call a tool, and see and end what it has called?"""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import SCOPES, Client, Service, served, write_tokens
from tool_engine import ConcurrencyConfig, ToolEngine, ToolExecutionContext, ToolExecutionResult
from tool_engine.server import create_app, results

BOUND = 10.0


def read_events(text: str) -> list[tuple[str, Any]]:
    """The events of a stream that has ended."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "event" in lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


async def start_endless(engine: ToolEngine, client: Client) -> tuple[str, asyncio.Task[Any]]:
    """A call that runs, and its id."""
    known = {each.call_id for each in await engine.calls.list()}
    task = asyncio.create_task(client.call("endless"))
    async with asyncio.timeout(BOUND):
        while not (new := {each.call_id for each in await engine.calls.list()} - known):  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
    return new.pop(), task


async def until_empty(engine: ToolEngine) -> None:
    async with asyncio.timeout(BOUND):
        while await engine.calls.list():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)


async def test_a_result(ann: Client, engine: ToolEngine) -> None:
    """The answer is the result, and the record has who called."""
    answer = await ann.call("add", a=1, b=2)
    assert answer.status == 200
    assert (answer.json["is_success"], answer.json["output"]) == (True, {"result": 3})
    (record,) = await engine.query_call_records()
    assert (record.caller_id, record.caller_type) == ("ann", "http")
    assert record.call_id == answer.json["metadata"]["call_id"]


async def test_a_failure_is_a_result(ann: Client) -> None:
    """What a tool or its caller gets wrong is no misuse of the API."""
    answer = await ann.call("add", a="one", b=2)
    assert answer.status == 200
    assert answer.json["error_type"] == "validation_error"
    assert answer.json["validation_errors"][0]["parameter"] == "a"


async def test_what_a_call_may_say(ann: Client, engine: ToolEngine) -> None:
    """Conversation, priority and timeout reach the call."""
    body = {"timeout": 0.05, "conversation_id": "talk", "priority": 7.0}
    answer = await ann.send("POST", "/v1/tools/endless/calls", json=body)
    assert answer.json["error_type"] == "timeout"
    (record,) = await engine.query_call_records()
    assert (record.conversation_id, record.priority) == ("talk", 7)


@pytest.mark.parametrize("headers", [{}, {"prefer": "respond-async"}, {"idempotency-key": "k"}])
async def test_a_right_to_priority(service: Service, headers: dict[str, str]) -> None:
    """A token asks for what its entry allows, or less, or what its tool has; olga operates."""
    for name, least in (("ann", 5), ("early", 3), ("olga", 0)):
        client, path = service.client(name), "/v1/tools/add/calls"
        for priority in range(10):
            body = {"arguments": {"a": 1, "b": 2}, "priority": priority}
            sent = {"idempotency-key": f"k{priority}"} if "idempotency-key" in headers else headers
            answer = await client.send("POST", path, json=body, headers=sent)
            if priority >= least:
                assert answer.status < 300, answer.text
            else:
                assert (answer.status, answer.kind) == (403, "priority-not-allowed")
                assert f"from {least} to 9, not for {priority}" in answer.json["detail"]


async def test_the_priority_of_a_tool_is_anyones(engine: ToolEngine, service: Service) -> None:
    """What a call has that asks for nothing may be asked for, and what is less urgent."""
    definition = {"name": "fire", "description": "Rings", "concurrency": {"priority": 1}}
    engine.register_tool(definition, lambda: None)
    for priority, status in ((0, 403), (1, 200), (3, 200)):
        path, ann = "/v1/tools/fire/calls", service.client("ann")
        assert (await ann.send("POST", path, json={"priority": priority})).status == status


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"{", 400, "the body is no JSON"),
        (b"", 400, "the body is no JSON"),
        (b'{"arguments": {"a": 1, "a": 2}}', 400, "the key 'a' stands twice"),
        (b'{"arguments": NaN}', 400, "NaN is no JSON number"),
        (b"\xff", 400, "the body is no UTF-8"),
        (b'{"arguments": {"a": "\\ud800"}}', 400, "half of a surrogate pair is no character"),
        (b'{"conversation_id": "\\uDFFF\\uD83D"}', 400, "half of a surrogate pair"),
        (b'{"arguments": {"\\udc00": 1}}', 400, "half of a surrogate pair"),
        (b'{"arguments": {"a": ' + b"9" * 5000 + b"}}", 400, "a number has too many digits; write"),
        (b"[]", 422, "Expected `object`, got `array`"),
        (b'{"args": {}}', 422, "unknown field `args`"),
        (b'{"arguments": [1]}', 422, "Expected `object`, got `array`"),
        (b'{"timeout": -1}', 422, "Expected `float` > 0"),
        (b"[" * 100_000, 400, "the body"),
    ],
)
async def test_a_body_that_cannot_be_read(
    ann: Client, engine: ToolEngine, body: bytes, status: int, says: str
) -> None:
    """It is refused before anything runs."""
    headers = {"content-type": "application/json"}
    answer = await ann.send("POST", "/v1/tools/add/calls", data=body, headers=headers)
    assert answer.status == status
    assert says in answer.json["detail"]
    assert await engine.query_call_records() == []


async def test_letters_of_two_halves(ann: Client) -> None:
    """A whole pair, as JavaScript writes it, is one letter."""
    headers = {"content-type": "application/json"}
    body = b'{"arguments": {"text": "\\ud83d\\ude00"}}'
    answer = await ann.send("POST", "/v1/tools/note/calls", data=body, headers=headers)
    assert answer.json["output"] == {"result": "\U0001f600"}


async def test_a_text_that_is_none(ann: Client, olga: Client, engine: ToolEngine) -> None:
    """What a program of the engine's has given is shown, and stops no list."""
    context = ToolExecutionContext(caller_id="ann", conversation_id="c\ud800")
    task = asyncio.create_task(engine.execute("endless", {}, context))
    async with asyncio.timeout(BOUND):
        while not (found := (await olga.get("/v1/calls")).json["items"]):
            pass
        assert found[0]["conversation_id"] == r"c\ud800"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for path in ("/v1/records", f"/v1/calls/{found[0]['call_id']}"):
            assert r"c\\ud800" in (await ann.get(path)).text


async def test_a_stream(ann: Client, engine: ToolEngine) -> None:
    """What happens to a call is told as it happens, and the result comes last."""
    headers = {"accept": "text/event-stream"}
    body = {"timeout": 0.05}
    answer = await ann.send("POST", "/v1/tools/endless/calls", json=body, headers=headers)
    assert answer.headers["content-type"] == "text/event-stream"
    events = read_events(answer.text)
    assert [name for name, _ in events] == [
        "execution_started",
        "execution_progress",
        "result",
    ]
    assert events[1][1]["data"]["done"] == 1
    assert events[-1][1]["error_type"] == "timeout"
    assert {each["call_id"] for _, each in events[:-1]} == {events[-1][1]["metadata"]["call_id"]}
    quick = await ann.send(
        "POST", "/v1/tools/add/calls", json={"arguments": {"a": 1, "b": 2}}, headers=headers
    )
    assert read_events(quick.text)[-1][1]["output"] == {"result": 3}


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_client_that_leaves(ann: Client, engine: ToolEngine, accept: str) -> None:
    """Its call is cancelled: no slot is held for those who do not wait."""
    headers = {"accept": accept}
    task = asyncio.create_task(
        ann.send("POST", "/v1/tools/endless/calls", json={}, headers=headers)
    )
    async with asyncio.timeout(BOUND):
        while not await engine.calls.list():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await until_empty(engine)
    (record,) = await engine.query_call_records()
    assert record.error == "the caller cancelled the call"
    assert engine.controller.snapshot().held == []


async def test_own_calls(service: Service, ann: Client, engine: ToolEngine) -> None:
    """A call can be seen, explained and ended by its principal; others find none."""
    bob = service.client("bob")
    engine.controller.configure(ConcurrencyConfig(max_concurrent=1))
    first, running = await start_endless(engine, ann)
    second, waiting = await start_endless(engine, bob)

    assert [each["call_id"] for each in (await ann.get("/v1/calls")).json["items"]] == [first]
    assert (await ann.get(f"/v1/calls/{first}")).json["state"] == "running"
    assert (await bob.get(f"/v1/calls/{second}/explanation")).json["state"] == "waiting"
    for path in (f"/v1/calls/{second}", f"/v1/calls/{second}/explanation", "/v1/calls/none"):
        answer = await ann.get(path)
        shown = second if second in path else "none"
        words = answer.json["detail"].partition("; see GET /v1/calls")
        assert words[:2] == (f"there is no call {shown!r}", "; see GET /v1/calls")
    assert (await ann.send("DELETE", f"/v1/calls/{second}")).status == 404

    ended = await bob.send("DELETE", f"/v1/calls/{second}?reason=enough")
    assert ended.json == {"is_cancelled": True}
    assert (await waiting).json["error"] == "the call was cancelled from outside: enough"
    assert (await ann.send("DELETE", f"/v1/calls/{first}")).json == {"is_cancelled": True}
    assert (await running).json["error_type"] == "cancelled"

    gone = (await ann.get(f"/v1/calls/{first}")).json
    assert (gone["state"], gone["record"]["error_type"]) == ("ended", "cancelled")
    assert (await ann.send("DELETE", f"/v1/calls/{first}")).json == {"is_cancelled": False}
    assert (await bob.get(f"/v1/calls/{first}")).status == 404


async def test_calls_of_others_have_no_names(
    service: Service, ann: Client, olga: Client, engine: ToolEngine
) -> None:
    """Behind how many a call waits is said, and their ids only of one's own."""
    config = ConcurrencyConfig(max_concurrent=1, strategy="fair")
    engine.controller.configure(config)
    bob = service.client("bob")
    started = [await start_endless(engine, client) for client in (ann, ann, bob, bob)]
    first, second, third, fourth = (call_id for call_id, _ in started)
    of_ann, of_bob = {first, second}, {third, fourth}
    async with asyncio.timeout(BOUND):
        while len(engine.controller.snapshot().waiting) < 3:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
    tasks = [
        await client.send(
            "POST", "/v1/tools/endless/calls", json={}, headers={"prefer": "respond-async"}
        )
        for client in (ann, bob)
    ]
    for client, own, others, task in (
        (ann, of_ann, of_bob, tasks[0]),
        (bob, of_bob, of_ann, tasks[1]),
    ):
        shown = [(await client.get("/v1/admission")).text, (await client.get("/v1/tasks")).text]
        shown.append((await client.get(f"/v1/tasks/{task.json['id']}")).text)
        for call_id in own:
            shown.append((await client.get(f"/v1/calls/{call_id}/explanation")).text)
            shown.append((await client.get(f"/v1/calls/{call_id}/events")).text)
        assert [each for each in others for text in shown if each in text] == []
    told = (await bob.get(f"/v1/calls/{fourth}/explanation")).json
    assert (told["holders"], len(told["ahead"])) == (["another call"], told["position"] - 1)
    assert set(told["ahead"]) <= {"another call", *of_bob}
    whole = (await olga.get(f"/v1/calls/{fourth}/explanation")).json
    assert whole["holders"] == [first]
    assert "another call" not in str(whole)
    for call_id, _ in started:
        await olga.send("DELETE", f"/v1/calls/{call_id}")
    for task in tasks:
        await olga.send("DELETE", f"/v1/tasks/{task.json['id']}")
    await asyncio.gather(*(task for _, task in started))


async def test_a_shared_run_of_another(service: Service, ann: Client, engine: ToolEngine) -> None:
    """Who leads it has no name for who follows."""

    @engine.tool(effect="read", concurrency={"key": "params", "collision": "single_flight"})
    async def one_run() -> None:
        """Run once."""
        await asyncio.Event().wait()

    calls = [asyncio.create_task(client.call("one_run")) for client in (ann, service.client("bob"))]
    async with asyncio.timeout(BOUND):
        while len(found := await engine.calls.list()) < 2:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
    leader, follower = sorted(found, key=lambda each: each.state == "sharing")
    client = service.client(follower.caller_id)
    told = (await client.get(f"/v1/calls/{follower.call_id}/explanation")).json
    assert (told["state"], told["holders"]) == ("sharing", ["another call"])
    assert leader.call_id not in str(told)
    for each in (follower, leader):
        await engine.calls.cancel(each.call_id)
    await asyncio.gather(*calls)


async def test_what_happened_to_a_call(service: Service, ann: Client, engine: ToolEngine) -> None:
    """Its events are there, while it runs and later; those of others are not."""
    call_id, running = await start_endless(engine, ann)
    await ann.call("add", a=1, b=2)
    path = f"/v1/calls/{call_id}/events"
    found = (await ann.get(path)).json
    assert found["is_kept"] is True
    assert [each["event_type"] for each in found["items"]] == ["execution_started"]
    await ann.send("DELETE", f"/v1/calls/{call_id}")
    await running
    for client in (ann, service.client("olga")):
        items = (await client.get(path)).json["items"]
        assert [each["event_type"] for each in items] == [
            "execution_started",
            "execution_cancelled",
        ]
        assert items[1]["error"].startswith("the call was cancelled")
    assert len((await ann.get(f"{path}?limit=1")).json["items"]) == 1
    for client, asked in ((service.client("bob"), path), (ann, "/v1/calls/none/events")):
        assert (await client.get(asked)).kind == "unknown-call"


async def test_what_happened_where_nothing_is_kept(tmp_path: Path) -> None:
    """The answer says that there is nothing to show."""
    async with ToolEngine() as engine:
        engine.tool(_nothing)
        app = await asyncio.to_thread(create_app, engine, auth=str(write_tokens(tmp_path / "t")))
        async with served(app) as service:
            ann = service.client("ann")
            call_id = (await ann.call("_nothing")).json["metadata"]["call_id"]
            found = await ann.get(f"/v1/calls/{call_id}/events")
    assert found.json == {"items": [], "is_kept": False}


async def _nothing() -> None:
    """Do nothing."""


async def test_slots_of_tools_that_a_token_is_not_for(
    ann: Client, olga: Client, engine: ToolEngine, tmp_path: Path
) -> None:
    """They are in no list, also not in those of one that operates."""
    tokens = write_tokens(tmp_path / "few.json", {"max": {"scopes": SCOPES, "tools": ["add"]}})
    app = await asyncio.to_thread(create_app, engine, auth=str(tokens))
    call_id, task = await start_endless(engine, ann)
    async with served(app) as other:
        assert len((await olga.get("/v1/admission")).json["held"]) == 1
        answer = await other.client("max").get("/v1/admission")
        assert answer.json["held"] == []
        assert "endless" not in answer.text
    await olga.send("DELETE", f"/v1/calls/{call_id}")
    await task


async def test_one_that_operates_sees_all(ann: Client, olga: Client, engine: ToolEngine) -> None:
    """The calls of all, to see and to end."""
    call_id, task = await start_endless(engine, ann)
    assert [each["caller_id"] for each in (await olga.get("/v1/calls")).json["items"]] == ["ann"]
    assert (await olga.send("DELETE", f"/v1/calls/{call_id}")).json == {"is_cancelled": True}
    assert (await task).json["error"].endswith("olga wished so")


async def test_consent_over_the_api(service: Service, ann: Client) -> None:
    """A call waits for consent until one that may approve has answered."""
    asker = service.client("asker")
    calls = [asyncio.create_task(ann.call("pay", amount=each)) for each in (1, 2)]
    async with asyncio.timeout(BOUND):
        while len(items := (await asker.get("/v1/approvals")).json["items"]) < 2:  # noqa: ASYNC110 - the same
            await asyncio.sleep(0)
    told = (await ann.get(f"/v1/calls/{items[0]['call_id']}/explanation")).json
    assert (told["state"], told["waited"] > 0) == ("asking", True)
    assert f"{items[0]['call_id']}: it waits for consent" in told["text"]
    by_amount = {each["arguments"]["amount"]: each for each in items}
    assert {each["principal"] for each in items} == {"ann"}
    assert (await ann.get("/v1/approvals")).status == 403

    first, second = (f"/v1/approvals/{by_amount[each]['token']}" for each in (1, 2))
    stale = {"is_allowed": True, "definition_hash": "other"}
    assert (await asker.send("POST", first, json=stale)).kind == "changed-meanwhile"
    allowed = await asker.send("POST", first, json={"is_allowed": True})
    assert (allowed.status, allowed.json["by"]) == (200, "asker")
    refusal = {"is_allowed": False, "reason": "too much"}
    assert (await asker.send("POST", second, json=refusal)).status == 200
    results = [(await each).json for each in calls]
    assert results[0]["output"] == {"result": "paid 1"}
    assert "too much" in results[1]["error"]
    kept = (await service.client("olga").get("/v1/records")).json["items"]
    assert [each["decided_by"] for each in kept] == ["asker"] * 2
    told = (await ann.get(f"/v1/calls/{by_amount[1]['call_id']}/explanation")).json
    assert (told["state"], told["reason"]) == ("ended", "it has ended: succeeded")
    again = await asker.send("POST", first, json={"is_allowed": True})
    assert (again.status, again.kind) == (404, "unknown-open-request")


async def test_consent_is_for_one_principal(
    service: Service, engine: ToolEngine, ann: Client, olga: Client
) -> None:
    """What was allowed once to one holds for no other, whatever conversation it names."""

    @engine.tool(permission="ask_once")
    async def pay_once(amount: int) -> str:
        """Pay.

        Args:
            amount: How much.
        """
        return f"paid {amount}"

    body = {"arguments": {"amount": 5}, "conversation_id": "c1"}

    async def pay(client: Client, *, is_asked: bool) -> str:
        task = asyncio.create_task(client.send("POST", "/v1/tools/pay_once/calls", json=body))
        if is_asked:
            while not (waiting := await engine.approvals.pending()):  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0)
            assert waiting[0].principal == client.headers["authorization"].rpartition("-")[2]
            path = f"/v1/approvals/{waiting[0].token}"
            await olga.send("POST", path, json={"is_allowed": True})
        return str((await task).json["output"]["result"])

    async with asyncio.timeout(BOUND):
        assert await pay(ann, is_asked=True) == "paid 5"
        assert await pay(ann, is_asked=False) == "paid 5"
        assert await pay(service.client("bob"), is_asked=True) == "paid 5"


async def test_a_client_that_leaves_while_it_is_asked(
    service: Service, ann: Client, engine: ToolEngine
) -> None:
    """Nobody is asked any more about a call whose client has left."""
    task = asyncio.create_task(ann.call("pay", amount=1))
    async with asyncio.timeout(BOUND):
        while not await engine.approvals.pending():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        while await engine.approvals.pending():  # noqa: ASYNC110 - the same
            await asyncio.sleep(0)
    (record,) = await engine.query_call_records()
    assert record.error_type == "cancelled"


async def test_a_long_result_is_written_in_a_thread(
    ann: Client, engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds up no other request."""
    threads = []
    write = results._write_whole

    def note_thread(result: ToolExecutionResult) -> bytes:
        threads.append(threading.current_thread())
        return write(result)

    monkeypatch.setattr(results, "_write_whole", note_thread)
    rows = [{"id": number} for number in range(20_000)]
    engine.tool(name="rows", description="Gives rows.")(lambda: rows)
    answer = await ann.call("rows")
    assert answer.json["output"] == {"result": rows}
    assert threads
    assert threading.main_thread() not in threads


async def test_what_is_asked_for_calls_of_others(
    service: Service, ann: Client, engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As much as for one that never was, so that the time says nothing."""
    bob = service.client("bob")
    ended = (await ann.call("add", a=1, b=2)).json["metadata"]["call_id"]
    (record,) = await engine.query_call_records(call_id=ended)
    alive, task = await start_endless(engine, ann)
    query, asked = engine.query_call_records, []

    async def note(**filters: Any) -> Any:
        found = await query(**filters)
        asked.append((filters["caller_id"], found))
        return found

    monkeypatch.setattr(engine, "query_call_records", note)
    paths = [f"calls/{each}" for each in (ended, alive, f"{ended}0")]
    paths += [f"records/{each}" for each in (record.record_id, f"{record.record_id}0")]
    for path in paths:
        asked.clear()
        answer = await bob.get(f"/v1/{path}")
        assert answer.status == 404
        shown = path.rpartition("/")[2]
        words = answer.json["detail"].partition("; ")[0]
        assert words == f"there is no {path.partition('s/')[0]} {shown!r}"
        assert asked == [("bob", [])]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
