"""What becomes of a call whose controller or backend breaks its contract?

It ends as any other does: with a result that says what failed, one record, and no slot lost. The
engine goes on, and closes.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from tool_engine import (
    ConcurrencyConfig,
    ConfigurationError,
    ToolConcurrencyController,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
)
from tool_engine.backends import LocalBackend
from tool_engine.interfaces import AdmissionController, ExecutionBackend

ANSWERS = ("admit", "admit_nowait")
ORDERS = tuple(
    sorted(
        name
        for name in vars(AdmissionController)
        if not name.startswith("_")
        and name not in (*ANSWERS, "attach", "config", "get_metrics", "get_bucket_metrics")
    )
)
"""What a controller is told; only those that a call, or closing, comes to can break here."""


class Broken:
    """A controller of which one method does something else."""

    def __init__(self, method: str, act: Any) -> None:
        self._inner = ToolConcurrencyController(ConcurrencyConfig(max_concurrent=2))
        self._method = method
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return self._act if name == self._method else getattr(self._inner, name)


def fail(*args: Any, **kwargs: Any) -> Any:
    raise LookupError("the far end is gone")


async def fail_later(*args: Any, **kwargs: Any) -> Any:
    raise LookupError("the far end is gone")


def say(value: Any) -> Any:
    return lambda *args, **kwargs: value


async def say_nothing(*args: Any, **kwargs: Any) -> Any:
    return None


def made_engine(controller: Any = None, backend: Any = None) -> ToolEngine:
    engine = ToolEngine(ToolEngineConfig(auto_reload=False), controller=controller, backend=backend)

    async def inner() -> str:
        return "inner"

    async def outer(context: ToolExecutionContext) -> str:
        return str((await context.call("inner")).output)

    engine.register_tool({"name": "inner", "description": "I."}, inner)
    engine.register_tool({"name": "outer", "description": "O."}, outer)
    return engine


@pytest.mark.parametrize(
    ("method", "act", "words"),
    [
        ("admit", fail_later, "LookupError"),
        ("admit", say_nothing, "returned an object of type NoneType, no Slot"),
    ],
)
async def test_a_call_that_gets_no_answer_is_refused(method: str, act: Any, words: str) -> None:
    """It is `rejected`, once recorded; the log has what was raised."""
    controller = Broken(method, act)
    vars(controller)["admit_nowait"] = say(None)  # all have to wait
    engine = made_engine(controller)
    with capture_logs() as logs:
        result = await engine.execute("inner")
    assert (result.is_success, result.error_type) == (False, "rejected")
    assert "the controller Broken failed in admit" in str(result.error)
    assert [log["event"] for log in logs] == ["controller_failed"]
    assert words in logs[0]["error"]
    records = await engine.store.query_call_records()
    assert [each.error_type for each in records] == ["rejected"]
    await engine.close()


@pytest.mark.parametrize("act", [fail, say("no slot"), say(7)])
async def test_an_answer_at_once_that_is_none_is_asked_for_again(act: Any) -> None:
    """`admit_nowait` is a short cut; where it fails, `admit` answers."""
    engine = made_engine(Broken("admit_nowait", act))
    result = await engine.execute("outer")
    assert result.is_success, result.error
    assert len(await engine.store.query_call_records()) == 2
    await engine.close()


@pytest.mark.parametrize(
    ("method", "act", "error_type"),
    [
        ("admit", fail_later, "rejected"),
        ("admit", say_nothing, "rejected"),
        ("admit_nowait", fail, None),
        ("admit_nowait", say("no slot"), None),
        ("explain_shut", fail, None),
        ("release", fail, None),
    ],
)
async def test_a_task_ends_as_a_call_does(method: str, act: Any, error_type: str | None) -> None:
    """What serves tasks asks the same controller, and what that raises ends none otherwise."""
    controller = Broken(method, act)
    if method == "admit":
        vars(controller)["admit_nowait"] = say(None)  # all have to wait
    engine = made_engine(controller)
    async with asyncio.timeout(8):
        handle = await engine.start("inner")
        result = await handle.wait()
        await engine.close()
    assert (result.is_success, result.error_type) == (error_type is None, error_type)
    records = await engine.store.query_call_records()
    assert [each.error_type for each in records] == [error_type]


@pytest.mark.parametrize("method", ORDERS)
async def test_a_call_goes_on_though_an_order_fails(method: str) -> None:
    """A controller that fails to be told something changes no result; the log tells of it."""
    act = fail_later if method in ("drain", "unpark") else fail
    engine = made_engine(controller := Broken(method, act))
    with capture_logs() as logs:
        result = await engine.execute("inner" if method == "release" else "outer")
        assert result.is_success, result.error
        assert {each.is_success for each in await engine.store.query_call_records()} == {True}
        await engine.close()
    failures = [log for log in logs if log["event"] == "controller_failed"]
    assert not failures or failures[0]["method"] == method
    if method in ("release", "park", "unpark", "close", "drain"):
        assert failures
        assert "LookupError: the far end is gone" in failures[0]["error"]
    assert engine.controller is controller  # type: ignore[comparison-overlap]


async def test_limits_that_cannot_be_read_later_stay_as_they_were() -> None:
    """The last limits that a controller has told of are used on."""

    class Forgetful(Broken):
        reads = 0

        @property
        def config(self) -> ConcurrencyConfig:
            self.reads += 1
            if self.reads > 2:
                raise LookupError("the far end is gone")
            return ConcurrencyConfig(max_concurrent=1)

    engine = made_engine(Forgetful("", None))
    assert (await engine.execute("outer")).is_success
    await engine.close()


async def test_no_limits_are_no_controller() -> None:
    """A `config` that is no `ConcurrencyConfig` is refused at once; one that goes later, stays."""
    controller = Broken("", None)
    vars(controller)["config"] = None
    with pytest.raises(ConfigurationError, match="config of the controller Broken"):
        made_engine(controller)
    vars(controller)["config"] = ConcurrencyConfig(max_concurrent=1)
    engine = made_engine(controller)
    vars(controller)["config"] = None
    with capture_logs() as logs:
        assert (await engine.execute("outer")).is_success
    assert {(log["event"], log["method"]) for log in logs} == {("controller_failed", "config")}
    await engine.close()


async def hang(*args: Any, **kwargs: Any) -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize("hangs", ["controller.drain", "backend.close"])
async def test_the_engine_closes_whatever_hangs(hangs: str) -> None:
    """Looked at: `drain` and `close`, which bound themselves where they keep their contract."""
    controller, backend = Broken("drain", hang), LocalBackend(2)
    engine = ToolEngine(
        ToolEngineConfig(auto_reload=False, close_timeout=0.1),
        controller=cast("Any", controller) if hangs == "controller.drain" else None,
        backend=backend if hangs == "backend.close" else None,
    )
    true_close, backend.close = backend.close, hang  # type: ignore[method-assign]
    with capture_logs() as logs:
        async with asyncio.timeout(8):
            await engine.close()
    told = {log["event"] for log in logs}
    assert told == {"controller_failed" if hangs == "controller.drain" else "close_left_backend"}
    await true_close(1)


@pytest.mark.parametrize("method", ["takes", "leaves_on_cancel", "function_for"])
async def test_a_tool_runs_nowhere_if_its_place_is_not_known(method: str) -> None:
    """A backend that cannot say whether a tool is its own fails the calls of the tool."""

    class Lost(ExecutionBackend):
        async def execute(self, *args: Any) -> Any:
            return "elsewhere"

    backend = Lost()
    setattr(backend, method, fail)
    engine = made_engine(backend=backend)
    result = await engine.execute("inner")
    assert result.error_type == "execution_error"
    assert "the backend Lost cannot say whether it runs 'inner': LookupError" in str(result.error)
    assert len(await engine.store.query_call_records()) == 1
    await engine.close()


async def test_all_else_is_closed_if_a_backend_cannot_be() -> None:
    """What `close` of a backend raises is raised, after all else has been closed."""
    backend = LocalBackend(2)
    backend.close = fail_later  # type: ignore[method-assign]
    engine = made_engine(backend=backend)
    assert (await engine.execute("inner")).is_success
    with pytest.raises(LookupError, match="far end"):
        await engine.close()
    assert (await engine.execute("inner")).error_type == "engine_closed"


async def test_a_controller_that_serves_another_engine() -> None:
    """The one error that a controller may raise when it is given is raised."""
    controller = ToolConcurrencyController(ConcurrencyConfig())
    engine = made_engine(controller)
    with pytest.raises(ConfigurationError):
        made_engine(controller)
    await engine.close()
