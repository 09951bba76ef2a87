"""What do people see of a controller that has what it must have, and nothing else?"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.calls.audit import EMPTY_FOLDER
from tests.server.conftest import served
from tests.studio.conftest import Browser
from tool_engine import (
    ConcurrencyConfig,
    ConcurrencyMetrics,
    ConfigurationError,
    ToolEngine,
    ToolEngineConfig,
)
from tool_engine.cli.signals import serve_while_open
from tool_engine.errors import ControllerClosedError
from tool_engine.interfaces import AdmissionController
from tool_engine.server import create_app

BOUND = 20.0


class OwnSlot:
    """A slot with what `Slot` names."""

    on_superseded: Callable[[], None] | None = None
    is_overdue = is_released = False

    def __init__(self, request: Any, waited: float) -> None:
        self.request, self.bucket, self.queue_wait = request, request.bucket, waited
        self.acquired_at = asyncio.get_running_loop().time()


class BareController(AdmissionController):
    """One slot for all calls, and the names that a controller must have."""

    config = ConcurrencyConfig(max_concurrent=1)

    def __init__(self) -> None:
        self._used = 0
        self._is_closed = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def admit(
        self,
        request: Any,
        on_queued: Callable[[], None] | None = None,
        call_id: str | None = None,
    ) -> OwnSlot:
        began = asyncio.get_running_loop().time()
        while self._used and not self._is_closed:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            if on_queued is not None:
                on_queued()
            await turn
        if self._is_closed:
            raise ControllerClosedError("closed")
        self._used += 1
        return OwnSlot(request, asyncio.get_running_loop().time() - began)

    def release(self, slot: Any, now: float | None = None, *, outcome: bool | None = True) -> None:
        if not slot.is_released:
            slot.is_released = True
            self._used -= 1
            self._wake()

    def mark_overdue(self, slot: Any, outcome: bool | None = False) -> None:
        slot.is_overdue = True

    def close(self) -> None:
        self._is_closed = True
        self._wake()

    async def drain(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - an answer
        self.close()
        return not self._used

    def get_metrics(self) -> ConcurrencyMetrics:
        return ConcurrencyMetrics(current_concurrent=self._used, queue_length=len(self._waiting))

    def get_bucket_metrics(self) -> dict[str, dict[str, Any]]:
        values = {"current": self._used, "limit": 1, "queue": 0, "utilization": float(self._used)}
        return {"custom": values}

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)


@contextlib.asynccontextmanager
async def made_engine() -> AsyncIterator[ToolEngine]:
    """An engine whose one slot is taken, and another call that waits for it."""
    config = ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False, close_timeout=0.1)
    async with (
        asyncio.timeout(BOUND),
        ToolEngine(config, controller=BareController()) as engine,
    ):
        begun = asyncio.Event()

        async def hold() -> None:
            begun.set()
            await asyncio.Event().wait()

        engine.register_tool({"name": "hold", "description": "Holds."}, hold)
        calls = [asyncio.create_task(engine.execute("hold"))]
        await begun.wait()
        calls.append(asyncio.create_task(engine.execute("hold")))
        yield engine
    assert {call.result().error_type for call in calls} <= {"engine_closed", "cancelled"}


async def test_what_is_going_on() -> None:
    """Sums are shown; of single calls it is said that the controller keeps no account."""
    async with made_engine() as engine:
        seen = engine.controller.snapshot()
        assert (seen.metrics.current_concurrent, seen.held, seen.is_paused) == (1, [], False)
        found = engine.controller.explain("call-1")
        assert (
            str(found) == "call-1: the controller BareController keeps no account of single calls"
        )
        handle = await engine.start("hold")
        assert (await engine.tasks.get(handle.id)).status == "queued"


@pytest.mark.parametrize(
    ("method", "args"), [("pause", ()), ("resume", ()), ("configure", (ConcurrencyConfig(),))]
)
async def test_what_it_cannot_do(method: str, args: tuple[Any, ...]) -> None:
    """It says so, and which method of its own would do it."""
    with pytest.raises(ConfigurationError, match=f"write its method {method}$"):
        getattr(BareController(), method)(*args)


async def test_over_http_and_in_the_studio() -> None:
    """No path fails: what there is is shown, and what cannot be done is refused."""
    async with made_engine() as engine:
        handle = await engine.start("hold")
        app = await asyncio.to_thread(create_app, engine, studio=True)
        async with served(app) as service:
            api = service.client(None)
            (first, *_) = (await api.get("/v1/calls")).json["items"]
            for path in (
                "/v1/engine",
                "/v1/admission",
                "/v1/limits",
                "/metrics",
                f"/v1/tasks/{handle.id}",
                f"/v1/calls/{first['call_id']}/explanation",
            ):
                answer = await api.get(path)
                assert answer.status == 200, (path, answer.text)
            for path, body in (
                ("/v1/pause", None),
                ("/v1/resume", None),
                ("/v1/limits", {"max_concurrent": 2}),
            ):
                answer = await api.send("POST", path, json=body)
                assert (answer.status, answer.kind) == (409, "not-possible"), answer.text
                assert "the controller BareController cannot be" in answer.json["detail"]
            async with Browser(service.url) as browser:
                for page in (
                    "/studio/",
                    "/studio/tasks",
                    f"/studio/history/calls/{first['call_id']}",
                ):
                    shown = await browser.open(page)
                    assert shown.status == 200, (page, shown.words)


async def test_a_second_signal_ends_what_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits cannot be held up; all the same the calls end, and the command."""
    signals: list[Callable[[], None]] = []

    @contextlib.contextmanager
    def hear(*each: Callable[[], None]) -> Any:
        signals.extend(each)
        yield

    monkeypatch.setattr("tool_engine.cli.signals._hear_signals", hear)

    async def serve(_: ToolEngine) -> None:
        signals[1]()
        await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await serve_while_open(made_engine(), serve)


BUCKETS = "dict of figures by bucket"


@pytest.mark.parametrize(
    ("method", "answer", "words"),
    [
        ("get_metrics", None, "it returned a value of type NoneType; return a ConcurrencyMetrics"),
        (
            "get_metrics",
            {"active": 1},
            "it returned a value of type dict; return a ConcurrencyMetrics",
        ),
        ("get_bucket_metrics", None, f"it returned a value of type NoneType; return a {BUCKETS}"),
        (
            "get_bucket_metrics",
            {"custom": 3},
            "of the bucket 'custom' it returned a value of type int; return a dict",
        ),
        (
            "get_bucket_metrics",
            {"custom": {"current": 0}},
            "for 'limit' of the bucket 'custom' it returned nothing; return a number",
        ),
        ("get_metrics", ValueError("boom"), "failed in"),
        ("get_bucket_metrics", ValueError("boom"), "failed in"),
    ],
)
async def test_figures_that_break_the_contract(
    monkeypatch: pytest.MonkeyPatch, method: str, answer: Any, words: str
) -> None:
    """Calls go on; who asks for the figures learns which method is wrong, and how to mend it."""

    def give(_: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with made_engine() as engine:
        app = await asyncio.to_thread(create_app, engine, studio=True)
        monkeypatch.setattr(BareController, method, give)
        async with served(app) as service:
            api = service.client(None)
            for path in ("/v1/engine", "/v1/admission", "/metrics"):
                found = await api.get(path)
                assert (found.status, found.kind) == (409, "not-possible"), (path, found.text)
                assert "the controller BareController" in found.json["detail"]
                assert words in found.json["detail"]
            async with Browser(service.url) as browser:
                shown = await browser.open("/studio/")
                assert shown.status == 409
                assert "the controller BareController" in shown.words
            assert (await api.get("/v1/limits")).status == 200
