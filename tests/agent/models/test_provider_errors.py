"""Servers that do not quite speak as they should, and failures in the middle of a reply."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.agent.models.asking import ADD, CALLS, TIMEOUT, ask_model, client_of
from tests.agent.models.servers import Turn, failing, play
from tests.protocols import wire_openai_responses as wire
from tool_engine.agent.models.provider_errors import CURES
from tool_engine.errors import ChatModelError

ANSWERS = Turn(text="Seven.")


async def test_a_server_without_stream_options() -> None:
    """U47: a server that cannot tell what a stream costs still answers; it is asked so once."""
    async with (
        asyncio.timeout(TIMEOUT),
        play("openai", [ANSWERS, ANSWERS], refuses=["stream_options"]) as server,
        client_of("openai", server.url) as model,
    ):
        for _ in range(2):
            assert (await ask_model(model, [model.user_message("?")])).text == "Seven."
    assert ["stream_options" in each for each in server.requests] == [True, False, False]


@pytest.mark.parametrize("refused", ["max_tokens", "max_completion_tokens"])
async def test_both_names_of_the_limit(refused: str) -> None:
    """U47: the bound on tokens goes under the name that the server knows; it is never dropped."""
    other = "max_completion_tokens" if refused == "max_tokens" else "max_tokens"
    async with (
        asyncio.timeout(TIMEOUT),
        play("openai", [ANSWERS, ANSWERS], refuses=[refused]) as server,
        client_of("openai", server.url, max_tokens=9) as model,
    ):
        for _ in range(2):
            assert (await ask_model(model, [model.user_message("?")])).text == "Seven."
    assert [each.get(other) for each in server.requests[-2:]] == [9, 9]
    assert len(server.requests) == (3 if refused == "max_tokens" else 2)


async def test_a_server_that_knows_no_limit() -> None:
    """A server that takes neither name refuses the request: the bound is not silently lost."""
    async with (
        asyncio.timeout(TIMEOUT),
        play("openai", [], refuses=["max_tokens", "max_completion_tokens"]) as server,
        client_of("openai", server.url, max_tokens=9) as model,
    ):
        with pytest.raises(ChatModelError, match="Unknown parameter: 'max_completion_tokens'"):
            await ask_model(model, [model.user_message("?")])
    assert len(server.requests) == 2


async def test_what_the_user_set_is_kept() -> None:
    """An option that the user passed is not taken back behind his back."""
    async with (
        asyncio.timeout(TIMEOUT),
        play("openai", [], refuses=["stream_options"]) as server,
        client_of("openai", server.url, stream_options={"include_usage": True}) as model,
    ):
        with pytest.raises(ChatModelError, match="stream_options"):
            await ask_model(model, [model.user_message("?")])


async def test_a_limit_that_is_too_large() -> None:
    """A refusal of the value is no refusal of the name: it is told at once."""
    busy = failing(400, "max_tokens is too large: 99. This model takes at most 10.")
    async with (
        asyncio.timeout(TIMEOUT),
        play("openai", [busy]) as server,
        client_of("openai", server.url, max_tokens=99) as model,
    ):
        with pytest.raises(ChatModelError, match="too large"):
            await ask_model(model, [model.user_message("?")])
    assert len(server.requests) == 1


async def test_an_error_in_the_place_of_a_completion() -> None:
    """Some servers answer 200 and put the error in the body: it is told, not read as silence."""
    raw = b'{"error": {"message": "the model is not loaded"}}'
    async with (
        asyncio.timeout(TIMEOUT),
        play("openai", [Turn(raw=raw)]) as server,
        client_of("openai", server.url) as model,
    ):
        with pytest.raises(ChatModelError, match="the model is not loaded"):
            await ask_model(model, [model.user_message("?")], is_streamed=False)


@pytest.mark.parametrize(
    ("status", "cure"),
    [
        (400, None),
        (401, CURES[401]),
        (403, CURES[403]),
        (404, CURES[404]),
        (503, "try again later"),
    ],
)
async def test_what_to_do(status: int, cure: str | None) -> None:
    """A refusal ends with what helps, where more than the provider's own words is known."""
    async with (
        asyncio.timeout(TIMEOUT),
        play("openai", [failing(status, "Not so."), ANSWERS]) as server,
        client_of("openai", server.url, max_retries=0) as model,
    ):
        with pytest.raises(ChatModelError) as caught:
            await ask_model(model, [model.user_message("?")])
        assert (await ask_model(model, [model.user_message("?")])).text == ANSWERS.text
    words = str(caught.value)
    assert words.endswith(f"answered {status}: Not so; {cure}" if cure else "Not so.")


@pytest.mark.parametrize(("provider", "wrong"), [("openai", ""), ("anthropic", "/v1")])
async def test_an_address_with_the_wrong_path(provider: str, wrong: str) -> None:
    """A 404 says which path an address of each API has; that one answers."""
    async with asyncio.timeout(TIMEOUT), play(provider, [ANSWERS]) as server:
        base = server.url.removesuffix("/v1")
        right = f"{base}/v1" if provider == "openai" else base
        async with client_of(provider, f"{base}{wrong}", max_retries=0) as model:
            with pytest.raises(ChatModelError, match="OpenAI's API ends in /v1, that of Anthropic"):
                await ask_model(model, [model.user_message("?")])
        async with client_of(provider, right) as model:
            assert (await ask_model(model, [model.user_message("?")])).text == ANSWERS.text


async def test_what_is_no_api() -> None:
    """Another program at the address: it is said what the address has to be of."""
    async with (
        asyncio.timeout(TIMEOUT),
        play("openai", [Turn(raw=b"<html>Hello</html>")]) as server,
        client_of("openai", server.url, max_retries=0) as model,
    ):
        with pytest.raises(ChatModelError) as caught:
            await ask_model(model, [model.user_message("?")], is_streamed=False)
    assert str(caught.value).endswith(
        "; check that its address is that of a model's API, as its provider writes it"
    )


async def test_a_quota_that_is_used_up() -> None:
    """A rate limit that no waiting helps against does not claim to pass."""
    error = {"message": "You exceeded your current quota.", "code": "insufficient_quota"}
    body = {"error": {**error, "type": "insufficient_quota"}}
    async with (
        asyncio.timeout(TIMEOUT),
        play("openai", [failing(429, "x")]) as server,
        client_of("openai", server.url) as model,
    ):
        server.say_errors_as(body)
        with pytest.raises(ChatModelError, match="current quota") as caught:
            await ask_model(model, [model.user_message("?")])
    assert (caught.value.status, caught.value.is_transient) == (429, False)
    assert str(caught.value).endswith("quota; raise the quota at the provider, or use another key")


FAILED = {"code": "server_error", "message": "We are sorry."}


@pytest.mark.parametrize(
    ("events", "is_transient"),
    [
        ([wire.event("response.failed", response=wire.response([], "failed", error=FAILED))], True),
        ([wire.event("error", sequence_number=1, param=None, **FAILED)], True),
        (
            [wire.event("error", sequence_number=1, param=None, code="bad", message="sorry")],
            False,
        ),
    ],
)
async def test_a_response_that_failed(events: list[dict[str, Any]], is_transient: bool) -> None:
    """A response that fails after it began is a failure, and says whether it may pass."""
    begun = wire.render_stream(CALLS, "Let me see.")[:6]
    async with (
        asyncio.timeout(TIMEOUT),
        play("openai_responses", [Turn(raw=wire.sse([*begun, *events]))]) as server,
        client_of("openai_responses", server.url) as model,
    ):
        with pytest.raises(ChatModelError, match=r"gave up the reply .*orry") as caught:
            await ask_model(
                model, [model.user_message("?")], tools=model.protocol.definitions([ADD])
            )
    assert caught.value.is_transient is is_transient


async def test_a_whole_response_that_failed() -> None:
    """The same of a response that is not streamed."""
    async with (
        asyncio.timeout(TIMEOUT),
        play(
            "openai_responses", [Turn(raw=wire_json(wire.response([], "failed", error=FAILED)))]
        ) as server,
        client_of("openai_responses", server.url) as model,
    ):
        with pytest.raises(ChatModelError, match="We are sorry"):
            await ask_model(model, [model.user_message("?")], is_streamed=False)


def wire_json(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("kind", "is_transient"), [("overloaded_error", True), ("invalid_request_error", False)]
)
async def test_anthropic_breaks_off(kind: str, is_transient: bool) -> None:
    """Anthropic tells in the stream that it is overloaded: that may pass."""
    raw = (
        b'event: message_start\ndata: {"type": "message_start", "message": {"id": "m", "type": '
        b'"message", "role": "assistant", "content": [], "model": "x", "usage": {"input_tokens": '
        b'1, "output_tokens": 1}}}\n\nevent: error\ndata: {"type": "error", "error": {"type": "'
        + kind.encode()
        + b'", "message": "Not now"}}\n\n'
    )
    async with (
        asyncio.timeout(TIMEOUT),
        play("anthropic", [Turn(raw=raw)]) as server,
        client_of("anthropic", server.url) as model,
    ):
        with pytest.raises(ChatModelError, match="Not now") as caught:
            await ask_model(model, [model.user_message("?")])
    assert caught.value.is_transient is is_transient
