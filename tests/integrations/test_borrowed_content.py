"""What comes of images, files and artifacts that the tools of other frameworks return."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.frameworks import BORROWED
from tests.integrations.test_offered_tools import PIXEL
from tool_engine import ToolEngine, ToolSession
from tool_engine.protocols.result_content import text_of

DATA = base64.b64encode(PIXEL).decode()
IMAGE = {"type": "image", "data": DATA, "mimeType": "image/png"}
SECRET = "row 7 of the payroll"
LINK = "https://example.com/a.png"


async def run_borrowed(
    engine: ToolEngine, framework: int, make: Callable[[], Any], **options: Any
) -> Any:
    """Return the result of a tool of a framework that returns what `make` does."""

    async def show(first: int) -> Any:
        """Show."""
        return make()

    await engine.add_source(BORROWED[framework](show, **options))
    result = await ToolSession(engine, "chat").execute("show", {"first": 1})
    assert result.is_success, result.error
    return result


def blocks_of(result: Any) -> list[Any]:
    found: list[Any] = result.output["content"]
    return found


async def test_artifact_of_langchain(engine: ToolEngine) -> None:
    """It stays with the caller: no model reads it."""
    pytest.importorskip("langchain_core")
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import StructuredTool

    from tool_engine.integrations.langchain import from_langchain_tools

    async def find(first: int) -> Any:
        """Find."""
        return "three rows", {"rows": [SECRET]}

    async def tell(first: int) -> Any:
        """Tell."""
        return ToolMessage("three rows", tool_call_id="x", artifact={"rows": [SECRET]})

    tools = [
        StructuredTool.from_function(coroutine=find, response_format="content_and_artifact"),
        StructuredTool.from_function(coroutine=tell),
    ]
    await engine.add_source(from_langchain_tools(tools))
    for name in ("find", "tell"):
        result = await ToolSession(engine, "chat").execute(name, {"first": 1})
        assert result.output["_meta"] == {"artifact": {"rows": [SECRET]}}
        assert result.final_text == text_of(result) == "three rows"


async def test_a_model_that_reads_on_gets_no_artifact(engine: ToolEngine) -> None:
    """`read_result` reads the record, in which the artifact is."""
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import ToolReturn

    read = {"name": "read_result", "description": "Read on.", "effect": "read"}
    names = [{"name": name, "type": "string", "description": "It."} for name in ("call_id", "path")]
    entry = {"type": "builtin", "handler": "read_result"}
    place = Path(engine.config.tools_directory) / "read_result.yaml"
    place.write_text(json.dumps({**read, "parameters": names, "entry": entry}))
    await engine.reload()
    returned = ToolReturn("x" * 50_000, metadata={"rows": [SECRET]})
    await run_borrowed(engine, 0, lambda: returned)
    session = ToolSession(engine, "chat")
    first = await session.execute("show", {"first": 1})
    whole = await session.execute("read_result", {"call_id": first.call_id})
    assert whole.is_success, whole.error
    assert SECRET not in str(whole.output)
    inside = await session.execute("read_result", {"call_id": first.call_id, "path": "_meta"})
    assert "has no key '_meta'" in str(inside.error)


async def test_artifact_without_a_form_in_json(engine: ToolEngine) -> None:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import ToolReturn

    result = await run_borrowed(engine, 0, lambda: ToolReturn("done", metadata=object()))
    assert "an artifact, a object" in result.output["_meta"]["left_out"]
    assert result.final_text == "done"


async def test_tool_return_of_pydantic_ai(engine: ToolEngine) -> None:
    """The value and what is added to it are read; the metadata stays with the caller."""
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import BinaryContent, CachePoint, ToolReturn

    image = BinaryContent(PIXEL, media_type="image/png")
    result = await run_borrowed(
        engine,
        0,
        lambda: ToolReturn(
            {"points": 3}, content=["See:", image, CachePoint()], metadata={"rows": [SECRET]}
        ),
    )
    text, see, shown = blocks_of(result)
    assert json.loads(text["text"]) == {"points": 3}
    assert (see["text"], shown) == ("See:", IMAGE)
    assert result.output["_meta"] == {"artifact": {"rows": [SECRET]}}
    assert SECRET not in result.final_text


async def test_data_beside_metadata_stays_data(engine: ToolEngine) -> None:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import ToolReturn

    returned = ToolReturn({"points": 3}, metadata={"rows": [SECRET]})
    result = await run_borrowed(engine, 0, lambda: returned)
    assert result.output["structuredContent"] == {"points": 3}
    assert json.loads(result.final_text) == {"points": 3}


async def test_media_of_pydantic_ai(engine: ToolEngine) -> None:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import BinaryContent, ImageUrl, UploadedFile

    def show() -> Any:
        return [
            {"a": 1},
            BinaryContent(PIXEL, media_type="image/png"),
            BinaryContent(b"RIFF", media_type="audio/wav"),
            BinaryContent(b"%PDF-1.7", media_type="application/pdf", identifier="report.pdf"),
            BinaryContent(b"a,b", media_type="text/csv", identifier="a.csv"),
            ImageUrl(LINK),
            UploadedFile("file-1", provider_name="openai"),
            BinaryContent(b"", media_type="image/png", identifier="nothing"),
        ]

    data, image, sound, pdf, table, link, uploaded, empty = blocks_of(
        await run_borrowed(engine, 0, show)
    )
    assert json.loads(data["text"]) == {"a": 1}
    assert image == IMAGE
    assert (sound["type"], sound["mimeType"]) == ("audio", "audio/wav")
    assert pdf["resource"]["uri"] == "attachment://report.pdf"
    assert pdf["resource"]["mimeType"] == "application/pdf"
    assert table["resource"]["text"] == "a,b"
    assert (link["type"], link["uri"]) == ("resource_link", LINK)
    assert "'file-1' at a provider, left out" in uploaded["text"]
    assert empty["text"].startswith("[nothing, left out: ")


@pytest.mark.parametrize("raised", ["ApprovalRequired", "CallDeferred"])
async def test_what_only_an_agent_of_pydantic_ai_obeys(engine: ToolEngine, raised: str) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")

    async def pay(first: int) -> Any:
        """Pay."""
        raise getattr(pydantic_ai, raised)

    await engine.add_source(BORROWED[0](pay))
    result = await engine.execute("pay", {"first": 1})
    assert result.error_type == "execution_error"
    assert f"raised {raised}, which only an agent of pydantic-ai obeys" in str(result.error)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": DATA, "mime_type": "image/png"},
        {"type": "image", "source_type": "base64", "data": DATA, "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
        {"type": "image_url", "image_url": f"data:image/png;base64,{DATA}"},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": DATA},
        },
    ],
    ids=["v1", "v0", "openai", "openai-text", "anthropic"],
)
async def test_image_blocks_of_langchain(engine: ToolEngine, block: dict[str, Any]) -> None:
    pytest.importorskip("langchain_core")
    result = await run_borrowed(engine, 1, lambda: [{"type": "text", "text": "A dot:"}, block])
    assert blocks_of(result) == [{"type": "text", "text": "A dot:"}, IMAGE]


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"type": "image", "url": LINK}, LINK),
        ({"type": "image", "source": {"type": "url", "url": LINK}}, LINK),
        ({"type": "image", "file_id": "file-1"}, "'file-1' at a provider, left out"),
        ({"type": "file", "file": {"file_id": "file-1"}}, "'file-1' at a provider"),
        ({"type": "image", "base64": "???", "mime_type": "image/png"}, "[image, left out: "),
        ({"type": "file", "base64": "JVBERg==", "mime_type": "application/pdf"}, "attachment"),
        (
            {"type": "file", "file": {"file_data": "JVBERg==", "filename": "a.pdf"}},
            "attachment://a.pdf, application/pdf",
        ),
        (
            {
                "type": "document",
                "source": {"type": "text", "data": "Hi.", "media_type": "text/plain"},
            },
            "Hi.",
        ),
        ({"type": "search_result", "title": "Oslo"}, '"title": "Oslo"'),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
async def test_other_blocks_of_langchain(
    engine: ToolEngine, block: dict[str, Any], words: str
) -> None:
    """An address is a link, a file a resource; what is not here is named; the rest is JSON."""
    pytest.importorskip("langchain_core")
    result = await run_borrowed(engine, 1, lambda: [block])
    assert words in result.final_text


@pytest.mark.parametrize("data", [["a", "b"], [], [{"type": "unknown"}], {"type": "image"}])
async def test_data_of_langchain_stays_data(engine: ToolEngine, data: Any) -> None:
    pytest.importorskip("langchain_core")
    result = await run_borrowed(engine, 1, lambda: data)
    assert (result.output["result"] if isinstance(data, list) else result.output) == data


async def test_outputs_of_openai_agents(engine: ToolEngine) -> None:
    pytest.importorskip("agents")
    from agents import ToolOutputFileContent, ToolOutputImage, ToolOutputText

    url = f"data:image/png;base64,{DATA}"
    pdf = base64.b64encode(b"%PDF-1.7").decode()
    parts: list[Any] = [
        ToolOutputText(text="A dot:"),
        ToolOutputImage(image_url=url),
        {"type": "image", "image_url": LINK},
        ToolOutputImage(file_id="file-1"),
        ToolOutputFileContent(file_data=pdf, filename="a.pdf"),
        ToolOutputFileContent(file_url="https://example.com/b.pdf", filename="b.pdf"),
    ]
    text, image, link, uploaded, file, other = blocks_of(
        await run_borrowed(engine, 2, lambda: parts)
    )
    assert (text["text"], image) == ("A dot:", IMAGE)
    assert (link["type"], link["uri"]) == ("resource_link", LINK)
    assert "'file-1' at a provider" in uploaded["text"]
    assert file["resource"] == {
        "uri": "attachment://a.pdf",
        "mimeType": "application/pdf",
        "blob": pdf,
    }
    assert (other["type"], other["name"]) == ("resource_link", "b.pdf")


async def test_lone_image_of_openai_agents(engine: ToolEngine) -> None:
    pytest.importorskip("agents")
    from agents import ToolOutputImage

    shown = ToolOutputImage(image_url=f"data:image/png;base64,{DATA}")
    assert blocks_of(await run_borrowed(engine, 2, lambda: shown)) == [IMAGE]


@pytest.mark.parametrize("data", [[], [{"type": "image"}], [{"type": "text", "text": "a"}, 1]])
async def test_data_of_openai_agents_stays_data(engine: ToolEngine, data: Any) -> None:
    """As there: only a list of which all is content is some."""
    pytest.importorskip("agents")
    assert (await run_borrowed(engine, 2, lambda: data)).output["result"] == data


async def test_blocks_of_llamaindex(engine: ToolEngine, tmp_path: Any) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.base.llms.types import (
        AudioBlock,
        CacheControl,
        CachePoint,
        CitableBlock,
        DocumentBlock,
        ImageBlock,
        TextBlock,
        ThinkingBlock,
    )
    from llama_index.core.tools import ToolOutput

    place = tmp_path / "a.png"
    place.write_bytes(PIXEL)
    blocks: list[Any] = [
        TextBlock(text="A dot:"),
        ImageBlock(image=PIXEL),
        ImageBlock(path=place),
        ImageBlock(url=LINK),
        AudioBlock(audio=b"RIFF", format="mp3"),
        DocumentBlock(data=b"%PDF-1.7", title="a.pdf", document_mimetype="application/pdf"),
        DocumentBlock(path=str(tmp_path / "none.pdf")),
        CachePoint(cache_control=CacheControl(type="ephemeral")),
        CitableBlock(title="Oslo", source="atlas", content=[TextBlock(text="A city.")]),
        ThinkingBlock(content="Hm."),
    ]

    def show() -> Any:
        return ToolOutput("show", blocks=blocks, raw_input={}, raw_output={"rows": [SECRET]})

    result = await run_borrowed(engine, 3, show)
    text, image, read, link, sound, pdf, none, cited, inside, thinking = blocks_of(result)
    assert (text["text"], image, read) == ("A dot:", IMAGE, IMAGE)
    assert (link["type"], link["uri"]) == ("resource_link", LINK)
    assert (sound["type"], sound["mimeType"]) == ("audio", "audio/mpeg")
    assert pdf["resource"]["uri"] == "attachment://a.pdf"
    assert none["text"].startswith("[input_document, left out: ")
    assert (cited["text"], inside["text"]) == ("Oslo (atlas)", "A city.")
    assert thinking["text"].startswith("[ThinkingBlock, left out")
    assert result.output["_meta"] == {"artifact": {"rows": [SECRET]}}
    assert SECRET not in result.final_text


async def test_lone_block_of_llamaindex(engine: ToolEngine) -> None:
    """It is what the model sees, and no artifact beside that."""
    pytest.importorskip("llama_index.core")
    from llama_index.core.base.llms.types import ImageBlock

    result = await run_borrowed(engine, 3, lambda: ImageBlock(image=PIXEL))
    assert result.output == {"content": [IMAGE]}


async def test_callback_of_llamaindex(engine: ToolEngine) -> None:
    """Its words are what the model reads; what it read stays with the caller."""
    pytest.importorskip("llama_index.core")
    from llama_index.core.tools import FunctionTool

    from tool_engine.integrations.llamaindex import from_llamaindex_tools

    async def show(first: int) -> Any:
        """Show."""
        return {"rows": [SECRET]}

    tool = FunctionTool.from_defaults(async_fn=show, callback=lambda raw: f"{len(raw)} row")
    await engine.add_source(from_llamaindex_tools([tool]))
    result = await ToolSession(engine, "chat").execute("show", {"first": 1})
    assert result.final_text == "1 row"
    assert result.output["_meta"] == {"artifact": {"rows": [SECRET]}}


async def test_output_of_llamaindex_that_is_an_error(engine: ToolEngine) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.tools import ToolOutput

    async def show(first: int) -> Any:
        """Show."""
        return ToolOutput("show", content="no luck", raw_input={}, is_error=True)

    await engine.add_source(BORROWED[3](show))
    result = await engine.execute("show", {"first": 1})
    assert (result.error_type, result.error) == ("execution_error", "no luck")


@pytest.mark.parametrize("framework", range(4), ids=lambda at: BORROWED[at].__name__)
@pytest.mark.parametrize("data", ["text", 20, 1.5, None, True, {"a": [1, {"b": None}]}, [1, 2]])
async def test_data_stays_data(engine: ToolEngine, framework: int, data: Any) -> None:
    result = await run_borrowed(engine, framework, lambda: data)
    read = result.output if isinstance(data, dict) else result.output["result"]
    assert read == data
