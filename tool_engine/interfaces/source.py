"""Which tools are there, and how is one called? What gives tools to conversations and protocols?

Sessions, protocols and sub-agents have no other way to tools than what stands here. It may be an
engine, a part of one under other names, or something that is no engine at all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from tool_engine.errors import ToolEngineError, ToolNotFoundError
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.checks.called_name import word_no_name
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.group import ToolGroup
from tool_engine.model.outcome import ErrorType
from tool_engine.model.refusal import make_refused
from tool_engine.model.tool import Tool
from tool_engine.redaction import OwnSecrets

NO_GROUPS: Final[Mapping[str, ToolGroup]] = MappingProxyType({})
_LONGEST_NAME: Final = 80
"""The most characters of an unknown name that are compared and shown."""


class CallsTools(Protocol):
    """The least that can run a model's calls; no base is needed.

    A `ToolSubAgent` does too: its `execute` takes a `timeout` in the place of the context.
    """

    def get(self, tool_name: str, /) -> Tool | None:
        """Return the tool of this name, or None."""

    def execute(
        self, tool_name: str, params: Any, context: Any, /
    ) -> Awaitable[ToolExecutionResult]:
        """Run one tool, as `Source.execute` does."""


class ToolSource(CallsTools, Protocol):
    """The least that gives tools to a conversation; no base is needed.

    What else it has of a `Source` is used: `generation`, `groups`, `findings`, `store`,
    `controller`, `index`, `get_or_raise` and `refuse`.
    """

    def list_all(self) -> list[Tool]:
        """Return all tools."""


class Source(Protocol):
    """A set of callable tools: a `ToolEngine`, a `ToolSession`, or a view.

    What may be left out has a default here: derive from this class, and write what is abstract.
    All of it is called on the event loop, and only `execute` waits.
    """

    makes_contexts: bool = False
    """True: it makes the contexts of its calls itself, and takes of a given one only the timeout.
    """
    is_engine: bool = False
    """True: it runs its calls itself, in place of passing them on."""
    secrets: Iterable[OwnSecrets] = ()
    """What its newest calls ran with that is secret, to be hidden in messages about them."""

    if TYPE_CHECKING:

        @property
        def generation(self) -> Any:
            """A value that differs after each change of tools; None: unknown."""
            return None

        @property
        def groups(self) -> Mapping[str, ToolGroup]:
            """The groups of tools by name; another object after each change."""
            return NO_GROUPS

        @property
        def findings(self) -> Sequence[Any]:
            """Problems with tools or names: texts, or with a `message`."""
            return ()

        @property
        def store(self) -> Any:
            """The `ToolKnowledgeStore` with the records of the calls; None: there is not one."""
            return None

        @property
        def controller(self) -> Any:
            """The `AdmissionController` that admits the calls; None: there is not one."""
            return None

        @property
        def index(self) -> Any:
            """The present snapshot of the tools, with `nearest(name)`; None: there is none.

            That of an engine is another object after each change of its tools or groups.
            """
            return None

    else:
        # Plain values, as a subclass may set its own in `__init__`.
        generation = store = controller = index = None
        groups = NO_GROUPS
        findings = ()

    @abstractmethod
    def get(self, tool_name: str, /) -> Tool | None:
        """Return the tool of this name or alias, or None; `tool.name` is its name."""

    @abstractmethod
    async def execute(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
        /,
    ) -> ToolExecutionResult:
        """Run one tool; the result and all messages bear its name.

        A tool that is not there is a result with an error, never another tool.

        Args:
            tool_name: The tool, by its name or an alias.
            params: Its arguments.
            context: Who calls, and within which limits; None: an unnamed caller.

        Raises:
            asyncio.CancelledError: The caller was cancelled; so is what ran.
        """

    # Optional from here on. First: looking up.

    def list_all(self) -> list[Tool]:
        """Return all tools; others may still be called by name.

        Raises:
            ToolEngineError: Several tools have one name, and that is refused.
        """
        return []

    def list_unambiguous(self) -> tuple[list[Tool], str | None]:
        """Return the tools with unambiguous names, and the message about any other name."""
        return self.list_all(), None

    def get_or_raise(self, tool_name: str, /) -> Tool:
        """Return the tool of this name.

        Raises:
            ToolNotFoundError: There is none; the message names the nearest.
        """
        tool = self.get(tool_name)
        if tool is None and not isinstance(tool_name, str):
            raise ToolNotFoundError(word_no_name(tool_name))
        if tool is None:
            name = tool_name[:_LONGEST_NAME]
            near = suggest_near(name, (each.name for each in self.list_all()))
            raise ToolNotFoundError(f"there is no tool named {name!r}{near}")
        return tool

    def find_near_names(self, tool_name: str, /) -> list[str]:
        """Return the names here of tools that some source names so."""
        return [] if self.get(tool_name) is None else [tool_name]

    def has_room(self, tool_name: str, /) -> bool:
        """Return True if a conversation's own tool of this name replaces no other."""
        return self.get(tool_name) is None

    # Calls that do not run.

    def refuse(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None,
        context: ToolExecutionContext | None,
        refusal: Refusal,
        /,
    ) -> ToolExecutionResult:
        """End a call that its caller refuses, with a result and record.

        Args:
            tool_name: The tool, which need not be there.
            params: Its arguments.
            context: Who calls.
            refusal: Why it does not run.
        """
        del params, context
        return make_refused(tool_name, refusal)

    def is_hidden(self, tool_name: str, /) -> bool:
        """Return True if a tool of this name is there, and for code only."""
        tool = self.get(tool_name)
        return tool is not None and not tool.is_for_models

    def explain_missing(self, tool_name: str, /) -> Refusal:
        """Return how a model's call of a tool ends that is not there for models.

        The same for one that is not there at all and one that is for code only.
        """
        is_name = isinstance(tool_name, str)
        missing = f"there is no tool {tool_name[:_LONGEST_NAME]!r}" if is_name else ""
        message = missing or word_no_name(tool_name)
        return Refusal(ErrorType.TOOL_NOT_FOUND.value, message)

    # Tools of sources inside of this one, as it shows them. An engine has none inside.

    def bind_turn(self, turn: Callable[[], int], /) -> Source:
        """Return the same tools for one conversation, whose current turn `turn` returns."""
        del turn
        return self

    def find_origin(self, tool_name: str, /) -> tuple[Source, str]:
        """Return the innermost source of a tool, and its name there."""
        return self, tool_name

    def list_origins(self) -> list[Source]:
        """Return the innermost sources, in their order, each once."""
        return [self]

    def find_shown_names(self, engine_tool: Tool, owner: Source | None = None, /) -> list[str]:
        """Return the names here of a tool of an innermost source.

        Args:
            engine_tool: The tool in the form in which its source has it.
            owner: The source; None: whichever has it.
        """
        is_own = owner in (None, self) and is_tool_of(self, engine_tool)
        return [engine_tool.name] if is_own else []

    def find_groups(
        self, engine_tool: Tool, owner: Source | None = None, /
    ) -> Mapping[str, ToolGroup]:
        """Return the groups with such a tool, shown or not, by name.

        What a group says of consent holds for a tool that is called from inside, too.
        """
        if owner not in (None, self) or not is_tool_of(self, engine_tool):
            return NO_GROUPS
        groups = self.groups.items()
        return {name: group for name, group in groups if group.members([engine_tool])}

    def describe_origin(self) -> object:
        """Return what distinguishes it from other sources in every process, as JSON.

        Two that give the same are taken for one after a restart.
        """
        return [type(self).__qualname__]


def find_for_model(source: CallsTools, tool_name: str) -> Tool | None:
    """Return the tool that a model's call means; None: to models there is none.

    Raises:
        ToolEngineError: The source gives something that is no tool.
    """
    tool = source.get(tool_name)
    if tool is not None and not isinstance(tool, Tool):
        raise ToolEngineError(
            f"get({tool_name!r}) of the source returned {type(tool).__qualname__}, which is no "
            "tool; return a Tool, or None"
        )
    return tool if tool is not None and tool.is_for_models else None


def is_tool_of(source: Source, engine_tool: Tool) -> bool:
    """Return True if a source has this very tool.

    Another one of its name is none.
    """
    own = source.get(engine_tool.name)
    return own is engine_tool or (
        own is not None and own.definition_hash == engine_tool.definition_hash != ""
    )
