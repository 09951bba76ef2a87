"""What a provider says goes back as its own SDK says that it has to be sent.

Every kind of content block (Messages), output item (Responses) and part (generateContent) that the
official SDKs know is made from their response types, once with all that may be null as null and
once with all of it there, and is read as a mapping, as the SDK's object and as events of a stream.
What goes back is judged by the SDK's parameter types: see `tests/protocols/sdk_types`.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, cast

import pytest
from anthropic._models import construct_type_unchecked as as_anthropic
from anthropic.types import ContentBlock, Message, RawMessageStreamEvent, TextCitation
from google.genai import types as google
from openai._models import construct_type_unchecked as as_openai
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from openai.types.responses import Response, ResponseOutputItem, ResponseStreamEvent
from pydantic import BaseModel

from tests.protocols import wire_anthropic, wire_openai_responses
from tests.protocols.sdk_types import PARAMETERS, message_faults, required_nulls
from tool_engine.model.reply import ParsedReply
from tool_engine.protocols.openai_responses.output_items import AWAITED, drop_awaited
from tool_engine.protocols.registry import get_protocol

DEPTH: Final = 6
SAID_PARTS: Final = (
    *("text", "function_call", "executable_code", "code_execution_result", "inline_data"),
    *("file_data", "tool_call", "tool_response"),
)
NOT_SAID: Final = ("additional_tools", "tool_search_output")
"""What a program tells the model: definitions of tools, which no reply holds."""


def alternatives(hint: Any) -> list[Any]:
    """The types of a union, whatever it is wrapped in."""
    if typing.get_origin(hint) is typing.Annotated:
        return alternatives(typing.get_args(hint)[0])
    inner = typing.get_args(hint)
    is_union = inner and not isinstance(hint, type) and typing.get_origin(hint) is typing.Union
    return [each for one in inner for each in alternatives(one)] if is_union else [hint]


def samples(hint: Any, *, is_full: bool, depth: int = 0) -> Iterator[Any]:
    """Values of a type: of a union one of each; what may be null is, unless `is_full`."""
    for each in alternatives(hint):
        if isinstance(each, type) and issubclass(each, BaseModel):
            yield from _objects(each, is_full=is_full, depth=depth + 1)
        elif typing.get_origin(each) is list:
            inner = list(samples(typing.get_args(each)[0], is_full=is_full, depth=depth + 1))
            yield inner
        elif typing.get_origin(each) is typing.Literal:
            yield typing.get_args(each)[0]
        elif isinstance(each, type) and issubclass(each, Enum):
            yield list(each)[-1].value
        elif each is not type(None):
            yield _plain(each)


def _objects(model: type[BaseModel], *, is_full: bool, depth: int) -> Iterator[Any]:
    """One object for each way to fill its fields, one field at a time."""
    ways = {}
    for name, info in model.model_fields.items():
        may_be_null = type(None) in alternatives(info.annotation)
        if may_be_null and (not is_full or depth > DEPTH):
            ways[info.alias or name] = [None]
        else:
            found = samples(info.annotation, is_full=is_full, depth=depth)
            ways[info.alias or name] = list(found) or [None]
    first = {name: values[0] for name, values in ways.items()}
    yield first
    for name, values in ways.items():
        yield from ({**first, name: other} for other in values[1:])


def _plain(kind: Any) -> Any:
    kinds = {str: "x", int: 1, float: 1.5, bool: True, bytes: "aGk="}
    return kinds.get(kind, {})


def cases(hint: Any) -> list[Any]:
    """The samples of all kinds that are in a union, each named."""
    made: list[Any] = []
    for is_full in (False, True):
        for each in samples(hint, is_full=is_full):
            if each["type"] in NOT_SAID:
                continue
            name = f"{each['type']}-{'full' if is_full else 'null'}-{len(made)}"
            made.append(pytest.param(each, id=name))
    return made


def as_anthropic_event(event: dict[str, Any]) -> Any:
    """The event as the SDK gives it."""
    return as_anthropic(value=event, type_=cast("Any", RawMessageStreamEvent))


def as_openai_event(event: dict[str, Any]) -> Any:
    """The event as the SDK gives it."""
    return as_openai(value=event, type_=cast("Any", ResponseStreamEvent))


def judged(wire: str, replies: dict[str, ParsedReply], kind: str) -> None:
    """Every way to read it gives what may be sent."""
    for form, reply in replies.items():
        faults = message_faults(wire, reply.message)
        assert faults == [], (form, reply.message)
        assert kind in str(reply.message), form


@pytest.mark.parametrize("block", cases(ContentBlock))
def test_blocks_of_messages(block: dict[str, Any]) -> None:
    """Required nulls of citations stay, in objects, in events and in mappings."""
    protocol = get_protocol("anthropic")
    block = {**block, **({"signature": "c2ln"} if block["type"] == "thinking" else {})}
    text = {"type": "text", "text": "Done.", "citations": None}
    whole = wire_anthropic.message([block, text], "end_turn")
    events = [
        wire_anthropic.start(),
        *wire_anthropic.block(0, block),
        *wire_anthropic.block(1, text),
        *wire_anthropic.end("end_turn"),
    ]
    replies = {
        "mapping": protocol.parse(whole),
        "object": protocol.parse(as_anthropic(value=whole, type_=Message)),
        "events": protocol.parse(events),
        "event objects": protocol.parse([as_anthropic_event(each) for each in events]),
    }
    judged("anthropic", replies, block["type"])


@pytest.mark.parametrize("citation", cases(TextCitation))
def test_citations_of_a_stream(citation: dict[str, Any]) -> None:
    """A citation that comes as a delta of its own keeps the title that is null."""
    protocol = get_protocol("anthropic")
    text = {"type": "text", "text": "", "citations": None}
    delta = {"type": "citations_delta", "citation": citation}
    blocks = wire_anthropic.block(0, text, wire_anthropic.text_delta("Hi."), delta)
    events = [wire_anthropic.start(), *blocks, *wire_anthropic.end("end_turn")]
    objects = [as_anthropic_event(each) for each in events]
    replies = {"events": protocol.parse(events), "event objects": protocol.parse(objects)}
    judged("anthropic", replies, citation["type"])


@pytest.mark.parametrize("item", cases(ResponseOutputItem))
def test_items_of_responses(item: dict[str, Any]) -> None:
    """Required nulls of items stay or are put in, in objects, in events and in mappings."""
    protocol = get_protocol("openai_responses")
    items = [item, wire_openai_responses.message("Done.")]
    whole = wire_openai_responses.response(items)
    stream = wire_openai_responses.stream(items, whole)
    replies = {
        "mapping": protocol.parse(whole),
        "object": protocol.parse(as_openai(value=whole, type_=Response)),
        "events": protocol.parse(stream),
        "event objects": protocol.parse([as_openai_event(each) for each in stream]),
    }
    judged("openai_responses", replies, item["type"])


PARTS: Final = [
    pytest.param({name: value}, id=f"{name}-{is_full}-{number}")
    for is_full in (False, True)
    for name, info in google.Part.model_fields.items()
    for number, value in enumerate(samples(info.annotation, is_full=is_full))
    if name in SAID_PARTS
]


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_gemini(part: dict[str, Any]) -> None:
    """Every kind of part goes back as the SDK knows it, from mappings and from its objects."""
    protocol = get_protocol("gemini")
    content = {"role": "model", "parts": [{"text": "Hi."}, {**part, "thought_signature": "aGk="}]}
    whole = {"candidates": [{"content": content, "finish_reason": "STOP"}]}
    taken = google.GenerateContentResponse.model_validate(whole)
    replies = {"mapping": protocol.parse(whole), "object": protocol.parse(taken)}
    for form, reply in replies.items():
        assert message_faults("gemini", reply.message) == [], form
        assert len(reply.message[0]["parts"]) == 2


@pytest.mark.parametrize("is_full", [False, True])
def test_messages_of_chat_completions(is_full: bool) -> None:
    """Every form of a message goes back as the SDK's types want it, whole and as an object."""
    protocol = get_protocol("openai")
    for message in samples(ChatCompletionMessage, is_full=is_full):
        for call in message["tool_calls"] or ():
            call.get("function", {})["arguments"] = "{}"
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        whole = {"id": "x", "object": "chat.completion", "model": "m", "created": 1}
        whole["choices"] = [choice]
        taken = as_openai(value=whole, type_=ChatCompletion)
        for form in (whole, taken, {**message}):
            reply = protocol.parse(form)
            assert message_faults("openai", reply.message) == [], message


def test_every_required_null_has_been_thought_of() -> None:
    """An SDK that is newer may know more fields that have to be there, and may be null.

    Looked at: all that a message or item may hold. Of these, some are of tools' definitions and of
    a form that is not written any more; all others are in the samples above.
    """
    found = {wire: {*required_nulls(hint)} for wire, hint in PARAMETERS.items()}
    assert found["openai"] == {("ChatCompletionFunctionMessageParam", "content")}
    assert {name for _, name in found["anthropic"]} == {"document_title", "title"}
    assert found["openai_responses"] == {
        ("ActionDoubleClick", "keys"),
        ("DoubleClick", "keys"),
        ("FunctionToolParam", "parameters"),
        ("FunctionToolParam", "strict"),
        ("ImageGenerationCall", "result"),
        ("ImageGenerationCallError", "code"),
        ("ImageGenerationCallError", "param"),
        ("ResponseCodeInterpreterToolCallParam", "code"),
        ("ResponseCodeInterpreterToolCallParam", "outputs"),
    }


@pytest.mark.parametrize("kind", sorted(AWAITED))
def test_what_nobody_answers_is_not_kept_by_a_conversation(kind: str) -> None:
    """An item that only the program could answer does not stay, nor does what leads to it."""
    thought = wire_openai_responses.reasoning()
    said = wire_openai_responses.message("Hm.")
    item = {"type": kind, "id": "x_1", "call_id": "call_1"}
    assert drop_awaited([thought, item]) == []
    assert drop_awaited([said, thought, item, said]) == [said, said]
