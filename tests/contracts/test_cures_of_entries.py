"""What an error of an HTTP, SQL or workflow tool says to do is done, and the tool works.

A row is a definition with the arguments of one call, twice: as it fails, and as its message wants
it. What an endpoint answers is asked for in its URL. `test_cures_of_errors` reads which cures there
are; those that need more than a definition, a call and a web server have a test of their own below.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from tests.calls.virtual_loop import VirtualLoop
from tests.contracts.test_cures_of_errors import names_cure
from tests.executors.sql.conftest import Shop
from tests.postgres import PostgresServer
from tool_engine import ToolEngine, ToolEngineConfig, ToolEngineError, ToolExecutionContext
from tool_engine.executors.http import decompression as decoding

KINDS = {str: "string", int: "integer", list: "array", dict: "object", type(None): "string"}
SITE = "127.0.0.1:PORT"
"""The web server; its port is known when the test runs."""
NAMED = "localhost:PORT"
SQL_LIMIT = 100_000


class Try(NamedTuple):
    """An entry, and one call of the tool that has it; a parameter that is None is left out."""

    entry: dict[str, Any]
    params: dict[str, Any]


def site(path: str = "/", /, *allow: str, base: str = f"http://{SITE}", **more: Any) -> Try:
    """A tool that asks the web server; `response` and `params` go where they belong."""
    response, params = more.pop("response", None), more.pop("params", {})
    entry: dict[str, Any] = {"type": "http", "request": {"url": base + path, **more}}
    if response is not None:
        entry["response"] = response
    return Try({**entry, "allow": [SITE, *allow]}, params)


def order(key: Any = None, **params: Any) -> Try:
    """A tool that orders something, at most once for each key."""
    keys = {} if key is None else {"idempotency_key": key}
    return site(method="POST", params=params, **keys)


def paged(path: str, items: str = "items", **plan: Any) -> Try:
    """A tool that reads the pages of an answer."""
    return site(path, response={"pages": {"next": "next", "items": items, **plan}})


def signed(path: str, *allow: str, host: str = SITE) -> Try:
    """A tool that fetches an access token from an endpoint."""
    client = {"client_id": "me", "client_secret": "${env:CURE_SECRET}"}
    return site("/", *allow, auth={"type": "oauth2", "token_url": f"http://{host}{path}", **client})


def asked(url: str, **headers: str) -> Try:
    """A call that says itself which URL it wants."""
    entry = {"type": "builtin", "handler": "http_request", "allow": ["127.0.0.1:*"]}
    return Try(entry, {"url": url, "headers": headers} if headers else {"url": url})


def query(sql: str, source: str = "shop", **params: Any) -> Try:
    """A tool that reads a database."""
    return Try({"type": "builtin", "handler": "sql_query", "sql": sql, "source": source}, params)


def flow(*steps: dict[str, Any], **params: Any) -> Try:
    """A workflow whose steps are called s0, s1 and so on."""
    named = [{"id": f"s{number}", "tool": "say", **step} for number, step in enumerate(steps)]
    return Try({"type": "workflow", "steps": named}, params)


def when(condition: str, **params: Any) -> Try:
    """A workflow with one step under a condition."""
    return flow({"if": condition}, **params)


def said(text: str, **params: Any) -> Try:
    """A workflow that passes a text on."""
    return flow({"params": {"text": text}}, **params)


TEXT = {"name": "text", "type": "string", "description": "A text"}
SAY = {"name": "say", "description": "Says it.", "parameters": [TEXT]}
BASIC = {"type": "basic", "password": "${env:CURE_SECRET}"}
HTTP = [
    ("addresses.py: a port is between 1 and 65535",
     site("/", "10.0.0.5:70000"), site("/", "10.0.0.5:7000")),
    (("addresses.py: write '127.0.0.1:8080', '*.corp.example:443', '10.0.0.5:*' or "
      "'[::1]:8080'"), site("/", "10.0.0.0/8"), site("/", "10.0.0.5:*")),
    ("addresses.py: write …", site("/", "http://10.0.0.5:80/x"), site("/", "10.0.0.5:80")),
    ("addresses.py: write it as in '10.0.0.5:8080' or '[::1]:8080'",
     site("/", "10.5:8080"), site("/", "10.0.0.5:8080")),
    ("auth.py: correct the user name",
     site(auth={**BASIC, "username": "${env:CURE_COLON}"}),
     site(auth={**BASIC, "username": "${env:CURE_USER}"})),
    ("body.py: ask for less", site("/lists?count=200001", response="length(@)"),
     site("/lists?count=10", response="length(@)")),
    ("decompression.py: ask for gzip, deflate or br",
     site(headers={"Accept-Encoding": "zstd"}), site(headers={"Accept-Encoding": "gzip"})),
    ("decompression.py: at most one is decoded",
     site(headers={"Accept-Encoding": "gzip, gzip"}), site(headers={"Accept-Encoding": "gzip"})),
    ("decompression.py: run pip install 'tool-engine[brotli]', or ask for gzip",
     site(headers={"Accept-Encoding": "br"}), site(headers={"Accept-Encoding": "gzip"})),
    ("http_executor.py: give the final URL", site("/turns"), site("/")),
    ("http_executor.py: the whole is needed", site("/part"), site("/")),
    ("idempotency.py: leave it out to send none", order(False), order()),
    ("idempotency.py: remove it", order("${env:CURE_SECRET}-{call_id}"), order("{call_id}")),
    ("idempotency.py: the most is …", order("{q}", q="x" * 300), order("{q}", q="x" * 255)),
    ("idempotency.py: write {…} or a parameter into it", order("first"), order("first-{call_id}")),
    ("pages.py: it is not followed",
     paged("/pages?next=http://other.example/"), paged("/pages?next=/pages")),
    ("pages.py: the most is …", paged("/pages?next=" + "x" * 5000, cursor_param="from"),
     paged("/pages?next=" + "x" * 50, cursor_param="from")),
    ("pages.py: where the server leaves out an empty list, write 'the.path || `[]`'",
     paged("/pages", "the.path"), paged("/pages", "the.path || `[]`")),
    ("request.py: the most is …",
     site("/{q}", params={"q": "x" * 9000}), site("/{q}", params={"q": "x" * 8000})),
    ("template.py: write a parameter as {name}, and percent-encode what is none",
     site("/a {{ q }}", params={"q": "x"}), site("/a%20{q}", params={"q": "x"})),
    ("template.py: write https://…", site("/a", base=SITE), site("/a")),
    ("template.py: write the whole address, its host too", site("/a", base=""), site("/a")),
    ("template.py: put a '/' or '?' before the first one",
     site("{q}", params={"q": "x"}), site("/{q}", params={"q": "x"})),
    ("template.py: put only scheme, host, port and path into the environment variable",
     site("/a", base="${env:CURE_QUERY}"), site("/a", base="${env:CURE_PATH}")),
    ("template.py: set it to an address with its scheme",
     site("/a", base="${env:CURE_BARE}"), site("/a", base="${env:CURE_PATH}")),
    ("token.py: check entry.request.auth.token_url", signed("/"), signed("/token")),
    ("token.py: only Bearer is known", signed("/token?type=mac"), signed("/token")),
    ("token.py: write https:// into entry.request.auth.token_url, or list it in entry.allow",
     signed("/token", host=NAMED), signed("/token", NAMED, host=NAMED)),
    ("token.py: write the final URL into entry.request.auth.token_url",
     signed("/turns"), signed("/token")),
    ("url.py: percent-encode it", asked(f"http://{SITE}/a b"), asked(f"http://{SITE}/a%20b")),
    ("url.py: send an Authorization header",
     asked(f"http://me:it@{SITE}/"), asked(f"http://{SITE}/", Authorization="Basic bWU6aXQ=")),
    ("url.py: the most is …",
     asked(f"http://{SITE}/" + "x" * 9000), asked(f"http://{SITE}/" + "x" * 8000)),
    ("url.py: write four decimal numbers, such as 93.184.215.14",
     asked("http://127.1:PORT/"), asked(f"http://{SITE}/")),
]  # fmt: skip
SQL = [
    ("sql_executor.py: a call does not choose a database",
     query("SELECT 1", "chosen"), query("SELECT 1")),
    ("sql_executor.py: send it without",
     query("SELECT :q AS q", q="lamp\0"), query("SELECT :q AS q", q="lamp")),
    ("sqlite.py: send a shorter one", query("SELECT 1 WHERE 'a' LIKE :q", q="%a" * 600),
     query("SELECT 1 WHERE 'a' LIKE :q", q="%a" * 6)),
    ("sqlite.py: whole numbers go from -2**63 to 2**63 - 1",
     query("SELECT :q AS q", q=2**63), query("SELECT :q AS q", q=2**63 - 1)),
    ("statement.py: a tool runs one", query("SELECT 1; SELECT 2"), query("SELECT 1;")),
    ("statement.py: put what is long into a view of the database",
     query(f"SELECT '{'x' * SQL_LIMIT}' AS x"), query("SELECT x FROM long")),
    ("statement.py: remove it", query("SELECT 1\0"), query("SELECT 1")),
    ("statement.py: remove one", query("SELECT /* a /* b */ 1"), query("SELECT /* a */ 1")),
    ("statement.py: write a value's place as :name",
     query("SELECT ?1 AS q", q="a"), query("SELECT :q AS q", q="a")),
    ("statement.py: write one, such as SELECT name FROM shops",
     query("-- all of them"), query("SELECT name FROM shops")),
]  # fmt: skip
WORKFLOW = [
    ("evaluation.py: compare it, such as … != null",
     when("params.q", q="a"), when("params.q != null", q="a")),
    ("evaluation.py: got … in …", when("'a' in params.q", q=5), when("'a' in params.q", q=["a"])),
    ("evaluation.py: it compares two numbers or two texts",
     when("params.q > '4'", q=5), when("params.q > 4", q=5)),
    *(
        (("expression.py: a reference begins with params, steps, item or index, such as params.… "
          "or steps.….output, and a text stands in quotes, such as '…'"), wrong, right)
        for wrong, right in (
            (said("${q}", q="a"), said("${params.q}", q="a")),
            (flow({}, {"params": {"text": "a ${s0.output}"}}),
             flow({}, {"params": {"text": "a ${steps.s0.output}"}})),
        )
    ),
    ("expression.py: did you mean 'params'?",
     said("${inputs.q}", q="a"), said("${params.q}", q="a")),
    ("expression.py: the tool that needs a secret takes it in its own entry",
     said("${env:CURE_SECRET}"), flow({"tool": "keyed"})),
    ("expression.py: write the reference without quotes",
     when("'${params.q}' == 'a'", q="a"), when("params.q == 'a'", q="a")),
    ("workflow_executor.py: ask for less, or lower the limits of its for_each",
     flow(*({"for_each": "${params.q}", "limit": 600},) * 2, q=[0] * 600),
     flow(*({"for_each": "${params.q}", "limit": 600},) * 2, q=[0] * 5)),
    ("workflow_executor.py: raise limit or ask for less",
     flow({"for_each": [1, 2], "limit": 1}), flow({"for_each": [1, 2], "limit": 2})),
    ("template.py: the most is …", said("${params.q}" * 11, q="x" * 1_000_000),
     said("${params.q}" * 10, q="x" * 1_000_000)),
    ('template.py: write what stands for it behind ??, such as ?? ""',
     said("a ${params.q}", q=None), said('a ${params.q ?? ""}', q=None)),
]  # fmt: skip
ROWS = [
    (f"executors/{folder}/{row}", broken, healed)
    for folder, rows in (("http", HTTP), ("sql", SQL), ("workflow", WORKFLOW))
    for row, broken, healed in rows
]
NAME = "executors/http/download.py: choose another name"
ECHO = "executors/http/download.py: nothing was written"
UNSET = (
    "executors/sql/sql_executor.py: the engine's source … needs it: set it before the engine starts"
)
FLAT = "executors/workflow/workflow_executor.py: make them flatter"
SLOW = "executors/workflow/workflow_executor.py: raise its timeout or ask for less"
WIDE = (
    "executors/sql/postgres.py: select fewer columns or a part of them, or raise "
    "entry.config.max_bytes in the tool's YAML"
)
HALF = "executors/sql/sql_executor.py: send it whole"
LATE = "executors/sql/postgres.py: nothing is kept"
TRIED = {row[0] for row in ROWS} | {NAME, ECHO, UNSET, FLAT, SLOW, WIDE, HALF, LATE}


async def answer(request: web.Request) -> web.StreamResponse:
    """What the web server says to a path."""
    path, asks = request.path, request.query
    wanted = request.headers.get("Accept-Encoding", "")
    if path == "/turns":
        raise web.HTTPFound("/turns")
    values: dict[str, Any] = {
        "/lists": [[]] * int(asks.get("count", 0)),
        "/pages": {"items": [1], "next": None if "from" in asks else asks.get("next")},
        "/token": {"access_token": "a-token", "token_type": asks.get("type", "Bearer")},
    }
    if path in values:
        return web.json_response(values[path])
    if wanted in ("gzip", "gzip, gzip", "zstd", "br"):
        return web.Response(body=gzip.compress(b"Hi."), headers={"Content-Encoding": wanted})
    text = request.headers["X-Key"] if path == "/echo" else "Hi."
    return web.Response(text=text, status=206 if path == "/part" else 200)


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """Where the web server listens, for engines without brotli and in an environment of its own."""
    monkeypatch.setattr(decoding, "_BROTLI", "no_such_library")
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found = runner.addresses[0][1]
    url, environment = f"http://127.0.0.1:{found}", {"COLON": "me:you", "USER": "me"}
    more = {"SECRET": "correct-horse-battery", "QUERY": f"{url}/?key=a", "PATH": f"{url}/base"}
    more["BARE"] = f"127.0.0.1:{found}/base"
    for name, value in (environment | more).items():
        monkeypatch.setenv(f"CURE_{name}", value)
    try:
        yield found
    finally:
        await runner.cleanup()


@pytest.fixture
def shop(tmp_path: Path) -> dict[str, str]:
    """The sources: a database, and one that a call would have to choose."""
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        f"CREATE TABLE shops (name text); CREATE VIEW long AS SELECT '{'x' * SQL_LIMIT}' AS x;"
    )
    connection.close()
    return {"shop": f"sqlite:///{path}", "chosen": f"sqlite:///{tmp_path}/{{name}}.db"}


def definition(made: Try, name: str = "t") -> dict[str, Any]:
    """The tool of a row."""
    parameters = [
        {"name": key, "type": KINDS[type(value)], "description": "A", "required": value is not None}
        for key, value in made.params.items()
    ]
    return {"name": name, "description": "A thing.", "parameters": parameters, "entry": made.entry}


async def say(text: str = "Hi.") -> str:
    """What the steps of a workflow call."""
    return text[:100]


async def error_of(made: Try, port: int = 1, sources: dict[str, str] | None = None) -> str:
    """How a tool cannot be registered or its call fails; nothing where it works."""
    text = json.dumps([made.entry, made.params, signed("/token").entry])
    entry, params, keyed = json.loads(text.replace("PORT", str(port)))
    made = Try(entry, params)
    config = ToolEngineConfig(sources=sources or {}, auto_reload=False)
    async with ToolEngine(config) as engine:
        engine.register_tool(SAY, say)
        engine.register_tool(definition(Try(keyed, {}), "keyed"))
        try:
            engine.register_tool(definition(made))
        except ToolEngineError as error:
            return str(error)
        given = {name: value for name, value in made.params.items() if value is not None}
        result = await engine.execute("t", given)
        assert result.is_success is (result.error is None)
        return result.error or ""


@pytest.mark.parametrize(("row", "broken", "healed"), ROWS, ids=[row[0] for row in ROWS])
async def test_in_entries(
    port: int, shop: dict[str, str], row: str, broken: Try, healed: Try
) -> None:
    """What the message says to write is loaded, and the call succeeds."""
    message = await error_of(broken, port, shop)
    assert names_cure(row, message), message
    assert await error_of(healed, port, shop) == ""


async def test_downloads(port: int, tmp_path: Path) -> None:
    """A name that is free is written; of what repeats a secret nothing is, and the rest is."""
    (tmp_path / "taken").write_text("Mine.")

    def saved(name: str, path: str = "/") -> Try:
        plan = {"root": str(tmp_path), "path": "{name}", "create_only": True}
        headers, params = {"X-Key": "${env:CURE_SECRET}"}, {"name": name}
        return site(path, headers=headers, response={"save_to": plan}, params=params)

    message = await error_of(saved("taken"), port)
    assert names_cure(NAME, message), message
    message = await error_of(saved("free", "/echo"), port)
    assert names_cure(ECHO, message), message
    assert not (tmp_path / "free").exists()
    assert await error_of(saved("free"), port) == ""
    assert (tmp_path / "free").read_text() == "Hi."
    assert (tmp_path / "taken").read_text() == "Mine."


async def test_the_environment_of_a_source(
    shop: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that starts with the variable reads the database."""
    monkeypatch.delenv("CURE_SHOP", raising=False)
    sources = {"shop": "${env:CURE_SHOP}"}
    message = await error_of(query("SELECT name FROM shops"), sources=sources)
    assert names_cure(UNSET, message), message
    monkeypatch.setenv("CURE_SHOP", shop["shop"])
    assert await error_of(query("SELECT name FROM shops"), sources=sources) == ""


async def test_postgresql(postgres_server: PostgresServer) -> None:
    """Fewer columns, a part of one, or more room: the rows come. What was late is not there."""
    url = await asyncio.to_thread(postgres_server.fresh_database, "CREATE TABLE shops (id int)")
    wide = "(SELECT 1 AS id, repeat('x', 5000000) AS x) AS it"

    async def asked_for(columns: str, **config: int) -> str:
        made = query(f"SELECT {columns} FROM {wide}")  # noqa: S608 - no value is put in
        made.entry["config"] = config
        return await error_of(made, sources={"shop": url})

    message = await asked_for("id, x")
    assert names_cure(WIDE, message), message
    assert await asked_for("id") == ""
    assert await asked_for("id, left(x, 10) AS x") == ""
    assert await asked_for("id, x", max_bytes=8_000_000) == ""
    database, insert = Shop(url), "INSERT INTO shops VALUES (1)"
    with pytest.raises(TimeoutError) as raised:
        await database.write(insert, -1.0)
    assert names_cure(LATE, str(raised.value)), raised.value
    assert await database.rows("SELECT id FROM shops") == []
    assert await database.write(insert) == {"row_count": 1}
    assert await database.rows("SELECT id FROM shops") == [[1]]
    await database.executor.close()


async def test_half_a_character(shop: dict[str, str]) -> None:
    """A text that is whole reaches the database. An engine refuses the other one itself."""
    database = Shop(shop["shop"])
    with pytest.raises(ToolEngineError) as raised:
        await database.run("SELECT :q AS q", q="\ud83d")
    assert names_cure(HALF, str(raised.value)), raised.value
    assert await database.rows("SELECT :q AS q", q="\U0001f600") == [["\U0001f600"]]
    await database.executor.close()


async def test_workflows_inside_one_another() -> None:
    """A flatter one runs."""
    async with ToolEngine(ToolEngineConfig(auto_reload=False)) as engine:
        engine.register_tool(SAY, say)
        for depth in range(21):
            inner = f"w{depth - 1}" if depth else "say"
            engine.register_tool(definition(flow({"tool": inner}), f"w{depth}"))
        failed = await engine.execute("w20", {})
        assert names_cure(FLAT, failed.error or ""), failed
        assert (await engine.execute("w19", {})).is_success


def test_the_time_of_a_workflow() -> None:
    """More time, or fewer steps: both end well. No clock is waited for."""

    async def rest() -> None:
        await asyncio.sleep(4)

    async def errors() -> list[str]:
        async with ToolEngine(ToolEngineConfig(auto_reload=False)) as engine:
            engine.register_tool({"name": "say", "description": "Rests."}, rest)
            engine.register_tool(definition(flow({}, {}, {}), "long"))
            engine.register_tool(definition(flow({}, {}), "short"))
            return [
                (await engine.execute(name, {}, ToolExecutionContext(timeout=time))).error or ""
                for name, time in (("long", 10.0), ("long", 20.0), ("short", 10.0))
            ]

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        message, *others = runner.run(errors())
    assert names_cure(SLOW, message), message
    assert others == ["", ""]
