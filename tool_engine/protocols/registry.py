"""Which protocols are there?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from tool_engine.errors import ConfigurationError
from tool_engine.installed import list_entry_points
from tool_engine.interfaces import ToolCallingProtocol
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.checks.nearness import suggest_near

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS: Final = "tool_engine.protocols"
"""The group of entry points for protocols of other packages. A49."""

PROTOCOLS: Final[Mapping[str, str]] = {
    "openai": "tool_engine.protocols.openai:OpenAIProtocol",
    "openai_responses": "tool_engine.protocols.openai_responses:OpenAIResponsesProtocol",
    "anthropic": "tool_engine.protocols.anthropic:AnthropicProtocol",
    "gemini": "tool_engine.protocols.gemini:GeminiProtocol",
    "vcp": "tool_engine.protocols.vcp:VCPProtocol",
    "function_call": "tool_engine.protocols.function_call:FunctionCallProtocol",
}
"""The protocols of this package: name -> class. A49."""


_found: Final[set[str]] = set()
_METHODS: Final = ("definitions", "parse", "decoder", "format_results")


def protocol_names() -> list[str]:
    """Return the names that `get_protocol` takes: this package's, then those of others."""
    offered = (each.name for each in list_entry_points(ENTRY_POINTS))
    return list(dict.fromkeys((*PROTOCOLS, *offered)))


def check_protocol(name: str) -> None:
    """Raise `ConfigurationError` unless `get_protocol` takes the name."""
    if name not in PROTOCOLS and name not in _found:
        # Only these are looked up on the disk, once.
        check_choice("protocol", name, protocol_names())
        _found.add(name)


def get_protocol(name: str, **options: Any) -> ToolCallingProtocol:
    """Create the protocol of this name.

    Args:
        name: One of `protocol_names()`.
        options: What the protocol's class takes, such as `tools=engine.index`.

    Raises:
        ConfigurationError: There is no such protocol, it takes no such option, or a package offers
            something else under its name.
    """
    make = _find_maker(name)
    try:
        made: object = make(**options)
    except TypeError as error:
        raise ConfigurationError(f"the protocol {name!r}: {error}") from error
    missing = [each for each in _METHODS if not callable(getattr(made, each, None))]
    if missing:
        raise ConfigurationError(
            f"the protocol {name!r} is none: {type(made).__name__} has no {', '.join(missing)}"
        )
    return cast("ToolCallingProtocol", made)


def _find_maker(name: str) -> Callable[..., ToolCallingProtocol]:
    place = PROTOCOLS.get(name) if isinstance(name, str) else None
    if place is not None:
        module, _, attribute = place.partition(":")
        return cast("Callable[..., ToolCallingProtocol]", getattr(import_module(module), attribute))
    found = [each for each in list_entry_points(ENTRY_POINTS) if each.name == name]
    if not found:
        known = protocol_names()
        hint = suggest_near(name, known)
        raise ConfigurationError(f"unknown protocol {name!r}; known are {', '.join(known)}{hint}")
    if len({each.value for each in found}) > 1:
        places = " and ".join(sorted(f"{_name_package(each)} ({each.value})" for each in found))
        raise ConfigurationError(
            f"several packages offer a protocol {name!r}: {places}; uninstall all but one, or "
            "make the object yourself"
        )
    return _load_maker(found[0])


def _load_maker(found: EntryPoint) -> Callable[..., ToolCallingProtocol]:
    try:
        make = found.load()
    except Exception as error:
        raise ConfigurationError(
            f"the protocol {found.name!r} of {_name_package(found)} cannot be loaded from "
            f"{found.value}: {type(error).__name__}: {error}"
        ) from error
    if not callable(make):
        raise ConfigurationError(
            f"the protocol {found.name!r} of {_name_package(found)} is none: {found.value} cannot "
            "be called"
        )
    return cast("Callable[..., ToolCallingProtocol]", make)


def _name_package(found: EntryPoint) -> str:
    return "an unnamed package" if found.dist is None else repr(found.dist.name)
