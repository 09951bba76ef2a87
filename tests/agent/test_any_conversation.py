"""Whatever a model says, and whenever its user gives up, the conversation is one that goes on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agent.world import WIRES, Turn, World, check
from tests.calls.virtual_loop import VirtualLoop
from tests.effort import share_of
from tool_engine.agent.answer import StopReason
from tool_engine.agent.loop import AgentLoop
from tool_engine.errors import ChatModelError
from tool_engine.model.call import ToolCall

DOWN = ChatModelError("down")
arguments = st.sampled_from(
    [
        ("add", {"a": 1, "b": 2}),
        ("add", {"a": "one"}),
        ("fail", {}),
        ("write", {"text": "a"}),
        ("write", {"text": "$VAR_REF{{nothing}}"}),
        ("hang", {}),
        ("missing", {"x": [1]}),
        ("call_sub_agent", {"task": "Go."}),
        ("call_sub_agent", {"task": "Go.", "tools": ["add"]}),
        ("read_var", {"name": "task"}),
    ]
)
ENDS = ["max_tokens", "context", "refusal", "content_filter", "pause", "unknown"]
spoken = st.builds(
    lambda text, calls, stop, thought: (text, calls, stop, thought),
    st.sampled_from(["", "Hm.", "  ", "A longer text, 中文."]),
    st.lists(arguments, max_size=3),
    st.sampled_from([None] * 3 + ENDS),
    st.sampled_from(["", "I think."]),
)
failed = st.just(DOWN)
asked = st.tuples(st.integers(0, 60), st.booleans())
"""After how many steps the user gives up, 0: never; and whether it is a stream."""


def turns_of(wire: str, said: list[Any]) -> list[Any]:
    """The turns, with ids that no other call has."""
    made: list[Any] = []
    for place, each in enumerate(said):
        if isinstance(each, ChatModelError):
            made.append(each)
            continue
        text, calls, stop, thought = each
        listed = [
            ToolCall(call_id=f"id_{place}_{number}", tool_name=name, arguments=params)
            for number, (name, params) in enumerate(calls)
        ]
        if stop == "pause" and wire != "anthropic":
            stop = None
        if stop in ("refusal", "content_filter"):
            text = f"Unspeakable {place}."
        if stop == "refusal" or (stop and wire == "openai_responses" and not (listed or text)):
            # A refusal is a text, and so is what was cut.
            listed, text = [], text.strip() or "No."
        thought = thought if wire != "openai" else ""
        made.append(Turn(text=text, calls=listed, stop=stop, thought=thought))
    return made


async def user(loop: AgentLoop, steps: int, *, is_stream: bool) -> None:
    """One turn, which may be given up."""

    async def turn() -> None:
        if not is_stream:
            answer = await loop.run("Go.")
            assert answer.stop_reason in StopReason
            return
        async for _ in loop.stream("Go."):
            pass

    task = asyncio.create_task(turn())
    for _ in range(steps):
        await asyncio.sleep(0)
    if steps:
        task.cancel()
    with suppress(ChatModelError, asyncio.CancelledError):
        await task
    for _ in range(10):
        await asyncio.sleep(0)
    check(loop)


@settings(max_examples=share_of(100))
@given(
    st.sampled_from(WIRES),
    st.lists(st.one_of(spoken, spoken, spoken, failed), max_size=8),
    st.lists(asked, min_size=1, max_size=4),
    st.booleans(),
)
def test_any_conversation(
    wire: str, said: list[Any], users: list[tuple[int, bool]], is_streamed: bool
) -> None:
    """A41: its provider takes it, nothing is held, every call has one result, and it ends."""

    async def talk() -> None:
        world = World()
        async with world.engine:
            bounds = {"max_iterations": 3, "max_seconds": 1e6}
            turns = [*turns_of(wire, said), *[DOWN] * 40]
            loop = world.loop(wire, *turns, config=bounds, sub_agents=1, is_streamed=is_streamed)
            for steps, is_stream in users:
                await user(loop, steps, is_stream=is_stream)
            results = [
                (each.parent_call_id, each.tool_call_id)
                for each in world.events
                if each.type.value == "tool_result"
            ]
            assert len(results) == len(set(results))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(asyncio.wait_for(talk(), 1e5))
