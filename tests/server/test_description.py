"""Is what the API says of itself what it does?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema
import pytest

from tests.server.conftest import Client, Service, served
from tool_engine import ToolEngine
from tool_engine.server import create_app
from tool_engine.server.app import OPERATIONS, App

READS = {
    "/v1/tools",
    "/v1/tools/{name}",
    "/v1/tools/{name}/definition",
    "/v1/definitions/{format}",
    "/v1/calls",
    "/v1/tasks",
    "/v1/records",
    "/v1/statistics",
    "/v1/admission",
    "/v1/approvals",
    "/v1/engine",
    "/v1/sources",
    "/v1/lock",
    "/v1/sessions",
    "/healthz",
    "/readyz",
    "/openapi.json",
}


@pytest.fixture
async def described(service: Service) -> dict[str, Any]:
    answer = await service.client(None).get("/openapi.json")
    return dict(answer.json)


def check(described: dict[str, Any], schema: Any, value: Any) -> None:
    """What an implementation of JSON Schema that is not ours says of an answer."""
    whole = {**schema, "components": described["components"]}
    jsonschema.Draft202012Validator(whole).validate(value)


async def test_every_operation_is_described(described: dict[str, Any]) -> None:
    """Each has a name of its own, words, and the problems that it may answer with."""
    found = [each for path in described["paths"].values() for each in path.values()]
    assert len(found) == len(OPERATIONS)
    assert len({each["operationId"] for each in found}) == len(found)
    for each in found:
        assert each["summary"].endswith(".")
        assert {"400", "421", "429", "500"} <= set(each["responses"])
    assert described["openapi"] == "3.1.1"


class Mounted:
    """The app below a path of another one, which takes all that is below it."""

    def __init__(self, app: App, root: str) -> None:
        self._app = app
        self._root = root

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app({**scope, "root_path": self._root}, receive, send)

    def end(self) -> None:
        self._app.end()


@pytest.mark.parametrize("root", ["", "/inner", "/in ner/ä", "/{name}"])
async def test_the_server_that_is_described(engine: ToolEngine, root: str) -> None:
    """It is the one that answers: a path of the description is below it, also for an app that is
    mounted.
    """
    async with served(Mounted(create_app(engine), root)) as service:
        client = service.client(None)
        described = (await client.get(f"{quote(root)}/openapi.json")).json
        (server,) = described["servers"]
        assert server["url"] == (quote(root) or "/")
        found = await client.get(f"{server['url'].rstrip('/')}/v1/tools")
        assert {each["name"] for each in found.json["items"]} >= {"add", "note"}


async def test_every_reference_leads_somewhere(described: dict[str, Any]) -> None:
    """No schema names one that is not there."""
    names = set(described["components"]["schemas"])
    asked: list[Any] = [described]
    while asked:
        value = asked.pop()
        if isinstance(value, dict):
            if isinstance(ref := value.get("$ref"), str):
                assert ref.removeprefix("#/components/schemas/") in names, ref
            asked += value.values()
        elif isinstance(value, list):
            asked += value


async def test_answers_are_as_described(
    described: dict[str, Any], ann: Client, olga: Client
) -> None:
    """What is read fits the schema that stands beside it."""
    await ann.call("add", a=1, b=2)
    await ann.call("add", a="x", b=2)
    tried = set()
    for path, methods in described["paths"].items():
        if path not in READS:
            continue
        address = path.replace("{name}", "add").replace("{format}", "openai")
        answer = await olga.get(address)
        schema = methods["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        check(described, schema, answer.json)
        tried.add(path)
    assert tried == READS


async def test_results_and_problems_are_as_described(
    described: dict[str, Any], ann: Client
) -> None:
    """A call's answers fit too, whether it went well or not."""
    answers = described["paths"]["/v1/tools/{name}/calls"]["post"]["responses"]
    for arguments in ({"a": 1, "b": 2}, {"a": "x"}):
        answer = await ann.call("add", **arguments)
        check(described, answers["200"]["content"]["application/json"]["schema"], answer.json)
    lost = await ann.call("nix")
    check(described, answers["404"]["content"]["application/problem+json"]["schema"], lost.json)


def test_the_page_has_every_operation() -> None:
    """The reference lists what there is, with its scope, and nothing else."""
    text = (Path(__file__).parents[2] / "docs/reference/http-server.md").read_text()
    rows = re.findall(r"^\| `([A-Z]+ /\S*)` \| (\S+) \| (.+) \|$", text, re.MULTILINE)
    assert rows == [
        (
            f"{each.method} {each.path}",
            "none" if each.scope is None else f"`{each.scope}`",
            each.summary,
        )
        for each in OPERATIONS
    ]
