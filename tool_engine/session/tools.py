"""Which tools does a conversation have, and which of them may it call now?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import ToolConflictError, ToolNotFoundError
from tool_engine.executors.handler import executor_for
from tool_engine.interfaces import Source, ToolExecutor, ToolSource
from tool_engine.model.call import Refusal
from tool_engine.model.checks.called_name import word_no_name
from tool_engine.model.outcome import ErrorType
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.prompt.prompt import SessionPrompt
from tool_engine.session.toolbox.toolbox import Toolbox
from tool_engine.session.variables.labels import ReadLabels
from tool_engine.session.variables.store import VariableStore
from tool_engine.session.variables.variable_tools import VariableTools
from tool_engine.sources.composition import Prepare
from tool_engine.sources.identity import identity_of, identity_of_own

_LONGEST: Final = 200


class SessionTools:
    """The tools of one conversation: its catalog's, and its own.

    Args:
        catalog: A `ToolEngine`, or what `combine` and the like make of some.
        config: What is on from the start.
        variables: The variables that its own tools read and write.
        read_labels: Where all that its model has read came from.
        prepare: Adapts how the model sees each tool, in each turn.
        parent: Those of the session that this one works for.
    """

    def __init__(
        self,
        catalog: ToolSource,
        config: ToolCallConfig,
        variables: VariableStore,
        read_labels: ReadLabels,
        *,
        prepare: Prepare | None = None,
        parent: SessionTools | None = None,
    ) -> None:
        self.parent = parent
        self._variable_tools = VariableTools(variables, read_labels)
        self.toolbox = Toolbox(catalog, config, self._list_own, prepare=prepare)
        self.registered: Final = self.toolbox.registered
        """The tools that were registered for this conversation only, with their executors."""
        self.prompt = SessionPrompt(self.toolbox, variables, config.language)

    @property
    def config(self) -> ToolCallConfig:
        """The settings, with later toggles."""
        return self.toolbox.config

    @property
    def source(self) -> Source:
        """What runs the tools, under the model's names."""
        return self.toolbox.catalog

    def list_enabled(self) -> list[Tool]:
        """Return the enabled tools as the model sees them.

        Raises:
            ToolConflictError: Two of them have one name.
        """
        enabled = self.toolbox.tools()
        return enabled if self.parent is None else [each for each in enabled if self.get(each.name)]

    def get(self, tool_name: str) -> Tool | None:
        """Return the enabled tool of this name or alias, or None."""
        placed = self.toolbox.find(tool_name)
        if placed is None or not placed.is_enabled:
            return None
        # A tool that is turned off for a conversation is off for its helpers.
        is_off = self.parent is not None and self.parent.get(placed.name) is None
        return None if is_off and not placed.is_own else placed.tool

    def get_or_raise(self, tool_name: str) -> Tool:
        """Return the enabled tool of this name.

        Raises:
            ToolNotFoundError: There is none; the message names the nearest.
        """
        tool = self.get(tool_name)
        if tool is None:
            raise ToolNotFoundError(self.describe_missing(tool_name))
        return tool

    def describe_missing(self, tool_name: object) -> str:
        """Return the message for a tool that the conversation does not have."""
        if not isinstance(tool_name, str):
            return word_no_name(tool_name)
        shown = tool_name[:_LONGEST]
        return f"there is no tool {shown!r} in this conversation{self.toolbox.hint(shown)}"

    def refuse_missing(self, tool_name: object) -> Refusal:
        """Return how a call ends of a tool that the conversation does not have."""
        if not isinstance(tool_name, str):
            return Refusal(ErrorType.TOOL_NOT_FOUND.value, word_no_name(tool_name))
        there = self.source.explain_missing(tool_name)
        if there.error_type == ErrorType.TOOL_QUARANTINED.value:
            return there
        return Refusal(ErrorType.TOOL_NOT_FOUND.value, self.describe_missing(tool_name))

    def find_own(self, tool_name: str) -> tuple[Tool, ToolExecutor] | None:
        """Return a tool that only this conversation has, with its executor."""
        return (
            self.registered.get(tool_name)
            or self._variable_tools.own(tool_name)
            or self.prompt.own(tool_name)
        )

    def identify(self, tool_name: str) -> str:
        """Return what says which tool a name means."""
        if tool_name in self.registered:
            return identity_of_own(tool_name)
        return identity_of(self.source, tool_name)

    def register(self, tool: Tool | Mapping[str, Any], handler: Callable[..., Any]) -> Tool:
        """Add a tool that only this conversation has; see `ToolSession.register_tool`."""
        loaded = tool if isinstance(tool, Tool) else ToolConfigLoader().from_mapping(tool)
        if loaded.name in self.registered:
            raise ToolConflictError(
                f"the session has a tool named {loaded.name!r} already: register it under another "
                "name"
            )
        executor = executor_for(handler, loaded)
        self.registered[loaded.name] = loaded, executor
        try:
            self.toolbox.tools()
        except BaseException:
            del self.registered[loaded.name]
            raise
        return loaded

    def replace_registered(self, tools: Mapping[str, tuple[Tool, ToolExecutor]]) -> None:
        """Have these tools of its own from now on."""
        # In place: what holds for a reply has the same dictionary.
        new = dict(tools)
        self.registered.clear()
        self.registered.update(new)

    def find_refusal(self, tool_name: str) -> Refusal | None:
        """Return why an existing tool may not be called, or None."""
        if self.get(tool_name) is not None:
            return None
        placed = self.toolbox.find(tool_name)
        if placed is None:
            # The tool was removed while approval was awaited.
            return self.refuse_missing(tool_name)
        if not placed.tool.is_offered:
            return Refusal(
                ErrorType.EXECUTION_REJECTED.value,
                f"tool {tool_name!r} runs only as a task (background: required), and a "
                "conversation starts none; let the program start it with engine.start",
            )
        message = f"the tool {tool_name!r} is there, but not enabled in this conversation"
        return Refusal(ErrorType.REJECTED.value, message)

    def find_refusal_later(self, tool_name: str, *, is_nested: bool) -> Refusal | None:
        """Do the same as `find_refusal` for a call that was approved later.

        A tool that another tool calls may be unknown to the model.
        """
        if not is_nested:
            return self.find_refusal(tool_name)
        tools: SessionTools | None = self
        while tools is not None:
            if not tools.config.enabled:
                return Refusal(ErrorType.REJECTED.value, "tools are off in this conversation")
            tools = tools.parent
        return None

    def _list_own(self) -> tuple[Tool, ...]:
        registered = (tool for tool, _ in self.registered.values())
        return (*registered, *self._variable_tools.tools(), *self.prompt.tools())
