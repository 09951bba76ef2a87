"""Which prompts and resources does a client see, and how does it hear of others?"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.mcp_server.conftest import ERAS, Connect
from tests.mcp_server.test_hostile import headers_of, request_of
from tests.mcp_server.test_transports import HEADERS, META, serving
from tests.security.heartbeat import assert_beats_on
from tests.server.conftest import write_tokens
from tool_engine import ConfigurationError, ToolEngine
from tool_engine.mcp_server import MCPServer, PromptArgument, ToolSelection

DEADLINE = 200.0
RULES = "Use {{tools}}.\n{{if add}}Add with care.\n{{if fail}}Never `fail` twice."


@pytest.fixture
def grouped(engine: ToolEngine) -> ToolEngine:
    """An engine with two groups, and one of no tools."""
    skill = {"name": "sums", "desc": "How to add up.", "prompt": "Add one by one."}
    both = {"name": "both", "tools": ["add", "fail"], "rules": RULES, "skills": [skill]}
    engine.register_group(both)
    engine.register_group({"name": "faults", "tools": ["fail"], "rules": "It fails."})
    engine.register_group({"name": "house", "rules": "Be polite."})
    return engine


@pytest.mark.parametrize(
    ("shown", "names", "rules"),
    [
        (
            ToolSelection(),
            ["both.rules", "both.sums", "faults.rules", "house.rules"],
            "Use `add`, `fail`.\nAdd with care.\nNever `fail` twice.",
        ),
        (
            ToolSelection(names=("add",)),
            ["both.rules", "both.sums"],
            "Use `add`.\nAdd with care.",
        ),
        (
            ToolSelection(names=("add",), groups=("house",)),
            ["both.rules", "both.sums", "house.rules"],
            "Use `add`.\nAdd with care.",
        ),
        (ToolSelection(names=("count",)), [], None),
    ],
)
@pytest.mark.parametrize("mode", ["all", "search"])
async def test_rules_are_those_of_tools_that_are_shown(
    grouped: ToolEngine,
    connect: Connect,
    mode: str,
    shown: ToolSelection,
    names: list[str],
    rules: str | None,
) -> None:
    """They are read as a session's model reads them, and name no tool that is hidden."""
    async with connect(MCPServer(grouped, expose=shown, mode=mode)) as client:
        prompts = (await client.list_prompts()).prompts
        assert [each.name for each in prompts] == names
        if rules is None:
            with pytest.raises(MCPError, match=r"Unknown prompt: 'both\.rules'$"):
                await client.get_prompt("both.rules")
        else:
            (message,) = (await client.get_prompt("both.rules")).messages
            assert message.content.text == rules


async def test_rules_are_those_of_tools_that_a_token_is_for(
    grouped: ToolEngine, tmp_path: Path
) -> None:
    """Each token has prompts of its own."""
    people = {"ann": {"scopes": ["call"], "tools": ["fail"]}, "bob": {"scopes": ["call"]}}
    file = str(await asyncio.to_thread(write_tokens, tmp_path / "tokens.json", people))
    found = {}
    async with serving(grouped, token_file=file) as url, aiohttp.ClientSession() as session:
        for token in ("token-of-ann", "token-of-bob"):
            body = {"jsonrpc": "2.0", "id": 1, "method": "prompts/list", "params": {"_meta": META}}
            sent = {**HEADERS, "Mcp-Method": "prompts/list", "Authorization": f"Bearer {token}"}
            async with session.post(url, json=body, headers=sent) as response:
                prompts = (await response.json())["result"]["prompts"]
            found[token] = [each["name"] for each in prompts]

    assert found["token-of-ann"] == ["both.rules", "both.sums", "faults.rules"]
    assert found["token-of-bob"] == ["both.rules", "both.sums", "faults.rules", "house.rules"]


def offer_years(server: MCPServer) -> str:
    """Offers a resource for each year and kind; gives the address."""
    address = "docs://{year}-{kind}.md"
    years = {"year": [str(number) for number in range(1800, 2030)]}
    server.add_resource(address, lambda year, kind: f"{kind} of {year}", values=years)
    return address


async def test_what_is_typed_is_completed(engine: ToolEngine, connect: Connect) -> None:
    """A client learns how many there are, and that a name of its is none."""
    server = MCPServer(engine)
    kinds = PromptArgument(name="kind", values=("long", "lively", "short"))
    server.add_prompt("tell", lambda kind="long": kind, arguments=[kinds])
    template = types.ResourceTemplateReference(uri=offer_years(server))
    prompt = types.PromptReference(name="tell")
    async with connect(server) as client:

        async def complete(ref: Any, name: str, begun: str) -> Any:
            return (await client.complete(ref, {"name": name, "value": begun})).completion

        short = await complete(prompt, "kind", "l")
        long, few = [await complete(template, "year", begun) for begun in ("", "202")]
        nothing = await complete(template, "kind", "")
        for ref, name, words in (
            (types.PromptReference(name="tall"), "kind", "Unknown prompt: 'tall'; did you mean"),
            (prompt, "kine", "Unknown argument: 'kine'; did you mean 'kind'"),
            (types.ResourceTemplateReference(uri="docs://"), "year", "Unknown resource: 'docs://'"),
        ):
            with pytest.raises(MCPError, match=words) as error:
                await complete(ref, name, "")
            assert error.value.code == -32602
        for arguments, words in (
            ({"kine": "long"}, "the prompt 'tell' has no argument 'kine'; did you mean 'kind'"),
            ({"zzz": "long"}, "the prompt 'tell' has no argument 'zzz'$"),
        ):
            with pytest.raises(MCPError, match=words) as error:
                await client.get_prompt("tell", arguments)
            assert error.value.code == -32602

    assert (short.values, short.total, short.has_more) == (["long", "lively"], 2, False)
    assert (len(long.values), long.total, long.has_more) == (100, 230, True)
    assert (len(few.values), few.has_more, nothing.values) == (10, False, [])


@pytest.mark.parametrize(
    ("uri", "read"),
    [
        ("docs://2026-notes.md", "notes of 2026"),
        ("docs://2026-old-notes.md.md", "old-notes.md of 2026"),
        ("docs://2026-.md", None),
        ("docs://2026-a/b.md", None),
    ],
)
async def test_an_address_is_read_as_its_template(
    engine: ToolEngine, connect: Connect, uri: str, read: str | None
) -> None:
    server = MCPServer(engine)
    offer_years(server)
    async with connect(server) as client:
        if read is None:
            with pytest.raises(MCPError, match="Resource not found"):
                await client.read_resource(uri)
        else:
            (content,) = (await client.read_resource(uri)).contents
            assert content.text == read


@pytest.mark.beats
async def test_the_heart_beats_on_while_a_long_address_is_read(
    engine: ToolEngine, connect: Connect
) -> None:
    """However many ways there are to cut it up."""
    server = MCPServer(engine)
    server.add_resource("docs://{a}-{b}-{c}-{d}.md", lambda **_: "never")
    async with connect(server) as client:

        async def attack() -> None:
            with pytest.raises(MCPError, match="Resource not found"):
                await client.read_resource("docs://" + "-" * 4_000)

        await assert_beats_on(attack)


@pytest.mark.parametrize(
    ("uri", "values", "words"),
    [
        ("docs://{a}{b}", {}, "run into one another; put a letter between them"),
        ("docs://{a}/{a}", {}, "stands there twice; name one otherwise"),
        ("docs://{year}", {"yaer": ["1"]}, "has no variable 'yaer'; did you mean 'year'"),
    ],
)
async def test_wrong_addresses(
    engine: ToolEngine, uri: str, values: dict[str, list[str]], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        MCPServer(engine).add_resource(uri, lambda **_: "", values=values)


@pytest.mark.parametrize("method", ["list_prompts", "list_resources", "list_resource_templates"])
async def test_a_cursor_of_no_page(engine: ToolEngine, connect: Connect, method: str) -> None:
    """A list from its beginning again would go on for ever."""
    async with connect(MCPServer(engine)) as client:
        with pytest.raises(MCPError, match="no page ended with the cursor 'abc'"):
            await getattr(client, method)(cursor="abc")


def add_tool(server: MCPServer, engine: ToolEngine) -> None:
    engine.tool(name="late", description="Comes late.")(lambda: "ok")


def add_rules(server: MCPServer, engine: ToolEngine) -> None:
    engine.unregister_group("both")
    engine.register_group({"name": "both", "tools": ["add", "fail"], "rules": "Be quick."})


def add_prompt(server: MCPServer, engine: ToolEngine) -> None:
    server.add_prompt("tell", lambda: "Tell.")


def add_resource(server: MCPServer, engine: ToolEngine) -> None:
    server.add_resource("docs://late", lambda: "late")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (add_tool, {"tools"}),
        (add_rules, {"prompts"}),
        (add_prompt, {"prompts"}),
        (add_resource, {"resources"}),
    ],
)
async def test_each_list_is_told_of(
    grouped: ToolEngine, era: str, change: Callable[..., None], kinds: set[str]
) -> None:
    """Over HTTP, on which a server says that it will, and no list that is as it was."""
    heard: list[str] = []
    is_heard = asyncio.Event()

    async def hear(message: Any) -> None:
        method = getattr(message, "method", "")
        if method.endswith("list_changed"):
            heard.append(method.split("/")[1])
            if kinds <= {*heard}:
                is_heard.set()

    server = MCPServer(grouped)
    mode = "legacy" if era == "legacy" else "auto"
    async with (
        asyncio.timeout(DEADLINE),
        serving(grouped, server) as url,
        Client(url, mode=mode, message_handler=hear) as client,
    ):
        said: Any = client.server_capabilities
        assert [each.list_changed for each in (said.tools, said.prompts, said.resources)] == [
            True
        ] * 3
        if era == "legacy":
            # The stream on which it hears has begun when what comes on it is heard.
            while not heard:
                grouped.tool(name=f"x{len(grouped.list_names())}", description="X.")(lambda: 1)
                await asyncio.sleep(0.05)
            # What is heard of it is heard last: of tools it hears first.
            fence, add_fence = (
                ("prompts", add_prompt) if "resources" in kinds else ("resources", add_resource)
            )
            add_fence(server, grouped)
            while fence not in heard:  # noqa: ASYNC110 - the client hears of it
                await asyncio.sleep(0.01)
            heard.clear()
            is_heard.clear()
            change(server, grouped)
            await is_heard.wait()
        else:
            wanted: Any = {
                f"{kind}_list_changed": True for kind in ("tools", "prompts", "resources")
            }
            async with client.listen(**wanted):
                change(server, grouped)
                await is_heard.wait()
    assert {*heard} == kinds


async def test_a_stream_hears_of_so_many_resources(engine: ToolEngine) -> None:
    """More are refused; they would be kept for as long as it is open."""
    wanted = [f"docs://{number}" for number in range(1_001)]
    async with (
        asyncio.timeout(DEADLINE),
        serving(engine) as url,
        Client(url, mode="2026-07-28") as client,
    ):
        async with client.listen(resource_subscriptions=wanted[:1_000]):
            pass
        with pytest.raises(MCPError, match="may be 1,000 at most: listen twice"):
            async with client.listen(resource_subscriptions=wanted):
                pass


KIND = PromptArgument(name="kind", is_required=True)


@pytest.mark.parametrize(
    ("offer", "words"),
    [
        (lambda server: server.add_prompt("", str), "a prompt needs a name, got ''"),
        (lambda server: server.add_prompt("p", "Tell."), "'p' needs a function, got 'Tell.'"),
        (
            lambda server: server.add_prompt("p", lambda: "x", arguments=[KIND]),
            "the function of the prompt 'p' is called with kind, and takes ()",
        ),
        (
            lambda server: server.add_prompt("p", lambda kind: kind),
            "the function of the prompt 'p' is called with nothing, and takes (kind)",
        ),
        (
            lambda server: server.add_prompt("p", lambda kind: kind, arguments=[KIND, KIND]),
            "two arguments of the prompt 'p' have one name",
        ),
        (
            lambda server: server.add_resource("d://{year}", lambda page: page),
            "the function of the resource 'd://{year}' is called with year, and takes (page)",
        ),
        (
            lambda server: server.add_resource("d://{a}", lambda a: a, values={"a": "xyz"}),
            "values of 'a' of the resource 'd://{a}' must be a list of texts, got 'xyz'",
        ),
        (
            lambda server: server.add_resource("d://{a}", lambda a: a, values=["a"]),
            "must be a mapping of lists of texts by variable, got ['a']",
        ),
        *[
            (
                partial(MCPServer.add_resource, uri=uri, read=lambda **_: ""),
                f"tool-engine: is for the results of calls, got '{uri}'; give the resource",
            )
            for uri in ("tool-engine://results/a/b", "Tool-Engine://{a}/{b}", "tool-engine:x")
        ],
        (lambda _: PromptArgument(name="kind", values="long"), "must be a list of texts"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_offered(
    engine: ToolEngine, offer: Callable[[Any], Any], words: str
) -> None:
    """A program learns it where it offers it, and no client later."""
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        offer(MCPServer(engine))


@pytest.mark.parametrize("step", ["..", ".", "%2e%2E", ".%2e"])
async def test_a_step_that_leads_out(engine: ToolEngine, connect: Connect, step: str) -> None:
    """A function that opens a file below a folder is not called with one."""
    server = MCPServer(engine)
    server.add_resource("docs://{folder}/notes", lambda folder: folder)
    async with connect(server) as client:
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource(f"docs://{step}/notes")


async def find_later(_: Any) -> str:
    return "ann"


@pytest.mark.parametrize(
    ("principal", "words"),
    [(5, "principal must be a text, a function"), (find_later, "must be a plain function")],
)
def test_what_is_no_principal(engine: ToolEngine, principal: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        MCPServer(engine, principal=principal)


async def test_a_function_that_returns_no_principal(engine: ToolEngine) -> None:
    """Nothing runs for an unknown one."""

    def find_wrong(_: Any) -> Any:
        return 5

    call = request_of("tools/call", name="add", arguments={"a": 1, "b": 2})
    async with (
        serving(engine, MCPServer(engine, principal=find_wrong)) as url,
        aiohttp.ClientSession() as http,
        http.post(url, json=call, headers=headers_of(call)) as response,
    ):
        text = await response.text()
    assert '"code":-32603' in text
    assert await engine.query_call_records() == []
