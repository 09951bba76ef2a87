"""Does a text protocol of a program's own, made of four methods, do what those of the engine do?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import pytest

from tool_engine import (
    AgentLoop,
    Tool,
    ToolCall,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionResult,
    ToolSession,
)
from tool_engine.agent.models.carried import CarriedProtocol
from tool_engine.agent.models.openai import OpenAIChatModel
from tool_engine.interfaces.protocol import is_for_text
from tool_engine.model.reply import ParsedReply
from tool_engine.protocols import process_tool_calls


class WordsDecoder:
    """Reads `CALL name value`."""

    def __init__(self) -> None:
        self.text = ""

    def feed(self, chunk: str) -> list[Any]:
        self.text += chunk
        return []

    def close(self) -> ParsedReply:
        calls = []
        for line in self.text.splitlines():
            word, *rest = line.split()
            if word == "CALL":
                calls.append(
                    ToolCall(call_id="c1", tool_name=rest[0], arguments={"number": rest[1]})
                )
        message = [{"role": "assistant", "content": self.text}]
        return ParsedReply(calls=calls, text=self.text, findings=[], message=message)


class WordsProtocol:
    """What `ToolCallingProtocol` names, and nothing else."""

    name = "words"

    def definitions(self, tools: Iterable[Tool]) -> str:
        return "\n".join(f"CALL {tool.name} NUMBER" for tool in tools)

    def parse(self, reply: Any) -> ParsedReply:
        decoder = self.decoder()
        decoder.feed(reply)
        return decoder.close()

    def decoder(self) -> WordsDecoder:
        return WordsDecoder()

    def format_results(
        self, results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None = None
    ) -> str:
        return "\n".join(f"RESULT {result.output or result.error}" for result in results)


@pytest.fixture
async def engine() -> AsyncIterator[ToolEngine]:
    async with ToolEngine(ToolEngineConfig(auto_reload=False)) as engine:

        @engine.tool()
        async def double(number: int) -> int:
            """Doubles.

            Args:
                number: What.
            """
            return number * 2

        yield engine


async def test_arguments_are_of_the_kinds_that_the_tool_takes(engine: ToolEngine) -> None:
    """Text is all that such a model can write, where its protocol says so; else none is guessed."""

    class Texts(WordsProtocol):
        writes_text = True

    cycle = await process_tool_calls(engine, "CALL double 4", Texts())
    assert cycle.messages[-1] == {"role": "user", "content": "RESULT {'result': 8}"}
    cycle = await process_tool_calls(engine, "CALL double 4", WordsProtocol())
    assert cycle.execution_results[0].error_type == "validation_error"


@pytest.mark.parametrize("writes", [True, False])
async def test_its_tools_stand_in_the_prompt_alone(engine: ToolEngine, writes: bool) -> None:
    """A request declares none of them."""
    asked: list[Any] = []

    class Texts(WordsProtocol):
        writes_text = True

    class Model:
        name = "m"
        protocol = Texts() if writes else WordsProtocol()

        def user_message(self, text: str) -> Any:
            return {"role": "user", "content": text}

        async def reply(self, request: Any) -> AsyncIterator[Any]:
            asked.append(request)
            yield "CALL double 4" if len(asked) == 1 else "It is 8."

    answer = await AgentLoop(ToolSession(engine, "one"), Model()).run("Twice 4?")
    assert answer.text == "It is 8."
    assert [request.tools for request in asked] == [None, None]
    assert "CALL double NUMBER" in asked[0].system


def test_a_chat_model_carries_it() -> None:
    """The provider's protocol reads the message, and this one its text."""
    carried = OpenAIChatModel("m", api_key="none", protocol=WordsProtocol()).protocol
    assert isinstance(carried, CarriedProtocol)
    reply = {"choices": [{"message": {"role": "assistant", "content": "CALL double 4"}}]}
    assert [call.arguments for call in carried.parse(reply).calls] == [{"number": "4"}]


@pytest.mark.parametrize(
    ("says", "definitions", "expected"),
    [
        (False, "text", True),
        (False, [], False),
        (False, LookupError(), False),
        (True, [], True),
    ],
)
def test_what_it_is_for(says: bool, definitions: Any, expected: bool) -> None:
    """A text as the tools of a request would never be right."""

    class Protocol:
        writes_text = says

        def definitions(self, tools: Iterable[Tool]) -> Any:
            if isinstance(definitions, Exception):
                raise definitions
            return definitions

    assert is_for_text(Protocol()) is expected
