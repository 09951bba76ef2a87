"""Can any order of asking, answering, waiting, changing and restarting run what nobody allowed?"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.calls.audit import Audit, make_engine, turns
from tests.calls.samples import bare
from tests.calls.virtual_loop import VirtualLoop
from tests.effort import share_of
from tool_engine import ToolConfigLoader, ToolExecutionContext, ToolExecutionResult
from tool_engine.approval.book import ApprovalBook
from tool_engine.approval.gate import ApprovalGate
from tool_engine.approval.policy import Decision
from tool_engine.approval.subject import making_of
from tool_engine.errors import ApprovalError
from tool_engine.interfaces import ApprovalStorage
from tool_engine.knowledge.memory_approvals import MemoryApprovalStorage
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest, fingerprint_of
from tool_engine.model.call import Refusal
from tool_engine.model.permission import ExecutionPolicy, ResultPolicy
from tool_engine.model.tool import Tool

WHOM = [{"name": "n", "type": "integer", "required": True, "description": "Whom"}]
BASE = ToolConfigLoader().from_mapping(bare("pay", parameters=WHOM))
TIMEOUT = 60.0
PEOPLE = st.integers(0, 1)
Run = tuple[str, int]
"""The version of the tool, and whom it paid."""


class Consented:
    """The scope of a call that somebody has allowed already: good for that call."""

    def __init__(self, fingerprint: str) -> None:
        self._fingerprint = fingerprint

    def own(self, tool_name: str) -> None:
        return None

    async def consent(self, call_id: str, tool: Tool, params: dict[str, Any]) -> Refusal | None:
        if fingerprint_of(tool.name, making_of(tool), params) == self._fingerprint:
            return None
        return Refusal("execution_rejected", "it is another call now")


class ApprovalMachine(RuleBasedStateMachine):
    """One conversation, its people, and all that can come between."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.storage = MemoryApprovalStorage(clock=self.loop.time)
        self.asked: dict[str, tuple[ApprovalRequest, asyncio.Future[Any]]] = {}
        self.calls: list[tuple[asyncio.Task[ToolExecutionResult], bool]] = []
        self.deferred: dict[str, ApprovalRequest] = {}
        self.runs: Counter[Run] = Counter()
        self.single: Counter[Run] = Counter()
        """Runs that were allowed one by one."""
        self.lasting: set[Run] = set()
        """Runs that were allowed for good."""
        self.is_once = False
        self.version = 0
        clock, storage = self.loop.time, self.storage
        self.gate = self.gate_of(ApprovalBook("s", TIMEOUT, clock=clock, storage=storage))
        self.do(self.open())

    def do(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        async def bounded() -> Any:
            result = await coroutine
            await turns()
            return result

        return self.loop.run_until_complete(bounded())

    async def open(self) -> None:
        self.engine = make_engine(1)
        self.audit = Audit(self.engine)
        self.put()

    def put(self) -> None:
        version = f"{self.version}.0.0"

        async def pay(n: int) -> None:
            self.runs[version, n] += 1
            metrics = self.engine.controller.get_metrics()
            assert metrics.current_concurrent == 1

        hashed = msgspec.structs.replace(BASE, version=version, definition_hash=f"h{self.version}")
        self.engine.register_tool(hashed, pay)

    def gate_of(self, book: ApprovalBook) -> ApprovalGate:
        def policy(tool: Tool, params: Any) -> Decision:
            asks = ExecutionPolicy.ASK_ONCE if self.is_once else ExecutionPolicy.ASK_ALWAYS
            return Decision(asks, ResultPolicy.NEVER)

        return ApprovalGate(book, self, policy)

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        future: asyncio.Future[Any] = self.loop.create_future()
        self.asked[request.token] = request, future
        try:
            answer = await future
        finally:
            del self.asked[request.token]
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    def note(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        """What an answer that was given in time allows."""
        if decision.is_approved:
            run = request.tool_version, request.params["n"]
            self.single[run] += 1
            if request.is_once and decision.is_remembered is not False:
                self.lasting.add(run)

    # What can happen.

    @rule(n=PEOPLE, times=st.integers(1, 3), is_once=st.booleans())
    def call(self, n: int, times: int, is_once: bool) -> None:
        async def begin() -> None:
            context = ToolExecutionContext(scope=self.gate)
            for _ in range(times):
                task = asyncio.ensure_future(self.engine.execute("pay", {"n": n}, context))
                self.calls.append((task, is_once))
                await turns(3)

        self.is_once = is_once
        self.do(begin())

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), says=st.sampled_from(["yes", "no", "only now", "later", "fail"]))
    def answer(self, data: st.DataObject, says: str) -> None:
        request, future = self.asked[data.draw(st.sampled_from(list(self.asked)))]
        answers: dict[str, Any] = {
            "yes": ApprovalDecision(is_approved=True),
            "no": ApprovalDecision(is_approved=False),
            "only now": ApprovalDecision(is_approved=True, is_remembered=False),
            "later": None,
            "fail": ApprovalError("gone"),
        }
        answer = answers[says]
        if isinstance(answer, ApprovalDecision):
            self.note(request, answer)
        future.set_result(answer)
        self.do(turns())

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        task, _ = data.draw(st.sampled_from(self.calls))
        task.cancel()
        self.do(turns())

    @rule(seconds=st.sampled_from([20.0, 45.0, 90.0]))
    def wait(self, seconds: float) -> None:
        self.do(asyncio.sleep(seconds))

    @rule()
    def change(self) -> None:
        async def swap() -> None:
            self.version += 1
            self.engine.unregister_tool("pay")
            self.put()

        self.do(swap())

    @rule()
    def restart(self) -> None:
        """The process ends with all its calls; another one goes on with what was kept."""
        kept = json.loads(json.dumps(self.gate.book.to_dict()))
        for task, _ in self.calls:
            task.cancel()
        self.do(turns())
        book = ApprovalBook.from_dict(kept, clock=self.loop.time, storage=self.storage)
        self.gate = self.gate_of(book)

    @precondition(lambda self: self.deferred)
    @rule(data=st.data(), is_approved=st.booleans(), others=st.integers(0, 2))
    def resume(self, data: st.DataObject, is_approved: bool, others: int) -> None:
        """Somebody answers in this process, and in others at the same time."""
        token = data.draw(st.sampled_from(list(self.deferred)))
        decision = ApprovalDecision(is_approved=is_approved)
        storage: ApprovalStorage = self.storage

        async def one(book: ApprovalBook) -> ApprovalRequest | None:
            try:
                request = await book.answer(token, decision, self.engine.get("pay"))
            except ApprovalError:
                return None
            if decision.is_approved:
                context = ToolExecutionContext(scope=Consented(request.fingerprint))
                await self.engine.execute("pay", request.params, context)
            return request

        async def all_of_them() -> list[ApprovalRequest | None]:
            books = [
                ApprovalBook("s", TIMEOUT, clock=self.loop.time, storage=storage)
                for _ in range(others)
            ]
            return await asyncio.gather(*(one(book) for book in (*books, self.gate.book)))

        request = self.deferred[token]
        self.note(request, decision)
        taken = [each for each in self.do(all_of_them()) if each is not None]
        assert len(taken) <= 1
        is_in_time = self.loop.time() < request.expires_at
        is_same = request.tool_version == f"{self.version}.0.0" or not is_approved
        assert bool(taken) is (is_in_time and is_same)
        del self.deferred[token]

    # What must hold.

    @invariant()
    def nothing_runs_unasked(self) -> None:
        """Each run has a yes of its own, or one that lasts."""
        for run, count in self.runs.items():
            assert run in self.lasting or count <= self.single[run], (run, count)

    @invariant()
    def requests_belong_to_somebody(self) -> None:
        """What is open is asked right now, or was deferred and may still be answered."""
        for task, _ in self.calls:
            if task.done() and not task.cancelled():
                details = task.result().metadata.get("error_details") or {}
                token = details.get("approval_token")
                for request in self.gate.book.pending():
                    if request.token == token:
                        self.deferred.setdefault(token, request)
        self.calls = [each for each in self.calls if not each[0].done()]
        now = self.loop.time()
        kept = {token for token, each in self.deferred.items() if now < each.expires_at}
        opened = {request.token for request in self.gate.book.pending()}
        assert opened - self.asked.keys() <= kept
        assert self.asked.keys() <= opened

    @invariant()
    def no_slot_is_held(self) -> None:
        """Whoever is asked holds nothing."""
        metrics = self.engine.controller.get_metrics()
        assert (metrics.active, metrics.queue_length) == (0, 0)
        assert self.asked or all(task.done() for task, _ in self.calls)

    def teardown(self) -> None:
        async def end() -> None:
            for task, _ in self.calls:
                task.cancel()
            await turns()
            await self.audit.check()
            await self.engine.close()
            assert not self.asked

        self.do(end())
        self.loop.close()


ApprovalMachine.TestCase.settings = settings(
    max_examples=share_of(60), stateful_step_count=25, deadline=None
)
TestApprovals = ApprovalMachine.TestCase
