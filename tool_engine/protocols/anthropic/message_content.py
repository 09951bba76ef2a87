"""How do the content blocks of an Anthropic message become calls, text and thoughts?

https://docs.claude.com/en/docs/build-with-claude/streaming
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from tool_engine.model.reply import ParsedReply, StreamEvent
from tool_engine.protocols.anthropic.content_blocks import (
    TEXTS,
    Block,
    drop_unanswered,
    make_message,
)
from tool_engine.protocols.arguments.argument_text import read_arguments
from tool_engine.protocols.chunk_decoder import NEVER_BEGUN, NO_TEXT, SENT_TWICE, UNKNOWN_FORM
from tool_engine.protocols.chunks import read_field
from tool_engine.protocols.object_arguments import is_sendable, take_object
from tool_engine.protocols.reply_builder import CallInProgress, Ending, ReplyBuilder
from tool_engine.protocols.tool_names import NameRule

_MIXED: Final = (
    "two calls were streamed under one index, so it cannot be told whose these arguments are; "
    "write the call again, alone"
)
_LATE: Final = "arguments came for this call after its end; write the call again"
_STRAY: Final = "arguments came that belong to no call: they may be its own; write it again"


class MessageContent:
    """The content of one message while it streams."""

    def __init__(self, builder: ReplyBuilder) -> None:
        self._builder = builder
        self.blocks: list[Block] = []
        self._at: dict[int | str, Block] = {}
        self._strays: dict[tuple[int | str | None, str], Block] = {}
        """Blocks without a start, for deltas of another kind than the block of their index."""
        self._has_stray_arguments = False
        self._deltas = {
            "text_delta": self._add_text,
            "thinking_delta": self._add_thought,
            "input_json_delta": self._add_arguments,
        }

    @property
    def is_stopped(self) -> bool:
        return all(block.is_stopped for block in self.blocks)

    def open_all(self, content: Any) -> list[StreamEvent]:
        if isinstance(content, str):
            content = [content] if content else []
        if not isinstance(content, list | tuple):
            return self._builder.report_lost("the content is no list of blocks", content)
        events: list[StreamEvent] = []
        for index, raw in enumerate(content):
            known = len(self.blocks)
            events += self.open(raw, index)
            if len(self.blocks) > known:
                self.stop(index)
        return events

    def open(self, raw: Any, index: object) -> list[StreamEvent]:
        if isinstance(raw, str):
            raw = {"type": "text", "text": raw}
        kind = read_field(raw, "type")
        if not isinstance(kind, str):
            return self._builder.report_lost("a content block has no type", raw)
        place = index if _is_index(index) else len(self.blocks)
        block = Block(kind, raw, place)
        before = self._at.get(place)
        events = self._begin_block(block)
        if before is not None and before.call is not None and not before.is_stopped:
            self._refuse_mixed(before, block)
        self.blocks.append(block)
        self._at[place] = block
        self._builder.has_begun = True
        return events

    def add(self, index: object, delta: Any) -> list[StreamEvent]:
        kind = read_field(delta, "type")
        block = self._find_block(index)
        take = self._deltas.get(kind) if isinstance(kind, str) else None
        if take is not None:
            return take(block, delta)
        if block is None or not isinstance(kind, str):
            return self._builder.report_lost("a delta belongs to no block", delta)
        if block.call is not None:
            return self._refuse_unread(block.call, delta)
        block.take(delta)
        return []

    def add_unknown(self, index: object, delta: Any) -> list[StreamEvent]:
        """Refuse the call that an unknown event may belong to."""
        block = self._find_block(index)
        return [] if block is None or block.call is None else self._refuse_unread(block.call, delta)

    def stop(self, index: object) -> None:
        block = self._find_block(index)
        if block is not None and not block.is_stopped:
            block.is_stopped = True
            self._settle_call(block, is_over=True)

    def settle(self, *, is_over: bool) -> None:
        for block in self.blocks:
            if not block.is_stopped:
                self._settle_call(block, is_over=is_over)
            if self._has_stray_arguments and block.call and not (block.call.parts or block.input):
                self._builder.refuse(block.call, _STRAY)

    def write_message(
        self, reply: ParsedReply, rule: NameRule, ending: Ending
    ) -> list[dict[str, Any]]:
        calls = {call.call_id: call for call in reply.calls}
        blocks = [each for each in self.blocks if each.call is None or not each.call.is_repeated]
        is_whole = ending is Ending.FINISHED
        messages = make_message(blocks, calls, rule, is_whole=is_whole)
        return messages if calls or is_whole else drop_unanswered(messages)

    def _begin_block(self, block: Block) -> list[StreamEvent]:
        if block.kind == "text":
            return self._builder.add_text("".join(block.parts))
        if block.kind == "thinking":
            self._builder.reasoning.extend(block.parts)
        if block.kind != "tool_use":
            return self._builder.add_other()
        block.call, events = self._builder.begin(block.fields.get("id"), block.fields.get("name"))
        toolset = block.fields.get("toolset_name")
        if toolset is not None:
            why = f"it is for the toolset {toolset!r}, which is not run here"
            self._builder.refuse(block.call, why)
        return events

    def _refuse_mixed(self, before: Block, block: Block) -> None:
        if before.call is not None and not before.call.parts and not before.input:
            self._builder.refuse(before.call, _MIXED)
            if block.call is not None:
                self._builder.refuse(block.call, _MIXED)

    def _find_block(self, index: object) -> Block | None:
        if _is_index(index):
            return self._at.get(index)
        if index is not None:
            return None
        return next((each for each in reversed(self.blocks) if not each.is_stopped), None)

    def _settle_call(self, block: Block, *, is_over: bool) -> None:
        """Settle a call's arguments: complete if `is_over`, else possibly cut."""
        call = block.call
        if call is None:
            return
        if call.parts and block.input:
            read = read_arguments(call.text, repair=False)
            is_same = is_sendable(block.input) and read.value == block.input
            if not read.is_truncated and not is_same:
                self._builder.refuse(call, SENT_TWICE)
        elif block.input or (is_over and not call.parts):
            take_object(self._builder, call, block.input)
        elif not call.parts:
            self._builder.refuse(call, NEVER_BEGUN)
        if is_over:
            self._builder.finish(call)

    def _add_text(self, block: Block | None, delta: Any) -> list[StreamEvent]:
        text = read_field(delta, "text", "")
        if not isinstance(text, str):
            return self._builder.report_lost("a text is no text", text)
        events = self._grow_text(block, "text", text)
        return events + self._builder.add_text(text)

    def _add_thought(self, block: Block | None, delta: Any) -> list[StreamEvent]:
        text = read_field(delta, "thinking", "")
        if not isinstance(text, str):
            return self._builder.report_lost("a thought is no text", text)
        self._builder.reasoning.append(text)
        return self._grow_text(block, "thinking", text)

    def _grow_text(self, block: Block | None, kind: str, text: str) -> list[StreamEvent]:
        if block is not None and block.kind == kind:
            block.parts.append(text)
            return []
        key = (block.index if block else None, kind)
        stray = self._strays.get(key)
        events: list[StreamEvent] = []
        if stray is None:
            stray = self._strays[key] = Block(kind, {"type": kind})
            self.blocks.append(stray)
            place = f"a block of {block.kind!r}" if block else "no block"
            message = f"a delta of {kind!r} came for {place}: it was read as a block of its own"
            events.append(self._builder.add_finding("malformed_reply", message))
        stray.parts.append(text)
        return events

    def _add_arguments(self, block: Block | None, delta: Any) -> list[StreamEvent]:
        part = read_field(delta, "partial_json")
        if block is None or block.kind in TEXTS:
            return self._report_stray(block, part) if part else []
        if block.call is not None and (part is None or part == {}):
            return self._refuse_unread(block.call, delta)
        return self._take_arguments(block, part)

    def _take_arguments(self, block: Block, part: Any) -> list[StreamEvent]:
        if part and block.call is not None and block.is_stopped:
            self._builder.refuse(block.call, _LATE)
            return []
        is_begun = bool(block.parts or (block.call and block.call.parts))
        if isinstance(part, Mapping) and not block.input and not is_begun:
            block.input = part
            return []
        if part is not None and not isinstance(part, str):
            if block.call is not None:
                self._builder.refuse(block.call, NO_TEXT)
            return self._builder.report_lost("a part of the arguments is no text", part)
        if block.call is not None:
            return self._builder.add_arguments(block.call, part or "")
        block.parts.append(part or "")
        return []

    def _refuse_unread(self, call: CallInProgress, delta: Any) -> list[StreamEvent]:
        self._builder.refuse(call, UNKNOWN_FORM)
        return self._builder.report_lost("a part of a call cannot be read", delta)

    def _report_stray(self, block: Block | None, part: Any) -> list[StreamEvent]:
        self._has_stray_arguments = True
        place = f"a block of {block.kind!r}" if block else "no block"
        return self._builder.report_lost(f"arguments came for {place}", part)


def _is_index(value: object) -> TypeGuard[int | str]:
    return type(value) is int or type(value) is str
