"""Which call does a fragment of a Chat Completions stream go on with?

By the standard the fragments of one call share an index, and the first of them has the id and the
name. Servers number all calls 0 or none, repeat ids and names in each fragment or make up a new id
for each. Certain matches are joined; a doubtful one makes a call that is not run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tool_engine.model.reply import StreamEvent
from tool_engine.protocols.reply_builder import CallInProgress, ReplyBuilder
from tool_engine.protocols.tool_names import KnownTools

_MARKS: Final = re.compile(r'\\.?|["{}\[\]]', re.DOTALL)
_TWO_OBJECTS: Final = (
    "two argument objects came for one call, so it was not run; write one call for each"
)
_TWO_NAMES: Final = (
    "it cannot be told whether {!r} and {!r} are one call or two, so neither was run; write one "
    "call at a time"
)
_NO_ARGUMENTS: Final = (
    "its arguments were lost: another part of the reply has arguments and no tool name; write the "
    "call again"
)
_REPLACED: Final = (
    "its arguments were lost: another call began in its place; write one call at a time"
)
_EITHER: Final = (
    "it cannot be told whether its arguments are those of the call before it; write one call at a "
    "time"
)
_CUSTOM: Final = (
    "{!r} was called with text, as a custom tool; call it as a function, with one JSON object"
)


class Fragment:
    __slots__ = ("call_id", "extra", "fault", "index", "is_custom", "name", "text")

    def __init__(
        self,
        index: object,
        call_id: object,
        name: object,
        text: str,
        *,
        is_custom: bool = False,
        extra: Mapping[str, Any] | None = None,
        fault: str | None = None,
    ) -> None:
        number = isinstance(index, int | str | float) and not isinstance(index, bool)
        self.index = index if number else None
        self.call_id = call_id if isinstance(call_id, str) and call_id else None
        self.name = name if isinstance(name, str) and name else None
        self.text = text
        self.is_custom = is_custom
        self.extra = extra or {}
        self.fault = fault

    @property
    def is_blank(self) -> bool:
        return self.call_id is None and self.name is None and not self.text


class WireCall:
    """A call with the server's own fields."""

    def __init__(self, call: CallInProgress, fragment: Fragment) -> None:
        self.call = call
        self.index = fragment.index
        self.wire_id = fragment.call_id
        self.name: str | None = None
        self.has_arguments = False
        self.is_held = False
        """True if its name may continue, so that it was not reported yet."""
        self.is_repeated = False
        """True if its name came again after its arguments were closed."""
        self.has_other_ids = False
        self.is_custom = fragment.is_custom
        self.extra: dict[str, Any] = {}
        self._scanned = 0
        self._depth = 0
        self._is_in_string = False
        self._is_escaped = False
        self._is_closed = False

    def is_closed(self) -> bool:
        """Return True if its arguments are one closed object, scanned once."""
        parts = self.call.parts
        while self._scanned < len(parts) and not self._is_closed:
            self._scan_part(parts[self._scanned])
            self._scanned += 1
        return self._is_closed

    def _scan_part(self, part: str) -> None:
        start = 1 if self._is_escaped else 0
        self._is_escaped = False
        for match in _MARKS.finditer(part, start):
            mark = match[0]
            if mark[0] == "\\":
                self._is_escaped = len(mark) == 1
            elif mark == '"':
                self._is_in_string = not self._is_in_string
            elif not self._is_in_string:
                self._depth += 1 if mark in "{[" else -1
                self._is_closed = self._is_closed or self._depth == 0


class CallTable:
    """The calls of one reply, by the server's ids and indexes."""

    def __init__(self, builder: ReplyBuilder, known: KnownTools) -> None:
        self._builder = builder
        self._known = known
        self.calls: list[WireCall] = []
        self._by_index: dict[object, WireCall] = {}
        self._by_id: dict[tuple[object, str], WireCall] = {}
        self._latest: dict[str, WireCall] = {}
        """By id alone, for fragments without an index."""

    def begin(self, fragment: Fragment) -> list[StreamEvent]:
        call, events = self._builder.begin(fragment.call_id)
        found = WireCall(call, fragment)
        self.calls.append(found)
        self._by_index[fragment.index] = found
        if fragment.call_id is not None:
            self._note_id(found, fragment.call_id)
        return events + self._add_fragment(found, fragment)

    def add(self, fragment: Fragment) -> list[StreamEvent]:
        found = self._find_candidate(fragment)
        if found is None:
            return [] if fragment.is_blank else self.begin(fragment)
        if not self._begins_another(found, fragment):
            events = self._note_id(found, fragment.call_id) if fragment.call_id else []
            return events + self._add_fragment(found, fragment)
        if fragment.name is None and found.is_repeated:
            fragment.name = found.name
        doubt = self._refuse_doubtful(found, fragment)
        events = self.begin(fragment)
        if doubt is not None:
            self._builder.refuse(self.calls[-1].call, doubt)
        return events

    def settle(self) -> list[StreamEvent]:
        """End the reply: complete held names, and refuse calls with doubtful arguments."""
        events = [event for each in self.calls for event in self._report_name(each)]
        if any(each.name is None and each.has_arguments for each in self.calls):
            for each in self.calls:
                if not each.has_arguments:
                    self._builder.refuse(each.call, _NO_ARGUMENTS)
        return events

    def _find_candidate(self, fragment: Fragment) -> WireCall | None:
        index, call_id = fragment.index, fragment.call_id
        last = self.calls[-1] if self.calls else None
        if call_id is not None and (index, call_id) in self._by_id:
            return self._by_id[index, call_id]
        if index is None:
            return self._latest.get(call_id or "", last)
        # A server that leaves the index out may do so in the first fragment only.
        is_unnumbered = last is not None and last.index is None
        return self._by_index.get(index) or (last if is_unnumbered else None)

    def _begins_another(self, found: WireCall, fragment: Fragment) -> bool:
        name, text = fragment.name, fragment.text
        opens = text.lstrip()[:1] == "{"
        is_other_name = None not in (name, found.name) and name != found.name
        if fragment.call_id and found.wire_id and not self._is_id_of(fragment.call_id, found):
            if is_other_name or found.is_custom or found.is_closed():
                return True
            if found.has_arguments:
                # Some servers make up an id for each fragment: only a new object begins a call.
                return opens if text.strip() else name is not None
            return name is not None
        if is_other_name and not self._is_joined(found, fragment):
            return found.has_arguments or self._knows_tool(fragment.name or "")
        goes_on = name is None and not found.is_repeated
        return opens and not goes_on and found.is_closed()

    def _is_id_of(self, call_id: str, found: WireCall) -> bool:
        return call_id == found.wire_id or self._by_id.get((found.index, call_id)) is found

    def _refuse_doubtful(self, found: WireCall, fragment: Fragment) -> str | None:
        """Refuse what is doubtful when another call replaces `found`.

        Returns why the other call must not run either.
        """
        if found.has_other_ids and fragment.name != found.name and not fragment.text:
            doubt = _TWO_NAMES.format(found.name, fragment.name)
            self._builder.refuse(found.call, doubt)
            return doubt
        if found.has_arguments or found.name is None:
            return None
        tool = self._known.get(self._known.meant_name(found.name))
        if tool is not None and not tool.parameters:
            return None
        self._builder.refuse(found.call, _REPLACED)
        # The next fragment may belong to either; for one tool, both have the same parameters.
        return _EITHER if fragment.name != found.name and not fragment.text.strip() else None

    def _note_id(self, found: WireCall, call_id: str) -> list[StreamEvent]:
        self._by_id[found.index, call_id] = self._latest[call_id] = found
        if found.wire_id is None:
            found.wire_id = call_id
            self._builder.identify(found.call, call_id)
        if call_id == found.wire_id or found.has_other_ids:
            return []
        found.has_other_ids = True
        message = f"the id {found.wire_id!r} of a call became {call_id!r} in the middle of it"
        return [self._builder.add_finding("malformed_reply", message, call_id=found.call.call_id)]

    def _add_fragment(self, found: WireCall, fragment: Fragment) -> list[StreamEvent]:
        name = fragment.name
        events = [] if name is None else self._note_name(found, name, fragment)
        text = fragment.text
        found.extra.update(fragment.extra)
        if fragment.fault is not None:
            self._builder.refuse(found.call, fragment.fault)
        if fragment.is_custom:
            found.is_custom = True
            self._builder.refuse(found.call, _CUSTOM.format(found.name))
        if not text:
            return events
        found.has_arguments = found.has_arguments or not text.isspace()
        if text.lstrip()[:1] == "{" and found.is_closed():
            self._builder.refuse(found.call, _TWO_OBJECTS)
        if found.is_held and not text.isspace():
            events += self._report_name(found)
        return events + self._builder.add_arguments(found.call, text)

    def _note_name(self, found: WireCall, name: str, fragment: Fragment) -> list[StreamEvent]:
        if found.name == name:
            found.is_repeated = found.is_closed()
            return []
        if found.name is not None:
            if not self._is_joined(found, fragment):
                self._builder.refuse(found.call, _TWO_NAMES.format(found.name, name))
                return []
            name = found.name + name
        found.name = name
        found.is_held = self._known.is_beginning(name)
        return [] if found.is_held else self._report_name(found)

    def _is_joined(self, found: WireCall, fragment: Fragment) -> bool:
        if not found.is_held or found.name is None or fragment.name is None:
            return False
        joined = found.name + fragment.name
        return self._knows_tool(joined) or self._known.is_beginning(joined)

    def _knows_tool(self, name: str) -> bool:
        return self._known.get(self._known.meant_name(name)) is not None

    def _report_name(self, found: WireCall) -> list[StreamEvent]:
        found.is_held = False
        return self._builder.name(found.call, found.name)
