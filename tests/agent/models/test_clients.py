"""The clients of all providers over their SDKs, against a server as strict as the provider."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from tests.agent.models.asking import ADD, CALLS, PROVIDERS, TIMEOUT, ask_model, client_of, result
from tests.agent.models.servers import Turn, failing, play
from tool_engine.agent.models.carried import CarriedProtocol
from tool_engine.agent.models.client import Access
from tool_engine.errors import ChatModelError, ConfigurationError
from tool_engine.interfaces import ChatModel
from tool_engine.model.call import ToolCall
from tool_engine.model.chat import ChatRequest
from tool_engine.protocols.registry import get_protocol

ASKS = Turn(text="Let me add.", thought="Two sums.", calls=CALLS)
ANSWERS = Turn(text="It is 3 and 7.")
NO_URLS: tuple[Any, ...] = (
    *("", "not a url", "ftp://127.0.0.1", "http://127.0.0.1:99999", 7),
    *("http://127.0.0.1:9/v1?version=1", "http://127.0.0.1:9/v1#here"),
)
NO_KEYS: tuple[Any, ...] = ("", " ", "sk-a-secret-key\n", "sk-a secret key", "sk-ключ-ключ", 7)


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_two_turns_with_parallel_calls(provider: str, is_streamed: bool) -> None:
    """A41: tools are told, both calls come back, their results and the history are taken."""
    async with (
        asyncio.timeout(TIMEOUT),
        play(provider, [ASKS, ANSWERS], streamed=is_streamed) as server,
        client_of(provider, server.url) as model,
    ):
        assert isinstance(model, ChatModel)
        fields = {
            "tools": model.protocol.definitions([ADD]),
            "system": "Be brief.",
            "is_streamed": is_streamed,
        }
        messages = [model.user_message("1+2 and 3+4?")]
        first = await ask_model(model, messages, **fields)
        assert [(c.call_id, c.tool_name, c.arguments, c.is_runnable) for c in first.calls] == [
            ("call_a", "add", {"a": 1, "b": 2}, True),
            ("call_b", "add", {"a": 3, "b": 4}, True),
        ]
        assert (first.text, first.findings) == ("Let me add.", [])
        messages += first.message
        messages += model.protocol.format_results([result(3), result(7)], first.calls)
        last = await ask_model(model, messages, **fields)
    assert (last.text, last.calls, last.findings) == ("It is 3 and 7.", [], [])
    assert server.problems == []
    assert "Be brief." in str(server.requests[0])


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize(
    ("provider", "key", "count"),
    [
        ("openai", "total_tokens", 21),
        ("openai_responses", "total_tokens", 30),
        ("anthropic", "output_tokens", 20),
        ("gemini", "totalTokenCount", 12),
    ],
)
async def test_usage(provider: str, key: str, count: int, is_streamed: bool) -> None:
    """U47: what a reply cost is known, streamed or not, with and without native tools."""
    for protocol in (None, "vcp"):
        async with (
            asyncio.timeout(TIMEOUT),
            play(provider, [ANSWERS]) as server,
            client_of(provider, server.url, protocol=protocol) as model,
        ):
            reply = await ask_model(model, [model.user_message("Hi")], is_streamed=is_streamed)
        assert reply.usage[key] == count


@pytest.mark.parametrize(
    ("provider", "path", "value"),
    [
        ("openai", ["tool_choice"], "none"),
        ("openai_responses", ["tool_choice"], "none"),
        ("anthropic", ["tool_choice"], {"type": "none"}),
        ("gemini", ["toolConfig", "functionCallingConfig"], {"mode": "NONE"}),
    ],
)
async def test_a_turn_without_calls(provider: str, path: list[str], value: Any) -> None:
    """U47: the last chance to answer: each provider is told in its way that no tool may be called;
    and nothing is said of a choice where there are no tools, which providers refuse."""
    async with (
        asyncio.timeout(TIMEOUT),
        play(provider, [ANSWERS, ANSWERS]) as server,
        client_of(provider, server.url) as model,
    ):
        asking = [model.user_message("Hi")]
        tools = model.protocol.definitions([ADD])
        await ask_model(model, asking, tools=tools, may_call=False)
        await ask_model(model, asking, may_call=False)
    found: Any = server.requests[0]
    for key in path:
        found = found[key]
    assert found == value
    assert path[0] not in server.requests[1]


@pytest.mark.parametrize(
    ("provider", "path"),
    [
        ("openai", ["max_tokens"]),
        ("openai_responses", ["max_output_tokens"]),
        ("anthropic", ["max_tokens"]),
        ("gemini", ["generationConfig", "maxOutputTokens"]),
    ],
)
async def test_the_most_tokens(provider: str, path: list[str]) -> None:
    """U47: the request's bound counts, else the client's; Anthropic always gets one."""
    async with asyncio.timeout(TIMEOUT), play(provider, [ANSWERS] * 3) as server:
        async with client_of(provider, server.url, max_tokens=77) as model:
            await ask_model(model, [model.user_message("Hi")], max_tokens=5)
            await ask_model(model, [model.user_message("Hi")])
        async with client_of(provider, server.url) as model:
            await ask_model(model, [model.user_message("Hi")])
    sent: list[Any] = []
    for request in server.requests:
        found: Any = request
        for key in path:
            found = found.get(key, {})
        sent.append(found or None)
    assert sent == [5, 77, 8192 if provider == "anthropic" else None]


@pytest.mark.parametrize(
    ("provider", "option", "path"),
    [
        ("openai", {"temperature": 0.5}, ["temperature"]),
        ("openai_responses", {"temperature": 0.5}, ["temperature"]),
        ("anthropic", {"extra_body": {"temperature": 0.5}}, ["temperature"]),
        ("gemini", {"temperature": 0.5}, ["generationConfig", "temperature"]),
    ],
)
async def test_options_of_the_provider(
    provider: str, option: dict[str, Any], path: list[str]
) -> None:
    """What else the provider knows goes into each request; what it does not know is named."""
    async with asyncio.timeout(TIMEOUT), play(provider, [ANSWERS]) as server:
        async with client_of(provider, server.url, **option) as model:
            await ask_model(model, [model.user_message("Hi")])
        found: Any = server.requests[0]
        for key in path:
            found = found[key]
        assert found == 0.5
        with pytest.raises(
            ConfigurationError, match=r"no option '(metadatas|labelz)'; did you mean"
        ):
            client_of(
                provider, server.url, **{"labelz" if provider == "gemini" else "metadatas": 1}
            )
        if provider == "anthropic":
            with pytest.raises(ConfigurationError, match="pass it in extra_body"):
                client_of(provider, server.url, temperature=0.5)
        with pytest.raises(ConfigurationError, match="'tools' is set by"):
            client_of(provider, server.url, tools=[])


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("protocol", ["vcp", "function_call"])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_text_protocols(provider: str, protocol: str, is_streamed: bool) -> None:
    """A41: a model without tools is told in its system prompt, over every client; what it writes
    is read, and the history is taken in the provider's form."""
    text: Any = get_protocol(protocol, tools=[ADD])
    writes = "I add.\n" + "\n".join(map(text.render_call, CALLS))
    async with (
        asyncio.timeout(TIMEOUT),
        play(provider, [Turn(text=writes), ANSWERS]) as server,
        client_of(provider, server.url, protocol=protocol) as model,
    ):
        assert model.protocol.name == protocol
        fields = {
            "tools": model.protocol.definitions([ADD]),
            "system": model.protocol.prompt([ADD]),
            "is_streamed": is_streamed,
        }
        messages = [model.user_message("1+2 and 3+4?")]
        first = await ask_model(model, messages, **fields)
        assert [(c.tool_name, c.arguments, c.is_runnable) for c in first.calls] == [
            ("add", {"a": 1, "b": 2}, True),
            ("add", {"a": 3, "b": 4}, True),
        ]
        assert (first.text.strip(), first.findings) == ("I add.", [])
        messages += first.message
        messages += model.protocol.format_results([result(3), result(7)], first.calls)
        last = await ask_model(model, messages, **fields)
    assert (last.text, last.calls, server.problems) == ("It is 3 and 7.", [], [])
    assert "tools" not in server.requests[0]
    assert "Adds two numbers." in str(server.requests[0])


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("protocol", [None, "function_call"])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_cut_reply_runs_nothing(
    provider: str, protocol: str | None, is_streamed: bool
) -> None:
    """R13: the last call of a reply that the token limit cut is never runnable."""
    text: Any = get_protocol("function_call", tools=[ADD])
    whole = "".join(map(text.render_call, CALLS))
    turn = Turn(calls=CALLS, stop="max_tokens")
    if protocol is not None:
        turn = Turn(text=whole.removesuffix("</function_call>"), stop="max_tokens")
    async with (
        asyncio.timeout(TIMEOUT),
        play(provider, [turn]) as server,
        client_of(provider, server.url, protocol=protocol) as model,
    ):
        told = None if protocol else model.protocol.definitions([ADD])
        reply = await ask_model(
            model, [model.user_message("?")], tools=told, is_streamed=is_streamed
        )
    assert [call.is_runnable for call in reply.calls][-1] is False
    assert "truncated" in [each.error_type for each in reply.findings]
    assert reply.stop_reason in ("length", "max_tokens", "max_output_tokens", "MAX_TOKENS")


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_refusal_is_no_failure(provider: str, is_streamed: bool) -> None:
    """A provider that would not answer has answered: the reply says so."""
    async with (
        asyncio.timeout(TIMEOUT),
        play(provider, [Turn(text="I cannot.", stop="refusal")]) as server,
        client_of(provider, server.url) as model,
    ):
        reply = await ask_model(model, [model.user_message("?")], is_streamed=is_streamed)
    assert reply.refusal


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize(
    ("status", "is_transient"),
    [(400, False), (401, False), (429, True), (503, True)],
)
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_failures(provider: str, status: int, is_transient: bool, is_streamed: bool) -> None:
    """D18: a failure names the model, the status and the provider's words, without the key; and
    says whether it may pass."""
    key = "sk-made-up-0123456789abcdef"
    async with (
        asyncio.timeout(TIMEOUT),
        play(provider, [failing(status, f"No, {key} says: not today.")]) as server,
        client_of(provider, server.url, api_key=key) as model,
    ):
        with pytest.raises(ChatModelError) as caught:
            await ask_model(model, [model.user_message("?")], is_streamed=is_streamed)
    failure = caught.value
    assert (failure.status, failure.is_transient) == (status, is_transient)
    assert "not today" in str(failure)
    assert f"model-1: 127.0.0.1:{server.url.split(':')[2].split('/')[0]} answered" in str(failure)
    assert key not in str(failure)
    assert failure.__cause__ is not None
    assert key in str(server.headers[0])


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_nobody_answers(provider: str, is_streamed: bool) -> None:
    """A server that is not there is a failure that may pass, and the message names it."""
    async with asyncio.timeout(TIMEOUT), play(provider, []) as server:
        url = server.url
    async with asyncio.timeout(TIMEOUT), client_of(provider, url) as model:
        with pytest.raises(ChatModelError, match=r"no answer from 127\.0\.0\.1:\d+: ") as caught:
            await ask_model(model, [model.user_message("?")], is_streamed=is_streamed)
    assert (caught.value.status, caught.value.is_transient) == (None, True)


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_cut_connection(provider: str, is_streamed: bool) -> None:
    """A connection that breaks in the middle of a reply fails; no half of a reply is given out as
    a whole one."""
    turn = Turn(text="It is a long story.", calls=CALLS, cut_after=2)
    async with (
        asyncio.timeout(TIMEOUT),
        play(provider, [turn]) as server,
        client_of(provider, server.url) as model,
    ):
        with pytest.raises(ChatModelError, match="no answer from") as caught:
            await ask_model(model, [model.user_message("?")], is_streamed=is_streamed)
    assert caught.value.is_transient


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize(
    "raw", [b"<html>Welcome to the proxy</html>", b'data: {"oh\n\n', b"[1, 2]", b"null", b""]
)
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_garbage(provider: str, raw: bytes, is_streamed: bool) -> None:
    """What is no reply at all is a failure, not an empty answer."""
    async with (
        asyncio.timeout(TIMEOUT),
        play(provider, [Turn(raw=raw)]) as server,
        client_of(provider, server.url) as model,
    ):
        with pytest.raises(ChatModelError):
            await ask_model(model, [model.user_message("?")], is_streamed=is_streamed)


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_cancelled_in_the_middle(provider: str, is_streamed: bool) -> None:
    """D20: a cancellation closes the connection at once: the server sees it go."""
    turn = Turn(text="It is a long story.", pause_after=2)
    async with (
        asyncio.timeout(TIMEOUT),
        play(provider, [turn]) as server,
        client_of(provider, server.url) as model,
    ):
        request = ask_model(model, [model.user_message("?")], is_streamed=is_streamed)
        asking = asyncio.create_task(request)
        await server.paused.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await server.gone.wait()
    gc.collect()


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_given_up_in_the_middle(provider: str) -> None:
    """D20: so does `aclose`, for somebody who has read enough; no garbage collection is needed."""
    turn = Turn(text="It is a long story.", pause_after=3)
    gc.disable()
    try:
        async with (
            asyncio.timeout(TIMEOUT),
            play(provider, [turn, ANSWERS]) as server,
            client_of(provider, server.url) as model,
        ):
            request = ChatRequest(messages=[model.user_message("?")])
            chunks = model.reply(request)
            await anext(chunks)
            await server.paused.wait()
            await chunks.aclose()
            await server.gone.wait()
            reply = await ask_model(model, [model.user_message("?")])
            assert reply.text == ANSWERS.text
    finally:
        gc.enable()


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_two_replies_at_once(provider: str) -> None:
    """One model serves several conversations: to leave one reply does not touch the other."""
    long = Turn(text="It is a long story.", pause_after=3)
    async with (
        asyncio.timeout(TIMEOUT),
        play(provider, [long, ANSWERS]) as server,
        client_of(provider, server.url) as model,
    ):
        request = ChatRequest(messages=[model.user_message("?")])
        left = model.reply(request)
        await anext(left)
        await server.paused.wait()
        other = model.reply(request)
        decoder = model.protocol.decoder()
        decoder.feed(await anext(other))
        await left.aclose()
        async for chunk in other:
            decoder.feed(chunk)
    assert decoder.close().text == ANSWERS.text


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_timeout(provider: str) -> None:
    """A server that does not go on is given up after the client's timeout."""
    turn = Turn(text="It is a long story.", pause_after=1)
    async with (
        asyncio.timeout(TIMEOUT),
        play(provider, [turn]) as server,
        client_of(provider, server.url, timeout=0.2) as model,
    ):
        with pytest.raises(ChatModelError) as caught:
            await ask_model(model, [model.user_message("?")])
        await server.gone.wait()
    assert caught.value.is_transient


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_the_sdk_asks_again(provider: str) -> None:
    """The SDK's own retries stay: what may pass is asked again, as often as the client says."""
    busy = failing(429, "Slow down.", **{"Retry-After": "0"})
    async with (
        asyncio.timeout(TIMEOUT),
        play(provider, [busy, ANSWERS]) as server,
        client_of(provider, server.url, max_retries=1) as model,
    ):
        assert (await ask_model(model, [model.user_message("?")])).text == ANSWERS.text
    assert len(server.requests) == 2


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_closed(provider: str) -> None:
    """A model closes once, and says so when it is asked afterwards; its key is in no `repr`."""
    model = client_of(provider, "http://127.0.0.1:9/v1", api_key="sk-very-secret-value")
    assert "very-secret" not in repr(model)
    assert model.name == "model-1"
    await model.close()
    await model.close()
    with pytest.raises(ConfigurationError, match="is closed"):
        await ask_model(model, [model.user_message("?")])


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_client_that_is_there(provider: str) -> None:
    """A client of the SDK, such as one of a cloud, is used and left open."""
    async with (
        asyncio.timeout(TIMEOUT),
        play(provider, [ANSWERS, ANSWERS]) as server,
        client_of(provider, server.url) as owner,
    ):
        async with type(owner)("model-2", client=owner._client) as model:
            assert (await ask_model(model, [model.user_message("?")])).text == ANSWERS.text
        assert (await ask_model(owner, [owner.user_message("?")])).text == ANSWERS.text
        with pytest.raises(ConfigurationError, match="its own key"):
            type(owner)("model-2", client=owner._client, timeout=3)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_settings(provider: str) -> None:
    """A setting that cannot be is refused when the client is made."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"timeout": 0}, "timeout"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"protocol": "nothing"}, "unknown protocol"),
        *(({"base_url": url}, "base_url must be an address") for url in NO_URLS),
        ({"protocol": "openai" if provider != "openai" else "gemini"}, "speaks"),
    ]
    for settings, words in wrong:
        with pytest.raises(ConfigurationError, match=words):
            client_of(provider, "http://127.0.0.1:9", **settings)
    with pytest.raises(ConfigurationError, match="a model has a name"):
        client_of(provider, "http://127.0.0.1:9").__class__(" ")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_key(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key and without a server of one's own, the message says where a key goes."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    kind = type(client_of(provider, "http://127.0.0.1:9"))
    with pytest.raises(ConfigurationError, match="has no key: pass api_key="):
        kind("model-1")


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_native_call_of_a_text_model(provider: str) -> None:
    """A model that was told to write text, and calls a native tool all the same: nothing is run,
    and the history stays one that the provider takes."""
    async with (
        asyncio.timeout(TIMEOUT),
        play(provider, [Turn(text="Now.", calls=CALLS), ANSWERS]) as server,
        client_of(provider, server.url, protocol="function_call") as model,
    ):
        assert isinstance(model.protocol, CarriedProtocol)
        messages = [model.user_message("?")]
        reply = await ask_model(model, messages)
        assert (reply.calls, reply.text) == ([], "Now.")
        assert [each.error_type for each in reply.findings] == ["skipped", "skipped"]
        assert "in messages of" in repr(model.protocol)
        assert model.protocol.definition_findings([ADD]) == []
        messages += [*reply.message, model.user_message("And?")]
        assert (await ask_model(model, messages)).text == ANSWERS.text
    assert server.problems == []


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_what_was_said_before(provider: str) -> None:
    """A conversation that is made up from texts is one that the provider takes, also where a text
    protocol hides which provider it is."""
    async with (
        asyncio.timeout(TIMEOUT),
        play(provider, [ANSWERS]) as server,
        client_of(provider, server.url, protocol="vcp") as model,
    ):
        messages = [model.user_message("?"), model.say("assistant", "!"), model.say("user", "??")]
        assert (await ask_model(model, messages)).text == ANSWERS.text
    assert server.problems == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_protocol_with_options(provider: str) -> None:
    """An object of the provider's own protocol is taken as it is, with its options."""
    protocol = get_protocol(provider, repair=False)
    assert client_of(provider, "http://127.0.0.1:9", protocol=protocol).protocol is protocol


def test_no_key_is_shown() -> None:
    """What a client is made with never shows its key."""
    assert "sk-" not in repr(Access(api_key="sk-very-secret-value", base_url="http://x"))


def test_calls_stay_calls() -> None:
    """The calls that the tests expect are whole."""
    assert all(isinstance(each, ToolCall) and each.is_runnable for each in CALLS)


@pytest.mark.parametrize("key", NO_KEYS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_is_no_key(provider: str, key: Any) -> None:
    """A key that no header can carry is told as that, and not as a server that is down."""
    with pytest.raises(ConfigurationError, match=r"^api_key ") as caught:
        client_of(provider, "http://127.0.0.1:9", api_key=key)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_is_no_key_in_the_environment(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is named whose key was read with the end of its line."""
    kind = type(client_of(provider, "http://127.0.0.1:9"))
    for name in kind.key_variables:
        monkeypatch.setenv(name, "sk-a-secret-key\n")
    with pytest.raises(ConfigurationError, match=f"{kind.key_variables[0]} holds a character"):
        kind("model-1")


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        ("stop", []),
        ("eos_token", []),
        ("EOS", []),
        ("complete", []),
        ("length", ["truncated"]),
        ("abort", ["truncated"]),
        ("content_filter", ["refusal", "truncated"]),
        ("error", ["malformed_reply", "truncated"]),
        ("brand_new", ["malformed_reply"]),
        (None, []),
    ],
)
def test_how_a_carried_reply_ended(reason: str | None, found: list[str]) -> None:
    """Why a reply ended is what its provider's protocol says, in all the words of servers."""
    carried = CarriedProtocol(get_protocol("function_call"), get_protocol("openai"))
    choice = {"message": {"role": "assistant", "content": "It is 3."}, "finish_reason": reason}
    reply = carried.parse({"choices": [choice]})
    assert reply.text == "It is 3."
    assert list(dict.fromkeys(each.error_type for each in reply.findings)) == found


@pytest.mark.parametrize("name", ["conversation", "previous_response_id"])
def test_a_conversation_that_a_server_keeps_is_no_option(name: str) -> None:
    """Each request holds the whole conversation: the server would have all of it twice."""
    options: list[dict[str, Any]] = [{name: "c_1"}, {"extra_body": {name: "c_1"}}]
    for each in options:
        with pytest.raises(ConfigurationError, match=f"'{name}' cannot be an option") as caught:
            client_of("openai_responses", "http://127.0.0.1:9", **each)
        assert "AgentLoop.to_dict()" in str(caught.value)
