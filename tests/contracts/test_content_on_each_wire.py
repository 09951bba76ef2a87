"""Each kind of content reaches a model as its wire takes it, or is named and said to be left out.

What is written is judged by the types of the official SDKs: see `tests/protocols/sdk_types`. What
each API takes beyond its types is in its documentation, and in `CARRIED`.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.protocols.sdk_types import message_faults
from tool_engine import (
    AudioContent,
    ConfigurationError,
    ImageContent,
    ResourceContent,
    ResourceLink,
    SessionResult,
    TextContent,
    ToolCall,
    ToolCallingProtocol,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionResult,
    ToolSession,
    get_protocol,
)
from tool_engine.agent.models.carried import CarriedProtocol
from tool_engine.model.content.blocks import lay_out
from tool_engine.model.content.pieces import Content
from tool_engine.protocols import process_tool_calls
from tool_engine.protocols.definition_formats import FORMATS
from tool_engine.protocols.model_protocol import ModelProtocol
from tool_engine.protocols.registry import PROTOCOLS

DOCX: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
BYTES: Final = b"some bytes that are looked for"
AS_BASE64: Final = "c29tZSBieXRlcyB0aGF0IGFyZSBsb29rZWQgZm9y"
TEXTS: Final[dict[str, tuple[Content, str]]] = {
    "text": (TextContent("Hello."), "Hello."),
    "text of a resource": (ResourceContent("notes://1", text="Milk."), "Milk."),
    "link": (ResourceLink("https://example.com/a", "a"), "https://example.com/a"),
}
MEDIA: Final[dict[str, Content]] = {
    **{kind: ImageContent(BYTES, f"image/{kind}") for kind in ("png", "jpeg", "gif", "bmp")},
    **{kind: AudioContent(BYTES, f"audio/{kind}") for kind in ("wav", "mpeg", "ogg")},
    "pdf": ResourceContent("file:///q3.pdf", data=BYTES, mime_type="application/pdf; v=1"),
    "docx": ResourceContent("report:", data=BYTES, mime_type=DOCX),
    "png of a resource": ResourceContent("image://1", data=BYTES, mime_type="image/png"),
    "wav of a resource": ResourceContent("sound://1", data=BYTES, mime_type="audio/wav"),
    "video": ResourceContent("video://1", data=BYTES, mime_type="video/mp4"),
    "no type": ResourceContent("blob://1", data=BYTES),
}
SHOWN: Final = ("png", "jpeg", "gif", "png of a resource")
CARRIED: Final[dict[str, tuple[str, ...]]] = {
    "openai": SHOWN,
    "openai, all": (*SHOWN, "wav", "mpeg", "pdf", "wav of a resource"),
    "openai, none": (),
    "openai_responses": (*SHOWN, "pdf", "docx"),
    "anthropic": (*SHOWN, "pdf"),
    "gemini": (
        *("png", "jpeg", "png of a resource", "wav", "mpeg", "ogg", "wav of a resource", "pdf"),
    ),
    "gemini, after": (
        *("png", "jpeg", "png of a resource", "wav", "mpeg", "ogg", "wav of a resource", "pdf"),
    ),
    "vcp": (),
    "function_call": (),
    "anthropic, vcp": (),
}
"""A wire -> the bytes that go to the model as they are."""


def speaking(wire: str) -> Any:
    name, _, option = wire.partition(", ")
    if option == "vcp":
        return CarriedProtocol(get_protocol("vcp"), get_protocol(name))
    options: dict[str, dict[str, Any]] = {
        "all": {"media": ("image", "audio", "file")},
        "none": {"media": ()},
        "after": {"images": "after"},
    }
    return get_protocol(name, **options.get(option, {}))


def told(protocol: Any, *content: Content, **fields: Any) -> str:
    """What the model is told of the content, after it was judged."""
    result = ToolExecutionResult(True, "show", lay_out(list(content)), **fields)
    written = protocol.format_results([result], [CALL])
    wire = protocol.native.name if isinstance(protocol, CarriedProtocol) else protocol.name
    if not isinstance(written, str):
        assert message_faults(wire, written) == []
    return json.dumps(written, ensure_ascii=False)


CALL: Final = ToolCall(call_id="call_1", tool_name="show", arguments={})


def test_every_protocol_is_tried() -> None:
    """A new one has to say what it carries."""
    assert {wire.partition(", ")[0] for wire in CARRIED} == set(PROTOCOLS)
    assert set(FORMATS) - set(PROTOCOLS) == {"mcp"}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("wire", CARRIED)
def test_texts(wire: str, name: str) -> None:
    """Texts, texts of resources and links are read on every wire."""
    content, text = TEXTS[name]
    protocol = speaking(wire)
    assert text in told(protocol, content)
    assert protocol.result_findings([ToolExecutionResult(True, "show", lay_out(content))]) == []


@pytest.mark.parametrize("name", MEDIA)
@pytest.mark.parametrize("wire", CARRIED)
def test_bytes(wire: str, name: str) -> None:
    """They are carried, or named with a finding: never neither, and never as base64 to read."""
    content, protocol = MEDIA[name], speaking(wire)
    output = lay_out(["See this:", content])
    result = ToolExecutionResult(True, "show", output, metadata={"call_id": "call-7"})
    text = told(protocol, TextContent("See this:"), content)
    assert "See this:" in text
    findings = protocol.result_findings([result])
    is_named = content.describe()[:-1] in text
    if name in CARRIED[wire]:
        assert AS_BASE64 in text
        assert findings == []
        # What the bytes of a resource are called is not lost.
        assert is_named or not isinstance(content, ResourceContent)
        return
    assert AS_BASE64 not in text
    assert is_named
    (finding,) = findings
    assert (finding.error_type, finding.level) == ("dropped", "warning")
    assert (finding.tool_name, finding.call_id) == ("show", "call-7")
    assert content.describe() in finding.message
    if not getattr(protocol, "writes_text", False):
        reason = finding.message.partition("only named: ")[2]
        assert reason.startswith("this model's messages carry")
        assert reason in text


@pytest.mark.parametrize("wire", CARRIED)
def test_all_at_once(wire: str) -> None:
    """Several results, each with several pieces, are one valid conversation."""
    protocol = speaking(wire)
    everything = [*(content for content, _ in TEXTS.values()), *MEDIA.values()]
    calls = [ToolCall(call_id=f"call_{at}", tool_name="show", arguments={}) for at in range(3)]
    results = [ToolExecutionResult(True, "show", lay_out(everything)) for _ in calls]
    written = protocol.format_results(results, calls)
    if isinstance(written, str):
        return
    wire_name = protocol.native.name if isinstance(protocol, CarriedProtocol) else protocol.name
    assert message_faults(wire_name, written) == []
    count = json.dumps(written).count(AS_BASE64)
    assert count == 3 * len(CARRIED[wire])


def test_an_image_too_large_for_a_provider() -> None:
    """A request with it would be refused, and all that follow."""
    large = ImageContent(bytes(4_000_000), "image/png")
    assert "at most 3.9 MB" in told(speaking("anthropic"), large)
    assert "at most" not in told(speaking("openai_responses"), large)


def test_more_bytes_than_content_may_have() -> None:
    """A server of MCP may send them: they are named."""
    block = {"type": "audio", "data": "A" * 14_000_004, "mimeType": "audio/wav"}
    (content,) = speaking("gemini").format_results(
        [ToolExecutionResult(True, "show", {"content": [block]})], [CALL]
    )
    assert "[audio/wav, 10.5 MB: this model's messages carry audio of at most 10.5 MB]" in str(
        content
    )


@pytest.mark.parametrize("wire", CARRIED)
@pytest.mark.parametrize("name", ["png", "ogg"])
def test_beside_the_text_of_a_session(wire: str, name: str) -> None:
    """S15: what a conversation cut keeps its bytes; what it hides, nothing."""
    protocol, content = speaking(wire), MEDIA[name]
    read = SessionResult(True, "show", lay_out(content), final_text="[im…")
    written = json.dumps(protocol.format_results([read], [CALL]), ensure_ascii=False)
    assert "[im…" in written
    assert (AS_BASE64 in written) is (name in CARRIED[wire])
    read.is_hidden = True
    hidden = json.dumps(protocol.format_results([read], [CALL]))
    assert AS_BASE64 not in hidden
    assert protocol.result_findings([read]) == []


@pytest.mark.parametrize("media", ["image", ["video"], [5]])
def test_wrong_media(media: Any) -> None:
    """The message says what there is."""
    with pytest.raises(ConfigurationError, match="media must be"):
        get_protocol("openai", media=media)


class OwnProtocol(ModelProtocol):
    """A protocol of a user's own, from before there was `result_findings`."""

    name = "own"

    def __init__(self) -> None:
        self.inner = get_protocol("openai")

    def __getattribute__(self, name: str) -> Any:
        if name == "result_findings":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def definitions(self, tools: Any) -> Any:
        return self.inner.definitions(tools)

    def parse(self, reply: Any) -> Any:
        return self.inner.parse(reply)

    def decoder(self) -> Any:
        return self.inner.decoder()

    def format_results(self, results: Any, calls: Any = None) -> Any:
        return self.inner.format_results(results, calls)


@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("in_session", [False, True])
async def test_findings_of_a_cycle(is_own: bool, in_session: bool) -> None:
    """What is not shown is said where findings are read; a protocol need not know how to."""
    engine = ToolEngine(ToolEngineConfig("none", auto_reload=False))
    protocol: ToolCallingProtocol = OwnProtocol() if is_own else get_protocol("openai")
    engine.register_tool({"name": "hear", "description": "H."}, hear)
    function = {"name": "hear", "arguments": "{}"}
    call = {"id": "call_1", "type": "function", "function": function}
    reply = {"role": "assistant", "content": None, "tool_calls": [call]}
    async with engine:
        if in_session:
            cycle = await ToolSession(engine, "s").process(reply, protocol)
        else:
            cycle = await process_tool_calls(engine, reply, protocol)
    assert "carry no audio" in str(cycle.formatted)
    kinds = [each.error_type for each in cycle.findings]
    assert kinds == ([] if is_own else ["dropped"])


def hear() -> Any:
    return ["A bell:", AudioContent(BYTES, "audio/wav")]
