"""Which variables does a call leave, and when are they made?

Those of a small call are made when one of them is first read, as most never are.
"""

from __future__ import annotations

import asyncio
import marshal
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from time import time
from typing import Any, Final

import msgspec

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.json.plain import is_flat
from tool_engine.model.json.weighing import pack_small
from tool_engine.model.tool import Tool
from tool_engine.output.shaping import is_quick
from tool_engine.redaction import HIDDEN, NO_SECRETS, secrets_of
from tool_engine.redaction.secret_names import is_secret_key
from tool_engine.session.formatting import data_of
from tool_engine.session.variables.labels import UNKNOWN
from tool_engine.session.variables.store import Variable, VariableKind, VariableStore, copy_value
from tool_engine.session.variables.texts import LARGE

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
_FROM_NOWHERE: Final = frozenset({UNKNOWN})
_OF_MODEL: Final = frozenset({"model"})
_NUMBERS: Final = frozenset((int, float, bool, type(None)))
_pack: Final = msgspec.msgpack.Encoder().encode
_INSTANT: Final = timedelta(microseconds=1)
_OTHER: Final = re.compile(r"[^A-Za-z0-9_./-]")
_DEEPEST: Final = 64
"""The most levels of arguments, the same as in validation."""
_LONGEST: Final = 160
"""The most characters of a tool's name in a variable's name, which has at most 200."""


class NamesOfCall(msgspec.Struct, frozen=True):
    """The names of a call's variables."""

    result: str
    args: str


def name_variables(tool_name: str, number: int, store: VariableStore | None = None) -> NamesOfCall:
    """Return the names of a call's variables: `{tool}_{number}_result` and `..._args`. S29.

    Args:
        tool_name: The tool; invalid characters become `_`.
        number: The number of the call in its conversation.
        store: Where they will be kept; names that are taken there get `-2`, `-3` and so on.
    """
    begin = f"{_make_name(tool_name)}_{number}"
    result, args = f"{begin}_result", f"{begin}_args"
    count = 1
    while store is not None and store.has_either(result, args):
        count += 1
        result, args = f"{begin}_result-{count}", f"{begin}_args-{count}"
    return NamesOfCall(result, args)


@lru_cache(maxsize=1024)
def _make_name(tool_name: str) -> str:
    return _OTHER.sub("_", tool_name)[:_LONGEST]


class PackedCall(msgspec.Struct, frozen=True, eq=False):
    """A call's arguments and output, as they were when it ended."""

    data: bytes | tuple[bytes, str | int | bytes | None]
    """Both by `marshal`; or the arguments as MessagePack, and a text or number that came of it, or
    the output in the same form; None: there is none."""
    most_sent: int
    """The most characters that the text of the arguments may have."""
    most_returned: int
    """The same of the output."""


class UnmadeCall(msgspec.Struct, frozen=True, eq=False):
    """The variables of a call that none has read yet; see `Unmade`."""

    names: tuple[str, ...]
    most: int
    of_call: NamesOfCall
    packed: PackedCall
    tool: Tool
    kept_at: float
    labels: frozenset[str]
    used: frozenset[str] | None

    def find_most(self, name: str) -> int:
        """Return the most characters that the text of one variable may have."""
        packed = self.packed
        return packed.most_sent if name == self.of_call.args else packed.most_returned

    def make(self) -> list[Variable]:
        """Return the variables as `keep_call` keeps them."""
        now = datetime.fromtimestamp(self.kept_at, UTC)
        sent, returned = _read_back(self.packed.data)
        return make_variables(
            self.tool, self.of_call, sent, returned, self.labels, self.used, now=now
        )


def pack_call(
    tool: Tool,
    params: dict[str, Any],
    result: ToolExecutionResult,
    find_packed: Callable[[dict[str, Any]], bytes | None] | None = None,
    *,
    has_secrets: bool | None = None,
) -> PackedCall | None:
    """Return a copy of a call's arguments and output: a program may change them later.

    Args:
        tool: The tool, which says what is secret.
        params: The arguments, without references.
        result: How the call ended.
        find_packed: Gives an output as MessagePack, where it is known.
        has_secrets: Whether the tool declares some; None: it is found.

    Returns:
        None for what is large, or is not made of Python's own classes alone, and for a tool that
        declares secrets.
    """
    if has_secrets is None:
        has_secrets = bool(tool.secret_names or tool.secret_parts)
    if has_secrets:
        return None
    output = result.output if result.is_success else None
    both = params, output
    is_plain = len(params) <= _FEW and is_flat(params)
    if is_plain and (output is None or (len(output) <= _FEW and is_flat(output))):
        data = marshal.dumps(both, _EACH_BY_ITSELF)
        most = _LONGEST_BYTE * len(data)
        return PackedCall(data, most, most) if len(data) <= _MOST else None
    # One list that stands in a thousand places is long when it is written, and short here.
    returned = None if output is None or find_packed is None else find_packed(output)
    if returned is not None and len(returned) > _MOST:
        return None
    if returned is None and output is not None:
        # What reads back as something else, such as a set as a list, has the same text in JSON.
        returned = pack_small(output, _MOST)
    sent = _pack_whole(params) if is_plain else pack_small(params, _MOST)
    if sent is None or (returned is None and output is not None):
        return None
    most_sent, most_returned = _LONGEST_BYTE * len(sent), _LONGEST_BYTE * len(returned or b"")
    is_small = most_sent + most_returned <= LARGE
    return PackedCall((sent, returned), most_sent, most_returned) if is_small else None


def share_packed(sent: bytes, value: str | int, text: str) -> PackedCall | None:
    """Return the same as `pack_call`, of arguments that are packed, and a value that never changes.

    Args:
        sent: The arguments as MessagePack.
        value: The text or number that the tool returned.
        text: The same as a text.
    """
    most_sent, most_returned = _LONGEST_BYTE * len(sent), len(text)
    if most_sent + most_returned > LARGE:
        return None
    return PackedCall((sent, value), most_sent, most_returned)


def _pack_whole(value: dict[str, Any]) -> bytes | None:
    """Return a value that is known to be small as MessagePack; None: it has no such form."""
    try:
        return _pack(value)
    except Exception:  # noqa: BLE001 - a foreign value may raise anything
        return None


def _read_back(
    data: bytes | tuple[bytes, str | int | bytes | None],
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    if isinstance(data, tuple):
        sent, returned = msgspec.msgpack.decode(data[0]), data[1]
        if returned is None:
            return sent, None
        if isinstance(returned, bytes):
            return sent, msgspec.msgpack.decode(returned)
        return sent, {"result": returned}
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
    each: tuple[str, ...] = (names.args,)
    most = packed.most_sent
    if is_success:
        each, most = (names.args, names.result), most + packed.most_returned
    call = UnmadeCall(each, most, names, packed, tool, time(), labels, used)
    return store.take_later(call)


def keep_call(
    store: VariableStore,
    tool: Tool,
    names: NamesOfCall,
    params: dict[str, Any],
    result: ToolExecutionResult,
    labels: frozenset[str],
    used: frozenset[str] | None = None,
) -> None:
    """Keep a call's arguments and any output as variables. S29.

    Secrets are hidden in the arguments. An output of `{"result": value}` is kept as the value.

    Args:
        store: The variables of the conversation.
        tool: The tool, which says what is secret.
        names: What `name_variables` says with this store.
        params: The arguments, without references.
        result: How the call ended.
        labels: Where the result came from: see `find_result_labels`.
        used: Where the content came from that was put into the arguments; None: as the result.

    Raises:
        VariableError: A name belongs to a rule.
    """
    output = result.output if result.is_success else None
    for variable in make_variables(tool, names, params, output, labels, used):
        store.take(variable)


async def keep_call_in_time(
    store: VariableStore,
    tool: Tool,
    names: NamesOfCall,
    params: dict[str, Any],
    result: ToolExecutionResult,
    *labels: frozenset[str],
    is_short: bool | None = None,
) -> None:
    """Do the same as `keep_call`; copy large values in a thread.

    `is_short` is what `is_quick` says of the output; None: it is asked.
    """
    if (is_quick(result.output) if is_short is None else is_short) and is_quick(params):
        keep_call(store, tool, names, params, result, *labels)
        return
    output = result.output if result.is_success else None
    make = partial(make_variables, tool, names, params, output, *labels, in_pieces=True)
    for variable in await asyncio.to_thread(make):
        store.take(variable)


def make_variables(
    tool: Tool,
    names: NamesOfCall,
    params: dict[str, Any],
    returned: dict[str, Any] | None,
    labels: frozenset[str],
    used: frozenset[str] | None = None,
    *,
    in_pieces: bool = False,
    now: datetime | None = None,
) -> list[Variable]:
    """Return a call's variables, the arguments first, as they existed first.

    `returned` is its output; None: it failed.
    """
    now = datetime.now(UTC) if now is None else now
    secrets = secrets_of(tool, params)
    sent = _without_secrets(params, secrets.parts, secrets.names)
    if secrets is not NO_SECRETS:
        sent = secrets.hide(sent)
    value, chars = copy_value(sent, in_pieces=in_pieces)
    args = Variable(
        name=names.args,
        value=value,
        kind=VariableKind.TOOL_CALL_ARGS,
        desc=f"Arguments of a call of {tool.name}",
        labels=_OF_MODEL | (labels if used is None else used),
        created=now,
        updated=now,
        chars=chars,
    )
    if returned is None:
        return [args]
    # Whatever the clock says, the arguments are older than the result.
    later = now + _INSTANT
    value, chars = copy_value(data_of(returned), in_pieces=in_pieces)
    output = Variable(
        name=names.result,
        value=value,
        kind=VariableKind.TOOL_CALL_RESULT,
        desc=f"Result of a call of {tool.name}",
        labels=labels or _FROM_NOWHERE,
        created=later,
        updated=later,
        chars=chars,
    )
    return [args, output]


def _without_secrets(
    value: Any, parts: frozenset[str], names: frozenset[str] = frozenset(), depth: int = 0
) -> Any:
    """Return arguments without values of secret names; texts stay."""
    if depth > _DEEPEST:
        return value
    if _has_no_secrets(value, parts, names) or (depth == 1 and _has_no_mapping(value)):
        return value
    if isinstance(value, list):
        return [_without_secrets(item, parts, depth=depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: HIDDEN
        if key in parts or key in names or (isinstance(item, str) and is_secret_key(str(key)))
        else _without_secrets(item, parts, depth=depth + 1)
        for key, item in value.items()
    }


def _has_no_secrets(value: Any, parts: frozenset[str], names: frozenset[str]) -> bool:
    """Return True if flat arguments plainly hold no secrets."""
    if type(value) is not dict or parts or names:
        return False
    for key, item in value.items():
        if type(item) is str:
            if is_secret_key(str(key)):
                return False
        elif type(item) not in _NUMBERS:
            return False
    return True


def _has_no_mapping(value: Any) -> bool:
    """Return True if an argument plainly holds no names: thousands of lists are soon written."""
    try:
        return type(value) is list and b"{" not in msgspec.json.encode(value)
    except Exception:  # noqa: BLE001 - what JSON cannot hold is looked at value by value
        return False
