"""What ran is what was shown, is what was consented to: once, by whom, whichever way it came in.

Two engines share a database, as two processes do. Calls come by `execute`, replies with a callback,
answers to deferred requests, tools around tools, workflows and shared runs. While somebody is
asked, callers change what they sent, tools are replaced, turned off and forbidden, and calls fail.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections import Counter
from collections.abc import Coroutine
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from tests.effort import share_of
from tool_engine import ToolConfigLoader, ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.errors import ApprovalError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.call import ToolCall
from tool_engine.model.reply import ParsedReply
from tool_engine.model.tool import Tool
from tool_engine.session.session import ToolSession

BOUND = 20.0
TO = {"name": "to", "type": "string", "required": True, "description": "Whom"}
ID = {"name": "call_id", "type": "string", "required": True, "description": "Which"}
SHARED = {"concurrency": {"key": "params", "collision": "single_flight"}, "effect": "read"}
PAYING: dict[str, dict[str, Any]] = {
    "pay": {},
    "once": {"permission": "ask_once"},
    "flight": SHARED,
}
"""The tools of which somebody is asked, and what their definitions say besides."""
STEPS = [{"id": "a", "tool": "pay", "params": {"to": "${params.to}"}}]
WAYS = (*PAYING, "around", "flow", "salary", "teller")
PEOPLE = st.sampled_from(["ada", "bob"])
MISCHIEF = st.sampled_from(["nothing", "mutate", "replace", "off", "deny", "fail"])
ANSWERS = st.sampled_from(["yes", "no", "later"])
PICK = st.integers(0, 999)
"""How many requests or calls there are by then is up to threads: draws do not depend on it."""
Key = tuple[str, str, str, str]
"""Session, tool, version and whom it pays."""


def definition(name: str, **keys: Any) -> dict[str, Any]:
    entry = {"type": "custom", "handler": name}
    return {"name": name, "description": "A tool.", "category": "custom", "entry": entry, **keys}


class ConsentMachine(RuleBasedStateMachine):
    """Two processes, their conversations, and all that may come between question and run."""

    LOCK = "off"
    """What lock file the engines follow."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        self.version = 1
        self.secrets = itertools.count(1)
        self.ran: Counter[Key] = Counter()
        self.allowed: Counter[Key] = Counter()
        self.lasting: set[Key] = set()
        self.off_when_started: list[Key] = []
        self.is_nested = False
        self.shown: set[int] = set()
        """The salaries that somebody has let the model read."""
        self.told: list[str] = []
        """All that the model has read."""
        self.sent: list[dict[str, Any]] = []
        self.tokens: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self.plan: list[tuple[str, str]] = []
        """What comes of the next questions: what is done meanwhile, and the answer."""
        self.do(self.open())

    def do(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, BOUND))

    async def open(self) -> None:
        self.engines = [self.engine() for _ in range(2)]
        for engine in self.engines:
            await engine.load()
        self.sessions = {
            (place, name): ToolSession(
                engine,
                name,
                {"rules": {"salary": {"result": "always"}}},
                None if name == "asks_nobody" else self,
            )
            for place, engine in enumerate(self.engines)
            for name in ("s", "t", "asks_nobody")
        }

    def engine(self) -> ToolEngine:
        empty = Path(self.folder.name, "tools")
        empty.mkdir(exist_ok=True)
        records = f"sqlite:///{self.folder.name}/records.db"
        engine = ToolEngine(
            ToolEngineConfig(
                tools_directory=str(empty), auto_reload=False, records=records, lock=self.LOCK
            )
        )
        for name in PAYING:
            self.register(engine, name)
        text = {"name": "to", "type": "string", "description": "Whom"}
        for name, handler in (("around", self.around), ("teller", self.teller)):
            engine.register_tool(definition(name, effect="read", parameters=[text]), handler)
        salary = definition("salary", effect="read", parameters=[text])
        engine.register_tool(salary, self.salary)
        flow = definition("flow", effect="read", parameters=[text])
        engine.register_tool({**flow, "entry": {"type": "workflow", "steps": STEPS}})
        read = {**definition("read_result", effect="read", parameters=[ID])}
        engine.register_tool({**read, "entry": {"type": "builtin", "handler": "read_result"}})
        return engine

    def register(self, engine: ToolEngine, name: str, permission: str = "ask_always") -> None:
        version = f"{self.version}.0.0"
        keys = {"permission": permission, **PAYING[name]}
        if permission == "deny":
            keys["permission"] = permission
        made = definition(name, version=version, parameters=[TO], **keys)
        tool: Any = ToolConfigLoader().from_mapping(made)
        if name == "once":
            # One that was built by hand, which no hash stands for.
            tool = replace(tool, definition_hash="")

        async def pay(to: str, context: ToolExecutionContext) -> str:
            key = str(context.session_id), name, version, to
            self.ran[key] += 1
            place = self.engines.index(engine)
            session = self.sessions[place, key[0]]
            is_its_own = context.parent_call_id is None and not self.is_nested
            if is_its_own and session.get(name) is None:
                self.off_when_started.append(key)
            await asyncio.sleep(0)
            return f"paid {to}"

        engine.register_tool(tool, pay)

    async def around(self, context: ToolExecutionContext, to: str = "ada") -> str:
        sent = {"to": to}
        self.sent.append(sent)
        inner = await context.call("pay", sent)
        return str(inner.output or inner.error)

    async def salary(self, to: str = "ada") -> str:
        return f"SECRET-{next(self.secrets)}-{to}"

    async def teller(self, context: ToolExecutionContext, to: str = "ada") -> str:
        return str((await context.call("salary", {"to": to})).output)

    # Who is asked.

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        shown = deepcopy(request.params), request.result
        answer = await self.meddle(request.params)
        if answer is None:
            self.tokens.append((request.token, request.session_id))
            return None
        if answer:
            self.note(request, shown)
        return ApprovalDecision(is_approved=answer)

    def note(self, request: ApprovalRequest, shown: tuple[dict[str, Any], str | None]) -> None:
        params, result = shown
        if request.kind == "result":
            self.shown |= numbers_in(result or "")
            return
        key = request.session_id, request.tool_name, request.tool_version, params["to"]
        self.allowed[key] += 1
        if request.is_once:
            self.lasting.add(key)

    async def meddle(self, params: dict[str, Any]) -> bool | None:
        mischief, answer = self.plan.pop(0) if self.plan else ("nothing", "no")
        await asyncio.sleep(0)
        if mischief == "mutate":
            for each in (params, *self.sent):
                if "to" in each:
                    each["to"] = "mallory"
        elif mischief in ("replace", "deny"):
            self.change("ask_always" if mischief == "replace" else "deny")
        elif mischief == "off":
            for session in self.sessions.values():
                session.toolbox.set_tool_enabled("pay", False)
        elif mischief == "fail":
            raise ValueError("whoever is asked has gone")
        return {"yes": True, "no": False}.get(answer)

    def change(self, permission: str) -> None:
        self.version += 1
        for engine in self.engines:
            for name in PAYING:
                engine.unregister_tool(name)
                self.register(engine, name, permission)

    # What can happen.

    @rule(
        way=st.sampled_from(WAYS),
        to=PEOPLE,
        name=st.sampled_from(["s", "t", "asks_nobody"]),
        times=st.integers(1, 2),
        plan=st.lists(st.tuples(MISCHIEF, ANSWERS), max_size=3),
        leaves=st.booleans(),
    )
    def call(self, way: str, to: str, name: str, times: int, plan: list[Any], leaves: bool) -> None:
        """Calls that are alike, at once; the first may be given up."""
        self.call_at_once(way, to, name, times, plan, leaves)

    def call_at_once(
        self, way: str, to: str, name: str, times: int, plan: list[Any], leaves: bool
    ) -> None:
        async def calls() -> None:
            session = self.sessions[0, name]
            made = []
            for _ in range(times):
                sent = {"to": to}
                self.sent.append(sent)
                made.append(asyncio.ensure_future(session.execute(way, sent)))
            for _ in range(6):
                await asyncio.sleep(0)
            if leaves:
                made[0].cancel()
            for result in await asyncio.gather(*made, return_exceptions=True):
                self.hear(result)

        self.plan = list(plan)
        self.do(calls())
        self.sent.clear()

    @rule(
        way=st.sampled_from(WAYS),
        to=st.sampled_from(["ada", "bob", "$VAR_REF{{nothing}}"]),
        name=st.sampled_from(["s", "asks_nobody"]),
        plan=st.lists(st.tuples(MISCHIEF, ANSWERS), max_size=3),
        is_cycle=st.booleans(),
    )
    def reply(self, way: str, to: str, name: str, plan: list[Any], is_cycle: bool) -> None:
        """A reply of the model, with a callback that is asked before the call."""
        session = self.sessions[0, name]
        parsed = ParsedReply(calls=[ToolCall(call_id="1", tool_name=way, arguments={"to": to})])

        async def ask(call: ToolCall, tool: Tool) -> bool | str | None:
            version, whom = tool.version, str(call.arguments["to"])
            answer = await self.meddle(call.arguments)
            if answer and name == "asks_nobody" and way in PAYING:
                self.allowed["asks_nobody", way, version, whom] += 1
            return "later" if answer is None else answer

        async def process() -> None:
            self.sent.append(parsed.calls[0].arguments)
            if is_cycle:
                text = (
                    f"<<<[TOOL_REQUEST]>>>\ntool_name:「始」{way}「末」\nto:「始」{to}「末」\n"
                    "<<<[END_TOOL_REQUEST]>>>"
                )
                cycle = await session.process_cycle(text, None, ask)
            else:
                cycle = await session.process(parsed, "vcp", ask)
            for result in cycle.execution_results:
                self.hear(result)

        self.plan = list(plan)
        self.do(process())
        self.sent.clear()

    @rule(
        pick=PICK,
        place=st.integers(0, 1),
        answer=st.booleans(),
        plan=st.lists(st.tuples(MISCHIEF, ANSWERS), max_size=1),
    )
    def resume(self, pick: int, place: int, answer: bool, plan: list[Any]) -> None:
        """Somebody answers later, in one process or the other."""
        if not self.tokens:
            return
        token, name = self.tokens[pick % len(self.tokens)]
        session = self.sessions[place, name]

        async def resumed() -> None:
            request = await session.gate.book.find(token)
            if request is None:
                return
            shown = deepcopy(request.params), request.result
            if answer:
                self.note(request, shown)
            # What a tool wanted to call need not be on.
            self.is_nested = request.is_nested
            try:
                self.hear(await session.resume(token, answer))
            except ApprovalError:
                return
            finally:
                self.is_nested = False

        self.plan = list(plan)
        self.do(resumed())

    @rule(pick=PICK, place=st.integers(0, 1), name=st.sampled_from(["s", "t"]))
    def read(self, pick: int, place: int, name: str) -> None:
        """The model reads the result of a call again, of its own or of another conversation."""
        if not self.ids:
            return
        session, call_id = self.sessions[place, name], self.ids[pick % len(self.ids)]

        async def read() -> None:
            self.hear(await session.execute("read_result", {"call_id": call_id}))

        self.plan = []
        self.do(read())

    @rule(is_on=st.booleans(), place=st.integers(0, 1))
    def toggle(self, is_on: bool, place: int) -> None:
        """Tools are turned off and on, in one process only."""

        async def turn() -> None:
            for (at, _), session in self.sessions.items():
                if at == place:
                    for name in PAYING:
                        session.toolbox.set_tool_enabled(name, is_on)

        self.do(turn())

    @rule(permission=st.sampled_from(["ask_always", "deny"]))
    def swap(self, permission: str) -> None:
        """Another version takes the place of each tool."""

        async def turn() -> None:
            self.change(permission)

        self.do(turn())

    def hear(self, result: Any) -> None:
        """What the model reads of a call."""
        if isinstance(result, BaseException):
            return
        read = result.output if result.is_success else None
        self.told.append(f"{result.final_text} {result.error} {read}")
        if result.call_id is not None:
            self.ids.append(result.call_id)
            # Of calls that were made inside of it, a model may guess the ids.
            begin, _, number = result.call_id.rpartition("-")
            if number.isdigit():
                self.ids += [f"{begin}-{int(number) + step}" for step in (1, 2)]

    # What must hold.

    @invariant()
    def each_run_was_consented_to(self) -> None:
        """With this version and these arguments, in this conversation, once for each."""
        for key, count in self.ran.items():
            assert count <= self.allowed[key] or key in self.lasting, (key, count, self.allowed)

    @invariant()
    def nothing_that_is_off_starts(self) -> None:
        """Of what the conversation calls itself."""
        assert self.off_when_started == []

    @invariant()
    def nothing_is_told_that_was_not_shown(self) -> None:
        """A salary is read by the model when somebody has let it."""
        told = set[int]().union(*map(numbers_in, self.told))
        assert told <= self.shown, told - self.shown

    def teardown(self) -> None:
        async def end() -> None:
            for engine in self.engines:
                await engine.close()

        self.do(end())
        self.loop.close()
        self.folder.cleanup()


def numbers_in(text: str) -> set[int]:
    """The numbers of the salaries in a text."""
    parts = text.split("SECRET-")[1:]
    return {int(part.split("-")[0]) for part in parts}


ConsentMachine.TestCase.settings = settings(
    max_examples=share_of(20), stateful_step_count=12, deadline=None
)
TestConsent = ConsentMachine.TestCase
