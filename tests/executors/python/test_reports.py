"""Does a handler in a process of its own report as one in the engine does?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.executors.python.apart import Apart
from tests.executors.python.test_in_engine import BOUND, Write, define, engine_of
from tool_engine import ToolEngineEvent, ToolExecutionContext
from tool_engine.model.progress import ToolProgress

HANDLERS = """
import json, os, time, threading, asyncio
def many(text, context):
    for number in range(20_001):
        context.report_progress(number, 20_000, text)
    context.log("all done", "warning")
    return "done"
async def later(text, context):
    await context.report_progress(1, 2, text)
    await context.log(text)
    return "done"
def quiet(text, context):
    context.report_progress(1)
    context.report_progress(2)
    open(text, "w").close()
    while os.path.exists(text): time.sleep(0.01)
    return "done"
def fails(text, context):
    context.report_progress(3)
    raise ValueError(text)
def wrong(text, context):
    context.report_progress(-1)
def odd(text, context):
    context.report_progress(10**30, 2**64, "half \\ud800")
    context.log("half \\ud800")
    return "done"
def dies(text, context):
    os.write(2, f"began\\n{text} and more\\nthe end\\n".encode())
    os._exit(3)
def twice(text, context):
    context.report_progress(1, None, f"{text} and {text}")
    context.log(f"{text} and {text}")
    raise ValueError(f"{text} and {text}")
def left_behind(text, context):
    def go_on():
        time.sleep(0.2)
        context.report_progress(9)
    threading.Thread(target=go_on).start()
    return "done"
def forged(text, context):
    import sys
    body = json.dumps({"id": 1, "report": {"done": -5}}).encode()
    for file in map(int, os.listdir("/proc/self/fd")):
        try: os.write(file, len(body).to_bytes(4, "big") + body)
        except OSError: pass
    return "done"
"""
APART = ", config: {isolation: process, memory: 512MiB, workers: 1}"


async def run(
    folder: Path,
    write: Write,
    name: str,
    text: str = "x",
    times: int = 1,
    *,
    is_secret: bool = False,
) -> tuple[list[Any], list[ToolProgress], list[ToolEngineEvent]]:
    """Runs a handler; gives its results, and what was heard of it."""
    define(folder / "tools", name, f"{write(HANDLERS)}:{name}", APART)
    if is_secret:
        file = folder / "tools" / f"{name}.yaml"
        file.write_text(file.read_text().replace("required: true", "required: true, secret: true"))
    heard: list[ToolProgress] = []
    events: list[ToolEngineEvent] = []
    async with asyncio.timeout(BOUND), engine_of(folder / "tools") as engine:
        engine.subscribe(events.append, "execution_logged")
        results = [
            await engine.execute(name, {"text": text}, on_progress=heard.append)
            for _ in range(times)
        ]
    return results, heard, events


@pytest.mark.parametrize("name", ["many", "later"])
async def test_reports_cross(tmp_path: Path, write: Write, name: str) -> None:
    """The last of twenty thousand arrives before the result, and so does the line."""
    results, heard, events = await run(tmp_path, write, name, times=2)
    assert [each.error for each in results] == [None, None]
    last = ToolProgress(20_000, 20_000, "x") if name == "many" else ToolProgress(1, 2, "x")
    assert heard.count(last) == 2
    assert heard[-1] == last
    said = ("warning", "all done") if name == "many" else ("info", "x")
    assert [(each.data["level"], each.data["message"]) for each in events] == [said] * 2


async def test_the_newest_crosses_while_the_handler_is_silent(tmp_path: Path, write: Write) -> None:
    """The second of two quick reports does not wait for a third, nor for the end."""
    sign = tmp_path / "sign"
    is_there = asyncio.Event()

    def listen(progress: ToolProgress) -> None:
        if progress.done == 2:
            is_there.set()

    define(tmp_path / "tools", "quiet", f"{write(HANDLERS)}:quiet", APART)
    async with asyncio.timeout(BOUND), engine_of(tmp_path / "tools") as engine:
        work = engine.execute("quiet", {"text": str(sign)}, on_progress=listen)
        call = asyncio.create_task(work)
        await is_there.wait()
        assert not call.done()
        await asyncio.to_thread(sign.unlink)
        assert (await call).error is None


async def test_how_far_a_failed_handler_came(tmp_path: Path, write: Write) -> None:
    """The report comes, then the error."""
    [result], heard, _ = await run(tmp_path, write, "fails")
    assert (result.error_type, [each.done for each in heard]) == ("execution_error", [3])


async def test_a_wrong_report_is_the_handlers_mistake(tmp_path: Path, write: Write) -> None:
    """It is told at the place where it is made."""
    [result], _, _ = await run(tmp_path, write, "wrong")
    assert "done must be a finite number from 0 on, got -1" in result.error


async def test_words_and_numbers_of_any_kind(tmp_path: Path, write: Write) -> None:
    """None of them ends the worker: each crosses as what JSON can say."""
    [result], heard, events = await run(tmp_path, write, "odd")
    assert result.error is None
    assert heard == [ToolProgress(1e30, 2.0**64, "half \\ud800")]
    assert [each.data["message"] for each in events] == ["half \\ud800"]


async def test_long_secrets(tmp_path: Path, write: Write) -> None:
    """Said twice, the second one is cut on the way, and no part of it is shown."""
    secret = "".join(f"{number:04}-s3cret-" for number in range(300))
    [result], heard, events = await run(tmp_path, write, "twice", secret, is_secret=True)
    said = [result.error, *(each.message for each in heard)]
    said += [each.data["message"] for each in events]
    assert len(said) == 3
    assert [each for each in said if "s3cret" in each] == []


async def test_long_secrets_of_a_worker_that_dies(tmp_path: Path, write: Write) -> None:
    """Of its last words whole lines are shown, so that no half of a secret is unknown."""
    secret = "".join(f"{number:04}-s3cret-" for number in range(60))
    [result], _, _ = await run(tmp_path, write, "dies", secret, is_secret=True)
    assert "the end" in result.error
    assert "s3cret" not in result.error


async def test_reports_after_the_end(tmp_path: Path, write: Write) -> None:
    """What a thread reports that was left behind disturbs no later call."""
    results, heard, _ = await run(tmp_path, write, "left_behind", times=3)
    assert [each.error for each in results] == [None] * 3
    assert heard == []


async def test_a_forged_report(tmp_path: Path, write: Write) -> None:
    """What no context can have sent ends the worker, as any other foreign message does."""
    [result], heard, _ = await run(tmp_path, write, "forged")
    assert "sent something that is no answer" in result.error
    assert heard == []


async def test_without_an_engine(tmp_path: Path, write: Write, make: Any) -> None:
    """Whoever uses the executor alone hears nothing, and has the result."""
    entry = {"handler": f"{write(HANDLERS)}:later", "config": {"isolation": "process"}}
    tool = make(entry, "text", name="later")
    executor = Apart()
    async with asyncio.timeout(BOUND):
        assert await executor.execute(tool, {"text": "a"}, ToolExecutionContext()) == "done"
    await executor.close()
