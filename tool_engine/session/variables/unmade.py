"""Which variables of a call are made only when one of them is read?"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from time import time
from typing import Any, Final

import msgspec

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.tool import Tool
from tool_engine.session.variables.store import Unmade, Variable, VariableStore
from tool_engine.session.variables.variable_tools import make_variables

_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder().decode
_TEXT: Final = frozenset((str,))
_FLAT: Final = frozenset((str, int, float, bool, type(None)))
_FEW: Final = 16
"""The most entries of arguments, or of an output, from which variables are made later."""
_LONGEST_BYTE: Final = 16
"""More characters than any byte of packed values becomes in the text of a variable."""
_MOST_LATER: Final = 1_024
"""The most characters of a text in them."""


def keep_call_later(
    store: VariableStore,
    tool: Tool,
    names: tuple[str, str],
    params: dict[str, Any],
    result: ToolExecutionResult,
    *labels: frozenset[str],
) -> bool:
    """Do the same as `keep_call` for small values, whose variables are made when they are read.

    Returns:
        Whether it did: `names` were free, and nothing is declared as secret.
    """
    if tool.secret_names or tool.secret_parts or store.has_any(names):
        return False
    output = result.output if result.is_success else None
    if not _is_flat(params) or not (output is None or _is_flat(output)):
        return False
    try:
        # As bytes: the program may change both later.
        packed = _pack((params, output))
    except (ValueError, OverflowError):
        return False
    make = partial(_make_later, tool, names, packed, time(), labels)
    names_in_order = names[1:] if output is None else names[::-1]
    store.take_later(names_in_order, Unmade(_LONGEST_BYTE * len(packed), make))
    return True


def _is_flat(values: Any) -> bool:
    """Return True for a few short texts and numbers by name."""
    if type(values) is not dict or len(values) > _FEW or not _TEXT.issuperset(map(type, values)):
        return False
    if not _FLAT.issuperset(map(type, values.values())):
        return False
    for each in values.values():  # noqa: SIM110 - a generator costs more than all the rest
        # A long text would take its time to be packed.
        if type(each) is str and len(each) > _MOST_LATER:
            return False
    return True


def _make_later(
    tool: Tool,
    names: tuple[str, str],
    packed: bytes,
    kept_at: float,
    labels: tuple[frozenset[str], ...],
) -> list[Variable]:
    params, output = _unpack(packed)
    now = datetime.fromtimestamp(kept_at, UTC)
    return make_variables(tool, names, params, output, *labels, now=now)
