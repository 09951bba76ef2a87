"""How is a tool recognised whose name differs between conversations?"""

from __future__ import annotations

import json
import secrets
from importlib import import_module
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from tool_engine.interfaces.source import Source
from tool_engine.sources.foreign import ForeignSource


class _Identity(NamedTuple):
    """How an engine is recognised."""

    anywhere: str
    """The same in every process; two engines may share it."""
    here: str
    """A mark of this one object."""


_PROCESS: Final = secrets.token_hex(16)
_identities: Final[WeakKeyDictionary[object, _Identity]] = WeakKeyDictionary()


def engine_of(catalog: Source, shown_name: str) -> str:
    """Return a text for a tool's engine, stable across restarts and orders.

    Two engines that share a name, or without one their folder and databases, cannot be
    distinguished after a restart: a conversation with both knows each in its process only.

    Args:
        catalog: An engine, or a view of some.
        shown_name: The name that the tool has there.
    """
    return engine_text(catalog, catalog.find_origin(shown_name)[0])


def engine_text(catalog: Source, engine: Source) -> str:
    """Return the same for one of the innermost sources of `catalog`."""
    identity = _identity_of(engine)
    others = [each for each in catalog.list_origins() if each is not engine]
    is_alike = any(_identity_of(each).anywhere == identity.anywhere for each in others)
    return identity.here if is_alike else identity.anywhere


def engine_texts(engine: Source) -> frozenset[str]:
    """Return all texts for one engine, whatever catalog it is in."""
    return frozenset(_identity_of(engine))


def _identity_of(source: Source) -> _Identity:
    # An adapter goes when nothing uses it; what it stands for is still the same.
    found = source.found if isinstance(source, ForeignSource) else source
    try:
        identity = _identities.get(found)
        if identity is None:
            identity = _identities[found] = _Identity(_hash_origin(source), secrets.token_hex(16))
    except TypeError:
        # What cannot be held weakly is known by its place in memory.
        identity = _Identity(_hash_origin(source), f"{_PROCESS} {id(found)}")
    return identity


def _hash_origin(source: Source) -> str:
    text = json.dumps(source.describe_origin(), sort_keys=True)
    # Loaded late: most programs never ask for approval.
    return str(import_module("hashlib").sha256(text.encode()).hexdigest())


def identity_of(catalog: Source, shown_name: str) -> str:
    """Return an identity that a tool keeps under all its names.

    It is the same in another process whose sources are put together in the same order.

    Args:
        catalog: An engine, or a view of some.
        shown_name: The name that the tool has there.
    """
    return identity_in(catalog, *catalog.find_origin(shown_name))


def identity_in(catalog: Source, source: Source, name: str) -> str:
    """Return the same for an innermost or foreign source's tool."""
    which = source_text(catalog, source)
    # No tool has a space in its name.
    return f"{name} of {which}" if which else name


def identity_of_own(tool_name: str) -> str:
    """Return the same for a tool that only the conversation has."""
    return f"{tool_name} of the session"


def source_of(catalog: Source, shown_name: str) -> str:
    """Return which source has a tool, in words; empty for the first."""
    return source_text(catalog, catalog.find_origin(shown_name)[0])


def source_text(catalog: Source, source: Source) -> str:
    """Return the same for one of the innermost sources of `catalog`."""
    origins = catalog.list_origins()
    if origins and origins[0] is source:
        return ""
    number = next((at for at, each in enumerate(origins) if each is source), 0)
    return f"source {number + 1}" if number else ""
