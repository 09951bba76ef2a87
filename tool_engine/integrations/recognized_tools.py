"""Whose tools are those of a list: of which framework that has a module here?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Final, cast

from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import CatalogSource

_FRAMEWORKS: Final = {
    ("pydantic_ai", "Tool"): "pydantic_ai",
    ("langchain_core", "BaseTool"): "langchain",
    ("agents", "FunctionTool"): "openai_agents",
    ("llama_index", "BaseTool"): "llamaindex",
}
"""The package and class of a framework's tools -> its module here."""


def recognize_tools(tools: Sequence[Any], origin: str) -> CatalogSource | None:
    """Return the tools of one framework as a source; None: none of them is of any.

    Raises:
        ConfigurationError: They are of more than one, or some are of none.
    """
    found = dict.fromkeys(map(_find_framework, tools))
    if not any(found):
        return None
    if len(found) > 1:
        names = ", ".join(each or "none that is known" for each in found)
        raise ConfigurationError(
            f"the tools are of different frameworks ({names}): import those of each by themselves, "
            "with an origin of their own"
        )
    (name,) = found
    borrow = getattr(import_module(f"tool_engine.integrations.{name}"), f"from_{name}_tools")
    return cast("CatalogSource", borrow(tools, origin=origin))


def _find_framework(tool: object) -> str | None:
    # By name: most programs have none of them installed.
    classes = ((each.__module__.partition(".")[0], each.__name__) for each in type(tool).__mro__)
    return next((_FRAMEWORKS[each] for each in classes if each in _FRAMEWORKS), None)


def list_tools(tools: Iterable[Any], words: str) -> list[Any]:
    """Return the tools of a list.

    Raises:
        ConfigurationError: It is none.
    """
    # A tool of LangChain is iterable: its fields.
    if isinstance(tools, str | bytes) or _find_framework(tools) or not isinstance(tools, Iterable):
        cure = ": put it in a list" if _find_framework(tools) else ""
        raise ConfigurationError(f"{words} takes a list of tools, got {type(tools).__name__}{cure}")
    return list(tools)
