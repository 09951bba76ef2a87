"""Which servers exist after a look?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tool_engine.catalog.loader import duplicate_error
from tool_engine.model.definition import ServerDefinition


def merged_servers(
    previous: Mapping[str, ServerDefinition], found: Sequence[ServerDefinition]
) -> tuple[dict[str, ServerDefinition], list[tuple[str, str]]]:
    """Return the next servers by name, and the refused ones.

    A name that several files claim keeps its meaning.
    """
    servers: dict[str, ServerDefinition] = {}
    errors: list[tuple[str, str]] = []
    rivals: dict[str, list[ServerDefinition]] = {}
    for server in found:
        rivals.setdefault(server.name, []).append(server)
    for name, same in sorted(rivals.items()):
        places = [str(server.source) for server in same]
        present = previous.get(name)
        if len(same) == 1:
            servers[name] = same[0]
        elif present is not None and present.source in places:
            servers[name] = present
        if len(same) > 1:
            errors += [
                (place, str(duplicate_error(name, place, places, kind="server")))
                for place in places
            ]
    return servers, errors
