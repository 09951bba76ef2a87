"""How does a decorated Python function become a registered tool?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, TypeVar, overload

from tool_engine.model.tool import Tool, ToolCategory

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ToolDecorator:
    """The decorator `tool`, for a class that registers tools."""

    @abstractmethod
    def register_tool(
        self, tool: Tool | Mapping[str, Any], handler: Callable[..., Any] | None = None
    ) -> Tool:
        """Add a tool that no file defines."""

    @overload
    def tool(self, name: _Function) -> _Function: ...

    @overload
    def tool(
        self,
        name: str | None = None,
        *,
        description: str | None = None,
        category: ToolCategory | str = ToolCategory.CUSTOM,
        tags: Iterable[str] = (),
        **definition_keys: Any,
    ) -> Callable[[_Function], _Function]: ...

    def tool(
        self,
        name: str | Callable[..., Any] | None = None,
        *,
        description: str | None = None,
        category: ToolCategory | str = ToolCategory.CUSTOM,
        tags: Iterable[str] = (),
        **definition_keys: Any,
    ) -> Callable[..., Any]:
        """Register the decorated function as a tool.

        Its parameters come from the signature, the type hints and the docstring.

        Args:
            name: The tool's name; None: the function's. `@engine.tool`, without parentheses, is
                the same as `@engine.tool()`.
            description: What the tool does; None: the docstring's text.
            category: The tool's category.
            tags: The tool's tags.
            **definition_keys: Any other key of a definition, such as `timeout` or `effect`; and
                `isolation`, where the function is imported anew and runs apart, with the keys of
                `entry.config` that it has, such as `resources`.

        Raises:
            DefinitionError: The function does not say enough; the message names the parameter. Or
                it runs apart, and nothing else can import it.

        Example:
            >>> engine = ToolEngine()
            >>> @engine.tool(effect="read")
            ... async def add(a: int, b: int = 0) -> int:
            ...     "Adds two whole numbers."
            ...     return a + b
        """
        if callable(name):
            return self.tool()(name)

        def register(function: _Function) -> _Function:
            # Loaded on first use: not every program reads signatures, hints and docstrings.
            reading = import_module("tool_engine.catalog.code.function")
            is_apart = "isolation" in definition_keys
            keys = reading.read_apart(function, definition_keys) if is_apart else definition_keys
            made = reading.tool_from_function(
                function,
                name=name,
                description=description,
                category=category,
                tags=tags,
                **keys,
            )
            if is_apart:
                self.register_tool(made)
                return function
            adapting = import_module("tool_engine.catalog.code.adapting")
            self.register_tool(made, adapting.adapted_handler(function))
            return function

        return register
