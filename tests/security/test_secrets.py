"""Can a secret get into a record, an event, a log line, an error or the output of the command line?

Each test lets one secret in through one door, and then looks for it in the bytes of all that is
kept, published, written and printed: as it is, percent-encoded, in base64 and in hexadecimal. A
storage that keeps records elsewhere is one more row of `STORAGES`.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
import structlog
from aiohttp import web
from msgspec.structs import asdict

from tests.warm import run
from tool_engine import (
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolExecutionContext,
    ToolExecutionError,
    ToolExecutionResult,
    ToolKnowledgeStore,
)
from tool_engine.interfaces import RecordStorage
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.logger import get_logger

LIMIT = 30.0
STORAGES: dict[str, Callable[[Path], RecordStorage]] = {
    "memory": lambda folder: MemoryStorage(),
    "sqlite": lambda folder: SQLRecordStorage(f"sqlite:///{folder}/calls.db"),
}
PIN = {"name": "pin", "type": "string", "description": "The pin.", "secret": True, "required": True}


class Witness:
    """An engine, and the files that everything it says is written to."""

    def __init__(self, folder: Path, storage: RecordStorage) -> None:
        self.folder = folder
        self.tools = folder / "tools"
        self.tools.mkdir()
        self.secret = f"cAn/ry+{uuid.uuid4()}"
        self.port = 0
        self.results: list[ToolExecutionResult] = []
        self.log, self.events = io.StringIO(), io.StringIO()
        structlog.configure(
            processors=[structlog.processors.format_exc_info, structlog.processors.JSONRenderer()],
            logger_factory=structlog.PrintLoggerFactory(self.log),
        )
        config = ToolEngineConfig(tools_directory=str(self.tools), auto_reload=False)
        self.engine = ToolEngine(config, store=ToolKnowledgeStore(storage))
        self.engine.subscribe(self._write)

    def _write(self, event: ToolEngineEvent) -> None:
        result = event.execution_result
        values = None if result is None else result.to_dict()
        told = [event.tool_name, event.data, event.error, event.validation_errors, values]
        self.events.write(repr(event) + repr(asdict(event)) + json.dumps(told))

    async def call(self, name: str, params: Any = None, **context: Any) -> ToolExecutionResult:
        made = self.engine.execute(name, params, ToolExecutionContext(**context))
        result = await asyncio.wait_for(made, LIMIT)
        self.results.append(result)
        return result

    def define(self, handler: Callable[..., Any], *parameters: Any, **more: Any) -> None:
        definition = {"name": "t", "description": "T.", "parameters": list(parameters), **more}
        self.engine.register_tool(definition, handler)

    def http(self, **request: Any) -> None:
        """A tool that asks the service which sends everything back."""
        entry = {
            "type": "http",
            "request": {"url": f"http://127.0.0.1:{self.port}/x", **request},
            "allow": [f"127.0.0.1:{self.port}"],
        }
        self.engine.register_tool({"name": "t", "description": "T.", "entry": entry})

    async def heard(self) -> dict[str, bytes]:
        """The bytes of everything, by where they are."""
        records = await self.engine.query_call_records()
        summary = await self.engine.get_call_statistics()
        await self.engine.close()
        said = [(each.error, each.validation_errors, each.metadata) for each in self.results]
        return {
            "records": repr(records).encode() + msgspec.json.encode(records),
            "summary": repr(summary).encode(),
            "errors": repr(said).encode(),
            "log": self.log.getvalue().encode(),
            "events": self.events.getvalue().encode(),
            **await asyncio.to_thread(self._files),
        }

    def _files(self) -> dict[str, bytes]:
        """What a storage has written."""
        files = (path for path in self.folder.iterdir() if path.is_file() and path.name != "secret")
        return {path.name: path.read_bytes() for path in files}


def forms_of(secret: str) -> list[bytes]:
    data = secret.encode()
    coded = base64.b64encode(data).rstrip(b"=")[:-1]
    return [data, quote(secret, safe="").encode(), coded, data.hex().encode()]


async def check(witness: Witness, *, told: bool = True) -> None:
    """Nobody heard the secret, though the call was recorded, and published where it was told."""
    heard = await witness.heard()
    assert heard["records"] != b"[]"
    assert not told or heard["events"]
    found = {
        place: data
        for place, data in heard.items()
        for form in forms_of(witness.secret)
        if form in data
    }
    assert found == {}


@pytest.fixture(params=STORAGES)
async def witness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Witness]:
    await asyncio.to_thread(import_module, "tool_engine.catalog.definition.raw_schema")  # it blocks
    made = Witness(tmp_path, STORAGES[request.param](tmp_path))

    async def echo(asked: web.Request) -> web.Response:
        if asked.path == "/token":
            return web.json_response({"access_token": made.secret, "expires_in": 3600})
        body = await asked.text()
        coded = base64.b64encode(f"me:{made.secret}".encode()).decode()
        heard = {"headers": dict(asked.headers), "url": str(asked.url), "body": body, "x": coded}
        return web.json_response(heard, status=500 if "fail" in asked.query else 200)

    runner = web.AppRunner(web.Application())
    runner.app.router.add_route("*", "/{path:.*}", echo)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.port = runner.addresses[0][1]
    yield made
    await made.engine.close()
    await runner.cleanup()


@pytest.mark.parametrize("fails", [False, True])
async def test_variable(witness: Witness, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """D20: `${env:NAME}` in a header, and a service that sends it back in every form."""
    monkeypatch.setenv("THE_KEY", witness.secret)
    query = {"fail": "1"} if fails else {"q": "${env:THE_KEY}"}
    witness.http(headers={"X-Thing": "${env:THE_KEY}"}, query=query)
    result = await witness.call("t")
    assert result.is_success is not fails
    assert witness.secret not in repr(result.to_dict())
    await check(witness)


async def test_file(witness: Witness) -> None:
    """D20: `${file:PATH}`, whose text ends with a line break."""
    (witness.folder / "secret").write_text(witness.secret + "\n")
    witness.http(headers={"X-Thing": f"${{file:{witness.folder / 'secret'}}}"})
    result = await witness.call("t")
    assert result.is_success
    assert witness.secret not in repr(result.to_dict())
    await check(witness)


async def test_access_token(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    """D20: a token that was fetched for the call, and that the service sends back."""
    monkeypatch.setenv("CLIENT_SECRET", "another-secret-of-ours")
    auth = {
        "type": "oauth2",
        "token_url": f"http://127.0.0.1:{witness.port}/token",
        "client_id": "me",
        "client_secret": "${env:CLIENT_SECRET}",
    }
    witness.http(auth=auth)
    result = await witness.call("t")
    assert result.is_success
    assert witness.secret not in repr(result.to_dict())
    await check(witness)


async def test_environment_of_a_program(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    """D20: a program that prints the environment which the definition gave it."""
    monkeypatch.setenv("THE_KEY", witness.secret)
    entry = {
        "type": "builtin",
        "handler": "run_command",
        "argv": ["env"],
        "config": {"env": {"THING": "${env:THE_KEY}"}},
    }
    witness.engine.register_tool({"name": "t", "description": "T.", "entry": entry})
    result = await witness.call("t")
    assert "THING=" in result.output["stdout"]
    assert witness.secret not in repr(result.to_dict())
    await check(witness)


async def test_address_with_a_password(witness: Witness) -> None:
    """D20: a model writes a password into a URL."""
    await witness.call("http_request", {"url": f"https://me:{witness.secret}@a.invalid/"})
    await check(witness)


async def _returns(witness: Witness) -> Any:
    return {"said": f"it is {witness.secret}", "deep": [{"url": f"/?q={quote(witness.secret)}"}]}


async def _raises(witness: Witness) -> Any:
    try:
        raise KeyError(witness.secret)
    except KeyError as error:
        raise ValueError(f"not {witness.secret!r}") from error


async def _gives_details(witness: Witness) -> Any:
    raise ToolExecutionError("no", details={"sent": witness.secret, "n": [witness.secret]})


async def _is_very_long(witness: Witness) -> Any:
    lines = ["x" * at + witness.secret + "y" * 40_000 for at in range(16_300, 16_384, 6)]
    return {"lines": lines, "more": ["z" * 70_000]}


@pytest.mark.parametrize("ends", [_returns, _raises, _gives_details, _is_very_long])
async def test_secret_parameter(
    witness: Witness, ends: Callable[[Witness], Awaitable[Any]]
) -> None:
    """D20: a parameter that is declared secret, wherever the tool puts its value."""

    async def run(pin: str) -> Any:
        return await ends(witness)

    witness.define(run, PIN)
    await witness.call("t", {"pin": witness.secret})
    await check(witness)


@pytest.mark.parametrize("params", ["misspelt", "text", "wrong"])
async def test_secret_parameter_that_is_refused(witness: Witness, params: str) -> None:
    """D20: neither what is wrong about a secret nor a secret in a wrong place is repeated."""
    witness.define(lambda pin: None, {**PIN, "validation": {"max_length": 4}})
    sent: dict[str, Any] = {
        "misspelt": {"pim": witness.secret},
        "text": json.dumps({"pin": witness.secret}),
        "wrong": {"pin": witness.secret},
    }
    result = await witness.call("t", sent[params])
    assert result.error_type == "validation_error"
    await check(witness)


@pytest.mark.parametrize("also", ["count", "known", "other"])
async def test_secret_parameter_that_is_sent_twice(witness: Witness, also: str) -> None:
    """What a result says of other arguments repeats no secret: neither error nor findings.

    Looked at: findings that refuse, findings that only tell, results that are shared.
    """
    count = {"name": "count", "type": "integer", "description": "How often."}
    known = {"name": "known", "type": "string", "description": "One.", "enum": ["a"]}
    witness.define(lambda pin, count=1, known="a": count, PIN, count, known)
    result = await witness.call("t", {"pin": witness.secret, also: witness.secret})
    assert result.validation_errors
    assert result.is_success is (also == "other")
    assert witness.secret not in json.dumps(result.to_dict())
    await check(witness)


async def test_secret_part_of_a_parameter(witness: Witness) -> None:
    """D20: a property that the schema marks `writeOnly`, in a right call and in a wrong one."""
    schema = {"properties": {"word": {"type": "string", "writeOnly": True}}, "minProperties": 2}
    login = {"name": "login", "type": "object", "description": "Who.", "required": True}
    witness.define(lambda login: f"as {login['word']}", {**login, "schema": schema})
    await witness.call("t", {"login": {"word": witness.secret}})
    assert "login" in str(witness.results[0].error)
    await witness.call("t", {"login": {"word": witness.secret, "user": "ada"}})
    record = (await witness.engine.query_call_records())[0]
    assert record.params == {"login": {"word": "[hidden]", "user": "ada"}}
    await check(witness)


WORD: dict[str, Any] = {
    "type": "object",
    "properties": {"word": {"type": "string", "writeOnly": True}},
}
INSIDE: dict[str, Any] = {
    **WORD,
    "properties": {**WORD["properties"], "inner": WORD},
    "maxProperties": 1,
}


@pytest.mark.parametrize("length", [1, 400])
@pytest.mark.parametrize(
    ("kind", "rules", "sent"),
    [
        ("object", WORD, lambda secret: json.dumps({"word": secret})),
        ("object", WORD, lambda secret: secret),
        ("object", WORD, lambda secret: [secret]),
        ("object", INSIDE, lambda secret: {"inner": secret, "other": 1}),
        ("array", {"items": WORD}, lambda secret: json.dumps([{"word": secret}])),
        ("array", {"items": WORD}, lambda secret: [secret]),
        ("array", {"items": WORD}, lambda secret: [json.dumps({"word": secret})]),
        ("array", {"items": WORD, "maxItems": 1}, lambda secret: [secret, secret]),
        ("array", {"items": WORD}, lambda secret: {"word": secret}),
    ],
)
async def test_secret_part_in_another_form(
    witness: Witness, kind: str, rules: dict[str, Any], sent: Callable[[str], Any], length: int
) -> None:
    """D20: an object with a secret part that was sent as a text, or as anything but an object.

    Looked at: the place itself, below a list and below an object; texts that are cut.
    """
    login = {"name": "login", "type": kind, "description": "Who.", "required": True}
    witness.define(lambda login: 1, {**login, "schema": rules})
    result = await witness.call("t", {"login": sent(witness.secret + "x" * length)})
    assert "login" in str(result.error)
    assert witness.secret not in json.dumps(result.to_dict())
    record = (await witness.engine.query_call_records())[0]
    assert witness.secret not in json.dumps(record.params)
    await check(witness)


@pytest.mark.parametrize("key", ["password", "apiKey", "Set-Cookie", "connection_string"])
async def test_output_under_a_telling_name(witness: Witness, key: str) -> None:
    """D20: what a tool returns under such a name reaches its caller, and nobody else."""
    witness.define(lambda: {"a": [{key: witness.secret}], "t": f'{{"{key}": "{witness.secret}"}}'})
    result = await witness.call("t")
    assert result.output["a"] == [{key: witness.secret}]
    await check(witness)


async def test_words_of_an_exception(witness: Witness) -> None:
    """D20: the text of a foreign exception, of its attempts too, as drivers write them."""

    def run() -> None:
        raise RuntimeError(f"cannot reach postgres://me:{quote(witness.secret, '')}@db/x")

    retry = {"attempts": 2, "backoff": 0.001}
    witness.define(run, effect="read", retry=retry)
    result = await witness.call("t", max_retries=2)
    assert result.metadata["attempts"] == 2
    await check(witness)


async def test_exception_of_a_subscriber(witness: Witness) -> None:
    """D20: the traceback of a subscriber that fails is logged without the secret."""

    def fail(event: ToolEngineEvent) -> None:
        raise RuntimeError(f"login(password={witness.secret!r})")

    witness.engine.subscribe(fail)
    witness.define(lambda: None)
    await witness.call("t")
    await witness.engine.close()
    assert "subscriber_failed" in witness.log.getvalue()
    await check(witness)


async def test_log_line_of_the_engine(witness: Witness) -> None:
    """D20: whatever the engine logs is looked through on its way, fields in fields, too."""
    fields = {"password": witness.secret, "error": f"api_key={witness.secret}"}
    get_logger("x").warning("something", run={"deep": [fields]}, **fields)
    assert "something" in witness.log.getvalue()
    assert witness.secret not in witness.log.getvalue()


async def test_name_of_a_tool(witness: Witness) -> None:
    """D20: a model writes a whole command line where the name of a tool belongs."""
    name = f"curl -H 'Authorization: Bearer {witness.secret}'"
    await witness.call(name)
    witness.results.clear()
    await check(witness)


async def test_secret_in_a_definition(witness: Witness) -> None:
    """D20: a definition with a secret in it that cannot be loaded tells where, but not what."""
    (witness.tools / "bad.yaml").write_text(
        "name: bad\ndescription: B.\nparameters:\n  - name: api_key\n    type: integer\n"
        f"    description: K.\n    default: {witness.secret}\n"
    )
    await witness.engine.reload()
    witness.define(lambda: None)
    await witness.call("t")
    heard = await witness.heard()
    assert b"parameters[0].default" in heard["log"]
    assert [place for place in heard if witness.secret.encode() in heard[place]] == []


def command(folder: Path, *words: str, **variables: str) -> bytes:
    start = ["-m", "tool_engine.cli", "--tools", str(folder), *words]
    ended = run(start, env={**os.environ, "COLUMNS": "400", **variables}, timeout=LIMIT)
    return (ended.stdout + ended.stderr).encode()


@pytest.mark.parametrize("as_json", [False, True])
def test_command_line(tmp_path: Path, as_json: bool) -> None:
    """D20: no command prints a secret of a definition, of the environment or of a load error."""
    secret = f"cAn/ry+{uuid.uuid4()}"
    (tmp_path / "login.yaml").write_text(
        "name: login\ndescription: L.\nparameters:\n  - name: pin\n    type: string\n"
        f"    description: P.\n    secret: true\n    default: {secret}\n"
        "entry: {type: builtin, handler: echo}\n"
    )
    (tmp_path / "env.yaml").write_text(
        "name: environment\ndescription: E.\nentry:\n  type: builtin\n  handler: run_command\n"
        "  argv: [env]\n  config: {env: {THING: '${env:THE_KEY}'}}\n"
    )
    (tmp_path / "bad.yaml").write_text(
        f"name: bad\ndescription: B.\nentry: {{type: http, password: {secret}, x: 1}}\ntags: 5\n"
    )
    more = ["--json"] if as_json else []
    for words in (["list"], ["show", "login"], ["call", "environment"], ["validate"]):
        printed = command(tmp_path, *words, *more, THE_KEY=secret)
        assert printed, words
        assert b"there is no tool" not in printed
        assert secret.encode() not in printed, words
