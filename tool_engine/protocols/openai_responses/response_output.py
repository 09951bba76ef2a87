"""How do the output items of a response become calls and text, without repetitions?

A server says most things three times: in deltas, when an item is done, and with the whole response.
Each is reported once; where they differ, the call is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from tool_engine.model.reply import ParsedReply, StreamEvent
from tool_engine.protocols.arguments.argument_text import read_arguments
from tool_engine.protocols.chunk_decoder import NEVER_BEGUN, NO_TEXT, SENT_TWICE, UNKNOWN_FORM
from tool_engine.protocols.chunks import read_field
from tool_engine.protocols.object_arguments import take_object
from tool_engine.protocols.openai_responses.output_items import (
    AWAITED,
    FUNCTION,
    Item,
    PartKey,
    make_input,
)
from tool_engine.protocols.reply_builder import CallInProgress, ReplyBuilder
from tool_engine.protocols.tool_names import NameRule

_MIXED: Final = (
    "two calls have one place, so it cannot be told whose these arguments are; write the call again"
)
_STRAY: Final = "arguments came that belong to no call: they may be its own; write it again"
_CUT: Final = "the provider says that the call is incomplete, so it was not run; write it again"
_OTHER: Final = "the whole response has another call in its place; write the call again"
_REPLACED: Final = "the parts of the arguments that were streamed are no JSON: the whole was taken"


class ResponseOutput:
    """The output of one response while it streams."""

    def __init__(self, builder: ReplyBuilder) -> None:
        self._builder = builder
        self.items: list[Item] = []
        self._by_id: dict[str, Item] = {}
        self._by_index: dict[int, Item] = {}
        self._placed_only: set[Item] = set()
        """Items whose arguments were matched by their place only."""
        self._has_stray_arguments = False

    def begin(self, raw: Any, index: object) -> list[StreamEvent]:
        kind = _find_kind(raw)
        if kind is None:
            return self._builder.report_lost("an output item has no type", raw)
        known = self._find_identified(raw)
        if known is not None and not (known.is_done and _is_elsewhere(known, raw, index)):
            return []
        return self._open_item(kind, raw, index)[1]

    def finish(self, raw: Any, index: object) -> list[StreamEvent]:
        kind = _find_kind(raw)
        if kind is None:
            return self._builder.report_lost("an output item has no type", raw)
        item = self._find_identified(raw) or self._find_placed(raw, index)
        events: list[StreamEvent] = []
        if item is None or (item.is_done and _has_other_ids(item, raw)):
            item, events = self._open_item(kind, raw, index)
        return events + self._complete_item(item, raw)

    def finish_all(self, output: Iterable[Any]) -> list[StreamEvent]:
        """Read the whole response, matching its items to the known ones."""
        events: list[StreamEvent] = []
        waiting = dict.fromkeys(self.items)
        new: list[Item] = []
        for index, raw in enumerate(output):
            kind, item = _find_kind(raw), self._find_item(raw, index, waiting)
            if kind is None:
                events += self._builder.report_lost("an output item has no type", raw)
                continue
            if item is None:
                item, begun = self._open_item(kind, raw, index)
                events += begun
                new.append(item)
            waiting.pop(item, None)
            events += self._complete_item(item, raw)
        # A streamed call and one of the whole response may be the same: this cannot be known.
        lost = [item.call for item in waiting if item.call is not None]
        found = [item.call for item in new if item.call is not None]
        for call in (*lost, *found) if lost and found else ():
            self._builder.refuse(call, _OTHER)
        return events

    def add_arguments(self, payload: Any, delta: Any) -> list[StreamEvent]:
        item = self._find_meant(payload, FUNCTION)
        if item is None or item.call is None:
            return self._report_stray(delta) if delta else []
        item.has_arguments = True
        if isinstance(delta, str):
            return self._builder.add_arguments(item.call, delta)
        self._builder.refuse(item.call, NO_TEXT)
        return self._builder.report_lost("a part of the arguments is no text", delta)

    def add_unknown(self, payload: Any) -> list[StreamEvent]:
        """Refuse the call that an unknown event may belong to."""
        part = read_field(payload, "delta", read_field(payload, "arguments"))
        # Without a place, as in `response.audio.delta`, it is no part of an item.
        places = (read_field(payload, "item_id"), read_field(payload, "output_index"))
        item = (
            None if part is None or places == (None, None) else self._find_meant(payload, FUNCTION)
        )
        if item is None or item.call is None:
            return []
        self._builder.refuse(item.call, UNKNOWN_FORM)
        return self._builder.report_lost("a part of a call cannot be read", part)

    def end_arguments(self, payload: Any) -> list[StreamEvent]:
        """Take all arguments of a call; with its name known, it ends."""
        arguments = read_field(payload, "arguments")
        item = self._find_meant(payload, FUNCTION)
        if item is None or item.call is None:
            return self._report_stray(arguments) if arguments else []
        events = self._builder.name(item.call, read_field(payload, "name"))
        events += self._take_arguments(item, item.call, arguments)
        if item.call.name is not None:
            self._builder.finish(item.call)
        return events

    def add_text(
        self, payload: Any, field_name: str, kind: str, index: object
    ) -> list[StreamEvent]:
        delta = read_field(payload, "delta")
        if not isinstance(delta, str):
            return self._builder.report_lost("a part of a text is no text", delta) if delta else []
        wanted = "message" if kind in ("output_text", "refusal") else "reasoning"
        item = self._find_meant(payload, wanted)
        events: list[StreamEvent] = []
        if item is None:
            raw = {"type": wanted, "id": read_field(payload, "item_id"), "role": "assistant"}
            item, events = self._open_item(wanted, raw, read_field(payload, "output_index"))
        key = PartKey(field_name, kind, index if isinstance(index, int) else 0)
        item.texts.setdefault(key, []).append(delta)
        return events + self._add_part(kind, delta)

    def settle(self) -> None:
        for item in self.items:
            call = item.call
            if call is None:
                continue
            if self._has_stray_arguments and not (call.text.strip() or call.value):
                self._builder.refuse(call, _STRAY)
            if item.is_done:
                continue
            if item.arguments is not None:
                self._take_arguments(item, call, item.arguments)
            elif not item.has_arguments:
                self._builder.refuse(call, NEVER_BEGUN)
                other = self._by_index.get(item.index) if item.index is not None else None
                if other in self._placed_only and other.call is not None:
                    self._builder.refuse(other.call, _MIXED)

    def cut(self) -> None:
        """Note a limit's cut: the last item's call may be incomplete."""
        if self.items:
            last = max(
                reversed(self.items), key=lambda item: -1 if item.index is None else item.index
            )
            if last.call is not None:
                self._builder.refuse(last.call, _CUT)

    def join_reasoning(self) -> str:
        return "\n\n".join(text for text in (item.join_reasoning() for item in self.items) if text)

    def write_input(
        self, reply: ParsedReply, rule: NameRule, *, is_stored: bool
    ) -> list[dict[str, Any]]:
        calls = {call.call_id: call for call in reply.calls}
        items = [each for each in self.items if each.call is None or not each.call.is_repeated]
        return make_input(items, calls, rule, is_stored=is_stored)

    # Which item is meant

    def _find_identified(self, raw: Any) -> Item | None:
        for name in ("id", "call_id"):
            known = read_field(raw, name)
            found = self._by_id.get(known) if isinstance(known, str) else None
            if found is not None and (not _has_other_call(found, raw) or _is_same(found, raw)):
                return found
        return None

    def _find_placed(self, raw: Any, index: object) -> Item | None:
        placed = self._by_index.get(index) if isinstance(index, int) else None
        return placed if placed is not None and _is_same(placed, raw) else None

    def _find_item(self, raw: Any, index: int, rest: Collection[Item]) -> Item | None:
        found, placed = self._find_identified(raw), self._find_placed(raw, index)
        if placed is not None and not _has_other_ids(placed, raw):
            # Of items that share an id, the one in this place.
            found = placed
        for item in (found, placed):
            if item is not None and item in rest:
                return item
        calls = (item for item in rest if item.call is not None and item.has_arguments)
        return next((item for item in calls if _is_same(item, raw)), None)

    def _find_meant(self, payload: Any, kind: str) -> Item | None:
        for name in ("item_id", "call_id"):
            known = read_field(payload, name)
            found = self._by_id.get(known) if isinstance(known, str) else None
            if found is not None and found.kind == kind:
                return found
        index = read_field(payload, "output_index")
        if isinstance(index, int):
            placed = self._by_index.get(index)
            if placed is None or placed.kind != kind:
                return None
            self._placed_only.add(placed)
            return placed
        last = (item for item in reversed(self.items) if item.kind == kind and not item.is_done)
        return None if read_field(payload, "item_id") else next(last, None)

    def _open_item(self, kind: str, raw: Any, index: object) -> tuple[Item, list[StreamEvent]]:
        item = Item(kind, raw, index if isinstance(index, int) else None)
        self.items.append(item)
        self._builder.has_begun = True
        for name in ("id", "call_id"):
            known = read_field(raw, name)
            if isinstance(known, str) and known:
                before = self._by_id.get(known)
                self._by_id[known] = item if before is None or before.is_done else before
        if item.index is not None:
            self._by_index[item.index] = item
        if kind == FUNCTION:
            call_id = read_field(raw, "call_id") or read_field(raw, "id")
            item.call, events = self._builder.begin(call_id, read_field(raw, "name"))
            item.call.echo = item.list_echoed()
            item.arguments = read_field(raw, "arguments") or None
            return item, events
        events = [] if kind == "message" else self._builder.add_other()
        if kind in AWAITED:
            message = f"a {kind} is not run here: the program around the engine has to answer it"
            events.append(self._builder.add_finding("skipped", message, level="error"))
        return item, events

    # What is said of it

    def _complete_item(self, item: Item, raw: Any) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        if item.call is not None:
            events += self._complete_call(item, item.call, raw)
        item.update(raw)
        item.is_done = True
        if item.call is not None:
            item.call.echo = item.list_echoed()
        if item.call is None:
            for key, text in item.list_whole_texts():
                events += self._complete_text(item, key, text)
        return events

    def _complete_call(self, item: Item, call: CallInProgress, raw: Any) -> list[StreamEvent]:
        events = self._builder.name(call, read_field(raw, "name"))
        call_id = read_field(raw, "call_id")
        before = item.fields.get("call_id")
        if isinstance(call_id, str) and isinstance(before, str) and call_id != before:
            message = (
                f"the id {before!r} of a call is {call_id!r} where it is whole: the first counts"
            )
            events.append(
                self._builder.add_finding("malformed_reply", message, call_id=call.call_id)
            )
        events += self._take_arguments(item, call, read_field(raw, "arguments"))
        if not item.has_arguments and item.arguments is not None:
            events += self._take_arguments(item, call, item.arguments)
        if read_field(raw, "status") == "incomplete":
            self._builder.refuse(call, _CUT)
        else:
            self._builder.finish(call)
        return events

    def _take_arguments(
        self, item: Item, call: CallInProgress, arguments: Any
    ) -> list[StreamEvent]:
        if arguments is None:
            return []
        item.has_arguments = True
        written = call.text
        if not isinstance(arguments, str):
            if not written and call.value is None:
                take_object(self._builder, call, arguments)
            elif _read_value(call) != arguments:
                self._builder.refuse(call, SENT_TWICE)
            return []
        if not arguments.strip() or arguments == written:
            return []
        if call.value is None and arguments.startswith(written):
            return self._builder.add_arguments(call, arguments[len(written) :])
        return self._replace_arguments(call, arguments)

    def _replace_arguments(self, call: CallInProgress, arguments: str) -> list[StreamEvent]:
        before = _read_value(call)
        after = read_arguments(arguments, repair=False).value
        if before is not None and before == after:
            return []
        if before is not None or after is None or call.read is not None:
            self._builder.refuse(call, SENT_TWICE)
            return []
        call.parts[:] = [arguments]
        call.repairs.append(_REPLACED)
        return [
            self._builder.add_finding(
                "repaired", _REPLACED, call_id=call.call_id, tool_name=call.name
            )
        ]

    def _complete_text(self, item: Item, key: PartKey, text: str) -> list[StreamEvent]:
        parts = item.texts.setdefault(key, [])
        before = "".join(parts)
        if before == text or not text:
            return []
        parts[:] = [text]
        if text.startswith(before):
            return self._add_part(key.kind, text[len(before) :])
        if key.kind != "output_text":
            return []
        message = f"a text was streamed as {before[:40]!r}, and is {text[:40]!r} where it is whole"
        return [self._builder.add_finding("malformed_reply", message)]

    def _add_part(self, kind: str, text: str) -> list[StreamEvent]:
        if kind == "refusal":
            self._builder.refusal.append(text)
        return self._builder.add_text(text) if kind == "output_text" else []

    def _report_stray(self, arguments: Any) -> list[StreamEvent]:
        self._has_stray_arguments = True
        return self._builder.report_lost("arguments came for no call", arguments)


def _read_value(call: CallInProgress) -> Mapping[str, Any] | None:
    return read_arguments(call.text, repair=False).value if call.value is None else call.value


def _find_kind(raw: Any) -> str | None:
    kind = read_field(raw, "type", "message" if read_field(raw, "role") == "assistant" else None)
    return kind if isinstance(kind, str) else None


def _has_other_call(item: Item, raw: Any) -> bool:
    known, new = item.fields.get("call_id"), read_field(raw, "call_id")
    return bool(known and new and known != new)


def _has_other_ids(item: Item, raw: Any) -> bool:
    known, new = item.fields.get("id"), read_field(raw, "id")
    return bool(known and new and known != new) or _has_other_call(item, raw)


def _is_elsewhere(item: Item, raw: Any, index: object) -> bool:
    """Return True if an item begins under a finished item's id."""
    return _has_other_ids(item, raw) or (None not in (index, item.index) and index != item.index)


def _is_same(item: Item, raw: Any) -> bool:
    """Return True if an item without that id is certainly the same."""
    if _find_kind(raw) != item.kind:
        return False
    if item.call is None:
        return True
    name, arguments = read_field(raw, "name"), read_field(raw, "arguments")
    if name is not None and item.fields.get("name", name) != name:
        return False
    if isinstance(arguments, str):
        arguments = read_arguments(arguments, repair=False).value
    written = _read_value(item.call)
    return not item.has_arguments or written is None or arguments in (None, written)
