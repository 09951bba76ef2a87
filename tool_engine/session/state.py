"""Which parts does a session consist of, for those that work on the others?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tool_engine.approval.gate import ApprovalGate
from tool_engine.calls.home_loop import HomeLoop
from tool_engine.interfaces import (
    CallScope,
    SessionStorage,
    Source,
    ToolCallingProtocol,
    ToolExecutor,
)
from tool_engine.model.call import Refusal
from tool_engine.model.tool import Tool
from tool_engine.session.bounds import Meter
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.reading.presentation import Presentation
from tool_engine.session.reading.result import SessionResult
from tool_engine.session.reading.shown_results import ShownResults, Shows
from tool_engine.session.repetition import RepetitionGuard
from tool_engine.session.spending import Spending
from tool_engine.session.toolbox.toolbox import Toolbox
from tool_engine.session.variables.read_labels import ReadLabels
from tool_engine.session.variables.store import VariableStore

Rest: TypeAlias = Callable[[Refusal | None], Awaitable[SessionResult]]


class Deferred(NamedTuple):
    """Facts about a deferred call that its request does not contain."""

    labels: frozenset[str] = frozenset({"unknown"})
    """The labels of the content that was put into its arguments."""
    tool_name: str | None = None
    """The conversation's name for the tool; None: another tool called it."""
    rest: Rest | None = None
    """What is left to do with a result after the answer, in the process of its call."""
    parts: tuple[CallScope, ...] = ()
    """The scopes of all conversations that must agree, the outermost first."""
    scope: CallScope | None = None
    """The one of them that is this conversation's."""
    paid: tuple[Spending, ...] = ()
    """What it was counted against when its approval was requested."""


class SessionState(ABC):
    session_id: str
    agent_id: str
    conversation_id: str
    toolbox: Toolbox
    own_tools: dict[str, tuple[Tool, ToolExecutor]]
    """The tools that were registered for this conversation only, with their executors."""
    variables: VariableStore
    presentations: Mapping[str, Presentation]
    gate: ApprovalGate
    meter: Meter
    guard: RepetitionGuard
    storage: SessionStorage | None
    parent: SessionState | None
    """The session that it works for."""
    home: HomeLoop
    """The event loop that it lives on."""
    deferred: dict[str, Deferred]
    """Request token -> further facts; helpers ask in the conversation's name."""
    results: ShownResults
    """The shown and withheld results of its calls and of its helpers' calls."""
    showing: Shows
    read_labels: ReadLabels
    """Where all that the model has read came from."""
    more: dict[str, Any]
    """Data saved with the conversation, such as its messages: JSON values."""

    if TYPE_CHECKING:
        # The caller knows the arguments of the class that it makes.
        def __init__(self, *args: Any, **options: Any) -> None: ...

    @property
    def config(self) -> ToolCallConfig:
        """The settings, with later toggles."""
        return self.toolbox.config

    @property
    def source(self) -> Source:
        return self.toolbox.catalog

    @abstractmethod
    def tools(self) -> list[Tool]:
        """Return the enabled tools as the model sees them."""

    @abstractmethod
    def get(self, tool_name: str) -> Tool | None:
        """Return the enabled tool of this name, or None."""

    @abstractmethod
    def get_or_raise(self, tool_name: str) -> Tool:
        """Return the enabled tool of this name."""

    @abstractmethod
    def own(self, tool_name: str) -> tuple[Tool, ToolExecutor] | None:
        """Return a tool that only this conversation has, with its executor."""

    @abstractmethod
    def protocol(self, protocol: ToolCallingProtocol | str | None = None) -> ToolCallingProtocol:
        """Return the protocol that shows these tools to a model."""

    @abstractmethod
    def missing(self, tool_name: object) -> str:
        """Return the message for a tool that the conversation does not have."""
