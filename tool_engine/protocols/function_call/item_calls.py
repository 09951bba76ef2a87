"""How do the tags and the JSON of one reply become calls and events?"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tool_engine.protocols.arguments.argument_text import read_arguments
from tool_engine.protocols.arguments.coercion import coerce
from tool_engine.protocols.function_call.call_shapes import Shape, find_shapes
from tool_engine.protocols.reply_builder import CallInProgress
from tool_engine.protocols.text.text_protocol import TextDecoder

NOT_CLOSED: Final = (
    "the JSON of the call is not closed, so it may be half of what was meant and was not run; "
    "write one complete JSON object"
)
_MOST_UNKNOWN: Final = 100
_MOST_FALLBACKS: Final = 8
_MOST_REFUSALS: Final = 8
_INLINE: Final = (
    "what looks like a call in JSON stands inside a sentence or inside other JSON, so it is read "
    "as text: nothing was called; write a call on a line of its own"
)


class TagDecoder(TextDecoder):
    fallbacks = 0
    refusals = 0

    @property
    def ends_plainly(self) -> bool:
        """True if end tags count inside strings: earlier ones were never closed."""
        return self.fallbacks >= _MOST_FALLBACKS

    @property
    def has_refused_enough(self) -> bool:
        """True if inline objects stay text: each refused one is read twice."""
        return self.refusals >= _MOST_REFUSALS

    def refuse_inline(self, position: int) -> None:
        self.refusals += 1
        if self.refusals == 1:
            self.add_finding("skipped", _INLINE, position=position)


class _Ready(NamedTuple):
    call: CallInProgress
    is_cut: bool


class ItemCalls:
    """A builder of calls from JSON objects, reported once they have names."""

    def __init__(self, decoder: TagDecoder, position: int) -> None:
        self.decoder = decoder
        self._position = position
        self.unknown = 0
        self.name: str | None = None
        self.has_arguments = False
        self._id: str | None = None
        self._wanted: str | None = None
        self._call: CallInProgress | None = None
        self._arguments: list[str] = []
        self._ready: list[_Ready] = []

    @property
    def has_calls(self) -> bool:
        return bool(self._ready)

    def open_item(self) -> None:
        self.name = self._id = self._call = None
        self._arguments, self.has_arguments = [], False

    def see_name(self, name: str) -> None:
        self.name = self.name or name.strip() or None

    def see_id(self, call_id: str) -> None:
        self._id = self._id or call_id or None

    def begin(self) -> None:
        if self._call is None and self.name is not None and not self.decoder.is_full:
            self._wanted = self._id
            self._call = self.decoder.begin_call(self._id, self.name)
            self.add_arguments("".join(self._arguments))

    def add_arguments(self, text: str) -> None:
        self.has_arguments = True
        if self._call is None:
            self._arguments.append(text)
        else:
            self.decoder.add_arguments(self._call, text)

    def take(self, text: str, repairs: tuple[str, ...] = ()) -> None:
        if self.unknown >= _MOST_UNKNOWN:
            self.unknown += 1
            return
        if self.decoder.is_full:
            self.decoder.count_call()
            return
        read = read_arguments(text, repair=self.decoder.protocol.repair)
        if read.value is None:
            self.cut(read.error or NOT_CLOSED, is_cut=read.is_truncated)
            return
        protocol = self.decoder.protocol
        shapes = find_shapes(read.value, repair=protocol.repair, get=protocol.known.get)
        if not shapes:
            self.unknown += 1
            self._withdraw_call()
        for shape in shapes:
            if not self.decoder.count_call():
                return
            self._add_call(shape, (*repairs, *read.repairs))
            self._call = None

    def cut(self, error: str, *, is_cut: bool = True) -> None:
        if not self.decoder.count_call():
            return
        call = self._call or self.decoder.begin_call(None, self.name)
        call.error = error
        self._ready.append(_Ready(call, is_cut))
        self._call = None

    def end(self, raw: str, error: str | None = None) -> None:
        self.decoder.keep_raw(raw, [call for call, _ in self._ready])
        for call, is_cut in self._ready:
            call.raw = raw
            if is_cut or error is not None:
                self.decoder.cut_call(call, call.error or error or NOT_CLOSED)
            else:
                self.decoder.end_call(call)

    def add_finding(self, error_type: str, message: str, **fields: Any) -> None:
        self.decoder.add_finding(error_type, message, position=self._position, **fields)

    def _add_call(self, shape: Shape, repairs: tuple[str, ...]) -> None:
        call = self._call
        if call is not None and (
            call.name != shape.name or shape.call_id not in (None, self._wanted)
        ):
            self._withdraw_call()
            call = None
        call = call or self.decoder.begin_call(shape.call_id, shape.name)
        arguments, done = shape.arguments, shape.repairs
        tool = self.decoder.protocol.known.get(shape.name)
        if tool is not None and shape.error is None:
            arguments, coerced = coerce(tool, arguments)
            done += coerced
        call.value, call.error = arguments, shape.error
        call.repairs += [*repairs, *done]
        self._ready.append(_Ready(call, shape.is_truncated))

    def _withdraw_call(self) -> None:
        if self._call is not None:
            self.decoder.builder.withdraw(self._call)
            self._call = None
