"""A model of any provider that speaks without a network, and what a provider would refuse of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from itertools import pairwise
from typing import Any

from tests.agent.models.speaking import PROVIDERS, Speech, Turn
from tool_engine.agent.models.carried import CarriedProtocol
from tool_engine.interfaces import ToolCallingProtocol
from tool_engine.model.chat import ChatRequest
from tool_engine.protocols.registry import get_protocol

__all__ = ["WIRES", "SpokenModel", "faults_of"]

WIRES = tuple(PROVIDERS)
"""The wire formats that there are."""


class SpokenModel:
    """Says the turns of a conversation, and looks at each request as its provider would.

    An exception among the turns is raised in its place; one after a turn's events, with `breaks`.
    """

    def __init__(
        self,
        wire: str,
        turns: Sequence[Turn | BaseException],
        *,
        breaks: int = -1,
        protocol: str | None = None,
    ):
        self.name = f"spoken-{wire}"
        self.protocol: ToolCallingProtocol = get_protocol(wire)
        if protocol is not None:
            self.protocol = CarriedProtocol(get_protocol(protocol), self.protocol)
        self.requests: list[ChatRequest] = []
        self.problems: list[str] = []
        self.open_replies = 0
        self.breaks = breaks
        self._wire = wire
        self._speech = PROVIDERS[wire]()
        self.turns = list(turns)

    def user_message(self, text: str) -> Any:
        """What a user says."""
        if self._wire == "gemini":
            return {"role": "user", "parts": [{"text": text}]}
        return {"role": "user", "content": text}

    async def reply(self, request: ChatRequest) -> AsyncGenerator[Any, None]:
        """The next turn."""
        self.requests.append(request)
        self.problems += faults_of(self._wire, request.messages, self._speech)
        self.open_replies += 1
        try:
            await asyncio.sleep(0)
            turn = self.turns.pop(0)
            if isinstance(turn, BaseException):
                raise turn
            self._speech.remember(turn)
            if not request.is_streamed:
                self._speech.end(turn)
                yield self._speech.whole(turn)
                return
            for place, event in enumerate(self._speech.events(turn)):
                if place == self.breaks:
                    failure = self.turns.pop(0)
                    assert isinstance(failure, BaseException)
                    raise failure
                await asyncio.sleep(0)
                yield event
            self._speech.end(turn)
        finally:
            self.open_replies -= 1


def faults_of(wire: str, messages: Sequence[Any], speech: Speech | None = None) -> list[str]:
    """What the provider would refuse of a conversation, in words; sides that do not take turns."""
    body: dict[str, Any] = {"max_tokens": 100}
    key = {"gemini": "contents", "openai_responses": "input"}.get(wire, "messages")
    body[key] = list(messages)
    faults = (speech or PROVIDERS[wire]()).faults(body)
    said = [each.get("role") for each in messages if each.get("type") in (None, "message")]
    if wire != "openai_responses" and any(
        one == other and one != "tool" for one, other in pairwise(said)
    ):
        faults.append(f"the sides do not take turns: {said}")
    return faults
