"""What is one conversation made of, for the parts of it that work on the others?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tool_engine.approval.gate import ApprovalGate
from tool_engine.calls.home_loop import HomeLoop
from tool_engine.interfaces import CallScope, SessionStorage, ToolExecutor
from tool_engine.model.call import Refusal
from tool_engine.model.tool import Tool
from tool_engine.session.bounds import Meter
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.reading.presentation import Presentation
from tool_engine.session.reading.result import SessionResult
from tool_engine.session.reading.shown_results import ShownResults, Shows
from tool_engine.session.repetition import RepetitionGuard
from tool_engine.session.sources.tool_view import Source
from tool_engine.session.spending import Spending
from tool_engine.session.toolbox.toolbox import Toolbox
from tool_engine.session.variables.store import VariableStore

__all__ = ["Deferred", "Rest", "SessionState"]


Rest: TypeAlias = Callable[[Refusal | None], Awaitable[SessionResult]]


class Deferred(NamedTuple):
    """What a request that was deferred does not say of its call."""

    labels: frozenset[str] = frozenset({"unknown"})
    """Where the content came from that was put into its arguments."""
    tool_name: str | None = None
    """What the conversation calls the tool; None: another tool called it."""
    rest: Rest | None = None
    """Of a result, in the process of its call: what is left to do when somebody has answered."""
    parts: tuple[CallScope, ...] = ()
    """Of a call in which other conversations have a say: the scopes of all, the outermost first."""
    scope: CallScope | None = None
    """Which of them is the one of this conversation."""
    paid: tuple[Spending, ...] = ()
    """In which books it was counted when it was asked about."""


class SessionState(ABC):
    """The parts of a session."""

    session_id: str
    agent_id: str
    conversation_id: str
    toolbox: Toolbox
    """Its tools and groups, and which of them are on."""
    own_tools: dict[str, tuple[Tool, ToolExecutor]]
    """The tools that were registered for this conversation only, and what runs them."""
    variables: VariableStore
    """What the conversation keeps under names: results, arguments, and what is written."""
    presentations: Mapping[str, Presentation]
    """Tool -> how its results become texts."""
    gate: ApprovalGate
    """Says what needs consent, and asks for it."""
    meter: Meter
    """What it has spent, against its bounds."""
    guard: RepetitionGuard
    """Notices a model that repeats itself."""
    storage: SessionStorage | None
    """Where it is kept."""
    parent: SessionState | None
    """The session that it works for."""
    home: HomeLoop
    """The event loop that it lives on."""
    deferred: dict[str, Deferred]
    """Token of a request -> what it does not say; helpers ask in the conversation's name."""
    results: ShownResults
    """What became of the results of its calls, and of those of its helpers."""
    showing: Shows
    """What tools may tell it of."""
    more: dict[str, Any]
    """What was saved beside the conversation, such as its messages: JSON values."""

    if TYPE_CHECKING:
        # Whoever makes one of some class knows what that class takes.
        def __init__(self, *args: Any, **options: Any) -> None: ...

    @property
    def config(self) -> ToolCallConfig:
        """Its settings, with what was toggled since."""
        return self.toolbox.config

    @property
    def source(self) -> Source:
        """What runs its tools."""
        return self.toolbox.catalog

    @abstractmethod
    def tools(self) -> list[Tool]:
        """The enabled tools, as the model is told of them."""

    @abstractmethod
    def get(self, tool_name: str) -> Tool | None:
        """The enabled tool of this name, or None."""

    @abstractmethod
    def get_or_raise(self, tool_name: str) -> Tool:
        """The enabled tool of this name."""

    @abstractmethod
    def own(self, tool_name: str) -> tuple[Tool, ToolExecutor] | None:
        """A tool that only this conversation has, and what runs it."""

    @abstractmethod
    def missing(self, tool_name: object) -> str:
        """What to say of a tool that the conversation does not have."""
