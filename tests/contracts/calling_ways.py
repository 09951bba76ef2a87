"""The ways in which a tool can make calls, for tests of what holds in all of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from tests.agent.spoken import SpokenModel
from tests.agent.world import Turn, call
from tests.calls.audit import make_engine
from tool_engine import (
    ToolEngine,
    ToolExecutionContext,
    ToolExecutionResult,
    ToolSession,
    ToolSubAgent,
)
from tool_engine.agent.events import AgentEvent
from tool_engine.agent.loop import AgentLoop
from tool_engine.protocols import process_tool_calls

__all__ = ["WAYS", "Asked", "Way", "make_handler", "tool"]

Asked = Sequence[tuple[str, str]]
"""The calls to make: the tool of each, and its `text`."""
Answers = Sequence[ToolExecutionResult]


class Way(NamedTuple):
    """One way to make several calls from inside of a tool."""

    name: str
    make: Callable[..., Any]
    """Takes the engine, the calls and the tool's context; of a plain function the loop, too."""
    is_plain: bool = False
    """Whether the tool is a plain function, which runs in a thread."""
    depth: int = 50
    """How deep calls of calls may be; each step of some holds a thread."""


def tool(name: str, **keys: Any) -> dict[str, Any]:
    """The definition of a tool that takes a text."""
    text = {"name": "text", "type": "string", "required": True, "description": "x"}
    return {
        "name": name,
        "version": "1.0.0",
        "description": "A sample",
        "category": "custom",
        "effect": "read",
        "parameters": [text],
        "entry": {"type": "custom", "handler": name},
        **keys,
    }


def make_handler(
    engine: ToolEngine,
    way: Way,
    asked: Callable[[str], Asked],
    finish: Callable[[Answers], Any] = len,
) -> Callable[..., Any]:
    """A handler that makes the calls that `asked` says for its text."""

    loop = asyncio.get_running_loop()

    async def handler(text: str, context: ToolExecutionContext) -> Any:
        return finish(await way.make(engine, asked(text), context))

    def plain_handler(text: str, context: ToolExecutionContext) -> Any:
        return finish(way.make(engine, asked(text), context, loop))

    return plain_handler if way.is_plain else handler


async def _one_by_one(engine: ToolEngine, asked: Asked, context: ToolExecutionContext) -> Answers:
    return [await engine.execute(name, {"text": text}) for name, text in asked]


async def _context_call(engine: ToolEngine, asked: Asked, context: ToolExecutionContext) -> Answers:
    return await asyncio.gather(*(context.call(name, {"text": text}) for name, text in asked))


async def _gather(engine: ToolEngine, asked: Asked, context: ToolExecutionContext) -> Answers:
    return await asyncio.gather(*(engine.execute(name, {"text": text}) for name, text in asked))


async def _own_context(engine: ToolEngine, asked: Asked, context: ToolExecutionContext) -> Answers:
    calls = (engine.execute(name, {"text": text}, context) for name, text in asked)
    return await asyncio.gather(*calls)


async def _task_group(engine: ToolEngine, asked: Asked, context: ToolExecutionContext) -> Answers:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(engine.execute(name, {"text": text})) for name, text in asked]
    return [task.result() for task in tasks]


async def _create_task(engine: ToolEngine, asked: Asked, context: ToolExecutionContext) -> Answers:
    tasks = [asyncio.create_task(engine.execute(name, {"text": text})) for name, text in asked]
    return [await task for task in tasks]


async def _wait_for(engine: ToolEngine, asked: Asked, context: ToolExecutionContext) -> Answers:
    calls = (engine.execute(name, {"text": text}) for name, text in asked)
    return [await asyncio.wait_for(each, 100) for each in calls]


async def _to_thread(engine: ToolEngine, asked: Asked, context: ToolExecutionContext) -> Answers:
    loop = asyncio.get_running_loop()
    return await asyncio.to_thread(_from_thread, engine, asked, loop)


def _from_thread(
    engine: ToolEngine, asked: Asked, loop: asyncio.AbstractEventLoop, *context: Any
) -> Answers:
    calls = [
        asyncio.run_coroutine_threadsafe(engine.execute(name, {"text": text}, *context), loop)
        for name, text in asked
    ]
    return [each.result(30) for each in calls]


def _plain(
    engine: ToolEngine,
    asked: Asked,
    context: ToolExecutionContext,
    loop: asyncio.AbstractEventLoop,
) -> Answers:
    return _from_thread(engine, asked, loop)


def _bare_thread(
    engine: ToolEngine,
    asked: Asked,
    context: ToolExecutionContext,
    loop: asyncio.AbstractEventLoop,
) -> Answers:
    """A thread that has no context variables, but was given the context."""
    return _in_bare_thread(lambda: _from_thread(engine, asked, loop, context))


def _in_bare_thread(make: Callable[[], Answers]) -> Answers:
    answers = Future[Answers]()

    def work() -> None:
        try:
            answers.set_result(make())
        except BaseException as error:  # noqa: BLE001 - handed on
            answers.set_exception(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return answers.result()


def _on_own_loop(make: Callable[..., Any]) -> Callable[..., Answers]:
    """A plain function that makes the calls on an event loop of its own, in its thread."""

    def run(engine: ToolEngine, asked: Asked, context: ToolExecutionContext, loop: Any) -> Answers:
        answers: Answers = asyncio.run(make(engine, asked, context))
        return answers

    return run


def _bare_own_loop(
    engine: ToolEngine, asked: Asked, context: ToolExecutionContext, loop: Any
) -> Answers:
    """The same in a thread that has no context variables, on a loop that is run twice."""

    def work() -> Answers:
        own = asyncio.new_event_loop()
        try:
            made = (own.run_until_complete(_own_context(engine, [one], context)) for one in asked)
            return [answer for answers in made for answer in answers]
        finally:
            own.close()

    return _in_bare_thread(work)


async def _sub_agent(engine: ToolEngine, asked: Asked, context: ToolExecutionContext) -> Answers:
    agent = ToolSubAgent("child", engine)
    calls = (agent.execute(name, {"text": text}) for name, text in asked)
    return await asyncio.gather(*calls)


async def _batch(engine: ToolEngine, asked: Asked, context: ToolExecutionContext) -> Answers:
    agent = ToolSubAgent("child", engine)
    return await agent.execute_batch([(n, {"text": text}) for n, text in asked], parallel=True)


async def _reply(engine: ToolEngine, asked: Asked, context: ToolExecutionContext) -> Answers:
    spoken = [
        {
            "id": f"id_{number}",
            "type": "function",
            "function": {"name": name, "arguments": f'{{"text": "{text}"}}'},
        }
        for number, (name, text) in enumerate(asked)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": spoken}
    reply = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    return (await process_tool_calls(engine, reply, "openai")).execution_results


async def _session(engine: ToolEngine, asked: Asked, context: ToolExecutionContext) -> Answers:
    session = ToolSession(engine, "inner")
    calls = (session.execute(name, {"text": text}) for name, text in asked)
    return await asyncio.gather(*calls)


async def _session_with_context(
    engine: ToolEngine, asked: Asked, context: ToolExecutionContext
) -> Answers:
    session = ToolSession(engine, "inner")
    return [await session.execute(name, {"text": text}, context) for name, text in asked]


async def _loop(engine: ToolEngine, asked: Asked, context: ToolExecutionContext) -> Answers:
    calls = [call(number, name, text=text) for number, (name, text) in enumerate(asked)]
    model = SpokenModel("openai", [Turn(calls=calls), Turn(text="done")])
    heard: list[AgentEvent] = []
    await AgentLoop(ToolSession(engine, "inner"), model, on_event=heard.append).run("Go.")
    return [each.result for each in heard if each.result is not None]


async def _other_engine(engine: ToolEngine, asked: Asked, context: ToolExecutionContext) -> Answers:
    """By a tool of another engine, and back."""
    answers: list[ToolExecutionResult] = []
    async with make_engine() as other:

        async def back(text: str) -> None:
            calls = (engine.execute(name, {"text": text}) for name, text in asked)
            answers.extend(await asyncio.gather(*calls))

        other.register_tool(tool("back"), back)
        await other.execute("back", {"text": ""})
    return answers


WAYS = (
    Way("one by one", _one_by_one),
    Way("context.call", _context_call),
    Way("gather", _gather),
    Way("own context", _own_context),
    Way("TaskGroup", _task_group),
    Way("create_task", _create_task),
    Way("wait_for", _wait_for),
    Way("to_thread", _to_thread, depth=3),
    Way("plain handler", _plain, is_plain=True),
    Way("bare thread", _bare_thread, is_plain=True),
    Way("sub-agent", _sub_agent),
    Way("parallel batch", _batch),
    Way("process_tool_calls", _reply),
    Way("session", _session),
    Way("session with the context", _session_with_context),
    # The calls of each conversation are spent in all that it was begun in.
    Way("agent loop", _loop, depth=20),
    Way("other engine", _other_engine, depth=10),
    Way("own loop", _on_own_loop(_gather), is_plain=True),
    Way("context.call on an own loop", _on_own_loop(_context_call), is_plain=True),
    Way("session on an own loop", _on_own_loop(_session), is_plain=True),
    Way("sub-agent on an own loop", _on_own_loop(_sub_agent), is_plain=True),
    Way("own loop in a bare thread", _bare_own_loop, is_plain=True),
)
