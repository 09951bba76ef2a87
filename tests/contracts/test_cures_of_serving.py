"""What an error of a server says to do is done, and it works.

The rows are as those of `test_cures_of_errors`, which counts what is tried.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from mcp.shared.exceptions import MCPError

from tests.contracts.test_cures_of_errors import HEAD, names_cure
from tests.mcp_server.tasks.test_client_tasks import connect, send
from tool_engine import ToolConfigLoader, ToolEngine
from tool_engine.access.jwt_verifier import JWTVerifier
from tool_engine.access.principal import Principal, read_patterns
from tool_engine.access.tokens import TokenFile
from tool_engine.approval.policy import PermissionRule
from tool_engine.cli.app import run as run_app
from tool_engine.cli.failures import CommandError
from tool_engine.cli.serving.token_command import run_command
from tool_engine.errors import ConfigurationError
from tool_engine.mcp_server import MCPServer
from tool_engine.model.permission import Permission
from tool_engine.server import create_app

ADDRESS = "access/listener.py: name an address of this machine and a free port, or 0 for any"
PRINCIPAL = "mcp_server/identity.py: look up beforehand what takes time"
PROMPT = "mcp_server/offers/prompts.py: give it another name"
RESOURCE = "mcp_server/offers/resources.py: give it another URI"
OWN_ADDRESS = (
    "mcp_server/offers/resources.py: give the resource an address of your own, such as docs://guide"
)
TWICE = "mcp_server/offers/resources.py: name one otherwise"
NOTHING_BETWEEN = "mcp_server/offers/resources.py: put a letter between them"
TASK = "mcp_server/tasks/client_tasks.py: call the tool again"
HASH = "access/tokens.py: get it with `printf %s TOKEN | sha256sum`"
OWN_TOKEN = "access/tokens.py: give each a token of its own"
LIST = "access/tokens.py: it is a list of …"
WRITE = "access/tokens.py: write a list of …"
MAY = (
    "model/permission.py: write client_may_answer into the definition of each tool "
    "whose clients may"
)
NAME = "access/tokens.py: write one such as 'ann'"
FIELDS = "access/tokens.py: write …"
VERIFIER = "server/app.py: see JWTVerifier"
ALGORITHMS = "access/jwt_verifier.py: write some of …"
NAME_KEYS = "access/jwt_verifier.py: give jwks"
KEYS = "access/jwt_verifier.py: give an https URL or a file"
OTHER_FILE = "cli/serving/token_command.py: name another with --file"
TRIED = {ADDRESS, PRINCIPAL, PROMPT, RESOURCE, TASK, HASH, OWN_TOKEN, LIST, WRITE, MAY, NAME}
TRIED |= {OWN_ADDRESS, TWICE, NOTHING_BETWEEN, FIELDS, VERIFIER, ALGORITHMS, KEYS, OTHER_FILE}
KEY_SET = "access/jwt_verifier.py: give a JSON Web Key Set"
PATTERNS = (
    "access/principal.py: write names, with * for any letters, ? for one, and [ab] for one of these"
)
RIGHTS = "access/principal.py: write frozenset({'call'}) and ('notes_*',)"
TEXTS = "access/texts.py: write ['...'], also for one"
HOST = "access/hosts.py: write HOST or HOST:PORT, in ASCII and an address of IPv6 in brackets"
ORIGIN = "access/pages.py: write https://HOST or https://HOST:PORT, as browsers send it"
OTHER_ROOT = "server/routing.py: choose another one, such as '/tools'"
NO_DOTS = "server/routing.py: leave them out"
PORT = "cli/serving/serve_command.py: write --port …"
HTTP = "cli/mcp/mcp_command.py: write …:…"
TRIED |= {PORT, HTTP}
TRIED |= {KEY_SET, NAME_KEYS, PATTERNS, RIGHTS, TEXTS, HOST, ORIGIN, OTHER_ROOT, NO_DOTS}


@pytest.fixture
async def server() -> AsyncIterator[MCPServer]:
    async with ToolEngine() as engine:
        engine.register_tool(HEAD, lambda: 42)
        yield MCPServer(engine)


async def test_address_that_is_taken(server: MCPServer) -> None:
    """At port 0 there is always a free one."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ConfigurationError) as raised:
            await server.run_http(port=other.getsockname()[1])
    assert names_cure(ADDRESS, str(raised.value)), raised.value
    ready = asyncio.Event()
    serving = asyncio.create_task(server.run_http(port=0, on_ready=lambda url: ready.set()))
    await ready.wait()
    serving.cancel()
    await asyncio.wait([serving])


def test_principals_that_are_looked_up() -> None:
    """A plain function reads what was looked up beforehand."""
    engine, known = ToolEngine(), {"ann": "user 7"}

    async def find(context: Any) -> str:
        del context
        return known["ann"]

    with pytest.raises(ConfigurationError) as raised:
        MCPServer(engine, principal=cast("Any", find))
    assert names_cure(PRINCIPAL, str(raised.value)), raised.value
    MCPServer(engine, principal=lambda _: known["ann"])


async def test_names_that_are_taken(server: MCPServer) -> None:
    """Another name, and another URI, are taken."""
    server.add_prompt("greet", lambda: "Hello!")
    with pytest.raises(ConfigurationError) as raised:
        server.add_prompt("greet", lambda: "Hi!")
    assert names_cure(PROMPT, str(raised.value)), raised.value
    server.add_prompt("greet_again", lambda: "Hi!")
    server.add_resource("docs://a", lambda: "a")
    with pytest.raises(ConfigurationError) as raised:
        server.add_resource("docs://a", lambda: "b")
    assert names_cure(RESOURCE, str(raised.value)), raised.value
    server.add_resource("docs://b", lambda: "b")


@pytest.mark.parametrize(
    ("row", "wrong", "right"),
    [
        (TWICE, "a://{x}/{x}", "a://{x}/{y}"),
        (NOTHING_BETWEEN, "a://{x}{y}", "a://{x}-{y}"),
        (OWN_ADDRESS, "tool-engine://results/{x}/{y}", "docs://guide"),
    ],
)
async def test_addresses_of_resources(server: MCPServer, row: str, wrong: str, right: str) -> None:
    """One of another kind, whose variables have names and something between them, is taken."""
    with pytest.raises(ConfigurationError) as raised:
        server.add_resource(wrong, lambda **_: "")
    assert names_cure(row, str(raised.value)), raised.value
    server.add_resource(right, lambda **_: "")


async def test_a_task_that_is_gone(server: MCPServer) -> None:
    """The call is made again."""
    async with connect(server) as client:
        with pytest.raises(MCPError) as raised:
            await send(client, "tasks/get", "gone")
        assert names_cure(TASK, str(raised.value)), raised.value
        assert not (await client.call_tool(str(HEAD["name"]), {})).is_error


@pytest.mark.parametrize(
    ("row", "wrong", "right"), [(OTHER_ROOT, "/v1", "/tools"), (NO_DOTS, "/a/../b", "/a/b")]
)
async def test_paths_in_front(row: str, wrong: str, right: str) -> None:
    """One that begins as no path of the server does, without dots, is taken."""
    async with ToolEngine() as engine:
        with pytest.raises(ConfigurationError) as raised:
            create_app(engine, root_path=wrong)
        assert names_cure(row, str(raised.value)), raised.value
        create_app(engine, root_path=right)


def entry(name: str, token: str) -> str:
    """What the message says to write, with what `sha256sum` prints."""
    return f'- {{name: {name}, sha256: "{hashlib.sha256(token.encode()).hexdigest()}"}}\n'


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        (LIST, None),
        (WRITE, ""),
        (HASH, '- {name: ann, sha256: "secret"}\n'),
        (NAME, f'- {{name: "ann\\nbob", sha256: "{"a" * 64}"}}\n'),
        (FIELDS, '- {name: ann, sha256: "secret", color: red}\n'),
        (OWN_TOKEN, entry("ann", "a") + entry("bob", "a")),
    ],
)
def test_token_files(tmp_path: Path, row: str, wrong: str | None) -> None:
    """The list that the message shows is read, and its tokens are taken."""
    path = tmp_path / "tokens.yaml"
    if wrong is not None:
        path.write_text(wrong)
    with pytest.raises(ConfigurationError) as raised:
        TokenFile(str(path))
    assert names_cure(row, str(raised.value)), raised.value
    path.write_text(entry("ann", "a") + entry("bob", "b"))
    tokens = TokenFile(str(path))
    found = asyncio.run(tokens.find_principal("b"))
    assert found is not None
    assert found.name == "bob"


def test_who_may_answer() -> None:
    """What a rule cannot say, the definition can."""
    said = Permission(execution="ask_once", client_may_answer=True)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError) as raised:
        PermissionRule("t", said)
    assert names_cure(MAY, str(raised.value)), raised.value
    spec = {"execution": "ask_once", "client_may_answer": True}
    tool = ToolConfigLoader().from_mapping({**HEAD, "permission": spec})
    assert tool.permission == said


def test_who_knows_tokens() -> None:
    """A verifier is taken, with keys that nobody can change on their way."""
    said: dict[str, Any] = {"issuer": "https://login.example", "audience": "tools"}
    for row, wrong in (
        (KEYS, {"jwks": "http://login.example/keys"}),
        (NAME_KEYS, {"issuer": "login"}),
        (ALGORITHMS, {"jwks": "keys.json", "algorithms": ["HS256"]}),
    ):
        with pytest.raises(ConfigurationError) as raised:
            JWTVerifier(**{**said, **wrong})
        assert names_cure(row, str(raised.value)), raised.value
    known = JWTVerifier(**said, jwks="https://login.example/keys", algorithms=["ES256"])
    with pytest.raises(ConfigurationError) as raised:
        create_app(ToolEngine(), auth=object())  # type: ignore[arg-type]
    assert names_cure(VERIFIER, str(raised.value)), raised.value
    create_app(ToolEngine(), auth=known)


@pytest.mark.parametrize(
    ("row", "wrong", "right"),
    [
        (TEXTS, {"allowed_hosts": "a.example"}, {"allowed_hosts": ["a.example"]}),
        (
            HOST,
            {"allowed_hosts": ["::7"]},
            {"allowed_hosts": ["[::7]", "a.example:80"]},
        ),
        (ORIGIN, {"allowed_origins": ["*"]}, {"allowed_origins": ["https://a.example:8443"]}),
    ],
)
def test_who_may_be_reached(row: str, wrong: dict[str, Any], right: dict[str, Any]) -> None:
    """A name and an origin are taken as the message writes them."""
    with pytest.raises(ConfigurationError) as raised:
        create_app(ToolEngine(), **wrong)
    assert names_cure(row, str(raised.value)), raised.value
    create_app(ToolEngine(), **right)


def test_which_tools(tmp_path: Path) -> None:
    """Patterns match as the message says, and rights are taken as it writes them."""
    with pytest.raises(ConfigurationError) as raised:
        read_patterns(["notes *"], "tokens.yaml")
    assert names_cure(PATTERNS, str(raised.value)), raised.value
    for pattern in ("notes_*", "notes_?dd", "notes_[ab]dd"):
        assert Principal("ann", frozenset(), read_patterns([pattern], "")).may_use("notes_add")
    with pytest.raises(ConfigurationError) as raised:
        Principal("ann", frozenset({"call"}), "notes_*")  # type: ignore[arg-type]
    assert names_cure(RIGHTS, str(raised.value)), raised.value
    assert not Principal("ann", frozenset({"call"}), ("notes_*",)).may_use("pay")


def test_a_file_of_keys(tmp_path: Path) -> None:
    """A file with a JSON Web Key Set is taken."""
    path = tmp_path / "keys.json"
    path.write_text("{}")
    said: dict[str, Any] = {"issuer": "https://login.example", "audience": "tools"}
    said["jwks"] = str(path)
    with pytest.raises(ConfigurationError) as raised:
        JWTVerifier(**said)
    assert names_cure(KEY_SET, str(raised.value)), raised.value
    key = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    path.write_text(json.dumps({"keys": [key]}))
    JWTVerifier(**said)


def test_a_token_file_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nothing can be written, another file is named."""
    with pytest.raises(CommandError) as raised:
        run_command("new", "ann", file=str(tmp_path / "none" / "tokens.yaml"))
    assert names_cure(OTHER_FILE, str(raised.value)), raised.value
    path = tmp_path / "tokens.yaml"
    assert run_command("new", "ann", file=str(path)) == 0
    token = capsys.readouterr().out.strip()
    found = asyncio.run(TokenFile(str(path)).find_principal(token))
    assert found is not None
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("row", "wrong", "right"),
    [
        (PORT, "serve --no-auth --host PORT", "serve --no-auth --port PORT"),
        (HTTP, "mcp serve --http PORT", "mcp serve --http 127.0.0.1:PORT"),
    ],
)
def test_a_port_for_an_address(
    row: str, wrong: str, right: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it is written then, it is the port: one that is taken, so that the command ends."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        for line in (wrong, right):
            words = line.replace("PORT", port).split()
            assert run_app(["--tools", str(tmp_path), *words]) == 2
            said = capsys.readouterr().err
            assert names_cure(row, said) is (line == wrong), said
    assert port in said
    assert "in use" in said
