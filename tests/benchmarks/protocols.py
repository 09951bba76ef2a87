"""What does it cost to read a model's stream, beside the official SDKs' own accumulation?

One line of `FORMATS` is one kind of chunks. The SDKs put the arguments together anew with each
chunk, so they are measured on a tenth of them: what is compared is the cost of a chunk.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple

from tests.benchmarks import report
from tests.protocols import wire_anthropic, wire_gemini, wire_openai, wire_openai_responses
from tool_engine.model.call import ToolCall
from tool_engine.protocols.registry import PROTOCOLS, get_protocol

__all__ = ["FORMATS", "Format", "protocols"]

CHARACTERS = 1_000_000
PIECE = 4
"""Characters of arguments in one chunk."""
PEER_PART = 10
TRIES = 2
SDK_BUDGET = 2.0
"""Times what the SDK's own accumulation takes."""
LINEAR_BUDGET = 2.6
"""Times the time for half as much."""
HOSTILE_BUDGET = 1.0
"""Seconds for a text that was made to be slow."""
READ = 4096
"""Bytes that come from a connection at once."""

Chunks = Sequence[Any]
Accumulate = Callable[[Chunks], object]


class Format(NamedTuple):
    """Chunks of one kind, which our decoder and an SDK both put together."""

    name: str
    protocol: str
    chunks: Callable[[str], Chunks]
    """Makes of arguments, as text, the stream with one call; raises `ImportError` without the SDK.
    """
    peer: Callable[[], Accumulate] | None = None
    """Makes the SDK's own accumulation of the same chunks; raises `ImportError` without it."""


def protocols() -> bool:
    """Prints the tables; whether the budgets are kept."""
    times: dict[str, float] = {}
    ratios: dict[str, tuple[float, float | None]] = {}
    missing = []
    for each in FORMATS:
        try:
            half, whole = (_ours(each, size) for size in (CHARACTERS // 2, CHARACTERS))
            peer = _peer(each)
        except ImportError as error:
            missing.append(f"{each.name}: not measured, {error.name} is not installed")
            continue
        times[f"{each.name}: tool_engine"] = whole
        if peer is not None:
            times[f"{each.name}: the SDK (a tenth, times {PEER_PART})"] = peer
        ratios[each.name] = whole / half, None if peer is None else whole / peer
    report.seconds(f"Streams of {CHARACTERS:,} characters of arguments, {PIECE} in a chunk", times)
    for line in missing:
        print(line)
    kept = True
    for name, (growth, cost) in ratios.items():
        kept &= report.budget(f"{name}: twice as much", growth, LINEAR_BUDGET, "x")
        if cost is not None:
            kept &= report.budget(f"{name}: tool_engine / SDK", cost, SDK_BUDGET, "x")
    return kept & _hostile()


def _hostile() -> bool:
    texts = {
        "300,000 word characters": "a" * 300_000,
        "50,000 open markers": "<<<[TOOL_REQUEST]>>>「始」<function_call>{" * (50_000 // 3),
        "objects 10,000 deep": '{"a":' * 10_000,
    }
    times = {}
    for protocol in PROTOCOLS:
        for name, text in texts.items():
            times[f"{protocol}: {name}"] = _seconds(partial(get_protocol(protocol).parse, text))
    report.seconds("Hostile replies", times)
    worst = max(times, key=times.__getitem__)
    return report.budget(f"the slowest ({worst})", times[worst], HOSTILE_BUDGET, " s")


def _ours(form: Format, size: int) -> float:
    chunks = form.chunks(_arguments(size))

    def decode() -> None:
        decoder = get_protocol(form.protocol).decoder()
        for chunk in chunks:
            decoder.feed(chunk)
        (call,) = decoder.close().calls
        if not call.is_runnable:
            raise AssertionError(f"{form.name}: {call.error}")

    return min(_seconds(decode) for _ in range(TRIES))


def _peer(form: Format) -> float | None:
    if form.peer is None:
        return None
    accumulate, chunks = form.peer(), form.chunks(_arguments(CHARACTERS // PEER_PART))
    return _seconds(lambda: accumulate(chunks)) * PEER_PART


def _seconds(work: Callable[[], object]) -> float:
    """Of this process alone; the collector does not look at the chunks, which are the harness's."""
    gc.collect()
    gc.freeze()
    started = time.process_time()
    work()
    taken = time.process_time() - started
    gc.unfreeze()
    return taken


def _arguments(size: int) -> str:
    return json.dumps({"text": "x" * size})


def pieces(text: str) -> list[str]:
    """The text, cut as a model writes it."""
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def reads(raw: bytes) -> list[bytes]:
    """The bytes, cut as a connection brings them."""
    return [raw[at : at + READ] for at in range(0, len(raw), READ)]


def _openai_mappings(arguments: str) -> Chunks:
    first = wire_openai.chunk(wire_openai.fragment(0, "call_1", "write", ""))
    rest = (
        wire_openai.chunk(wire_openai.fragment(0, arguments=each)) for each in pieces(arguments)
    )
    return [first, *rest, wire_openai.chunk(finish_reason="tool_calls")]


def _openai_bytes(arguments: str) -> Chunks:
    return reads(wire_openai.sse(_openai_mappings(arguments)))


def _openai_objects(arguments: str) -> Chunks:
    construct = import_module("openai._models").construct_type
    kind = import_module("openai.types.chat").ChatCompletionChunk
    return [construct(type_=kind, value=each) for each in _openai_mappings(arguments)]


def _openai_state() -> Accumulate:
    make = import_module("openai.lib.streaming.chat").ChatCompletionStreamState

    def accumulate(chunks: Chunks) -> object:
        state = make()
        for chunk in chunks:
            for _event in state.handle_chunk(chunk):
                pass
        return state.get_final_completion()

    return accumulate


def _openai_state_of_bytes() -> Accumulate:
    decode = import_module("openai._streaming").SSEDecoder
    construct = import_module("openai._models").construct_type
    kind = import_module("openai.types.chat").ChatCompletionChunk
    accumulate = _openai_state()

    def read(chunks: Chunks) -> object:
        events = decode().iter_bytes(iter(chunks))
        data = (each.json() for each in events if each.data != "[DONE]")
        return accumulate([construct(type_=kind, value=each) for each in data])

    return read


def _anthropic_mappings(arguments: str) -> Chunks:
    deltas = [wire_anthropic.json_delta(each) for each in pieces(arguments)]
    block = wire_anthropic.block(0, wire_anthropic.tool_use(), *deltas)
    return [wire_anthropic.start(), *block, *wire_anthropic.end()]


def _anthropic_objects(arguments: str) -> Chunks:
    construct = import_module("anthropic._models").construct_type_unchecked
    kind = import_module("anthropic.types").RawMessageStreamEvent
    return [construct(type_=kind, value=each) for each in _anthropic_mappings(arguments)]


def _anthropic_state() -> Accumulate:
    add = import_module("anthropic.lib.streaming._messages").accumulate_event

    def accumulate(chunks: Chunks) -> object:
        message, read = None, dict[int, bytes]()
        for chunk in chunks:
            message = add(event=chunk, current_snapshot=message, json_bufs=read)
        return message

    return accumulate


def _responses_mappings(arguments: str) -> Chunks:
    wire = wire_openai_responses
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "write"}
    whole = {**item, "arguments": arguments, "status": "completed"}
    deltas = [
        wire.arguments_delta(each, item_id="fc_1", output_index=0) for each in pieces(arguments)
    ]
    events = [
        wire.event("response.created", response=wire.response([], "in_progress")),
        wire.event("response.output_item.added", item={**item, "arguments": ""}, output_index=0),
        *deltas,
        wire.event("response.output_item.done", item=whole, output_index=0),
        wire.event("response.completed", response=wire.response([whole])),
    ]
    return wire.numbered(events)


def _responses_objects(arguments: str) -> Chunks:
    construct = import_module("openai._models").construct_type_unchecked
    kind = import_module("openai.types.responses").ResponseStreamEvent
    return [construct(type_=kind, value=each) for each in _responses_mappings(arguments)]


def _responses_state() -> Accumulate:
    module = import_module("openai.lib.streaming.responses._responses")
    omit = import_module("openai").omit

    def accumulate(chunks: Chunks) -> object:
        state = module.ResponseStreamState(input_tools=omit, text_format=omit)
        return [state.handle_event(chunk) for chunk in chunks]

    return accumulate


def _gemini_mappings(arguments: str) -> Chunks:
    return wire_gemini.streamed_text("write", pieces(json.loads(arguments)["text"]))


def _gemini_bytes(arguments: str) -> Chunks:
    return reads(wire_gemini.as_events(_gemini_mappings(arguments)))


def _gemini_array(arguments: str) -> Chunks:
    return reads(wire_gemini.as_array(_gemini_mappings(arguments)))


def _gemini_reading() -> Accumulate:
    # The SDK puts no arguments together: what it does is to make objects of the bytes.
    make = import_module("google.genai.types").GenerateContentResponse._from_response

    def read(chunks: Chunks) -> object:
        events = b"".join(chunks).split(b"\r\n\r\n")
        data = (json.loads(each.removeprefix(b"data: ")) for each in events if each)
        return [make(response=each, kwargs={}) for each in data]

    return read


def _written(name: str, arguments: str) -> Chunks:
    call = ToolCall(call_id="call_1", tool_name="write", arguments=json.loads(arguments))
    return pieces(import_module(f"tests.protocols.wire_{name}").render_reply([call]))


FORMATS: Final = (
    Format("Messages, mappings", "anthropic", _anthropic_mappings),
    Format("Messages, SDK objects", "anthropic", _anthropic_objects, _anthropic_state),
    Format("generateContent, mappings", "gemini", _gemini_mappings),
    Format("generateContent, bytes", "gemini", _gemini_bytes, _gemini_reading),
    Format("generateContent, bytes of an array", "gemini", _gemini_array),
    Format("Responses, mappings", "openai_responses", _responses_mappings),
    Format("Responses, SDK objects", "openai_responses", _responses_objects, _responses_state),
    Format("Chat Completions, mappings", "openai", _openai_mappings),
    Format("Chat Completions, SDK objects", "openai", _openai_objects, _openai_state),
    Format("Chat Completions, bytes", "openai", _openai_bytes, _openai_state_of_bytes),
    Format("VCP, text", "vcp", partial(_written, "vcp")),
    Format("<function_call>, text", "function_call", partial(_written, "function_call")),
)
