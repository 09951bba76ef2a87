"""What may stand where a person types, in a prompt or in the address of a resource?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tool_engine.mcp_server.offers.prompts import Prompts
from tool_engine.mcp_server.offers.resources import Resources
from tool_engine.model.checks.nearness import suggest_near

_MOST_VALUES: Final = 100
"""As the protocol bounds it."""
_LONGEST: Final = 128


def complete_argument(
    params: types.CompleteRequestParams, prompts: Prompts, resources: Resources
) -> dict[str, Any]:
    """Return the values that begin with what was typed, as they stand on the wire.

    Raises:
        MCPError: There is no such prompt, template or argument.
    """
    ref = params.ref
    if ref.type == "ref/prompt":
        prompt = prompts.get(ref.name)
        if prompt is None:
            raise _make_unknown_error("prompt", ref.name, prompts.list_names())
        known: Mapping[str, Sequence[str]] = {each.name: each.values for each in prompt.arguments}
    else:
        found = resources.find_values(ref.uri)
        if found is None:
            raise _make_unknown_error("resource", ref.uri, resources.list_addresses())
        known = found
    name, begun = params.argument.name, params.argument.value
    if name not in known:
        raise _make_unknown_error("argument", name, known)
    values = [each for each in known[name] if each.startswith(begun)]
    shown = values[:_MOST_VALUES]
    completion = {"values": shown, "total": len(values), "hasMore": len(shown) < len(values)}
    return {"completion": completion, "resultType": "complete"}


def _make_unknown_error(kind: str, name: str, known: Iterable[str]) -> MCPError:
    hint = suggest_near(name[:_LONGEST], known)
    return MCPError(types.INVALID_PARAMS, f"Unknown {kind}: {name[:_LONGEST]!r}{hint}")
