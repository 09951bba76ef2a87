"""Conversations that were recorded or written by hand, in all protocols."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.models.asking import ADD, CALLS, PROVIDERS, TIMEOUT, ask_model, client_of, result
from tests.agent.models.servers import Turn, failing, play
from tool_engine.agent.models import RecordedModel, record
from tool_engine.agent.models.carried import CarriedProtocol
from tool_engine.agent.models.recorded import render_reply
from tool_engine.errors import ChatModelError, ConfigurationError
from tool_engine.interfaces import ChatModel
from tool_engine.model.chat import ChatRequest
from tool_engine.protocols.registry import PROTOCOLS, get_protocol
from tool_engine.redaction import remember_secret

SUMS = [{"name": "add", "arguments": call.arguments} for call in CALLS]
TALK: dict[str, Any] = {
    "replies": [
        {"text": "Let me add them, one by one.", "calls": SUMS},
        {"text": "It is 3 and 7.", "expect": {"contains": ["3", "7"], "system": "brief"}},
    ]
}


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_script_in_every_protocol(protocol: str, is_streamed: bool) -> None:
    """U46: text and calls that were written by hand play in the wire form of each protocol."""
    model = RecordedModel(TALK, protocol=protocol)
    assert isinstance(model, ChatModel)
    async with asyncio.timeout(TIMEOUT), model:
        speaks: Any = model.protocol
        fields = {
            "tools": speaks.definitions([ADD]),
            "system": "Be brief.",
            "is_streamed": is_streamed,
        }
        messages = [model.user_message("1+2 and 3+4?")]
        first = await ask_model(model, messages, **fields)
        assert [(c.tool_name, c.arguments, c.is_runnable) for c in first.calls] == [
            ("add", call.arguments, True) for call in CALLS
        ]
        assert len({call.call_id for call in first.calls}) == 2
        assert (first.text.strip(), first.findings) == ("Let me add them, one by one.", [])
        messages += first.message
        told = speaks.format_results([result(3), result(7)], first.calls)
        messages += [model.user_message(told)] if isinstance(told, str) else told
        last = await ask_model(model, messages, **fields)
    assert (last.text, last.calls) == ("It is 3 and 7.", [])
    assert model.replies_left == 0
    if protocol == "gemini":  # ids come back as they were given
        answers = [part["functionResponse"]["id"] for part in messages[2]["parts"]]
        assert answers == [call.call_id for call in first.calls]


@pytest.mark.parametrize("protocol", ["openai", "gemini", "vcp", "function_call"])
async def test_a_script_streams(protocol: str) -> None:
    """What is streamed comes in pieces, so that a demonstration looks like one."""
    model = RecordedModel(
        {"replies": [{"text": "It is a long story, with an end."}]}, protocol=protocol
    )
    chunks = [each async for each in model.reply(ChatRequest(messages=[]))]
    assert len(chunks) > 2


async def test_a_name_that_providers_refuse() -> None:
    """A script names tools as they are called; the wire bears what the provider takes."""
    talk = {"replies": [{"calls": [{"name": "files.read", "id": "c9"}]}]}
    model = RecordedModel(talk, protocol="anthropic")
    [whole] = [each async for each in model.reply(ChatRequest(messages=[], is_streamed=False))]
    assert whole["content"][0]["name"].startswith("files_read__")
    assert model.protocol.parse(whole).calls[0].call_id == "c9"


@pytest.mark.parametrize(
    ("expect", "fields", "words"),
    [
        ({"contains": "noon"}, {}, r"reply 1: the last messages do not hold 'noon'; they say"),
        ({"system": ["brief"]}, {"system": "Be long."}, r"system prompt does not hold 'brief'"),
        ({"tools": ["add", "mail"]}, {}, r"not told of the tool 'mail', but of \['add'\]"),
        ({"tools": ["add"]}, {"tools": None}, "not told of the tool 'add', but of none"),
        ({"may_call": False}, {}, "may_call is True, not False"),
    ],
)
@pytest.mark.parametrize("protocol", PROVIDERS)
async def test_a_conversation_that_leaves_the_script(
    protocol: str, expect: dict[str, Any], fields: dict[str, Any], words: str
) -> None:
    """A request that does not fit its recorded reply is a failure that says what is missing."""
    model = RecordedModel({"replies": [{"text": "Yes.", "expect": expect}]}, protocol=protocol)
    given = {"tools": model.protocol.definitions([ADD]), **fields}
    with pytest.raises(ChatModelError, match=words) as caught:
        await ask_model(model, [model.user_message("What time is it?")], **given)
    assert not caught.value.is_transient


@pytest.mark.parametrize("protocol", PROVIDERS)
async def test_a_conversation_that_fits(protocol: str) -> None:
    """What is expected is looked for in what came last, and in tools of any provider's form."""
    expect = {"contains": "noon", "tools": ["add"], "may_call": True}
    model = RecordedModel(
        {"replies": [{"text": "One.", "expect": expect}, {"text": "Two.", "expect": expect}]},
        protocol=protocol,
    )
    tools = model.protocol.definitions([ADD])
    messages = [model.user_message("Is it noon?")]
    messages += (await ask_model(model, messages, tools=tools)).message
    messages.append(model.user_message("And now?"))
    with pytest.raises(ChatModelError, match="do not hold 'noon'"):
        await ask_model(model, messages, tools=tools)


async def test_the_tools_of_a_text_protocol() -> None:
    """A text protocol tells of its tools in the system prompt."""
    model = RecordedModel(
        {"replies": [{"text": "Yes.", "expect": {"tools": ["add"]}}] * 2}, protocol="vcp"
    )
    speaks: Any = model.protocol
    assert (await ask_model(model, [], system=speaks.prompt([ADD]))).text == "Yes."
    with pytest.raises(ChatModelError, match="not told of the tool 'add'"):
        await ask_model(model, [])


async def test_the_end_of_a_script() -> None:
    """A conversation that goes on after its script is a failure, each time."""
    model = RecordedModel({"replies": [{"text": "Yes."}]})
    await ask_model(model, [])
    for _ in range(2):
        with pytest.raises(ChatModelError, match="ends after 1 replies"):
            await ask_model(model, [])
    assert "1 of 1 replies given" in repr(model)


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_turn_that_fails(is_streamed: bool) -> None:
    """A script can say that a turn fails, at once or after some chunks."""
    error = {"message": "Slow down.", "status": 429, "is_transient": True}
    chunk = {"choices": [{"delta": {"content": "He"}}]}
    model = RecordedModel({"replies": [{"error": error}, {"chunks": [chunk], "error": error}]})
    for count in (0, 1):
        chunks = model.reply(ChatRequest(messages=[], is_streamed=is_streamed))
        for _ in range(count):
            assert await anext(chunks) == chunk
        with pytest.raises(ChatModelError, match="Slow down") as caught:
            await anext(chunks)
        assert (caught.value.status, caught.value.is_transient) == (429, True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("talk.json", '{"replies": [{"text": "Yes."}]}'),
        ("talk.yaml", 'replies:\n  - text: "Yes."\n'),
        ("talk.yml", 'name: oracle\nprotocol: vcp\nreplies:\n  - {text: "Yes."}\n'),
    ],
)
async def test_files(tmp_path: Path, name: str, text: str) -> None:
    """A script is a file of JSON or YAML."""
    path = tmp_path / name
    path.write_text(text)
    model = RecordedModel(path)
    assert (await ask_model(model, [])).text == "Yes."


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.json", "{", "a.json is no recorded conversation"),
        ("a.json", "[]", "a.json is no recorded conversation, but list; write its replies"),
        ("a.json", '{"replies": 3}', "replies must be a list, got a number; write its replies"),
        ("a.json", '{"replies": [3]}', r"replies\[0\] must be a mapping, got a number"),
        ("a.json", '{"replies": [{"txt": "Yes."}]}', r"unknown field `txt` - at `\$.replies"),
        ("a.yaml", "replies:\n  - text: a\n    text: b\n", r"a\.yaml:3"),
        ("a.yaml", "", "holds 0 documents"),
        ("a.json", '{"replies": [{}]}', "reply 1: there is nothing in it"),
        ("a.json", '{"replies": [{"text": "a", "reply": {}}]}', "text or calls and reply stand"),
        (
            "a.json",
            '{"replies": [{"text": "a", "error": {"message": "no"}}]}',
            "an error comes alone or after chunks",
        ),
        ("a.json", '{"replies": [], "protocol": "latin"}', "unknown protocol 'latin'"),
        ("a.json", '{"replies": [], "wire": "gemini"}', "'openai' is none"),
    ],
)
def test_files_that_are_none(tmp_path: Path, name: str, text: str, words: str) -> None:
    """What is wrong with a script is told when it is read, with its place."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        RecordedModel(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """So is a file that cannot be read."""
    with pytest.raises(ConfigurationError, match="No such file"):
        RecordedModel(tmp_path / "no.json")


async def test_what_a_protocol_cannot_say() -> None:
    """A call that a text protocol cannot carry is a failure of the script, not half a call."""
    model = RecordedModel(
        {"replies": [{"calls": [{"name": "add", "arguments": {"a": 1}}]}]}, protocol="vcp"
    )
    with pytest.raises(ChatModelError, match="reply 1: vcp cannot carry"):
        await ask_model(model, [])


async def test_a_form_that_is_not_known() -> None:
    """Text and calls are written only in forms that are known; others are recorded as sent."""
    with pytest.raises(ConfigurationError, match="cannot be written in the form of 'latin'"):
        render_reply("latin", "Salve.")


async def test_a_text_protocol_without_the_words() -> None:
    """A text protocol of others that cannot write calls says so; its texts play all the same."""
    model = RecordedModel({"replies": [{"calls": [{"name": "add"}]}, {"text": "Yes."}]})
    model._protocol = CarriedProtocol(Mute(), get_protocol("anthropic"))
    with pytest.raises(ChatModelError, match="has no render_call: write reply"):
        await ask_model(model, [])
    assert model.protocol.definition_findings([]) == []  # type: ignore[attr-defined]


class Mute:
    """A text protocol with no more than a protocol needs."""

    def __init__(self) -> None:
        self._inner = get_protocol("vcp")
        for name in ("definitions", "parse", "decoder", "format_results"):
            setattr(self, name, getattr(self._inner, name))

    name = "mute"
    writes_text = True
    definitions: Any
    parse: Any
    decoder: Any
    format_results: Any


def test_a_recording_in_another_protocol() -> None:
    """What one provider sent cannot be played as another's."""
    with pytest.raises(ConfigurationError, match="as 'openai' sends them: it cannot be played as"):
        RecordedModel({"replies": [{"reply": {"choices": []}}]}, protocol="gemini")


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("protocol", [None, "function_call"])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_real_model_recorded(
    provider: str, protocol: str | None, is_streamed: bool, tmp_path: Path
) -> None:
    """U46: what a provider sent plays again, the same to the last call, streamed or whole."""
    path = tmp_path / "talk.json"
    key = "sk-made-up-0123456789abcdef"
    turns = [Turn(text="Let me add.", thought="Hm.", calls=CALLS), Turn(text="It is 3 and 7.")]
    if protocol is not None:
        turns[0] = Turn(
            text='I add.\n<function_call>{"name": "add", "arguments": {"a": 1, "b": 2}}'
            "</function_call>"
        )

    async def conversation(model: Any) -> list[Any]:
        messages = [model.user_message("1+2 and 3+4?")]
        tools = model.protocol.definitions([ADD])
        replies = []
        for _ in range(2):
            reply = await ask_model(model, messages, tools=tools, is_streamed=is_streamed)
            replies.append((reply.text, reply.calls, reply.usage, reply.stop_reason))
            messages += reply.message
            results = [result(3), result(7)][: len(reply.calls)]
            if results:
                messages += model.protocol.format_results(results, reply.calls)
        return replies

    async with asyncio.timeout(TIMEOUT), play(provider, turns) as server:
        real = client_of(provider, server.url, protocol=protocol, api_key=key)
        async with record(real, path) as model:
            said = await conversation(model)
            assert "RecordingModel" in repr(model)
            assert model.say("assistant", "!") == real.say("assistant", "!")
    assert key not in path.read_text()
    assert "1+2" not in path.read_text()
    played = RecordedModel(path)
    assert played.name == "model-1"
    assert await conversation(played) == said
    assert server.problems == []


async def test_a_failure_recorded(tmp_path: Path) -> None:
    """A turn that failed fails again."""
    path = tmp_path / "talk.json"
    turns = [failing(429, "Slow down."), Turn(text="Now.", cut_after=2), Turn(text="Yes.")]
    async with (
        asyncio.timeout(TIMEOUT),
        play("openai", turns) as server,
        record(client_of("openai", server.url), path) as model,
    ):
        for _ in range(2):
            with pytest.raises(ChatModelError):
                await ask_model(model, [model.user_message("?")])
        await ask_model(model, [model.user_message("?")])
    played = RecordedModel(path)
    for _ in range(2):
        with pytest.raises(ChatModelError) as caught:
            await ask_model(played, [])
        assert caught.value.is_transient
    assert (await ask_model(played, [])).text == "Yes."


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize(
    "said",
    [
        {"text": "The key is tango-foxtrot-77121 indeed."},
        {"calls": [{"name": "add", "arguments": {"password": "hunter2hunter2"}}]},
    ],
)
async def test_secrets_are_not_recorded(
    said: dict[str, Any], is_streamed: bool, tmp_path: Path
) -> None:
    """A secret that the model repeats is hidden, however the stream cut it."""
    remember_secret("tango-foxtrot-77121")
    path = tmp_path / "talk.json"
    told = RecordedModel({"replies": [said]})
    async with record(told, path) as model:
        await ask_model(model, [], is_streamed=is_streamed)
    text = path.read_text()
    assert "foxtrot" not in text
    assert "hunter2" not in text
    played = RecordedModel(path)
    reply = await ask_model(played, [])
    assert reply.text or reply.calls


async def test_a_reply_that_was_left_is_not_recorded(tmp_path: Path) -> None:
    """A script holds what was answered, in the order in which it was asked."""
    path = tmp_path / "talk.json"
    talk = {"replies": [{"text": "A long story, too long."}, {"text": "Yes."}]}
    async with record(RecordedModel(talk), path) as model:
        left: AsyncGenerator[Any, None] = model.reply(ChatRequest(messages=[]))
        await anext(left)
        await left.aclose()
        assert not path.exists()
        await ask_model(model, [])
    assert len(json.loads(path.read_text())["replies"]) == 1


class Bytes:
    """A model of somebody else's, which gives the bytes of its stream."""

    name = "bytes"
    protocol = RecordedModel({"replies": []}).protocol

    def user_message(self, text: str) -> Any:
        return {"role": "user", "content": text}

    async def reply(self, request: ChatRequest) -> AsyncGenerator[Any, None]:
        data = json.dumps({"choices": [{"delta": {"content": "好"}}]}, ensure_ascii=False)
        raw = f"data: {data}\n\n".encode()
        at = raw.index("好".encode()) + 1
        for part in (raw[:at], raw[at:]):
            yield part


async def test_a_failure_with_a_secret(tmp_path: Path) -> None:
    """A turn that broke off after a secret is recorded as its failure alone."""
    remember_secret("tango-foxtrot-77121")
    chunk = {"choices": [{"delta": {"content": "It is tango-foxtrot-77121"}}]}
    talk = {"replies": [{"chunks": [chunk], "error": {"message": "tango-foxtrot-77121"}}]}
    path = tmp_path / "talk.json"
    async with record(RecordedModel(talk), path) as model:
        with pytest.raises(ChatModelError):
            await ask_model(model, [])
    [kept] = json.loads(path.read_text())["replies"]
    assert kept.keys() == {"error"}
    assert "foxtrot" not in path.read_text()


async def test_bytes_are_recorded(tmp_path: Path) -> None:
    """Bytes that are cut inside a character are recorded as the text that they are."""
    path = tmp_path / "talk.json"
    async with record(Bytes(), path) as model:
        assert (await ask_model(model, [model.user_message("?")])).text == "好"
    assert (await ask_model(RecordedModel(path), [])).text == "好"


def test_a_file_that_is_there(tmp_path: Path) -> None:
    """A recording never takes the place of a file unasked."""
    path = tmp_path / "talk.json"
    path.write_text("mine")
    with pytest.raises(ConfigurationError, match="overwrite=True"):
        record(Bytes(), path)
    record(Bytes(), path, overwrite=True)
    assert path.read_text() == "mine"
    with pytest.raises(ConfigurationError, match="there is no folder"):
        record(Bytes(), tmp_path / "no" / "talk.json")


@pytest.mark.parametrize("script", [None, 7, [], b"a.yaml"])
def test_what_is_no_script(script: Any) -> None:
    """What is neither a file nor a mapping is an error that says so."""
    with pytest.raises(ConfigurationError, match="is a file or a mapping, got"):
        RecordedModel(script)
