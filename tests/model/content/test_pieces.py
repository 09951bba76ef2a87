"""Content is made of what it says, in the form of MCP's blocks, and reads back as it was.

`mcp_content.json` is the schema of `ContentBlock` in revision 2025-11-25, as MCP's Python SDK 2.3
writes it, without its descriptions.
"""

from __future__ import annotations

import base64
import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tool_engine
from tests.effort import share_of
from tool_engine import (
    AudioContent,
    ConfigurationError,
    ImageContent,
    ResourceContent,
    ResourceLink,
    TextContent,
    ToolExecutionError,
)
from tool_engine.model.content.blocks import lay_out, read_block, read_content, write_text
from tool_engine.model.content.pieces import MOST_BYTES, Content, count_bytes, write_size

BLOCK = jsonschema.Draft202012Validator(
    json.loads((Path(__file__).parent / "mcp_content.json").read_text("utf-8"))
)
ANY: Any = tool_engine
"""The same names, as a program without types uses them."""
PNG = b"\x89PNG\r\n\x1a\n" + bytes(4)
SAMPLES: dict[str, Content] = {
    "text": TextContent("Hello."),
    "image": ImageContent(PNG, "image/png"),
    "audio": AudioContent(b"RIFF", "audio/wav"),
    "text of a resource": ResourceContent("notes://1", text="Milk.", mime_type="text/plain"),
    "bytes of a resource": ResourceContent(
        "report://q3", data=b"%PDF", mime_type="application/pdf"
    ),
    "bytes of no type": ResourceContent("blob://1", data=b"\0"),
    "link": ResourceLink("https://example.com/a", "a"),
    "whole link": ResourceLink(
        "https://example.com/a",
        "a",
        title="A",
        description="The first.",
        mime_type="text/html",
        size=12_345,
    ),
}
texts = st.text(max_size=20)
data = st.binary(min_size=1, max_size=50)
contents = st.one_of(
    st.builds(TextContent, texts),
    st.builds(ImageContent, data, st.sampled_from(["image/png", "image/svg+xml"])),
    st.builds(AudioContent, data, st.sampled_from(["audio/wav", "audio/L16; rate=8000"])),
    st.builds(ResourceContent, texts, text=texts),
    st.builds(ResourceContent, texts, data=data, mime_type=st.sampled_from([None, "a/b"])),
    st.builds(
        ResourceLink,
        texts,
        texts,
        title=st.none() | texts,
        description=st.none() | texts,
        mime_type=st.sampled_from([None, "a/b"]),
        size=st.none() | st.integers(0),
    ),
)


@settings(max_examples=share_of(300))
@given(contents)
def test_blocks_are_those_of_mcp(content: Content) -> None:
    """They fit its schema, and read back equal, also from their JSON."""
    block = json.loads(json.dumps(content.to_dict()))
    BLOCK.validate(block)
    read = read_block(block)
    assert read == content
    assert hash(read) == hash(content)
    assert read != TextContent("another one")
    for copied in (copy.copy(content), copy.deepcopy(content), pickled(content)):
        assert (type(copied), copied) == (type(content), content)


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - what was written in the same line


def test_fields() -> None:
    """What was given is what can be read; bytes also as base64."""
    image, link = SAMPLES["image"], SAMPLES["whole link"]
    pdf, note = SAMPLES["bytes of a resource"], SAMPLES["text of a resource"]
    assert isinstance(image, ImageContent)
    assert (image.data, image.mime_type) == (PNG, "image/png")
    assert base64.b64decode(image.base64) == PNG
    assert isinstance(link, ResourceLink)
    assert (link.uri, link.name, link.title) == ("https://example.com/a", "a", "A")
    assert (link.description, link.mime_type, link.size) == ("The first.", "text/html", 12_345)
    assert isinstance(pdf, ResourceContent)
    assert (pdf.uri, pdf.data, pdf.text) == ("report://q3", b"%PDF", None)
    assert pdf.base64 == base64.b64encode(b"%PDF").decode()
    assert isinstance(note, ResourceContent)
    assert (note.text, note.data, note.mime_type) == ("Milk.", None, "text/plain")
    with pytest.raises(AttributeError, match="never changes"):
        image.mime_type = "image/gif"  # type: ignore[misc] # that is the mistake
    with pytest.raises(AttributeError, match="never changes"):
        del image._block


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("text", "Hello."),
        ("image", "[image/png, 12 bytes]"),
        ("audio", "[audio/wav, 4 bytes]"),
        ("text of a resource", "[resource notes://1, text/plain]\nMilk."),
        ("bytes of a resource", "[resource report://q3, application/pdf, 4 bytes]"),
        ("bytes of no type", "[resource blob://1, 1 bytes]"),
        ("link", "[link to https://example.com/a, a]"),
        ("whole link", "[link to https://example.com/a, A, a, text/html, 12 KB, The first.]"),
    ],
)
def test_as_text(name: str, text: str) -> None:
    """Bytes are named with their size; a link says all that it knows."""
    assert write_text([SAMPLES[name]]) == text
    assert repr(SAMPLES[name]).startswith(type(SAMPLES[name]).__name__)


def test_sizes() -> None:
    """Of a base64 text, and in words."""
    for size in (1, 2, 3, 4, 100):
        assert count_bytes(base64.b64encode(bytes(size)).decode()) == size
    sizes = {0: "0 bytes", 999: "999 bytes", 1000: "1 KB", 999_499: "999 KB", 999_500: "1.0 MB"}
    assert {size: write_size(size) for size in sizes} == sizes


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ANY.TextContent(5), "text must be a text, got 5"),
        (lambda: ANY.ImageContent("aGk=", "image/png"), "data must be bytes, got str"),
        (lambda: ANY.ImageContent(b"", "image/png"), "1 to 10,485,760 bytes, got 0 bytes"),
        (
            lambda: ANY.ImageContent(bytes(MOST_BYTES + 1), "image/png"),
            "return a ResourceLink to it",
        ),
        (lambda: ANY.ImageContent(PNG, "png"), "must be a type such as image/png, got 'png'"),
        (lambda: ANY.ImageContent(PNG, None), "must be a type such as image/png, got None"),
        (lambda: ANY.ImageContent(PNG, "application/pdf"), "make a ResourceContent of it"),
        (lambda: ANY.AudioContent(PNG, "image/png"), "of audio content begins with 'audio/'"),
        (lambda: ANY.ResourceContent("a"), "has either text or data"),
        (lambda: ANY.ResourceContent("a", text="a", data=b"a"), "has either text or data"),
        (lambda: ANY.ResourceContent(5, text="a"), "uri must be a text"),
        (lambda: ANY.ResourceContent("a", text=5), "text must be a text"),
        (
            lambda: ANY.ResourceContent("a", text="a", mime_type="pdf"),
            "such as image/png, got 'pdf'",
        ),
        (lambda: ANY.ResourceLink("a", None), "name must be a text"),
        (lambda: ANY.ResourceLink("a", "b", size=-1), "size must be a number of bytes, got -1"),
        (lambda: ANY.ResourceLink("a", "b", size=True), "size must be a number of bytes, got True"),
        (lambda: ANY.ResourceLink("a", "b", title=5), "title must be a text"),
        (lambda: ANY.ResourceLink("a", "b", mime_type="x"), "such as image/png, got 'x'"),
        (lambda: ANY.ImageContent(PNG, mimetype="image/png"), "did you mean 'mime_type'"),
    ],
)
def test_what_is_no_content(make: Callable[[], Any], message: str) -> None:
    """It is refused where it is made, with the field and the cure."""
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_from_files(tmp_path: Path) -> None:
    """The name says the type; a large file is not read to its end."""
    picture, unknown = tmp_path / "a.png", tmp_path / "a.unheard-of"
    picture.write_bytes(PNG)
    unknown.write_bytes(PNG)
    assert ImageContent.from_file(picture) == ImageContent(PNG, "image/png")
    assert ImageContent.from_file(str(unknown), "image/gif").mime_type == "image/gif"
    made = ResourceContent.from_file(picture, "picture://1")
    assert (made.uri, made.data, made.mime_type) == ("picture://1", PNG, "image/png")
    with pytest.raises(ConfigurationError, match="says no type; give its mime_type"):
        ImageContent.from_file(unknown)
    with pytest.raises(ConfigurationError, match="begins with 'audio/'"):
        AudioContent.from_file(picture)
    with (tmp_path / "large.wav").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(ConfigurationError, match="has more than 10,485,760 bytes; make it smaller"):
        AudioContent.from_file(tmp_path / "large.wav")


IMAGE = SAMPLES["image"]
BLOCKS = [{"type": "text", "text": "See:"}, IMAGE.to_dict()]


@pytest.mark.parametrize(
    ("value", "laid"),
    [
        (IMAGE, {"content": [IMAGE.to_dict()]}),
        (["See:", IMAGE], {"content": BLOCKS}),
        (("See:", IMAGE), {"content": BLOCKS}),
        ([BLOCKS[0], IMAGE], {"content": BLOCKS}),
        (
            {"content": ["See:", IMAGE], "structuredContent": {"a": 1}},
            {"content": BLOCKS, "structuredContent": {"a": 1}},
        ),
        ({"content": BLOCKS}, {"content": BLOCKS}),
        (["See:", 5], ["See:", 5]),
        ({"content": "See:"}, {"content": "See:"}),
        (5, 5),
    ],
)
def test_what_a_tool_returns(value: Any, laid: Any) -> None:
    """Content by itself, in a list beside texts, or under `content`; all else as it is."""
    assert lay_out(value) == laid


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([IMAGE, 5], r"the int that it returned at '\[1\]' stands beside content: make it a text"),
        ({"content": [[], IMAGE]}, r"the list that it returned at 'content\[0\]' stands beside"),
        ([IMAGE, {"type": "image", "data": "?"}], r"the dict that it returned at '\[1\]'"),
        ({"content": [IMAGE], "rows": 5}, "'rows' stands beside the content .* structuredContent"),
    ],
)
def test_what_stands_beside_content(value: Any, message: str) -> None:
    """It would not be read: the error says where it stands and where it belongs."""
    with pytest.raises(ToolExecutionError, match=message):
        lay_out(value)


def test_structured_content() -> None:
    """A model reads it once: as the tool wrote it, or else behind the content."""
    text = {"type": "text", "text": '{"a":  1}'}
    assert read_content({"content": [text], "structuredContent": {"a": 1}}) == [
        TextContent('{"a":  1}')
    ]
    five = {"content": [{"type": "text", "text": "5"}], "structuredContent": {"result": 5}}
    assert write_text(read_content(five)) == "5"
    file = {"type": "text", "text": "a file\n"}
    assert read_content({"content": [file], "structuredContent": {"content": "a file\n"}}) == [
        TextContent("a file\n")
    ]
    beside = {"content": [file], "structuredContent": {"content": "a file\n", "size": 7}}
    assert len(read_content(beside)) == 2, "the size is said nowhere else"
    for content in ([], [text], [IMAGE.to_dict()]):
        read = read_content({"content": content, "structuredContent": {"b": 2}})
        assert len(read) == len(content) + 1
        assert read[-1] == TextContent('{"b": 2}')


def test_what_is_left_of_content_that_was_cut() -> None:
    """Whole blocks and the note are read; data only where there is no text."""
    image, broken = IMAGE.to_dict(), {**IMAGE.to_dict(), "data": "iVBO… [9 characters left out]"}
    text, note = {"type": "text", "text": "lin… [9 characters left out]"}, "Shortened."
    cut = {"content": [text, image, broken], "structuredContent": {"a": "lin…"}, "_cut": note}
    assert read_content(cut) == [TextContent(text["text"]), read_block(image), TextContent(note)]
    data = {"content": [broken], "structuredContent": {"a": "lin…"}, "_cut": note}
    assert read_content(data) == [TextContent('{"a": "lin…"}'), TextContent(note)]
    assert read_content({"content": [text], "_cut": 5}) == [], "it is no note of ours"


def test_all_that_a_server_wrote() -> None:
    """Annotations and the like stay, and so does what surrounds the content."""
    block = {**IMAGE.to_dict(), "annotations": {"audience": ["user"]}, "_meta": {"a": 1}}
    read = read_block(block)
    assert read is not None
    assert read.to_dict() == block
    whole = {"content": [block], "isError": False, "_meta": {"b": 1}, "resultType": "complete"}
    assert len(read_content(whole)) == 1


@pytest.mark.parametrize(
    "block",
    [
        None,
        {},
        {"type": []},
        {"type": "video", "data": "aGk=", "mimeType": "video/mp4"},
        {"type": "text", "text": 5},
        *(
            {**IMAGE.to_dict(), "data": each}
            for each in ("no base64!", "", None, "aGk", "aGkh=", "aGkh====", 5)
        ),
        *({**IMAGE.to_dict(), "mimeType": each} for each in ("text/html", None, 5)),
        {"type": "audio", "data": "aGk=", "mimeType": "image/png"},
        {"type": "resource", "resource": None},
        {"type": "resource", "resource": {"uri": "a"}},
        {"type": "resource", "resource": {"text": "a"}},
        {"type": "resource", "resource": {"uri": "a", "text": "a", "blob": "aGk="}},
        {"type": "resource", "resource": {"uri": "a", "blob": "?"}},
        {"type": "resource", "resource": {"uri": "a", "text": "a", "mimeType": 5}},
        {"type": "resource_link", "uri": "a"},
        {"type": "resource_link", "uri": "a", "name": "b", "size": "5"},
        {"type": "resource_link", "uri": "a", "name": "b", "title": 5},
    ],
)
def test_what_is_no_block(block: Any) -> None:
    """It is plain data, and so is all beside it: nothing is guessed, and nothing left out."""
    assert read_block(block) is None
    assert read_content({"content": [BLOCKS[0], block]}) == []


@pytest.mark.parametrize(
    "output",
    [
        {"content": []},
        {"content": BLOCKS, "isError": True},
        {"content": BLOCKS, "resultType": "task"},
        {"content": BLOCKS, "rows": 5},
        {"content": IMAGE.to_dict()},
    ],
)
def test_what_is_no_content_as_a_whole(output: Any) -> None:
    """It says something else or more, and is read as JSON."""
    assert read_content(output) == []
