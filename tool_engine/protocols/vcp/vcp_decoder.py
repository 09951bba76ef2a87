"""How do the blocks of one reply in VCP become calls and events?"""

from __future__ import annotations

from typing import Any, Final

from tool_engine.model.checks.aliases import COMMAND
from tool_engine.protocols.arguments.coercion import coerce, match_keys
from tool_engine.protocols.reply_builder import CallInProgress
from tool_engine.protocols.text.grammar import BlockReader
from tool_engine.protocols.text.text_protocol import TextDecoder, TextProtocol
from tool_engine.protocols.vcp.numbered_calls import Request, find_numbers, find_requests
from tool_engine.protocols.vcp.vcp_block_reader import Block, Field, VCPBlockReader, VCPMarks
from tool_engine.protocols.vcp.vcp_markers import (
    FUZZY_BETWEEN,
    FUZZY_CLOSERS,
    FUZZY_GRAMMAR,
    GRAMMAR,
)

NAME: Final = "tool_name"
ID: Final = "request_id"
RESERVED: Final = frozenset({"archery", "ink", "river", "vref", "maid", "valet", "timely_contact"})
"""Keys for VCP's own server, not for a tool. U30."""
_FUZZY_MARKS: Final = VCPMarks(FUZZY_BETWEEN, FUZZY_CLOSERS, is_fuzzy=True)
_ONLY_NAMED: Final = (
    "the mark <<<[TOOL_REQUEST]>>> has no parameter after it, so it is read as text: nothing was "
    "called"
)


class VCPDecoder(TextDecoder):
    def __init__(self, protocol: TextProtocol, *, is_fuzzy: bool = False) -> None:
        super().__init__(protocol, FUZZY_GRAMMAR if is_fuzzy else GRAMMAR)
        self.is_fuzzy = is_fuzzy
        self.blocks = 0

    def open(self, marker: str, text: str, position: int) -> BlockReader:
        self.blocks += 1
        listener = _BlockInProgress(self, text, position)
        return VCPBlockReader(text, listener, _FUZZY_MARKS if self.is_fuzzy else VCPMarks())


class _BlockInProgress:
    """One block while it is read; its end makes the calls.

    Only its end shows whether a block is one call, and which id that has. It is reported before, as
    soon as nothing contradicts one call; if that turns out wrong, the reported call is never ended,
    and the right ones follow.
    """

    def __init__(self, decoder: VCPDecoder, marker: str, position: int) -> None:
        self._decoder = decoder
        self._marker = marker
        self._position = position
        self._default_id = f"req_{decoder.blocks}"
        self._name: str | None = None
        self._id: str | None = None
        self._call: CallInProgress | None = None
        self._wanted = ""
        self._unreported: list[str] = []

    def open_field(self, key: str) -> None:
        if key not in (NAME, ID) and not find_numbers(key, (COMMAND,)):
            self._announce_call(self._default_id)

    def add_field(self, field: Field) -> None:
        if field.key == NAME and self._name is None:
            self._name = field.value.strip() or None
            self._unreported = []
        elif field.key == ID and self._id is None:
            self._id = field.value.strip() or None
        if self._id:
            self._announce_call(self._id)

    def add_raw(self, text: str) -> None:
        if self._call is not None:
            self._decoder.add_arguments(self._call, text)
        elif self._name is not None:
            self._unreported.append(text)

    def return_marker(self) -> None:
        self._decoder.blocks -= 1
        self._decoder.add_text(self._marker)
        self._report_finding("malformed_reply", _ONLY_NAMED)

    def end(self, block: Block) -> None:
        calls: list[CallInProgress] = []
        self._decoder.keep_raw(block.raw, calls)
        fields, clash = _merge_fields(block.fields)
        name, base = fields.pop(NAME, "").strip(), fields.pop(ID, "").strip() or self._default_id
        error = "; ".join(each for each in (block.error, clash) if each) or None
        requests = [Request(None, fields, None)]
        odd: list[str] = []
        if error is None and name:
            requests, odd, error = find_requests(self._decoder.protocol.known, name, fields)
        if self._call is not None and (self._wanted != base or requests[0].number is not None):
            self._decoder.builder.withdraw(self._call)
            self._call = None
        for message in (*block.notes, *odd):
            self._report_finding("malformed_reply", message, tool_name=name or None)
        for request in requests:
            if not self._decoder.count_call():
                return
            number = "" if request.number is None else f"_{request.number}"
            call = self._call or self._decoder.begin_call(base + number, name or None)
            calls.append(call)
            call.raw, call.error = block.raw, error
            call.repairs += block.repairs
            self._end_call(call, request, is_cut=block.is_cut)

    def _announce_call(self, wanted: str) -> None:
        if self._call is None and self._name is not None and not self._decoder.is_full:
            self._wanted = wanted
            self._call = self._decoder.begin_call(wanted, self._name)
            self._decoder.add_arguments(self._call, "".join(self._unreported))

    def _end_call(self, call: CallInProgress, request: Request, *, is_cut: bool) -> None:
        call.value = self._read_values(call, request)
        if is_cut:
            self._decoder.cut_call(call, call.error or "")
        else:
            self._decoder.end_call(call)

    def _read_values(self, call: CallInProgress, request: Request) -> dict[str, Any]:
        tool = request.tool
        arguments: dict[str, Any] = self._drop_reserved(call, request)
        call.sent_names = dict(request.sent_names)
        if call.error is not None or tool is None:
            return arguments
        if self._decoder.is_fuzzy:
            matched, repairs = match_keys(tool, arguments)
            for key, name in zip(arguments, matched, strict=True):
                if key != name:
                    call.sent_names[name] = call.sent_names.pop(key, key)
            arguments = matched
            call.repairs += repairs
        arguments, repairs = coerce(tool, arguments)
        call.repairs += repairs
        return arguments

    def _drop_reserved(self, call: CallInProgress, request: Request) -> dict[str, Any]:
        declared = {each.name for each in request.tool.parameters} if request.tool else set()
        kept = dict(request.arguments)
        for key in request.arguments:
            if key.partition(":")[0] in RESERVED and key not in declared:
                message = f"{key!r} is a word to the VCP server, not a parameter: left out"
                self._report_finding("skipped", message, call_id=call.call_id, tool_name=call.name)
                del kept[key]
        return kept

    def _report_finding(self, error_type: str, message: str, **fields: Any) -> None:
        self._decoder.add_finding(error_type, message, position=self._position, **fields)


def _merge_fields(fields: list[Field]) -> tuple[dict[str, str], str | None]:
    """Return the parameters by name, and a fault if one stands twice."""
    merged: dict[str, str] = {}
    for key, value in fields:
        if key in merged:
            return dict(fields), (
                "the block names two tools; write a block for each call"
                if key == NAME
                else f"the parameter {key!r} was written more than once: write each parameter once"
            )
        merged[key] = value
    return merged, None
