"""What does the studio show of an engine that is busy?"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path
from typing import Any, Final

from tool_engine.access.listening import serve_app
from tool_engine.agent.loop import AgentLoop
from tool_engine.agent.models.recorded import RecordedModel
from tool_engine.cli.demo.stage import add_to_entry
from tool_engine.cli.serving.studio_links import announce_studio
from tool_engine.config import ConcurrencyConfig, ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.model.call import ToolExecutionContext
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.session import ToolSession

_CONCURRENCY: Final = ConcurrencyConfig(
    max_concurrent=8, queue_size=50, bucket_limits={"http": 2, "archive": 2}
)
_KEPT_EVENTS: Final = 1_000
_TASK_AFTER: Final = 25
"""Calls after which one is made that goes on without its caller."""
_PAGE: Final = 0.4
"""Seconds in which a page of the archive is read."""
_FADED: Final = 3
"""Which pages cannot be read well: each third one."""
_TALK: Final = [
    {
        "calls": [
            {"name": "get_weather", "arguments": {"city": "Oslo"}},
            {"name": "get_weather", "arguments": {"city": "London"}},
        ]
    },
    {"calls": [{"name": "calculator", "arguments": {"expression": "12 - -3"}}]},
    {"text": "Yes, by 15 degrees: it snows in Oslo."},
]
"""What a model would have replied."""
_CITIES: Final = ("Beijing", "London", "Oslo", "Atlantis")
_AGENTS: Final = ("researcher", "writer", "assistant")


async def show_studio(folder: Path, host: str, port: int, service_url: str) -> None:
    """Serve the studio of an engine that is called all the time, until this is cancelled.

    Args:
        folder: The tool files, which are the demo's own copies.
        host: The address.
        port: The port; 0: any that is free.
        service_url: Where the demo's web service answers.
    """
    from tool_engine.server import create_app

    allowed = f'allow: ["{service_url.removeprefix("http://")}"]'
    path = folder / "http_request.yaml"
    path.write_text(add_to_entry(path.read_text("utf-8"), allowed), encoding="utf-8")
    config = ToolEngineConfig(
        tools_directory=str(folder),
        watch_for_changes=True,
        keep_events=_KEPT_EVENTS,
        concurrency=_CONCURRENCY,
    )
    async with ToolEngine(config) as engine:
        _add_tools(engine)
        app = await asyncio.to_thread(create_app, engine, studio=True)

        def announce(url: str) -> None:
            sys.stderr.write(f"an engine with {len(engine.list_names())} tools is busy at {url}\n")
            announce_studio(app, url)
            sys.stderr.write("Ctrl-C ends it\n")

        calling = asyncio.create_task(_keep_calling(engine, service_url))
        try:
            await serve_app(app, host, port, announce, "", grace=1.0, on_end=app.end)
        finally:
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)


def _add_tools(engine: ToolEngine) -> None:
    @engine.tool(effect="read", concurrency={"bucket": "archive"}, timeout=20)
    async def read_archive(pages: int, context: ToolExecutionContext) -> dict[str, int]:
        """Read pages of an archive, one after the other.

        Args:
            pages: How many.
            context: Hears how far it has come.
        """
        for page in range(1, pages + 1):
            await asyncio.sleep(_PAGE)
            await context.report_progress(page, pages, f"page {page}")
            if page % _FADED == 0:
                await context.log(f"page {page} is faded", "warning")
        return {"pages": pages, "words": 400 * pages}

    @engine.tool(effect="write", permission="ask_always")
    async def pay_invoice(number: str, amount: float) -> str:
        """Pay an invoice.

        Args:
            number: Its number, such as R-17.
            amount: In euros.
        """
        return f"paid {amount:.2f} for {number}"


async def _keep_conversation(engine: ToolEngine) -> None:
    """Have a conversation, and keep it."""
    toggles = {"get_weather": True}
    config = ToolCallConfig(max_calls=20, max_tokens=10_000, tool_toggles=toggles)
    session = ToolSession(engine, "trip-to-oslo", config, conversation_id="trip-to-oslo")
    loop = AgentLoop(session, RecordedModel({"replies": _TALK}))
    await loop.run("Is it warmer in London than in Oslo, and by how much?")
    await session.save({"loop": loop.to_dict()})


async def _keep_calling(engine: ToolEngine, service_url: str) -> None:
    """Call tools as some agents would: often, and now and then more than there is room for."""
    await _keep_conversation(engine)
    chance = random.Random(7)  # noqa: S311 - a demo, and the same each time
    engine.approvals.take_questions()
    async with asyncio.TaskGroup() as group:
        number = 0
        while True:
            number += 1
            name, params = _choose_call(chance, number, service_url)
            agent = chance.choice(_AGENTS)
            context = ToolExecutionContext(
                caller_id=agent, caller_type="agent", conversation_id=f"{agent}-1"
            )
            group.create_task(engine.execute(name, params, context))
            if number % _TASK_AFTER == 0:
                group.create_task(engine.start("read_archive", {"pages": 30}, context))
            await asyncio.sleep(chance.expovariate(1.6))


def _choose_call(
    chance: random.Random, number: int, service_url: str
) -> tuple[str, dict[str, Any]]:
    if number % 40 == 5:
        return "pay_invoice", {"number": f"R-{number}", "amount": 19.5 * chance.randint(1, 9)}
    kind = chance.random()
    if kind < 0.35:
        seconds = chance.uniform(0.5, 3.0)
        return "http_request", {"url": f"{service_url}/work?seconds={seconds:.2f}"}
    if kind < 0.55:
        return "read_archive", {"pages": chance.randint(2, 9)}
    if kind < 0.8:
        return "get_weather", {"city": chance.choice(_CITIES)}
    if kind < 0.97:
        return "calculator", {"expression": f"{chance.randint(1, 99)} * {chance.randint(0, 9)}"}
    return "calculator", {"expression": "1 / 0"}
