"""How does each step of a turn reach the listeners without disturbing the turn?"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Any, Final

import msgspec

from tool_engine.agent.events import AgentEvent, AgentEventType
from tool_engine.approval.gate import ApprovalGate
from tool_engine.errors import ConfigurationError
from tool_engine.knowledge.entry import secret_names
from tool_engine.logger import get_logger
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.checks.unawaited import is_async
from tool_engine.model.foreign import ends_caller
from tool_engine.model.tool import Tool
from tool_engine.redaction import OwnSecrets, secrets_asked, secrets_of, words_of
from tool_engine.session.recent_secrets import RecentSecrets

OnEvent = Callable[[AgentEvent], object]
"""A listener: a plain function; its errors are logged."""

_log: Final = get_logger(__name__)


class Listeners:
    """The listeners of one conversation.

    Args:
        on_event: Hears every event.
        find: Returns the tool of a name, to know which arguments are secret.
        known: The secrets of the conversation's newest calls.

    Raises:
        ConfigurationError: `on_event` is no plain function: a coroutine would never be awaited.
    """

    def __init__(
        self,
        on_event: OnEvent | None,
        find: Callable[[str], Tool | None],
        known: RecentSecrets,
    ) -> None:
        if on_event is not None and (is_async(on_event) or not callable(on_event)):
            raise ConfigurationError(
                f"on_event must be a plain function, got {on_event!r}: what has to wait reads "
                "stream() instead, or makes a task"
            )
        self._heard_by: list[OnEvent] = [] if on_event is None else [on_event]
        self.find_tool = find
        self.secrets: tuple[OwnSecrets, ...] = ()
        self._known = known
        known.watch(self._note_known)
        self.round = 0
        self._begun: object | None = None
        self._requests: set[str] = set()
        """Tokens of the approval requests reported so far: a sub-agent's request arrives twice,
        from its own loop and from the session that it works for.
        """

    @property
    def is_running(self) -> bool:
        return self._begun is not None

    def begin(self) -> object:
        self.round = 0
        self.secrets = ()
        self._requests.clear()
        self._begun = object()
        return self._begun

    def end(self, begun: object) -> None:
        """End this turn; harmless when repeated, even after the next turn began."""
        if self._begun is begun:
            self._begun = None

    def add(self, hear: OnEvent) -> None:
        self._heard_by.append(hear)

    def remove(self, hear: OnEvent) -> None:
        self._heard_by.remove(hear)

    def emit(self, kind: AgentEventType, **what: Any) -> None:
        if kind is AgentEventType.ROUND_STARTED:
            self.round += 1
        names = self._note_secrets(what) if kind is AgentEventType.TOOL_CALL_END else frozenset()
        self.pass_on(
            AgentEvent(type=kind, round=self.round, **what, _names=names, _secrets=self.secrets)
        )

    def _note_secrets(self, what: dict[str, Any]) -> frozenset[str]:
        """Remember a call's secret values; return the names of those arguments."""
        tool = self.find_tool(what["tool_call_name"] or "")
        names = secret_names(tool)
        if tool is None or not names:
            return names
        arguments = _read_arguments(what["tool_call_arguments_complete"])
        if arguments is None:
            return names
        secrets = secrets_of(tool, arguments)
        self._known.add(secrets)
        return names | secrets.names

    def note_call(self, tool_name: str, arguments: dict[str, Any]) -> None:
        tool = self.find_tool(tool_name)
        if tool is not None:
            self._known.note(tool, arguments)

    def note_kept_call(self, tool_name: str, arguments: dict[str, Any]) -> None:
        """Note the secrets of a call of an earlier turn, perhaps of another process."""
        tool = self.find_tool(tool_name)
        if tool is not None:
            self._known.note_kept(tool, arguments)

    def known_secrets(self) -> tuple[OwnSecrets, ...]:
        """Return the newest calls' secrets, also of earlier turns: requests repeat them."""
        return tuple(self._known)

    def _note_known(self, secrets: OwnSecrets) -> None:
        """Hide secrets in the events of the turn that runs, too."""
        if self.is_running and not any(each.hides_the_same(secrets) for each in self.secrets):
            self.secrets = (*self.secrets, secrets)

    def pass_on(self, event: AgentEvent) -> None:
        if event.request is not None:
            key = f"{event.type.value} {event.request.token}"
            if key in self._requests:
                return
            self._requests.add(key)
        for hear in tuple(self._heard_by):
            try:
                hear(event)
            except BaseException as error:  # a listener must not break the turn
                if ends_caller(error):
                    raise
                message = words_of(error, *self._secrets_of(event))
                _log.warning("agent_listener_failed", event_type=event.type.value, error=message)

    def _secrets_of(self, event: AgentEvent) -> tuple[OwnSecrets | None, ...]:
        """Return the secrets that a failing listener may repeat; None: unknown."""
        if event.type in (AgentEventType.TOOL_CALL_START, AgentEventType.TOOL_CALL_CHUNK):
            tool = self.find_tool(event.tool_call_name or "")
            if tool is None or secret_names(tool):
                return (None,)  # a part of a secret cannot be recognized
        names, secrets = event._names, event._secrets  # noqa: SLF001 - the engine's own
        is_read = event.type is not AgentEventType.TOOL_CALL_END or (
            _read_arguments(event.tool_call_arguments_complete) is not None
        )
        if names and not is_read:
            return (None,)
        request = event.request
        asked = () if request is None else (secrets_asked(request),)
        return (*secrets, *self._known, *asked)

    def watch(self, gate: ApprovalGate) -> None:
        """Report approval requests and answers, beside the hooks already set."""
        requested, answered = AgentEventType.APPROVAL_REQUESTED, AgentEventType.APPROVAL_ANSWERED
        gate.on_request = _Hook.beside(gate.on_request, requested, self)
        gate.on_answer = _Hook.beside(gate.on_answer, answered, self)


def _read_arguments(arguments: str | None) -> dict[str, Any] | None:
    try:
        read = msgspec.json.decode(arguments or "")
    except (msgspec.DecodeError, ValueError):
        return None
    return read if isinstance(read, dict) else None


class _Hook:
    """A hook of a session's gate that reports to the session's loops.

    A session may outlive its loops; those that are gone hear nothing.
    """

    def __init__(self, kind: AgentEventType, before: Callable[..., object] | None) -> None:
        self._kind = kind
        self._before = before
        self.listeners: weakref.WeakSet[Listeners] = weakref.WeakSet()

    @classmethod
    def beside(
        cls, before: Callable[..., object] | None, kind: AgentEventType, listeners: Listeners
    ) -> _Hook:
        """Return the hook in place, or a new one, with the listener."""
        hook = before if isinstance(before, cls) else cls(kind, before)
        hook.listeners.add(listeners)
        return hook

    def __call__(self, request: ApprovalRequest, *decision: ApprovalDecision | None) -> None:
        for listeners in tuple(self.listeners):
            if listeners.is_running:
                listeners.emit(self._kind, request=request, decision=next(iter(decision), None))
        if self._before is not None:
            self._before(request, *decision)


async def end_task(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its end, despite repeated cancellation.

    Raises:
        asyncio.CancelledError: The waiting was cancelled; the task has ended, too.
    """
    task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
