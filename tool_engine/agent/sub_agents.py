"""How does a model delegate a part of its work to a sub-agent? R13.

A sub-agent is a conversation of its own: a session that may do no more than the one that it works
for and spends from its budget, and a loop with the same model. All of it happens inside one call,
so that its deadline, its cancellation and its record hold for the sub-agent, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from tool_engine.agent.answer import StopReason
from tool_engine.agent.events import AgentEvent
from tool_engine.agent.transcript import ChildHistory
from tool_engine.errors import ToolExecutionError
from tool_engine.model.call import ToolExecutionContext
from tool_engine.session.session import ToolSession
from tool_engine.session.variables.store import Variable
from tool_engine.session.variables.variable_tools import CarriesLabels

if TYPE_CHECKING:
    from tool_engine.agent.loop import AgentLoop

SUB_AGENT_TOOL: Final = "call_sub_agent"
_SECONDS: Final = 600.0
_DEFINITION: Final = {
    "name": SUB_AGENT_TOOL,
    "version": "1.0.0",
    "description": "Hands a part of the work to a sub-agent, and gives its answer. It sees nothing "
    "of this conversation: the task has to say all that it must know, and what it is to answer.",
    "category": "custom",
    "effect": "unknown",
    "timeout": _SECONDS,
    "parameters": [
        {
            "name": "task",
            "type": "string",
            "required": True,
            "description": "What to do, and what to answer.",
        },
        {
            "name": "tools",
            "type": "array",
            "items": {"type": "string"},
            "required": False,
            "description": "The names of the only tools that it may use; left out: all of yours.",
        },
    ],
    "entry": {"type": "custom", "handler": SUB_AGENT_TOOL},
}


def offer_sub_agents(loop: AgentLoop) -> None:
    """Give a loop's model the tool `call_sub_agent`, replacing an earlier loop's.

    Raises:
        ToolConflictError: The session has a tool of this name already.
    """
    own = loop.session.own_tools
    if SUB_AGENT_TOOL in own and own[SUB_AGENT_TOOL][0].description == _DEFINITION["description"]:
        loop.session.own_tools = {k: made for k, made in own.items() if k != SUB_AGENT_TOOL}

    async def call_sub_agent(
        task: str, context: ToolExecutionContext, tools: list[str] | None = None
    ) -> dict[str, Any]:
        return await _Delegation(loop, context, task).run(tools)

    loop.session.register_tool(_DEFINITION, call_sub_agent)


def note_effect(session: ToolSession) -> None:
    """Run sub-agents in parallel only if all they can do is read."""
    tool, executor = session.own_tools[SUB_AGENT_TOOL]
    placed = (session.toolbox.find(each.name) for each in session.tools())
    # Tools that each session has of its own affect only that session.
    shared = [each.tool for each in placed if each is not None and not each.is_own]
    effect = "read" if all(each.effect == "read" for each in shared) else "unknown"
    if tool.effect != effect:
        made = replace(tool, effect=effect), executor
        session.own_tools = {**session.own_tools, SUB_AGENT_TOOL: made}


class _Delegation:
    def __init__(self, parent: AgentLoop, context: ToolExecutionContext, task: str) -> None:
        self._parent = parent
        self._call_id = context.call_id or ""
        self._scope: CarriesLabels = context.scope
        self._task = task

    async def run(self, tools: list[str] | None) -> dict[str, Any]:
        if not self._task.strip():
            raise ToolExecutionError("the task is empty: say what to do, and what to answer")
        parent = self._parent
        session = parent.session.derive(tools=_list_shared(parent.session, tools))
        self._label_task(session)
        may_delegate = tools is None or SUB_AGENT_TOOL in tools
        child = type(parent)(
            session,
            parent.model,
            system=parent.system,
            on_event=self._pass_on,
            is_streamed=parent.is_streamed,
            max_tokens=parent.max_tokens,
            sub_agents=parent.sub_agents - 1 if may_delegate else 0,
        )
        kept = ChildHistory(session_id=session.session_id, task=self._task)
        parent.children[self._call_id] = kept
        try:
            answer = await child.run(self._task)
            kept.stop_reason = answer.stop_reason.value
        finally:
            kept.entries, kept.children = child.transcript(), child.children
            # Whatever comes of it, an error too, may hold all that it has read.
            self._scope.labels.update(session.read_labels.labels)
        if answer.stop_reason is StopReason.REFUSED:
            # The sub-agent's words would be refused in the parent's conversation as well.
            raise ToolExecutionError("the provider refused what came of this task: leave it out")
        if not answer.text.strip():
            raise ToolExecutionError(f"the sub-agent gave no answer ({kept.stop_reason})")
        if answer.is_complete:
            return {"result": answer.text}
        return {"answer": answer.text, "stop_reason": kept.stop_reason}

    def _pass_on(self, event: AgentEvent) -> None:
        parent_call_id = event.parent_call_id or self._call_id
        self._parent.listeners.pass_on(replace(event, parent_call_id=parent_call_id))

    def _label_task(self, session: ToolSession) -> None:
        """Keep the labels of the task, which the sub-agent reads."""
        labels = frozenset({"model", *self._scope.labels})
        session.read_labels.note(labels)
        session.variables.add(
            Variable(name="task", value=self._task, labels=labels, desc="What is to be done")
        )


def _list_shared(session: ToolSession, tools: list[str] | None) -> list[str] | None:
    """Return the names without those tools that every session has."""
    if tools is None:
        return None
    placed = {name: session.toolbox.find(name) for name in tools}
    return [name for name, found in placed.items() if found is None or not found.is_own]
