"""Content that a tool returns is the same wherever the tool runs, and wherever its result goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.calls.samples import bare
from tests.executors.python.conftest import write as write
from tool_engine import (
    AudioContent,
    ImageContent,
    ResourceContent,
    ResourceLink,
    TextContent,
    ToolCallConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionResult,
    ToolSession,
)
from tool_engine.knowledge.memory_sessions import MemorySessionStorage
from tool_engine.model.content.blocks import lay_out, read_content
from tool_engine.model.content.pieces import Content
from tool_engine.session.reading.compression import compressed_result

BOUND: Final = 30.0
KEY: Final = "sk-ant-api03-" + "Zb7" * 12
PIECES: Final[list[str | Content]] = [
    "See:",
    TextContent("Hello."),
    ImageContent(b"\x89PNG", "image/png"),
    AudioContent(b"RIFF", "audio/wav"),
    ResourceContent("notes://1", text="Milk."),
    ResourceContent("report://q3", data=b"%PDF", mime_type="application/pdf"),
    ResourceLink("https://example.com/a", "a", size=5),
]
LAID: Final[dict[str, Any]] = lay_out(PIECES)
SOURCE: Final = """
from tool_engine import (
    AudioContent, ImageContent, ResourceContent, ResourceLink, TextContent
)
def give():
    return [
        "See:",
        TextContent("Hello."),
        ImageContent(b"\\x89PNG", "image/png"),
        AudioContent(b"RIFF", "audio/wav"),
        ResourceContent("notes://1", text="Milk."),
        ResourceContent("report://q3", data=b"%PDF", mime_type="application/pdf"),
        ResourceLink("https://example.com/a", "a", size=5),
    ]
def one():
    return ImageContent(b"\\x89PNG", "image/png")
def nested():
    return {"picture": ImageContent(b"\\x89PNG", "image/png")}
def plain():
    return ["See:"]
"""


@pytest.fixture(params=["memory", "sqlite"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ToolEngine]:
    records = f"sqlite:///{tmp_path}/calls.db" if request.param == "sqlite" else None
    config = ToolEngineConfig("none", auto_reload=False, records=records)
    async with asyncio.timeout(BOUND), ToolEngine(config) as made:
        yield made


def offer(engine: ToolEngine, value: Any, **keys: Any) -> list[str]:
    """Tools that return the value: one on the loop, and one in a thread."""

    async def give() -> Any:
        return value

    engine.register_tool(bare("give", effect="read", **keys), give)
    engine.register_tool(bare("in_thread", effect="read", **keys), lambda: value)
    return ["give", "in_thread"]


@pytest.mark.parametrize(
    "keys", [{}, {"result": {"max_chars": 20_000}}, {"concurrency": {"collision": "single_flight"}}]
)
async def test_results_and_records(engine: ToolEngine, keys: dict[str, Any]) -> None:
    """The output is JSON, and the record has the same."""
    for name in offer(engine, PIECES, **keys):
        results = await asyncio.gather(*(engine.execute(name) for _ in range(2)))
        for result in results:
            assert result.is_success, result.error
            assert json.loads(json.dumps(result.output)) == LAID
        assert read_content(results[0].output) == [TextContent("See:"), *PIECES[1:]]
    records = await engine.query_call_records()
    assert [each.result for each in records] == [LAID] * 4


async def test_isolated_handlers(write: Callable[[str], str], tmp_path: Path) -> None:
    """A worker process sends the same."""
    module, tools = write(SOURCE), tmp_path / "tools"
    tools.mkdir()
    for name in ("give", "one", "nested", "plain"):
        (tools / f"{name}.yaml").write_text(
            f"name: {name}\ndescription: A sample.\n"
            f"entry: {{type: custom, handler: '{module}:{name}', config: {{isolation: process}}}}\n"
        )
    config = ToolEngineConfig(str(tools), auto_reload=False)
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        assert engine.load_errors == []
        assert (await engine.execute("give")).output == LAID
        assert (await engine.execute("one")).output == lay_out(PIECES[2])
        assert (await engine.execute("plain")).output == {"result": ["See:"]}
        result = await engine.execute("nested")
        assert result.error_type == "execution_error"
        assert "ImageContent" in str(result.error)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"charts": [{"first": PIECES[2]}]},
            "the ImageContent that it returned at 'charts[0].first' has no form in JSON: return it",
        ),
        ([PIECES[2], 5], "the int that it returned at '[1]' stands beside content: make it a text"),
        ({"content": [PIECES[2]], "a": 1}, "'a' stands beside the content that it returned"),
    ],
)
@pytest.mark.parametrize("keys", [{}, {"result": {"max_chars": 20_000}}])
async def test_content_in_the_wrong_place(
    engine: ToolEngine, value: Any, message: str, keys: dict[str, Any]
) -> None:
    """No model would read it there: the error has the place and the cure."""
    for name in offer(engine, value, **keys):
        result = await engine.execute(name)
        assert (result.is_success, result.error_type) == (False, "execution_error")
        assert message in str(result.error)


async def test_what_a_constructor_refuses(engine: ToolEngine) -> None:
    """It is the error of the call, with its cure."""

    def give() -> Any:
        return ImageContent(b"x", "png")

    engine.register_tool(bare("give"), give)
    result = await engine.execute("give")
    assert result.error_type == "execution_error"
    assert "mime_type must be a type such as image/png, got 'png'" in str(result.error)


DECLARED: Final = {"type": "object", "properties": {"a": "integer"}}


@pytest.mark.parametrize("size", [1, 100_000])
async def test_declared_outputs(engine: ToolEngine, size: int) -> None:
    """What stands under `structuredContent` is held to the declaration."""
    pieces = [TextContent("x" * size), ImageContent(b"x" * size, "image/png")]
    right = {"content": pieces, "structuredContent": {"a": 1}}
    for name in offer(engine, right, output=DECLARED):
        result = await engine.execute(name)
        assert result.is_success, result.error
        assert result.output["structuredContent"] == {"a": 1}
        engine.unregister_tool(name)
    wrong = {"content": pieces, "structuredContent": {"a": "b"}}
    for name in offer(engine, wrong, output=DECLARED):
        result = await engine.execute(name)
        assert result.error_type == "execution_error"
        assert "'output.a' must be a" in str(result.error)
        engine.unregister_tool(name)
    parts = {"content": "array", "structuredContent": DECLARED}
    whole = {"type": "object", "properties": parts, "required": [*parts]}
    for name in offer(engine, right, output=whole):
        assert (await engine.execute(name)).is_success


async def test_declared_outputs_that_are_called_content(engine: ToolEngine) -> None:
    """What is declared is the data, of which a part may be called as the pieces are."""
    declared = {"type": "object", "properties": {"content": "string"}, "required": ["content"]}
    for data, is_success in (({"content": "a"}, True), ({"content": 1}, False)):
        output = {"content": [TextContent("a")], "structuredContent": data}
        for name in offer(engine, output, output=declared):
            assert (await engine.execute(name)).is_success == is_success
            engine.unregister_tool(name)


async def test_conversations(engine: ToolEngine) -> None:
    """S15: a model reads names of bytes and whole texts; the bytes are in the kept variable."""
    offer(engine, PIECES)
    storage = MemorySessionStorage()
    session = ToolSession(engine, "s", storage=storage)
    result = await session.execute("give", {})
    text = (
        "See:\nHello.\n[image/png, 4 bytes]\n[audio/wav, 4 bytes]\n[resource notes://1]\nMilk.\n"
        "[resource report://q3, application/pdf, 4 bytes]\n"
        "[link to https://example.com/a, a, 5 bytes]"
    )
    assert result.final_text == result.formatted_text == text
    assert compressed_result(result).startswith(text[:150])
    await session.save()
    kept = await ToolSession.restore(engine, "s", storage=storage)
    assert kept is not None
    assert kept.variables.get("give_1_result").value == LAID
    small = ToolSession(engine, "t", ToolCallConfig(limit=120))
    cut = await small.execute("give", {})
    assert cut.is_truncated
    assert len(cut.final_text or "") <= 120


async def test_secrets_in_texts_of_content(engine: ToolEngine) -> None:
    """Records hide them there as everywhere."""
    offer(engine, [f"the key is {KEY}", PIECES[2]])
    result = await engine.execute("give")
    assert KEY in str(result.output)
    (record,) = await engine.query_call_records()
    assert KEY not in str(record.to_dict())
    assert lay_out(PIECES[2])["content"][0] in record.to_dict()["result"]["content"]


async def test_bytes_in_a_limited_output(engine: ToolEngine) -> None:
    """Base64 counts in `max_chars`; what is left of it is never shown as an image."""
    offer(engine, ImageContent(b"x" * 5_000, "image/png"), result={"max_chars": 500})
    result = await engine.execute("give")
    assert result.is_success
    assert read_content(result.output) == [TextContent(result.output["_cut"])]


async def test_large_bytes_in_a_record(engine: ToolEngine) -> None:
    """The record keeps its beginning, and says how long the whole is."""
    offer(engine, ImageContent(b"x" * 1_000_000, "image/png"))
    result = await engine.execute("give")
    assert len(result.output["content"][0]["data"]) > 1_000_000
    (record,) = await engine.query_call_records()
    assert record.result["_truncated"]["size"] > 1_000_000
    assert read_content(record.result) == []


async def test_tools_that_pass_content_on(engine: ToolEngine) -> None:
    """The output of a tool is what another tool may return, alone or with more around it."""
    offer(engine, PIECES)

    async def passed(context: Any) -> Any:
        return (await context.call("give", {})).output

    async def more(context: Any) -> Any:
        inner: ToolExecutionResult = await context.call("give", {})
        return ["Of give:", *inner.output["content"], PIECES[2]]

    for function in (passed, more):
        engine.register_tool(bare(function.__name__, effect="read"), function)
    assert (await engine.execute("passed")).output == LAID
    blocks = (await engine.execute("more")).output["content"]
    assert blocks[1:-1] == LAID["content"]
