"""Which variables of a call are made only when one of them is read?"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from datetime import UTC, datetime
from time import time
from typing import Any, Final

import msgspec

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.json.plain import is_flat
from tool_engine.model.json.weighing import pack_small
from tool_engine.model.tool import Tool
from tool_engine.session.variables.store import Variable, VariableStore
from tool_engine.session.variables.texts import LARGE
from tool_engine.session.variables.variable_tools import NamesOfCall, make_variables

_pack: Final = msgspec.msgpack.Encoder().encode
_LONGEST_BYTE: Final = 8
"""More characters than any byte of packed values becomes in the text of a variable: `false, `.

It holds for MessagePack, and for `marshal` where nothing stands for what was there before."""
_MOST: Final = LARGE // _LONGEST_BYTE
"""The most bytes of arguments and output from which variables are made later: of more one may be
large, which is made in a thread."""
_FEW: Final = 64
"""Entries that are looked at in no time."""
_EACH_BY_ITSELF: Final = 2
"""The version of `marshal` that writes a text as often as it is there: its size says how long."""


class PackedCall(msgspec.Struct, frozen=True, eq=False):
    """A call's arguments and output, as they were when it ended."""

    data: bytes
    most_sent: int
    """The most characters that the text of the arguments may have."""
    most_returned: int
    """The same of the output."""


class UnmadeCall(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The variables of a call that none has read yet; see `Unmade`."""

    most: dict[str, int]
    tool: Tool
    names: NamesOfCall
    data: bytes
    """What `pack_call` made of it."""
    kept_at: float
    labels: frozenset[str]
    used: frozenset[str] | None

    def make(self) -> list[Variable]:
        """Return the variables as `keep_call` keeps them."""
        now = datetime.fromtimestamp(self.kept_at, UTC)
        sent, returned = _read_back(self.data)
        return make_variables(
            self.tool, self.names, sent, returned, self.labels, self.used, now=now
        )


def pack_call(
    tool: Tool,
    params: dict[str, Any],
    result: ToolExecutionResult,
    find_size: Callable[[dict[str, Any]], int | None] | None = None,
) -> PackedCall | None:
    """Return a copy of a call's arguments and output: a program may change them later.

    Args:
        tool: The tool, which says what is secret.
        params: The arguments, without references.
        result: How the call ended.
        find_size: Gives the bytes of an output as MessagePack, where they are known.

    Returns:
        None for what is large, or is not made of Python's own classes alone, and for a tool that
        declares secrets.
    """
    if tool.secret_names or tool.secret_parts:
        return None
    output = result.output if result.is_success else None
    both = params, output
    is_few = len(params) <= _FEW and (output is None or len(output) <= _FEW)
    if is_few and is_flat(params) and (output is None or is_flat(output)):
        data = marshal.dumps(both, _EACH_BY_ITSELF)
        most = _LONGEST_BYTE * len(data)
        return PackedCall(data, most, most) if len(data) <= _MOST else None
    # One list that stands in a thousand places is long when it is written, and short here.
    returned = None if output is None or find_size is None else find_size(output)
    if returned is None:
        returned = _measure_size(output)
    sent = _measure_size(params) if returned <= _MOST else 0
    if sent + returned > _MOST:
        return None
    try:
        # It refuses what would read back as something else, in the same pass.
        data = marshal.dumps(both)
    except ValueError:
        return None
    return PackedCall(data, _LONGEST_BYTE * sent, _LONGEST_BYTE * returned)


def _measure_size(value: dict[str, Any] | None) -> int:
    """Return the bytes of a value as MessagePack; more than `_MOST` where it has no such form."""
    if not value:
        return 1
    packed = pack_small(value, _MOST)
    return _MOST + 1 if packed is None else len(packed)


def _read_back(data: bytes) -> tuple[dict[str, Any], dict[str, Any] | None]:
    read: tuple[dict[str, Any], dict[str, Any] | None]
    read = marshal.loads(data)  # noqa: S302 - of bytes that were made here, in this process
    return read


def unpack_output(packed: PackedCall) -> dict[str, Any]:
    """Return the output of a call that did not fail, as it was when it was packed."""
    return _read_back(packed.data)[1] or {}


def keep_packed(
    store: VariableStore,
    tool: Tool,
    names: NamesOfCall,
    packed: PackedCall,
    labels: frozenset[str],
    used: frozenset[str] | None = None,
    *,
    is_success: bool = True,
) -> bool:
    """Do the same as `keep_call` for a packed call, whose variables are made when they are read.

    Returns:
        Whether it did: `names` were free.
    """
    most = {names.args: packed.most_sent}
    if is_success:
        most[names.result] = packed.most_returned
    call = UnmadeCall(
        most=most,
        tool=tool,
        names=names,
        data=packed.data,
        kept_at=time(),
        labels=labels,
        used=used,
    )
    return store.take_later(call)
