"""Does a plain function, and whatever thread it starts, report as an async one does?"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from tests.calls.audit import Audit
from tests.calls.test_in_threads import until
from tool_engine import ToolEngine, ToolExecutionContext
from tool_engine.model.progress import ToolProgress

MANY = 100_000


async def test_a_plain_function(engine: ToolEngine, audit: Audit) -> None:
    """Of very many reports from a thread the last is heard, on the loop, before the end."""

    @engine.tool(effect="read")
    def work(context: ToolExecutionContext) -> str:
        """Work."""
        for number in range(MANY):
            context.report_progress(number, MANY - 1)
        context.log("all done")
        return "done"

    heard: list[ToolProgress] = []
    places: set[int] = set()

    def listen(progress: ToolProgress) -> None:
        heard.append(progress)
        places.add(threading.get_ident())

    result = await engine.execute("work", on_progress=listen)
    assert (result.is_success, heard[-1].done) == (True, MANY - 1)
    assert places == {threading.get_ident()}
    assert [each.done for each in heard] == sorted(each.done for each in heard)
    assert len(heard) <= 2 + result.execution_time / 0.1


async def test_threads_of_a_tool(engine: ToolEngine, audit: Audit) -> None:
    """Eight threads report at once: what is heard never goes back, and ends at the most."""

    @engine.tool(effect="read")
    def work(context: ToolExecutionContext) -> str:
        """Work."""

        def run(start: int) -> None:
            for number in range(start, 8_000, 8):
                context.report_progress(number)
                context.log(str(number), "debug")

        with ThreadPoolExecutor(8) as pool:
            for each in [pool.submit(run, start) for start in range(8)]:
                each.result()
        return "done"

    heard: list[float] = []
    await engine.execute("work", on_progress=lambda each: heard.append(each.done))
    assert heard == sorted(heard)
    assert heard[-1] == 7_999
    lines = [each for each in audit.events if each.event_type.value == "execution_logged"]
    assert len(lines) + sum(each.data.get("dropped", 0) for each in lines) == 8_000


async def test_a_first_report_after_the_deadline(engine: ToolEngine, audit: Audit) -> None:
    """A thread that had said nothing before is not heard after the end of its call either."""
    go_on, ended = threading.Event(), threading.Event()

    @engine.tool(effect="read", timeout=0.05)
    def work(context: ToolExecutionContext) -> str:
        """Work."""
        go_on.wait(20)
        context.report_progress(2)
        context.log("late")
        ended.set()
        go_on.clear()
        go_on.wait(20)
        return "late"

    heard: list[ToolProgress] = []
    result = await engine.execute("work", on_progress=heard.append)
    assert result.error_type == "timeout"
    go_on.set()
    await asyncio.to_thread(ended.wait, 20)
    await asyncio.sleep(0.2)
    go_on.set()
    assert audit.events[-1].execution_result is not None
    assert heard == []
    await until(lambda: engine.controller.get_metrics().zombies == 0)


async def test_a_thread_that_goes_on(engine: ToolEngine, audit: Audit) -> None:
    """After the deadline its reports are left out, and it is not disturbed by that."""
    go_on, ended = threading.Event(), threading.Event()

    @engine.tool(effect="read", timeout=0.05)
    def work(context: ToolExecutionContext) -> str:
        """Work."""
        context.report_progress(1)
        go_on.wait(20)
        context.report_progress(2)
        ended.set()
        return "late"

    result = await engine.execute("work")
    assert result.error_type == "timeout"
    go_on.set()
    await asyncio.to_thread(ended.wait, 20)
    await asyncio.sleep(0)
    assert [each.data.get("done") for each in audit.events if "done" in each.data] == [1]
    await until(lambda: engine.controller.get_metrics().zombies == 0)
