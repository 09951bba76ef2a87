"""Does consent hold while files are locked, withdrawn, published and rolled back?

The machine of `test_consent_machine`, with a tool that a file defines and `tools.lock` approves.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tests.effort import share_of
from tests.properties.test_consent_machine import (
    PEOPLE,
    PICK,
    TO,
    ConsentMachine,
    definition,
)
from tests.session.catalogs import write
from tool_engine.catalog.approval.lock import ToolLock
from tool_engine.engine import ToolEngine
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

CHANGES = ("withdraw", "approve", "publish", "rollback")
ANSWERS = st.sampled_from(["yes", "yes", "yes", "no", "later"])
MISCHIEF = st.sampled_from(["nothing", "mutate", *CHANGES])


class FiledConsentMachine(ConsentMachine):
    """The same processes, which enforce one lock file over one folder."""

    LOCK = "enforce"

    async def open(self) -> None:
        self.written = 1
        """The version that the file has; `swap` counts those of the other tools."""
        self.unapproved: list[tuple[str, str | None]] = []
        self.approved: str | None = None
        """The version that the lock file approves."""
        await asyncio.to_thread(self.write_file)
        await super().open()
        for engine in self.engines:
            engine.register_executor("filed", self)
        await self.approve_file()

    def write_file(self) -> None:
        keys: dict[str, Any] = {"permission": "ask_always", "version": f"{self.written}.0.0"}
        write(Path(self.folder.name, "tools"), definition("filed", parameters=[TO], **keys))

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> str:
        """What runs the tool."""
        self.ran[str(context.session_id), "filed", tool.version, params["to"]] += 1
        if tool.version != self.approved:
            self.unapproved.append((tool.version, self.approved))
        return f"paid {params['to']}"

    # What may come between question and run, or at any time.

    async def change_files(self, change: str, engine: ToolEngine, pick: int = 0) -> None:
        lock = self.engines[0].config.lock_file or f"{self.folder.name}/tools.lock"
        if change == "publish":
            self.written += 1
            await asyncio.to_thread(self.write_file)
        elif change == "withdraw":
            await asyncio.to_thread(ToolLock(file=lock).write)
        elif change == "rollback":
            kept = engine.generations()
            await engine.rollback(kept[pick % len(kept)].number)
            return
        for each in self.engines:
            await each.reload()
        if change == "approve":
            await self.approve_file()
        elif change == "withdraw":
            self.approved = None

    async def approve_file(self) -> None:
        await self.engines[0].lock_tools(["filed"])
        await self.engines[1].reload()
        self.approved = f"{self.written}.0.0"

    async def meddle(self, params: dict[str, Any]) -> bool | None:
        mischief = self.plan[0][0] if self.plan else "nothing"
        if mischief in CHANGES:
            await self.change_files(mischief, self.engines[0])
        return await super().meddle(params)

    @rule(
        to=PEOPLE,
        name=st.sampled_from(["s", "t"]),
        times=st.integers(1, 2),
        plan=st.lists(st.tuples(MISCHIEF, ANSWERS), min_size=1, max_size=3),
        leaves=st.booleans(),
    )
    def call_filed(self, to: str, name: str, times: int, plan: list[Any], leaves: bool) -> None:
        """As the other tools are called."""
        self.call_at_once("filed", to, name, times, plan, leaves)

    @rule()
    def withdraw(self) -> None:
        """The approval is taken out of the lock file."""
        self.do(self.change_files("withdraw", self.engines[0]))

    @rule()
    def approve_again(self) -> None:
        """What the file says is approved."""
        self.do(self.change_files("approve", self.engines[0]))

    @rule(is_approved=st.booleans())
    def publish(self, is_approved: bool) -> None:
        """A new version is written, and approved or not."""
        self.do(self.change_files("publish", self.engines[0]))
        if is_approved:
            self.do(self.change_files("approve", self.engines[0]))

    @rule(place=st.integers(0, 1), pick=PICK)
    def roll_back(self, place: int, pick: int) -> None:
        """One process goes back to tools of before, approved or not."""
        self.do(self.change_files("rollback", self.engines[place], pick))

    @invariant()
    def nothing_unapproved_runs(self) -> None:
        """Neither what was withdrawn, nor what a rollback brought back."""
        assert self.unapproved == []


FiledConsentMachine.TestCase.settings = settings(
    max_examples=share_of(30), stateful_step_count=14, deadline=None
)
TestFiledConsent = FiledConsentMachine.TestCase
