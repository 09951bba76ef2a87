"""Where does a call in tags or in JSON end, and is it one?"""

from __future__ import annotations

import json
import re
from typing import Final

from tool_engine.protocols.arguments.argument_text import read_arguments
from tool_engine.protocols.function_call.call_shapes import CALL_KEYS, find_shapes
from tool_engine.protocols.function_call.item_calls import NOT_CLOSED, ItemCalls, TagDecoder
from tool_engine.protocols.function_call.json_tracker import END_TAG, RECORD, START_TAG, JSONTracker

_LEAD: Final = re.compile(r"\s*(?:[`~]{1,8}[ \t]*[\w-]{0,24}[ \t]*\r?(?:\n\s*)?)?(?:\[\s*)?")
"""What may precede the first object: the start of a code block and of a list."""
_LIST: Final = re.compile(r"\s*(?:\[[\s,]*)?")
_TRAIL: Final = re.compile(r"[\s`~]*")
_MOST_LEAD: Final = 2048
_FENCE: Final = re.compile(r"[`~]{3,8}[ \t]*[\w-]{0,24}[ \t]*(?=\r?\n)|[`~]{3,8}")
_NO_END: Final = (
    "the call has no end tag, so it may be half of what was meant and was not run; write it again"
)
_ADDED: Final = "a } that was missing at the end was added"
_NO_CALL: Final = "what stands in {place} is no call, so it is read as text: nothing was called"
_RECORDED: Final = "a call that was made before is only told of: it is not made again"
_NOT_ALONE: Final = (
    "the reply begins with what looks like a call in JSON, but goes on, so it is read as text: "
    f"nothing was called; write {START_TAG} around a call"
)
_SURE_KEYS: Final = frozenset({"tool_name", "function_call"})


class _JSONReader:
    """The base of all readers: follows JSON, and makes calls of it."""

    def __init__(self, decoder: TagDecoder, position: int) -> None:
        self.returned: str | None = None
        self._decoder = decoder
        self._calls = ItemCalls(decoder, position)
        self._tracker = JSONTracker(self)
        self._items = 0
        self._is_refused = False

    def open_item(self) -> None:
        self._items += 1
        if self._items == 1 and not self._has_fitting_lead():
            self._is_refused = True
        if not self._is_refused:
            self._calls.open_item()

    def see_key(self, key: str) -> None:
        """Take the first key of an object."""

    def see_name(self, name: str) -> None:
        if not self._is_refused:
            self._take_name(name)

    def see_id(self, call_id: str) -> None:
        if not self._is_refused:
            self._calls.see_id(call_id)

    def add_arguments(self, text: str) -> None:
        if not self._is_refused:
            self._calls.add_arguments(text)

    def close_item(self, text: str) -> None:
        if not self._is_refused:
            self._take_item(text)

    def _take_name(self, name: str) -> None:
        self._calls.see_name(name)
        self._calls.begin()

    def _take_item(self, text: str) -> None:
        self._calls.take(text)

    def _has_fitting_lead(self) -> bool:
        lead = "".join(self._tracker.outside)
        return len(lead) <= _MOST_LEAD and _LEAD.fullmatch(lead) is not None

    def _may_be_call(self) -> bool:
        return not self._is_refused and (self._items > 0 or self._has_fitting_lead())

    def _join_raw(self) -> str:
        return "".join([*self._tracker.raw, self._tracker.tail])

    def _end_item(self) -> None:
        """End an unclosed object; it may lack only its own last bracket."""
        tracker = self._tracker
        if tracker.item is None:
            return
        text = "".join(tracker.item)
        lacks_one = tracker.levels == 1 and not tracker.is_in_string
        if lacks_one and self._decoder.protocol.repair and text.rstrip().endswith(("}", "]")):
            self._calls.take(text + "}", (_ADDED,))
        else:
            self._calls.cut(NOT_CLOSED)

    def _report_left_out(self) -> None:
        outside = "".join(self._tracker.outside).strip(" \t\r\n,;[]")
        text = outside and _FENCE.sub("", outside).strip()
        if text:
            shown = text if len(text) <= 60 else text[:60] + "…"
            kind = "malformed_reply" if text.strip("{}") else "repaired"
            self._calls.add_finding(kind, f"{shown!r} beside the call was left out")
        if self._calls.unknown:
            message = f"{self._calls.unknown} objects beside the call are no calls: left out"
            self._calls.add_finding("malformed_reply", message, level="error")


class TagReader(_JSONReader):
    """A reader up to the end tag, ignoring tags in strings."""

    def __init__(self, decoder: TagDecoder, marker: str, position: int) -> None:
        super().__init__(decoder, position)
        self._marker = marker
        self._fallback = 0
        """The number of text parts before the first end tag in a string."""
        self._outside = 0
        self._falls_back = False

    def feed(self, text: str, start: int) -> int:
        place = start
        while (place := self._tracker.feed(text, place)) >= 0:
            tag = self._tracker.tag
            if tag == "start" and not self._falls_back:
                self._begin_other()
                return place
            if tag == "end" and self._ends_here():
                self._end_call()
                return place
            if tag is not None:
                self._tracker.take_tag()
        if self._falls_back:
            self._fall_back()
        elif not self._may_be_call():
            self._give_back("")
        return -1

    def close(self) -> None:
        if self._fallback and self._tracker.item is not None:
            self._fall_back()
        elif self._calls.has_calls or self._tracker.item is not None:
            is_whole = self._decoder.is_finished and self._tracker.item is None
            if self._tracker.item is not None:
                self._calls.cut(NOT_CLOSED)
            self._finish_block("", None if is_whole else _NO_END)
        else:
            self._give_back("")

    def _ends_here(self) -> bool:
        tracker = self._tracker
        if self._falls_back:
            return False
        if not tracker.is_in_string or tracker.has_line_break or self._decoder.ends_plainly:
            return True
        if not self._fallback:
            self._fallback, self._outside = len(tracker.raw), len(tracker.outside)
        return False

    def _take_item(self, text: str) -> None:
        if self._fallback and not _is_json(text):
            # This string was never closed: the end tag in it was meant.
            self._falls_back = self._is_refused = True
            return
        self._fallback = 0
        super()._take_item(text)

    def _begin_other(self) -> None:
        if not self._may_be_call() or (self._tracker.item is None and not self._calls.has_calls):
            self._give_back(START_TAG)
            return
        if self._fallback and self._tracker.item is not None:
            self._fall_back(START_TAG)
            return
        self.returned = START_TAG
        if self._tracker.item is not None:
            self._end_item()
        else:
            note = "an end tag that was missing before the next call was added"
            self._calls.add_finding("repaired", note)
        self._finish_block("", None)

    def _end_call(self) -> None:
        if not self._may_be_call():
            self._give_back(END_TAG)
        elif self._fallback and self._tracker.item is not None:
            self._fall_back(END_TAG)
        else:
            self._end_item()
            self._finish_block(END_TAG, None)

    def _fall_back(self, mark: str = "") -> None:
        """End the call at an end tag in a string never closed."""
        tracker = self._tracker
        rest = "".join([*tracker.raw[self._fallback :], tracker.tail])
        self.returned = rest.removeprefix(END_TAG) + mark
        del tracker.raw[self._fallback :]
        del tracker.outside[self._outside :]
        tracker.tail = ""
        self._decoder.fallbacks += 1
        self._calls.cut(NOT_CLOSED)
        self._finish_block(END_TAG, None)

    def _finish_block(self, mark: str, error: str | None) -> None:
        raw = self._marker + self._join_raw() + mark
        if self._calls.has_calls:
            self._report_left_out()
            self._calls.end(raw, error)
            return
        self._decoder.add_text(raw)
        if RECORD in raw:
            self._calls.add_finding("skipped", _RECORDED)
        else:
            self._calls.add_finding(
                "malformed_reply", _NO_CALL.format(place=START_TAG), level="error"
            )

    def _give_back(self, rest: str) -> None:
        self.returned = self._join_raw() + rest
        self._decoder.add_text(self._marker)
        self._calls.add_finding("malformed_reply", _NO_CALL.format(place=START_TAG), level="error")


class ObjectReader(_JSONReader):
    """A reader of one JSON object that starts like a call."""

    def __init__(self, decoder: TagDecoder, marker: str, position: int) -> None:
        super().__init__(decoder, position)
        self._marker = marker
        self._position = position
        self._tracker.feed(marker, 0)

    def _has_fitting_lead(self) -> bool:
        return True

    def feed(self, text: str, start: int) -> int:
        place = start
        while (place := self._tracker.feed(text, place)) >= 0:
            tag = self._tracker.tag
            if tag is None:
                self._finish_block(None)
                return place
            self._tracker.take_tag()
        return -1

    def close(self) -> None:
        self._calls.cut(NOT_CLOSED)
        self._finish_block(NOT_CLOSED)

    def _finish_block(self, error: str | None) -> None:
        raw = self._join_raw()
        if self._calls.has_calls:
            self._calls.end(raw, error)
            return
        self._decoder.add_text(raw)
        place = "a JSON object"
        self._calls.add_finding("malformed_reply", _NO_CALL.format(place=place), level="error")


class ReplyReader(_JSONReader):
    """A reader of a reply that begins with JSON, for calls only."""

    def __init__(self, decoder: TagDecoder) -> None:
        super().__init__(decoder, 0)
        self._texts: list[str] = []
        self._is_sure = False
        self._is_over = False

    def see_key(self, key: str) -> None:
        """Refuse objects whose first key no call has."""
        if self._is_sure or self._is_refused:
            return
        if key in _SURE_KEYS:
            self._be_sure()
        elif key not in CALL_KEYS:
            self._is_refused = True

    def _take_name(self, name: str) -> None:
        self._calls.see_name(name)
        if not self._is_sure and self._decoder.protocol.known.get(name.strip()) is not None:
            self._be_sure()
        if self._is_sure:
            self._calls.begin()

    def _take_item(self, text: str) -> None:
        if self._is_sure:
            self._calls.take(text)
        else:
            self._texts.append(text)

    def feed(self, text: str, start: int) -> int:
        place = start
        while not self._is_over and (place := self._tracker.feed(text, place)) >= 0:
            if self._tracker.tag is not None:
                self._tracker.take_tag()
                continue
            self._is_over = True
            if self._is_sure:
                self._finish_block(None)
                return place
        rest = text[place:] if self._is_over else ""
        self._tracker.raw.append(rest)
        if _TRAIL.fullmatch(rest) is None or not self._may_be_call():
            self._give_back()
        return -1

    def close(self) -> None:
        if self._is_sure:
            self._calls.cut(NOT_CLOSED)
            self._finish_block(NOT_CLOSED)
        elif self._is_over and self._are_calls():
            for item in self._texts:
                self._calls.open_item()
                self._calls.take(item)
            self._finish_block(None)
        elif (
            not self._is_over
            and not self._is_refused
            and self._calls.name
            and self._calls.has_arguments
        ):
            self._calls.begin()
            self._calls.cut(NOT_CLOSED)
            self._finish_block(NOT_CLOSED)
        else:
            self.returned = self._join_raw()

    def _be_sure(self) -> None:
        if _LIST.fullmatch("".join(self._tracker.outside)) is None:
            return
        self._is_sure = True
        for item in self._texts:
            self._calls.take(item)
        self._calls.begin()

    def _are_calls(self) -> bool:
        for item in self._texts:
            read = read_arguments(item, repair=self._decoder.protocol.repair)
            shapes = find_shapes(
                read.value or {}, repair=True, get=self._decoder.protocol.known.get
            )
            if not shapes or not all(shape.says_arguments for shape in shapes):
                return False
        return bool(self._texts)

    def _give_back(self) -> None:
        self.returned = self._join_raw()
        if self._is_over and not self._is_refused and self._are_calls():
            self._calls.add_finding("skipped", _NOT_ALONE)

    def _finish_block(self, error: str | None) -> None:
        if self._calls.has_calls:
            self._calls.end(self._join_raw(), error)
        else:
            self.returned = self._join_raw()


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
