"""Which variables of a call are made only when one of them is read?"""

from __future__ import annotations

from datetime import UTC, datetime
from time import time
from typing import Any, Final

import msgspec

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.json.plain import is_exact, is_flat
from tool_engine.model.json.weighing import pack_small
from tool_engine.model.tool import Tool
from tool_engine.session.variables.store import Unmade, Variable, VariableStore
from tool_engine.session.variables.texts import LARGE
from tool_engine.session.variables.variable_tools import NamesOfCall, make_variables

_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder().decode
_LONGEST_BYTE: Final = 8
"""More characters than any byte of packed values becomes in the text of a variable: `false, `."""
_MOST: Final = LARGE // _LONGEST_BYTE
"""The most bytes of arguments and output from which variables are made later: of more one may be
large, which is made in a thread."""
_FEW: Final = 64
"""Entries that are looked at in no time."""


class UnmadeCall(Unmade, frozen=True, eq=False, kw_only=True):
    """The variables of a call that none has read yet."""

    tool: Tool
    names: NamesOfCall
    packed: bytes
    """What `pack_call` made of it."""
    kept_at: float
    labels: frozenset[str]
    used: frozenset[str] | None

    def make(self) -> list[Variable]:
        """Return the variables as `keep_call` keeps them."""
        now, (sent, returned) = datetime.fromtimestamp(self.kept_at, UTC), _unpack(self.packed)
        return make_variables(
            self.tool, self.names, sent, returned, self.labels, self.used, now=now
        )


def pack_call(tool: Tool, params: dict[str, Any], result: ToolExecutionResult) -> bytes | None:
    """Return a call's arguments and output as MessagePack: a program may change them later.

    Returns:
        None for what is large, no plain JSON, which would read back as something else, or of a
        tool that declares secrets.
    """
    if tool.secret_names or tool.secret_parts:
        return None
    output = result.output if result.is_success else None
    both = params, output
    is_few = len(params) <= _FEW and (output is None or len(output) <= _FEW)
    if not is_few or not (is_flat(params) and (output is None or is_flat(output))):
        packed = pack_small(both, _MOST)
        return packed if packed is not None and is_exact([params, output]) else None
    try:
        packed = _pack(both)
    except Exception:  # noqa: BLE001 - a number or text that has no such form
        return None
    return packed if len(packed) <= _MOST else None


def unpack_output(packed: bytes) -> dict[str, Any]:
    """Return the output of a call that did not fail, as it was when it was packed."""
    output: dict[str, Any] = _unpack(packed)[1]
    return output


def keep_packed(
    store: VariableStore,
    tool: Tool,
    names: NamesOfCall,
    packed: bytes,
    labels: frozenset[str],
    used: frozenset[str] | None = None,
    *,
    is_success: bool = True,
) -> bool:
    """Do the same as `keep_call` for a packed call, whose variables are made when they are read.

    Returns:
        Whether it did: `names` were free.
    """
    call = UnmadeCall(
        most=_LONGEST_BYTE * len(packed),
        tool=tool,
        names=names,
        packed=packed,
        kept_at=time(),
        labels=labels,
        used=used,
    )
    return store.take_later((names.args, names.result) if is_success else (names.args,), call)
