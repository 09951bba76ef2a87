"""What may meet in one engine: tools of every kind, and callers that come by every door.

What tools and callers do is drawn by chance, so that two features meet in ways that no test of
either has thought of. The engines may share a database, as processes do.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from tests.calls.samples import bare
from tool_engine import (
    ToolEngine,
    ToolEngineEvent,
    ToolEngineEventType,
    ToolExecutionContext,
    ToolExecutionResult,
    ToolSubAgent,
)
from tool_engine.errors import EngineClosedError, ToolEngineError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.task import FINAL
from tool_engine.model.tool import Tool
from tool_engine.session.session import ToolSession

READ: Final = {"effect": "read"}
COLLISIONS: Final = (
    *("queue", "reject", "cancel_in_progress", "cancel_newest"),
    "keep_newest_queued",
)
KINDS: Final[dict[str, dict[str, Any]]] = {
    "slow": {**READ, "retry": {"attempts": 2, "backoff": 0.1}},
    "flaky": {**READ, "retry": {"attempts": 3, "backoff": 0.3}},
    "flight": {
        **READ,
        "retry": {"attempts": 2, "backoff": 0.2},
        "concurrency": {"key": "params", "collision": "single_flight"},
    },
    "keyed": {"concurrency": {"key": "params.depth", "key_limit": 1}},
    "heavy": {"concurrency": {"weight": 2}},
    "rated": {"rate": "2/s"},
    "broken": {"concurrency": {"breaker": {"failures": 2, "reset_after": 3}}},
    "nested": {**READ, "retry": {"attempts": 2, "backoff": 0.1}},
    "parallel": READ,
    "asks": {"permission": "ask_always"},
    "asks_once": {"permission": "ask_once"},
    "stubborn": {},
    "outlives": {"background": "required"},
    "starter": {},
}
"""The tools, and what the definition of each says; all have the same arguments."""
INNER: Final = (
    *("slow", "flight", "keyed", "nested", "heavy", "asks", "stubborn", "rated"),
    *("flow", "missing"),
)
OUTER: Final = (*KINDS, "flow", "filed", "missing")
KEEP: Final = ("flight", "keyed", "broken")
"""Tools whose other editions are shared as the first one is."""
DOORS: Final = ("execute", "twice", "session", "reply", "agent", "batch", "task")
MISCHIEF: Final = ("pause", "limits", "replace", "replace", "remove", "cancel", "bucket", "reload")
PARAMETERS: Final = [
    {"name": "depth", "type": "integer", "default": 0, "description": "How deep it is"},
    {"name": "seconds", "type": "number", "default": 0.5, "description": "How long it takes"},
]
DEEPEST: Final = 6
ENDS: Final = {
    ToolEngineEventType.EXECUTION_COMPLETED,
    ToolEngineEventType.EXECUTION_FAILED,
    ToolEngineEventType.EXECUTION_CANCELLED,
    ToolEngineEventType.VALIDATION_ERROR,
}
BUCKET: ContextVar[str] = ContextVar("BUCKET", default="custom")
"""Which bucket the call that runs has its slots of."""


class FileExecutor:
    """Runs the tool of the file."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def execute(self, tool: Tool, params: dict[str, Any], context: object) -> int:
        del context
        BUCKET.set(tool.concurrency.bucket or tool.category)
        return await self._world.run_slow(**params)


class World:
    """Some engines, those who call their tools, and all that came of it.

    Args:
        chance: Decides all that is not the engine's to decide.
        make: Makes an engine without tools.
        scale: How long a second takes.
        folder: Where the engines read files of tools; None: they read none.
        fail: Breaks something that all engines share.
    """

    def __init__(
        self,
        chance: random.Random,
        make: Callable[[], ToolEngine],
        scale: float = 1.0,
        folder: Path | None = None,
        fail: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self.chance, self.make, self.scale = chance, make, scale
        self.folder, self._fail = folder, fail
        self.engines: list[ToolEngine] = []
        self.results: list[ToolExecutionResult] = []
        self.ends: defaultdict[str, list[ToolEngineEvent]] = defaultdict(list)
        """Final events by call."""
        self.running: Counter[str] = Counter()
        self.most = 0
        """Runs of `slow` at once in one bucket, in all engines."""
        self._version = 1

    async def open(self) -> ToolEngine:
        """An engine more."""
        if not self.engines:
            self._write_file()
        engine = self.make()
        engine.register_executor("filed", FileExecutor(self))
        engine.subscribe(self._note_end)
        for name in KINDS:
            self._register(engine, name)
        steps = [
            # A workflow reads each of its parameters.
            {"id": "a", "tool": "slow", "params": {"depth": 1}, "if": "params.depth < 9"},
            {"id": "b", "tool": self.pick("flight", "nested", "asks"), "params": {"depth": 2}},
        ]
        steps[1]["if"] = "params.seconds >= 0"
        flow = bare("flow", parameters=PARAMETERS, effect="read")
        engine.register_tool({**flow, "entry": {"type": "workflow", "steps": steps}})
        await engine.load()
        self.engines.append(engine)
        return engine

    def pick(self, *choices: Any) -> Any:
        return self.chance.choice(choices)

    def happens(self, probability: float) -> bool:
        return self.chance.random() < probability

    async def rest(self, *seconds: float) -> None:
        await asyncio.sleep(self.pick(*seconds) * self.scale)

    def _note_end(self, event: ToolEngineEvent) -> None:
        if event.event_type in ENDS and event.call_id is not None:
            self.ends[event.call_id].append(event)

    def _register(self, engine: ToolEngine, name: str) -> None:
        keys = dict(KINDS[name])
        if name == "keyed":
            keys["concurrency"] = {**keys["concurrency"], "collision": self.pick(*COLLISIONS)}
        elif self._version > 1 and name not in KEEP and self.happens(0.7):
            keys |= self._draw_sharing()
        made = bare(name, parameters=PARAMETERS, **keys)
        made["version"] = f"{self._version}.0.0"
        bucket = keys.get("concurrency", {}).get("bucket", "custom")
        engine.register_tool(made, in_bucket(bucket, getattr(self, f"run_{name}", self.run_slow)))

    def _draw_sharing(self) -> dict[str, Any]:
        """What another edition of a tool says of limits, rates and keys."""
        shared = {
            "bucket": self.pick("custom", "custom", "spare"),
            "weight": self.pick(1, 1, 2),
            "priority": self.pick(1, 5, 9),
            "scope": self.pick("process", "cluster"),
        }
        if self.happens(0.4):
            key = self.pick("tool", "conversation_id", "params.depth")
            shared |= {"key": key, "key_limit": 2}
        return {"concurrency": shared} | ({"rate": "5/s"} if self.happens(0.3) else {})

    def _write_file(self) -> None:
        if self.folder is not None:
            made = bare("filed", parameters=PARAMETERS, **self._draw_sharing())
            made["version"] = f"{self._version}.0.0"
            half = self.folder / "half"
            half.write_text(json.dumps(made))
            half.replace(self.folder / "filed.yaml")

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """Whom the sessions ask: in time or late, yes, no, never mind, or not there."""
        del request
        await self.rest(0, 0.3, 3, 50)
        answer = self.pick("yes", "yes", "no", "gone", "later")
        if answer == "gone":
            raise ValueError("the terminal was closed")
        if answer == "later":
            return None
        return ApprovalDecision(is_approved=answer == "yes", by="ada")

    # What tools do.

    async def run_slow(self, depth: int, seconds: float) -> int:
        bucket = BUCKET.get()
        self.running[bucket] += 1
        self.most = max(self.most, self.running[bucket])
        try:
            await self.rest(seconds)
        finally:
            self.running[bucket] -= 1
        if self.happens(0.2):
            raise ValueError("it failed")
        return depth

    async def run_flaky(self, depth: int, seconds: float) -> int:
        del seconds
        await self.rest(0.1)
        if self.happens(0.6):
            raise ValueError("it failed")
        return depth

    run_broken = run_flaky

    async def run_stubborn(self, depth: int, seconds: float) -> int:
        try:
            await self.rest(seconds * 4)
        except asyncio.CancelledError:
            await self.rest(0.1, 2, 20)
            if self.happens(0.5):
                raise
        return depth

    async def run_nested(self, depth: int, seconds: float, context: ToolExecutionContext) -> Any:
        if depth > DEEPEST:
            return depth
        inner = {"depth": depth + 1, "seconds": seconds}
        result = await context.call(self.pick(*INNER), inner, timeout=self.pick(None, 0.5, 2.0))
        if self.happens(0.2):
            raise ValueError("it failed")
        return result.error_type

    async def run_flight(self, depth: int, seconds: float, context: ToolExecutionContext) -> Any:
        context.report_progress(1, 2, "begun")
        if self.happens(0.4):
            await self.run_nested(depth, seconds, context)
        return await self.run_slow(depth, seconds)

    async def run_parallel(self, depth: int, seconds: float, context: ToolExecutionContext) -> Any:
        if depth > DEEPEST:
            return depth
        inner = {"depth": depth + 1, "seconds": seconds}
        calls = [asyncio.ensure_future(context.call(self.pick(*INNER), inner)) for _ in range(3)]
        if self.happens(0.3):
            await self.rest(seconds)
            return "left them behind"
        return [result.error_type for result in await asyncio.gather(*calls)]

    async def run_starter(self, depth: int, seconds: float) -> Any:
        inner = {"depth": depth, "seconds": seconds}
        task = await self.pick(*self.engines).start(self.pick("slow", "nested", "outlives"), inner)
        return (await task.wait()).error_type if self.happens(0.5) else task.id

    # What callers and operators do.

    async def play(self, callers: int, *mischief: str) -> None:
        """All callers at once, and those who change the engines meanwhile; returns with the last.

        Args:
            callers: How many there are at most.
            mischief: What else may be done to engines: `close`.
        """
        self._seat_agents()
        over = asyncio.Event()
        failing = asyncio.ensure_future(self._fail_until(over))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.chance.randint(callers // 4, callers)):
                    group.create_task(self._call_often())
                group.create_task(self._do_mischief((*MISCHIEF, *mischief)))
        finally:
            over.set()
            await failing

    async def _fail_until(self, over: asyncio.Event) -> None:
        for _ in range(10):
            if self._fail is None or over.is_set():
                return
            await self.rest(5, 10, 30)
            await self._fail()

    def _seat_agents(self) -> None:
        engines = [self.engines[0], self.engines[-1]]
        self.sessions = [ToolSession(e, f"s{n}", None, self) for n, e in enumerate(engines)]
        self.agents = [ToolSubAgent(f"a{n}", engine) for n, engine in enumerate(engines)]

    async def _call_often(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            await self.rest(0, 0, 0.1, 0.5, 1, 3)
            call = asyncio.ensure_future(self._call())
            if self.happens(0.3):
                delay = self.pick(0, 0.05, 0.5, 1, 2, 5) * self.scale
                asyncio.get_running_loop().call_later(delay, call.cancel)
            with contextlib.suppress(asyncio.CancelledError, EngineClosedError):
                await call

    async def _call(self) -> None:
        engine, place = self.pick(*self.engines), self.chance.randrange(len(self.sessions))
        name, other = self.pick(*OUTER), self.pick(*OUTER)
        params = {"depth": self.chance.randint(0, 2), "seconds": self.pick(0, 0.2, 0.5, 3)}
        if self.happens(0.05):
            params = {"depth": "deep"}
        context = ToolExecutionContext(
            timeout=self.pick(None, 0.5, 2.0, 30.0),
            caller_type=self.pick("direct", "agent"),
            caller_id=self.pick("ada", "bob"),
            conversation_id=self.pick("c", "d"),
            priority=self.pick(None, None, 1, 9),
        )
        match self.pick(*DOORS):
            case "execute":
                self.results.append(await engine.execute(name, params, context))
            case "twice":
                both = (engine.execute(name, params, context) for _ in range(2))
                self.results += await asyncio.gather(*both)
            case "session":
                await self.sessions[place].execute(name, params)
            case "reply":
                calls = [json.dumps({"name": each, "arguments": params}) for each in (name, other)]
                reply = "".join(f"<tool_call>{call}</tool_call>" for call in calls)
                await self.sessions[place].process(reply)
            case "agent":
                await self.agents[place].execute(name, params)
            case "batch":
                batch = [{"tool_name": each, "params": params} for each in (name, other)]
                await self.agents[place].execute_batch(batch)
            case "task":
                await self._start(engine, name, params, context)

    async def _start(
        self, engine: ToolEngine, name: str, params: dict[str, Any], context: ToolExecutionContext
    ) -> None:
        key = self.pick(None, None, "key")
        try:
            task = await engine.start(name, params, context, idempotency_key=key)
        except ToolEngineError:
            return  # there is no such tool, its arguments are wrong, or the key is another call's
        match self.pick("wait", "cancel", "leave"):
            case "wait":
                await task.wait()
            case "cancel":
                await self.rest(0, 0.1, 1, 4)
                await task.cancel()

    async def _do_mischief(self, kinds: tuple[str, ...]) -> None:
        for _ in range(self.chance.randint(0, 8)):
            await self.rest(0, 0.2, 0.7, 2)
            await getattr(self, f"do_{self.pick(*kinds)}")()
        for engine in self.engines:
            engine.controller.resume()

    async def do_pause(self) -> None:
        controller = self.pick(*self.engines).controller
        controller.pause()
        await self.rest(0.1, 1, 5)
        controller.resume()

    async def do_limits(self) -> None:
        controller = self.pick(*self.engines).controller
        most = self.chance.randint(2, 4)
        controller.configure(replace(controller.config, max_concurrent=most))

    async def do_replace(self) -> None:
        engine, name = self.pick(*self.engines), self.pick(*KINDS)
        self._version += 1
        if engine.get(name) is not None:
            engine.unregister_tool(name)
        self._register(engine, name)

    async def do_reload(self) -> None:
        """The file changes, and one of the engines takes note, while calls of before wait."""
        if self.folder is not None:
            self._version += 1
            self._write_file()
            engine = self.pick(*self.engines)
            with contextlib.suppress(EngineClosedError):
                await engine.reload()

    async def do_remove(self) -> None:
        engine, name = self.pick(*self.engines), self.pick(*KINDS)
        if engine.get(name) is not None:
            engine.unregister_tool(name)
            await self.rest(0, 0.5)
        if engine.get(name) is None:
            self._register(engine, name)

    async def do_cancel(self) -> None:
        engine = self.pick(*self.engines)
        if calls := await engine.calls.list():
            await engine.calls.cancel(self.pick(*calls).call_id, "it is in the way")

    async def do_bucket(self) -> None:
        self.pick(*self.engines).controller.pause_bucket("custom", self.pick(0.5, 3) * self.scale)

    async def do_close(self) -> None:
        """One engine gives way to another, as at a deployment."""
        old = self.engines.pop(0)
        await self.open()
        self._seat_agents()
        await old.close()

    # What must hold.

    async def until_quiet(self) -> None:
        """Until no task is to be run any more, and no call runs."""
        while not await self._is_quiet():
            await self.rest(1)

    async def _is_quiet(self) -> bool:
        states = await self.engines[0].tasks.list(limit=1000)
        is_busy = any([await engine.calls.list() for engine in self.engines])
        return not is_busy and all(state.status in FINAL for state in states)

    async def check(self, reader: ToolEngine) -> None:
        """One record and one final event per call, and tasks that say what their calls' do."""
        records = await reader.query_call_records(limit=100_000)
        by_call = {record.call_id: record for record in records}
        assert len(by_call) == len(records)
        odd = [each for each, ends in self.ends.items() if len(ends) != 1 or each not in by_call]
        unheard = by_call.keys() - self.ends
        assert not odd, [(self.ends[each], by_call.get(each)) for each in odd]
        assert not unheard, [by_call[each] for each in unheard]
        for result in self.results:
            assert by_call[result.call_id].error_type == result.error_type
        for state in await reader.tasks.list(limit=1000):
            if state.result is not None and state.call_id in by_call:
                assert by_call[state.call_id].error_type == state.result.error_type


def in_bucket(bucket: str, handler: Callable[..., Any]) -> Callable[..., Any]:
    """A handler that says of which bucket its call has its slots."""

    @wraps(handler)
    async def run(*arguments: Any, **named: Any) -> Any:
        before = BUCKET.set(bucket)
        try:
            return await handler(*arguments, **named)
        finally:
            BUCKET.reset(before)

    return run
