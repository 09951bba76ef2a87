"""What may one call of a batch look like?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from tool_engine.model.call import ToolCall
from tool_engine.model.json.plain import read_plain

BatchCall: TypeAlias = tuple[str, Mapping[str, Any]] | Mapping[str, Any] | ToolCall
"""One call of a batch: `(tool_name, params)`, `{"tool_name": .., "params": ..}` or a `ToolCall`."""

_KEYS: Final = {
    frozenset(keys): keys
    for keys in (
        ("tool_name", "params"),
        ("tool_name", "arguments"),
        ("name", "params"),
        ("name", "arguments"),
    )
}


def parts_of(call: object) -> tuple[object, object]:
    """Return the tool's name and the arguments of one item, as far as it has them."""
    name: object = None
    params: object = None
    plain = call if type(call) is ToolCall else read_plain(call)
    if type(plain) is ToolCall:
        name, params = plain.tool_name, plain.arguments
    elif type(plain) is list and len(plain) == 2:
        name, params = plain
    elif type(plain) is dict and frozenset(plain) in _KEYS:
        name, params = (plain[key] for key in _KEYS[frozenset(plain)])
    return name, {} if params is None else params
