"""How are references replaced in arguments that a text protocol wrote?

A text protocol reads `42` as a number where the tool wants one. Where a reference stands in the
text, that is known only once the reference is replaced. What comes out of a variable is one value:
it can fill a place in a list or an object, and never change how many places there are.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec.structs import replace

from tool_engine.model.tool import Tool
from tool_engine.protocols.arguments.coercion import coerce
from tool_engine.session.variables.references import BEGIN, REFERENCE, Expanded, expand, may_refer
from tool_engine.session.variables.store import VariableStore

_BARE: Final = re.compile(rf'"[^"\\]*(?:\\.[^"\\]*)*"?|{REFERENCE}', re.S)


def expand_written(params: dict[str, Any], tool: Tool, store: VariableStore) -> Expanded:
    """Do the same as `expand`, for arguments from a text protocol.

    A text that held references becomes a number, a boolean, a list or an object by the same rules
    as one that held none.

    Args:
        params: The arguments; they are not changed.
        tool: Whose they are, as the model knows it.
        store: Where the variables are.

    Raises:
        VariableError: As for `expand`.
    """
    if not may_refer(params):
        return Expanded(params, ())
    expanded = expand({key: _open_places(key, item, tool) for key, item in params.items()}, store)
    if not expanded.texts:
        return expanded
    read, _ = coerce(tool, expanded.params, only=expanded.texts)
    return replace(expanded, params=read)


def _open_places(key: str, value: Any, tool: Tool) -> Any:
    """Return the list or object in a text with unquoted references."""
    if not isinstance(value, str) or BEGIN not in value or value.lstrip()[:1] not in ("[", "{"):
        return value
    read, _ = coerce(tool, {key: _BARE.sub(_quote_reference, value)})
    return value if isinstance(read[key], str) else read[key]


def _quote_reference(found: re.Match[str]) -> str:
    is_reference = not found[0].startswith(('"', "$$")) and found[0].endswith("}}")
    return f'"{found[0]}"' if is_reference else found[0]
