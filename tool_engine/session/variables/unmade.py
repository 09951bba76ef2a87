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
    sent: bytes
    """The arguments, as MessagePack: the program may change them later."""
    returned: bytes
    """What the tool returned, likewise."""
    kept_at: float
    labels: frozenset[str]
    used: frozenset[str] | None

    def make(self) -> list[Variable]:
        """Return the variables as `keep_call` keeps them."""
        now, sent, returned = (
            datetime.fromtimestamp(self.kept_at, UTC),
            _unpack(self.sent),
            _unpack(self.returned),
        )
        return make_variables(
            self.tool, self.names, sent, returned, self.labels, self.used, now=now
        )


def keep_call_later(
    store: VariableStore,
    tool: Tool,
    names: NamesOfCall,
    params: dict[str, Any],
    result: ToolExecutionResult,
    labels: frozenset[str],
    used: frozenset[str] | None = None,
) -> bool:
    """Do the same as `keep_call` for small values, whose variables are made when they are read.

    Returns:
        Whether it did: `names` were free, and nothing is declared as secret.
    """
    if tool.secret_names or tool.secret_parts:
        return False
    output = result.output if result.is_success else None
    sent, returned = _pack_plain(params), _pack_plain(output)
    if sent is None or returned is None or len(sent) + len(returned) > _MOST:
        return False
    call = UnmadeCall(
        most=_LONGEST_BYTE * max(len(sent), len(returned)),
        tool=tool,
        names=names,
        sent=sent,
        returned=returned,
        kept_at=time(),
        labels=labels,
        used=used,
    )
    kept = (names.args,) if output is None else (names.args, names.result)
    return store.take_later(kept, call)


def _pack_plain(value: dict[str, Any] | None) -> bytes | None:
    """Return the packed form of what is small and plain JSON, else None.

    What is no plain JSON would read back as something else.
    """
    if not (value is None or (len(value) <= _FEW and is_flat(value))):
        packed = pack_small(value, _MOST)
        return packed if packed is not None and is_exact(value) else None
    try:
        return _pack(value)
    except Exception:  # noqa: BLE001 - a number or text that has no such form
        return None
