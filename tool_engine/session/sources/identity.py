"""How is a tool recognised whose name differs between conversations?"""

from __future__ import annotations

import json
import os
import secrets
from importlib import import_module
from typing import Final, NamedTuple, cast
from weakref import WeakKeyDictionary

from tool_engine.config import ToolEngineConfig
from tool_engine.model.settings.source import checked_sources
from tool_engine.protocols.sources import ToolSource
from tool_engine.trusted import folder_of_now


class _Told(NamedTuple):
    """How an engine is recognised."""

    anywhere: str
    """The same in every process; two engines may share it."""
    here: str
    """A mark of this one object."""


_PROCESS: Final = secrets.token_hex(16)
_told: Final[WeakKeyDictionary[ToolSource, _Told]] = WeakKeyDictionary()


def engine_of(catalog: ToolSource, shown_name: str) -> str:
    """Return a text for a tool's engine that is stable across restarts and orders.

    Two engines that share a name, or without one their folder and databases, cannot be
    distinguished after a restart: a conversation with both knows each in its process only.

    Args:
        catalog: An engine, or a view of some.
        shown_name: The name that the tool has there.
    """
    return engine_text(catalog, origin_of(catalog, shown_name)[0])


def engine_text(catalog: ToolSource, engine: ToolSource) -> str:
    """Return the same for one of the innermost sources of `catalog`."""
    told = _told_of(engine)
    others = [each for each in leaves_of(catalog) if each is not engine]
    is_alike = any(_told_of(each).anywhere == told.anywhere for each in others)
    return told.here if is_alike else told.anywhere


def _told_of(source: ToolSource) -> _Told:
    try:
        told = _told.get(source)
        if told is None:
            told = _told[source] = _Told(_hashed(_said_of(source)), secrets.token_hex(16))
    except TypeError:
        # What cannot be held weakly is known by its place in memory.
        told = _Told(_hashed(_said_of(source)), f"{_PROCESS} {id(source)}")
    return told


def _said_of(source: ToolSource) -> list[object]:
    config = getattr(source, "config", None)
    if not isinstance(config, ToolEngineConfig):
        return [type(source).__qualname__]
    if config.name is not None:
        return ["name", config.name]
    # By its path, which stays the same where a link leads to the newest release.
    folder = os.path.normpath(os.path.join(folder_of_now(), config.tools_directory))  # noqa: PTH118 - follows no link
    # Without passwords, since they change.
    databases = {
        name: each.to_dict()["url"] for name, each in checked_sources(config.sources).items()
    }
    return ["folder", folder, databases]


def _hashed(said: list[object]) -> str:
    text = json.dumps(said, sort_keys=True)
    # Loaded late: most programs never ask for approval.
    return str(import_module("hashlib").sha256(text.encode()).hexdigest())


def identity_of(catalog: ToolSource, shown_name: str) -> str:
    """Return an identity that a tool keeps under all its names.

    It is the same in another process whose sources are put together in the same order.

    Args:
        catalog: An engine, or a view of some.
        shown_name: The name that the tool has there.
    """
    if not callable(getattr(catalog, "origin", None)):
        return shown_name
    return identity_in(catalog, *origin_of(catalog, shown_name))


def identity_in(catalog: ToolSource, source: ToolSource, name: str) -> str:
    """Return the same for the tool that an innermost or a foreign source has under a name."""
    which = source_text(catalog, source)
    # No tool has a space in its name.
    return f"{name} of {which}" if which else name


def identity_of_own(tool_name: str) -> str:
    """Return the same for a tool that only the conversation has."""
    return f"{tool_name} of the session"


def source_of(catalog: ToolSource, shown_name: str) -> str:
    """Return which of several sources has a tool, in words; empty for the first or only one."""
    if not callable(getattr(catalog, "leaves", None)):
        return ""
    return source_text(catalog, origin_of(catalog, shown_name)[0])


def source_text(catalog: ToolSource, source: ToolSource) -> str:
    """Return the same for one of the innermost sources of `catalog`."""
    if not callable(getattr(catalog, "leaves", None)):
        return ""
    number = next((at for at, each in enumerate(leaves_of(catalog)) if each is source), 0)
    return f"source {number + 1}" if number else ""


def origin_of(source: ToolSource, shown_name: str) -> tuple[ToolSource, str]:
    """Return the innermost source of a tool, and its name there."""
    find = getattr(source, "origin", None)
    return (
        cast("tuple[ToolSource, str]", find(shown_name)) if callable(find) else (source, shown_name)
    )


def leaves_of(source: ToolSource) -> list[ToolSource]:
    find = getattr(source, "leaves", None)
    if not callable(find):
        return [source]
    return list({id(each): each for each in cast("list[ToolSource]", find())}.values())
