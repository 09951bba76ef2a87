"""What may one call of a batch look like?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from tool_engine.model.call import ToolCall

__all__ = ["BatchCall", "parts_of"]

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
    """The tool's name and the arguments of one item of a batch, as far as it has them."""
    name: object = None
    params: object = None
    if isinstance(call, ToolCall):
        name, params = call.tool_name, call.arguments
    elif isinstance(call, tuple | list) and len(call) == 2:
        name, params = call
    elif isinstance(call, Mapping) and frozenset(call) in _KEYS:
        name, params = (call[key] for key in _KEYS[frozenset(call)])
    return name, {} if params is None else params
