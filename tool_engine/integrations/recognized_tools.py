"""Whose tools are those of a list: of which framework that has a module here?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, cast

from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import CatalogSource

_FRAMEWORKS: Final = {
    ("pydantic_ai", "Tool"): "pydantic_ai",
    ("pydantic_ai", "AbstractNativeTool"): "pydantic_ai",
    ("langchain_core", "BaseTool"): "langchain",
    ("agents", "FunctionTool"): "openai_agents",
    ("llama_index", "BaseTool"): "llamaindex",
}
"""The package and class of a framework's tools -> its module here."""
_SDK_TOOLS: Final = "agents.tool"
"""The module of openai-agents with its tools, which have no class in common."""
_RUN_IT: Final = (
    "it is no tool by itself: write a function with a docstring that runs it, and add that with "
    "@engine.tool"
)
_NO_TOOLS: Final = {
    (
        "pydantic_ai",
        "AbstractToolset",
    ): "give the tools of a FunctionToolset: toolset.tools.values()",
    ("langchain_core", "BaseToolkit"): "give its tools: toolkit.get_tools()",
    ("llama_index", "BaseToolSpec"): "give its tools: spec.to_tool_list()",
    ("pydantic_ai", "AbstractAgent"): _RUN_IT,
    ("langgraph", "StateGraph"): _RUN_IT,
    ("langchain_core", "Runnable"): _RUN_IT,
    ("agents", "AgentBase"): _RUN_IT,
    ("workflows", "Workflow"): _RUN_IT,
}
"""The package and class of what holds tools, or is run by itself -> how to get tools of it."""


def recognize_tools(tools: Sequence[Any], origin: str) -> CatalogSource | None:
    """Return the tools of one framework as a source; None: none of them is of any.

    Raises:
        ConfigurationError: They are of more than one, or one of them is no tool.
    """
    found: dict[str, int] = {}
    for at, tool in enumerate(tools):
        if framework := _find_framework(tool):
            found.setdefault(framework, at)
    if not found:
        return None
    if len(found) > 1:
        names = ", ".join(f"{each} at position {at}" for each, at in found.items())
        raise ConfigurationError(
            f"the tools are of different frameworks ({names}): import those of each by themselves, "
            "with an origin of their own"
        )
    (name,) = found
    borrow = getattr(import_module(f"tool_engine.integrations.{name}"), f"from_{name}_tools")
    return cast("CatalogSource", borrow(tools, origin=origin))


def is_hosted(tool: object) -> bool:
    """Return True for what a list has beside functions, and only a run of the framework executes.

    Such as the search of a model's provider: an object of the SDK, or a mapping with its type.
    """
    if isinstance(tool, Mapping):
        return isinstance(tool.get("type"), str) and tool["type"] != "function"
    names = {each.__name__ for each in type(tool).__mro__}
    is_native = _find_framework(tool) == "pydantic_ai" and "AbstractNativeTool" in names
    return is_native or (_is_of_sdk(tool) and "FunctionTool" not in names)


def describe_value(value: object) -> str:
    """Return what it is, and its name if it has one, such as `function 'add'`."""
    name = getattr(value, "__name__", None)
    return type(value).__name__ + (f" {name!r}" if isinstance(name, str) else "")


def _find_framework(tool: object) -> str | None:
    # By name: most programs have none of them installed.
    found = next((_FRAMEWORKS[each] for each in _list_classes(tool) if each in _FRAMEWORKS), None)
    return "openai_agents" if found is None and _is_of_sdk(tool) else found


def _is_of_sdk(tool: object) -> bool:
    kind = type(tool)
    return kind.__module__ == _SDK_TOOLS and kind.__name__.endswith("Tool")


def _list_classes(value: object) -> list[tuple[str, str]]:
    return [(each.__module__.partition(".")[0], each.__name__) for each in type(value).__mro__]


def list_tools(tools: Iterable[Any], words: str) -> list[Any]:
    """Return the tools of a list.

    Raises:
        ConfigurationError: It is none, or holds a set of tools, or an agent, in place of one.
    """
    _refuse_no_tool(tools, words, "")
    # A tool of LangChain is iterable: its fields.
    if isinstance(tools, str | bytes) or _find_framework(tools) or not isinstance(tools, Iterable):
        cure = ": put it in a list" if _find_framework(tools) else ""
        raise ConfigurationError(f"{words} takes a list of tools, got {type(tools).__name__}{cure}")
    listed = list(tools)
    for at, tool in enumerate(listed):
        _refuse_no_tool(tool, words, f" at position {at}")
    return listed


def _refuse_no_tool(value: object, words: str, place: str) -> None:
    cure = next((_NO_TOOLS[each] for each in _list_classes(value) if each in _NO_TOOLS), None)
    # A tool of LangChain can be run as its chains can.
    if cure is not None and _find_framework(value) is None:
        raise ConfigurationError(
            f"{words} takes a list of tools, got {type(value).__name__}{place}: {cure}"
        )
