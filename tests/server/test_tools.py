"""Which tools does a client see, and how does it hear that nothing has changed?"""

from __future__ import annotations

import pytest

from tests.server.conftest import Client, Service, served
from tool_engine import ToolEngine
from tool_engine.server import create_app

SEE = "; see GET /v1/tools for those that there are"
SUCH = "; give such a one, as /openapi.json describes it"


async def test_the_list_is_sorted_and_paged(ann: Client) -> None:
    """Each tool stands on one page, in the order of the names."""
    names, cursor = [], ""
    while True:
        page = (await ann.get(f"/v1/tools?limit=1{cursor}")).json
        names += [each["name"] for each in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert names == ["add", "endless", "note", "pay"]


async def test_a_search(ann: Client) -> None:
    """With words the best comes first."""
    found = (await ann.get("/v1/tools?query=add+numbers&limit=1")).json
    assert [each["name"] for each in found["items"]] == ["add"]


async def test_what_has_not_changed_is_not_sent(ann: Client, engine: ToolEngine) -> None:
    """An ETag holds until the tools change, for each question apart."""
    for path in ("/v1/tools", "/v1/tools/add", "/v1/definitions/openai"):
        first = await ann.get(path)
        tag = first.headers["etag"]
        again = await ann.get(path, if_none_match=tag)
        assert (first.status, again.status, again.text) == (200, 304, "")
        assert again.headers["etag"] == tag
        assert first.headers["cache-control"] == "private, no-cache"
    tag = (await ann.get("/v1/tools")).headers["etag"]
    assert (await ann.get("/v1/tools?limit=1", if_none_match=tag)).status == 200
    engine.unregister_tool("note")
    assert (await ann.get("/v1/tools", if_none_match=tag)).status == 200


async def test_a_tag_of_another_server_holds_no_more(ann: Client, engine: ToolEngine) -> None:
    """A server that starts anew counts as before, and may have other tools."""
    paths = ("/v1/tools", "/v1/definitions/openai")
    tags = {path: (await ann.get(path)).headers["etag"] for path in paths}
    async with served(create_app(engine)) as other:
        client = other.client(None)
        for path, tag in tags.items():
            assert (await client.get(path, if_none_match=tag)).status == 200


@pytest.mark.parametrize("form", ["W/{tag}", '"x", {tag}', 'W/"a,b" ,W/{tag}', "*"])
async def test_how_clients_send_tags(ann: Client, form: str) -> None:
    """Proxies that pack answers make tags weak, and a client may have several."""
    tag = (await ann.get("/v1/tools/add")).headers["etag"]
    assert (await ann.get("/v1/tools/add", if_none_match=form.format(tag=tag))).status == 304
    other = form.replace("*", "{tag}").format(tag='"y"')
    assert (await ann.get("/v1/tools/add", if_none_match=other)).status == 200


async def test_one_tool(ann: Client) -> None:
    """A caller learns what it needs, and nothing of how the tool runs."""
    tool = (await ann.get("/v1/tools/add")).json
    assert tool["input_schema"]["required"] == ["a", "b"]
    assert (tool["effect"], tool["audience"]) == ("read", ["code", "model"])
    assert not {"entry", "implementation_config", "handler", "source"} & set(tool)


async def test_definitions(ann: Client) -> None:
    """Each provider's form, for all tools or those that are named."""
    for name in ("openai", "openai_responses", "anthropic", "gemini", "mcp"):
        written = (await ann.get(f"/v1/definitions/{name}?names=add")).json
        assert (written["format"], len(written["tools"])) == (name, 1)
    wrong = await ann.get("/v1/definitions/cohere")
    assert (wrong.status, wrong.kind) == (404, "unknown-format")


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/v1/tools/ad", "there is no tool 'ad'; did you mean 'add'?"),
        ("/v1/tools/%2e%2e", f"there is no tool '..'{SEE}"),
        ("/v1/definitions/mcp?names=add,nix", f"there is no tool 'nix'{SEE}"),
    ],
)
async def test_what_is_not_there(ann: Client, path: str, detail: str) -> None:
    """It is said in the words of the API, with what is near."""
    answer = await ann.get(path)
    assert (answer.status, answer.kind, answer.json["detail"]) == (404, "unknown-tool", detail)


async def test_a_name_with_a_slash_is_no_tool(ann: Client) -> None:
    """An encoded slash does not lead elsewhere."""
    answer = await ann.get("/v1/tools/..%2fengine")
    assert (answer.status, answer.json["detail"]) == (404, f"there is no tool '../engine'{SEE}")


async def test_tools_that_a_token_is_not_for(service: Service) -> None:
    """They are not there, in the words about those that never were."""
    narrow = service.client("narrow")
    listed = [each["name"] for each in (await narrow.get("/v1/tools")).json["items"]]
    assert listed == ["add", "note"]
    defined = (await narrow.get("/v1/definitions/mcp")).json["tools"]
    assert [each["name"] for each in defined] == ["add", "note"]
    for name in ("pay", "pax"):
        for answer in (await narrow.get(f"/v1/tools/{name}"), await narrow.call(name)):
            assert answer.status == 404
            assert answer.json["detail"] == f"there is no tool {name!r}{SEE}"
    assert (await narrow.call("add", a=1, b=2)).json["output"] == {"result": 3}


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("limit=0", f"the parameter 'limit' does not fit: Expected `int` >= 1{SUCH}"),
        ("limit=x", f"the parameter 'limit' does not fit: Expected `int`, got `str`{SUCH}"),
        ("limits=1", "'limits' is no parameter here; did you mean 'limit'?"),
        ("limit=1&limit=2", "'limit' stands twice in the address; give it once"),
        ("limit", "the query of the address cannot be read; write name=value&name=value"),
    ],
)
async def test_a_query_that_does_not_fit(ann: Client, query: str, says: str) -> None:
    """It is refused, and nothing is guessed."""
    answer = await ann.get(f"/v1/tools?{query}")
    assert (answer.status, answer.kind, answer.json["detail"]) == (400, "invalid-request", says)


async def test_a_cursor_of_no_page(ann: Client) -> None:
    """A cursor that no answer gave is not read as one."""
    answer = await ann.get("/v1/tools?cursor=abc")
    assert (answer.status, answer.kind) == (404, "unknown-cursor")


async def test_those_that_models_are_not_told_of(
    ann: Client, olga: Client, engine: ToolEngine
) -> None:
    """One that operates sees drafts and deprecated tools if it asks for all; others do not."""
    for status in ("draft", "testing", "deprecated"):
        engine.register_tool(
            {
                "name": f"is_{status}",
                "version": "1.0.0",
                "description": "Say where it stands. Use add in place of it.",
                "status": status,
                "effect": "read",
            },
            _do_nothing,
        )
    told = ["add", "endless", "is_testing", "note", "pay"]
    for client in (ann, olga):
        items = (await client.get("/v1/tools")).json["items"]
        assert [each["name"] for each in items] == told
    listed = await olga.get("/v1/tools?all=true")
    items = {each["name"]: each["status"] for each in listed.json["items"]}
    assert set(items) == {*told, "is_draft", "is_deprecated"}
    assert (items["is_draft"], items["add"]) == ("draft", "published")
    found = (await olga.get("/v1/tools?all=true&query=where+it+stands")).json["items"]
    assert [each["name"] for each in found] == ["is_testing", "is_deprecated", "is_draft"]
    refused = await ann.get("/v1/tools?all=true")
    assert (refused.status, refused.kind) == (403, "not-allowed")


def _do_nothing() -> None:
    """Do nothing."""
