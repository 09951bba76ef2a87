"""Which variables of a call are made only when one of them is read?"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from time import time
from typing import Any, Final

import msgspec

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.json.plain import is_exact
from tool_engine.model.json.weighing import pack_small
from tool_engine.model.tool import Tool
from tool_engine.session.variables.store import Unmade, Variable, VariableStore
from tool_engine.session.variables.texts import LARGE
from tool_engine.session.variables.variable_tools import make_variables

_unpack: Final = msgspec.msgpack.Decoder().decode
_LONGEST_BYTE: Final = 8
"""More characters than any byte of packed values becomes in the text of a variable: `false, `."""
_MOST: Final = LARGE // _LONGEST_BYTE
"""The most bytes of arguments and output from which variables are made later: of more one may be
large, which is made in a thread."""


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
    if tool.secret_names or tool.secret_parts:
        return False
    output = result.output if result.is_success else None
    # As bytes: the program may change both later.
    sent, returned = pack_small(params, _MOST), pack_small(output, _MOST)
    if sent is None or returned is None or len(sent) + len(returned) > _MOST:
        return False
    if not (is_exact(params) and (output is None or is_exact(output))):
        # What is no plain JSON would read back as something else.
        return False
    make = partial(_make_later, tool, names, sent, returned, time(), labels)
    unmade = {names[1]: Unmade(_LONGEST_BYTE * len(sent), make)}
    if output is not None:
        unmade[names[0]] = Unmade(_LONGEST_BYTE * len(returned), make)
    return store.take_later(unmade)


def _make_later(
    tool: Tool,
    names: tuple[str, str],
    sent: bytes,
    returned: bytes,
    kept_at: float,
    labels: tuple[frozenset[str], ...],
) -> list[Variable]:
    now = datetime.fromtimestamp(kept_at, UTC)
    return make_variables(tool, names, _unpack(sent), _unpack(returned), *labels, now=now)
