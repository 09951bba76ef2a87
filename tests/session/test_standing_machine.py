"""Can any order of asking, answering, revoking, changing and restarting let in the wrong caller?"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, NamedTuple

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.calls.audit import EMPTY_FOLDER
from tests.calls.samples import bare
from tests.calls.virtual_loop import VirtualLoop
from tests.effort import share_of
from tool_engine import (
    ApprovalDecision,
    ToolCallConfig,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolKnowledgeStore,
    ToolSession,
)
from tool_engine.errors import ApprovalError
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.knowledge.memory_approvals import MemoryApprovalStorage
from tool_engine.model.approval import ApprovalRequest

WHOM = [{"name": "n", "type": "integer", "required": True, "description": "Whom"}]
BASE = ToolConfigLoader().from_mapping(bare("pay", parameters=WHOM))
NAMES = ("a", "a", "b")
"""The engine that each process has."""
PRINCIPALS = ("", "ann", "bob")
SESSIONS = (None, "s", "t")
"""None: a call of the engine, in no session."""
SAID: dict[str, dict[str, Any]] = {
    "yes": {"is_approved": True},
    "no": {"is_approved": False},
    "only now": {"is_approved": True, "is_remembered": False},
    "always": {"is_approved": True, "always": "call"},
    "never": {"is_approved": False, "always": "call"},
    "always all": {"is_approved": True, "always": "tool"},
    "never all": {"is_approved": False, "always": "tool"},
}
LATER = ("only now", "always", "never", "always all", "never all")


class Asked(NamedTuple):
    """One call, as far as a decision is about it."""

    session: str
    engine: str
    version: int
    n: int
    principal: str


class Process:
    """One engine, with the sessions that live beside it."""

    def __init__(self, name: str, version: int, approvals: Any, approver: Any, life: int) -> None:
        storage = MemoryStorage()
        storage.approvals = approvals  # type: ignore[attr-defined]
        config = ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False, name=name)
        store = ToolKnowledgeStore(storage)
        self.engine = ToolEngine(config, store=store, approver=approver)
        self.name = name
        self.life = f"life {life}"
        self.version: int | None = None
        self.ran = 0
        self.sessions: dict[tuple[str, str, str], ToolSession] = {}
        self.approver = approver
        self.put(version)

    def put(self, version: int) -> None:
        async def pay(n: int) -> None:
            self.ran += 1

        if self.version is not None:
            self.engine.unregister_tool("pay")
        permission = {"permission": "ask_once"}
        base = ToolConfigLoader().from_mapping({**bare("pay", parameters=WHOM), **permission})
        self.engine.register_tool(msgspec.structs.replace(base, definition_hash=f"{version}"), pay)
        self.version = version

    def source(self, session: str | None, principal: str, policy: str) -> Any:
        if session is None:
            return self.engine
        key = session, principal, policy
        if key not in self.sessions:
            config = ToolCallConfig.from_dict({"rules": {"pay": policy}})
            self.sessions[key] = ToolSession(
                self.engine, session, config, self.approver, principal=principal
            )
        return self.sessions[key]

    def has(self, session: str) -> bool:
        return any(key[0] == session for key in self.sessions)


def key_of(asked: Asked) -> tuple[Any, ...]:
    """What is remembered in a session holds there; without one, for the principal alone."""
    return tuple(asked) if asked.session not in SESSIONS else tuple(asked[:4])


class StandingMachine(RuleBasedStateMachine):
    """Three processes of two engines on one storage."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.storage = MemoryApprovalStorage(clock=lambda: 1.0)
        self.says = "yes"
        self.asked: list[ApprovalRequest] = []
        self.lives = 0
        self.remembered: dict[tuple[Any, ...], bool] = {}
        self.standing: dict[tuple[str, int, str, int | None], bool] = {}
        self.open: dict[str, tuple[ApprovalRequest, Asked]] = {}
        self.processes = [self.start(name, 0) for name in NAMES]

    def start(self, name: str, version: int) -> Process:
        self.lives += 1
        return self.do(self.begin(name, version))  # type: ignore[no-any-return]

    async def begin(self, name: str, version: int) -> Process:
        return Process(name, version, self.storage, self, self.lives)

    def do(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(coroutine)

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        self.asked.append(request)
        await asyncio.sleep(0)
        return None if self.says == "later" else ApprovalDecision(**SAID[self.says])

    # What the documentation says.

    def expect(self, asked: Asked) -> bool | None:
        """What is decided already; None: a person is asked."""
        known = self.remembered.get(key_of(asked))
        if known is not None or not asked.principal:
            return known
        place = asked.engine, asked.version, asked.principal
        on_call = self.standing.get((*place, asked.n))
        return self.standing.get((*place, None)) if on_call is None else on_call

    def note(self, asked: Asked, says: str) -> None:
        """What an answer under `ask_once` leaves behind."""
        decision = ApprovalDecision(**SAID[says])
        if decision.is_remembered is False:
            return
        if decision.always is None or not asked.principal:
            self.remembered[key_of(asked)] = decision.is_approved
            return
        about = None if decision.always == "tool" else asked.n
        place = asked.engine, asked.version, asked.principal, about
        self.standing[place] = decision.is_approved

    # What can happen.

    @rule(
        place=st.integers(0, 2),
        session=st.sampled_from(SESSIONS),
        principal=st.sampled_from(PRINCIPALS),
        n=st.integers(0, 1),
        says=st.sampled_from([*SAID, "later"]),
        policy=st.sampled_from(["ask_once", "ask_once", "ask_once", "ask_always", "deny"]),
        times=st.integers(1, 3),
    )
    def call(
        self,
        place: int,
        session: str | None,
        principal: str,
        n: int,
        says: str,
        policy: str,
        times: int,
    ) -> None:
        process = self.processes[place]
        policy = "ask_once" if session is None else policy
        self.says, self.asked, process.ran = says, [], 0
        source = process.source(session, principal, policy)
        context = ToolExecutionContext(caller_id=principal or None) if session is None else None

        async def begin() -> list[Any]:
            return await asyncio.gather(
                *(source.execute("pay", {"n": n}, context) for _ in range(times))
            )

        results = self.do(begin())
        assert process.version is not None
        asked = Asked(session or process.life, process.name, process.version, n, principal)
        known = self.expect(asked) if policy == "ask_once" else None
        is_alone = policy == "ask_always" or says in ("only now", "later")
        questions = 0 if policy == "deny" or known is not None else times if is_alone else 1
        assert len(self.asked) == questions
        assert {each.principal for each in self.asked} <= {principal}
        said = SAID.get(says, {"is_approved": False})
        is_yes = bool(said["is_approved"]) if known is None else known
        assert process.ran == (times if is_yes and policy != "deny" else 0)
        assert {each.is_success for each in results} == {is_yes and policy != "deny"}
        if questions and says == "later" and session is not None:
            self.open |= {each.token: (each, asked) for each in self.asked}
        elif questions and policy == "ask_once" and says != "later":
            self.note(asked, says)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), place=st.integers(0, 2), says=st.sampled_from(LATER))
    def answer(self, data: st.DataObject, place: int, says: str) -> None:
        """A page of any process is asked to pass on an answer, twice."""
        token = data.draw(st.sampled_from(list(self.open)))
        request, asked = self.open[token]
        process = self.processes[place]
        decision = ApprovalDecision(**SAID[says])
        process.ran = 0

        async def give() -> bool:
            try:
                await process.engine.approvals.answer(token, decision, by="op")
            except ApprovalError:
                return False
            return True

        async def twice() -> list[bool]:
            return list(await asyncio.gather(give(), give()))

        is_here = process.name == asked.engine and process.has(asked.session)
        is_same = process.version == asked.version
        taken = self.do(twice())
        assert sum(taken) == int(is_here and (is_same or not decision.is_approved))
        if is_here:
            del self.open[token]
        if any(taken) and request.is_once and asked.principal:
            self.note(asked, says)
        elif any(taken) and request.is_once and decision.is_remembered is not False:
            # What is remembered for a session is looked at by calls of that session alone.
            self.remembered[key_of(asked)] = decision.is_approved
            for each in self.processes:
                each.sessions = {
                    key: session
                    for key, session in each.sessions.items()
                    if key[0] != request.session_id
                }
            # Only a session that is gone answers nothing any more.
            gc.collect()
        assert process.ran <= int(any(taken) and decision.is_approved)

    @precondition(lambda self: self.standing)
    @rule(data=st.data(), place=st.integers(0, 2))
    def revoke(self, data: st.DataObject, place: int) -> None:
        process = self.processes[place]
        found = self.do(process.engine.approvals.standing())
        if found:
            each = data.draw(st.sampled_from(found))
            assert self.do(process.engine.approvals.revoke(each.decision_id))
            about = None if each.params is None else each.params["n"]
            del self.standing[process.name, int(each.definition_hash), each.principal, about]

    @rule(place=st.integers(0, 2), version=st.integers(0, 1))
    def change(self, place: int, version: int) -> None:
        async def swap() -> None:
            self.processes[place].put(version)

        self.do(swap())

    @rule(place=st.integers(0, 2))
    def restart(self, place: int) -> None:
        """The process ends with all its sessions; what was kept holds in the next one."""
        old = self.processes[place]
        self.do(old.engine.close())
        assert old.version is not None
        self.processes[place] = self.start(old.name, old.version)

    # What must hold.

    @invariant()
    def each_engine_lists_its_own(self) -> None:
        """In every process the same, whoever asked and wherever."""
        for process in self.processes:
            desk = process.engine.approvals
            listed = {each.token for each in self.do(desk.pending())}
            assert listed == {
                token for token, (_, asked) in self.open.items() if asked.engine == process.name
            }
            standing = {
                (int(each.definition_hash), each.principal, each.params and each.params["n"]): (
                    each.is_approved
                )
                for each in self.do(desk.standing())
            }
            assert standing == {
                key[1:]: is_yes for key, is_yes in self.standing.items() if key[0] == process.name
            }

    def teardown(self) -> None:
        async def end() -> None:
            for each in self.processes:
                await each.engine.close()

        self.do(end())
        self.loop.close()


StandingMachine.TestCase.settings = settings(
    max_examples=share_of(60), stateful_step_count=25, deadline=None
)
TestStandingDecisions = StandingMachine.TestCase
