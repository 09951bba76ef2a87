"""How does a returned value become an output that holds what its tool declares?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tool_engine.knowledge.cut_list import keep_packed_beginning
from tool_engine.knowledge.snapshot import MAX_SNAPSHOT, keep_beginning, pack_plain, take_snapshot
from tool_engine.model.call import ValidationError
from tool_engine.model.json.returned_value import PLAIN, as_output, has_writable_digits
from tool_engine.model.json.weighing import measure_packed
from tool_engine.model.tool import Tool
from tool_engine.output.foreign_values import (
    LONG,
    check_unfolding,
    may_take_long,
    plain_at_once,
    plain_output,
)
from tool_engine.output.limited import LimitedOutput
from tool_engine.validation.output import OutputCheck, OutputMismatchError, make_check

Ready = tuple[LimitedOutput | None, dict[str, Any], bytes, bytes | None]
"""The limited output, if there are limits; the output; what the record keeps of it; and the same
if that is all of it, just as it is."""
Note = Callable[[list[ValidationError]], None]
"""Takes what differs in an output that is returned all the same."""
_ATOMS: Final = PLAIN - {list}
_SHORT: Final = _ATOMS - {str}
_CHECKED_AT_ONCE: Final = 16_384
"""Bytes of an output that is checked on the event loop; a larger one is checked in a thread."""


class Readying(NamedTuple):
    """How the values of one tool become outputs."""

    at_once: Callable[[Any], Ready | None]
    """Returns the output; None: `in_thread` makes it."""
    in_thread: Callable[[Note, Any], Ready]
    """Makes the output of any value, or raises why there is none; may take its time."""


def ready_at_once(  # noqa: PLR0911 - the shortest way out of each kind of value
    value: Any,
) -> Ready | None:
    """Return a tool's value as its output and as its record keeps it.

    None if a part of it must be asked for its JSON form, or has none, or that is perhaps very
    large: see `ready_in_thread`.
    """
    if (kind := type(value)) in _SHORT:
        short = {"result": value}
        try:
            kept = pack_plain(short)
        except OverflowError:
            return (None, short, take_snapshot(short), None) if has_writable_digits(value) else None
        return None, short, kept, kept
    returned = value
    if kind is not dict:
        if kind in PLAIN:
            if kind is str and len(value) > LONG:
                return None
            value = {"result": value}
        elif kind is LimitedOutput:
            return value, value.output, value.kept.result, None
    try:
        output: dict[str, Any] = value if type(value) is dict else as_output(value)
        if kind not in _ATOMS and may_take_long(output):
            return None
        kept = pack_plain(output)
    except (Exception, SystemExit):  # noqa: BLE001 - foreign objects raise anything
        plain = plain_at_once(returned)
        return None if plain is None else (None, plain, take_snapshot(plain), None)
    if len(kept) <= MAX_SNAPSHOT:
        return None, output, kept, kept
    # Cut while the value is at hand: reading it back would take many times as long.
    return None, output, keep_packed_beginning(output, kept), None


def ready_in_thread(note: Note, value: Any) -> Ready:
    """Do the same as `ready_at_once` for large values, and other classes, whose code runs.

    Raises:
        ToolExecutionError: Something in it has no form in JSON.
    """
    del note
    check_unfolding(value)
    if (ready := _ready_in_pieces(value)) is not None:
        return ready
    output = plain_output(value)
    check_unfolding(output)
    return None, output, take_snapshot(output), None


def _ready_in_pieces(value: Any) -> Ready | None:
    """Do the same as `ready_at_once`, while others have their turn; None: it is for other means."""
    try:
        output = as_output(value)
        size = measure_packed(output)
        if size > MAX_SNAPSHOT:
            return None, output, keep_beginning(output, size), None
        kept = pack_plain(output)
    except Exception:  # noqa: BLE001 - foreign objects raise anything
        return None
    return None, output, kept, kept


UNCHECKED: Final = Readying(ready_at_once, ready_in_thread)


def choose_readying(tool: Tool) -> Readying:
    """Return how the tool's values become outputs; only what it declares is checked.

    Raises:
        ValueError: What it declares cannot be compiled.
    """
    check = None if tool.output_mode == "off" else make_check(tool.output)
    if check is None:
        return UNCHECKED
    held = _HeldOutput(check, is_enforced=tool.output_mode != "warn")
    return Readying(held.ready_at_once, held.ready_in_thread)


class _HeldOutput:
    def __init__(self, check: OutputCheck, *, is_enforced: bool) -> None:
        self._check = check
        self._is_enforced = is_enforced

    def ready_at_once(self, value: Any) -> Ready | None:
        """Return the output if it is small and holds; the rest is found out in a thread."""
        ready = ready_at_once(value)
        if ready is None or len(ready[2]) > _CHECKED_AT_ONCE or ready[0] is not None:
            return None
        try:
            return ready if self._check.holds(ready[1]) else None
        except Exception:  # noqa: BLE001 - what is no JSON yet, foreign objects too, raises anything
            return None

    def ready_in_thread(self, note: Note, value: Any) -> Ready:
        """Return the output of any value.

        Raises:
            ToolExecutionError: It has no form in JSON, or is not what was declared.
        """
        # What has been limited is held to the declaration as it was before it was cut.
        ready = ready_at_once(value) or ready_in_thread(note, value)
        found = self._check.find_misfits(ready[1])
        if found and self._is_enforced:
            raise OutputMismatchError(found, ready[2])
        if found:
            note(found)
        return ready
