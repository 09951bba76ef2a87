"""The client that the protocol's suite tests: an engine with one source, for each scenario."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
import mcp_types as types
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from tool_engine import Tool, ToolEngine, ToolEngineConfig
from tool_engine.executors.mcp.mcp_source import MCPSource

LIMIT: Final = 240.0
CALLBACK: Final = AnyUrl("http://localhost:3000/callback")
ARGUMENTS: Final = {"integer": 0, "number": 0, "boolean": False, "object": {}, "array": []}
ADDITION: Final = [("add_numbers", {"a": 5, "b": 3})]
STATES: Final = ("echo_state", "unrelated", "no_state", "no_result_type")
CALLS: Final[dict[str, list[tuple[str, dict[str, Any]]]]] = {
    "initialize": [],
    "json-schema-ref-no-deref": [],
    "tools_call": ADDITION,
    "request-metadata": ADDITION,
    "http-standard-headers": ADDITION,
    "sse-retry": [("test_reconnection", {})],
    "elicitation-sep1034-client-defaults": [("test_client_elicitation_defaults", {})],
    "sep-2322-client-request-state": [(f"test_mrtr_{name}", {}) for name in STATES],
}
"""The calls of scenarios; in others each tool of the list is called once."""


class Storage(TokenStorage):
    """Keeps tokens as long as the program runs."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        if "client_id" in given:
            secret = given.get("client_secret")
            self.client = OAuthClientInformationFull(
                client_id=given["client_id"],
                client_secret=secret,
                redirect_uris=[CALLBACK],
                token_endpoint_auth_method="client_secret_basic" if secret else "none",
            )

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Person:
    """Logs in at once, as a browser would."""

    def __init__(self) -> None:
        self.given: dict[str, list[str]] = {}

    async def open_page(self, url: str) -> None:
        # It reads the certificates of the machine.
        async with await asyncio.to_thread(httpx2.AsyncClient) as client:
            answer = await client.get(url, follow_redirects=False)
        self.given = parse_qs(urlsplit(answer.headers["location"]).query)

    async def give_code(self) -> AuthorizationCodeResult:
        given = {key: values[0] for key, values in self.given.items()}
        return AuthorizationCodeResult(
            code=given["code"], state=given.get("state"), iss=given.get("iss")
        )


def make_auth(url: str, given: dict[str, Any]) -> OAuthClientProvider:
    person = Person()
    return OAuthClientProvider(
        server_url=url,
        client_metadata=OAuthClientMetadata(
            client_name="tool-engine",
            redirect_uris=[CALLBACK],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        ),
        storage=Storage(given),
        redirect_handler=person.open_page,
        callback_handler=person.give_code,
        client_metadata_url="https://conformance-test.local/client-metadata.json",
    )


async def accept_defaults(context: Any, params: Any) -> types.ElicitResult:
    fields = getattr(params, "requested_schema", {}).get("properties", {})
    content = {key: field["default"] for key, field in fields.items() if "default" in field}
    return types.ElicitResult(action="accept", content=content)


async def confirm(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"confirmed": True})


async def sample(context: Any, params: Any) -> types.CreateMessageResult:
    text = types.TextContent(type="text", text="")
    return types.CreateMessageResult(role="assistant", content=text, model="none")


async def list_roots(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[])


CALLBACKS: Final[dict[str, dict[str, Any]]] = {
    "elicitation-sep1034-client-defaults": {"elicitation_callback": accept_defaults},
    "sep-2322-client-request-state": {"elicitation_callback": confirm},
    "request-metadata": {
        "elicitation_callback": accept_defaults,
        "sampling_callback": sample,
        "list_roots_callback": list_roots,
    },
}


def list_calls(scenario: str, given: dict[str, Any], tools: list[Tool]) -> list[tuple[str, Any]]:
    if "toolCalls" in given:
        return [(each["name"], each.get("arguments") or {}) for each in given["toolCalls"]]
    if scenario in CALLS:
        return CALLS[scenario]
    return [(tool.name, fill_required(tool)) for tool in tools]


def fill_required(tool: Tool) -> dict[str, Any]:
    """Return the fewest arguments that a tool takes."""
    schema = tool.parameters_schema
    return {
        name: ARGUMENTS.get(schema["properties"][name].get("type"), "x")
        for name in schema.get("required", [])
    }


async def play_scenario(scenario: str, given: dict[str, Any], url: str, folder: str) -> str:
    """Play the client of a scenario with the tools of a folder; return what came of its calls."""
    source = MCPSource(
        "suite",
        url=url,
        # On a busy machine a login takes long, and what is tested is another matter.
        connect_timeout=LIMIT,
        # Its authorization servers have ports of their own.
        allow=["localhost:*", "127.0.0.1:*"],
        auth=make_auth(url, given) if scenario.startswith("auth/") else None,
        callbacks=CALLBACKS.get(scenario),
    )
    ended = [scenario]
    async with ToolEngine(ToolEngineConfig(tools_directory=folder)) as engine:
        await engine.add_source(source)
        tools = [tool for tool in engine.index if tool.origin == source.origin]
        for name, arguments in list_calls(scenario, given, tools):
            result = await engine.execute(name, arguments)
            ended.append(f"{name} {arguments}: {result.outcome.value} {result.error or ''}")
    return "\n  ".join(ended)
