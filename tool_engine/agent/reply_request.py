"""How is one reply requested and read, and how do listeners follow it?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from tool_engine.agent.events import AgentEventType
from tool_engine.agent.models.provider_errors import failure_of
from tool_engine.errors import ChatModelError, ToolEngineError
from tool_engine.interfaces import ChatModel, ReplyDecoder
from tool_engine.logger import get_logger
from tool_engine.model.chat import ChatRequest
from tool_engine.model.foreign import ends_caller
from tool_engine.model.json.returned_value import to_text
from tool_engine.model.pace import Pace
from tool_engine.model.reply import ParsedReply, ReplyFinding, StreamEvent, StreamEventType
from tool_engine.model.tool import Tool
from tool_engine.protocols.cycle import parse_reply
from tool_engine.protocols.large_replies import estimate_size, read_in_time
from tool_engine.protocols.object_arguments import make_readable
from tool_engine.protocols.unread_words import hide_unread
from tool_engine.redaction import OwnSecrets, redact_text, words_of

Emit = Callable[..., None]

_log: Final = get_logger(__name__)
_TYPES: Final = {
    StreamEventType.CONTENT_CHUNK: AgentEventType.CONTENT_CHUNK,
    StreamEventType.TOOL_CALL_START: AgentEventType.TOOL_CALL_START,
    StreamEventType.TOOL_CALL_CHUNK: AgentEventType.TOOL_CALL_CHUNK,
    StreamEventType.TOOL_CALL_END: AgentEventType.TOOL_CALL_END,
}


class Asking:
    """One request to a model, and its reply so far."""

    def __init__(
        self,
        model: ChatModel,
        emit: Emit,
        find_secrets: Callable[[], Iterable[OwnSecrets]],
        find_tool: Callable[[str], Tool | None],
    ) -> None:
        self._model = model
        self._emit = emit
        self._find_secrets = find_secrets
        self._find_tool = find_tool
        self._said: list[str] = []
        self._half = ""
        """Half of a surrogate pair that waits for its other half in the next chunk."""
        self._raw: list[str] = []
        self._pace = Pace()

    @property
    def said(self) -> str:
        """The reply's text so far, without calls, kept if it breaks off."""
        return "".join(self._said).strip()

    async def ask(self, request: ChatRequest) -> ParsedReply:
        """Send the request and return the whole reply.

        Raises:
            ChatModelError: There is no reply, or only a part of one.
            asyncio.CancelledError: The turn was cancelled, even if the client swallowed that.
        """
        task = asyncio.current_task()
        cancelled = 0 if task is None else task.cancelling()
        try:
            reply = await self._request_reply(request)
            reply = replace(reply, text=make_readable(reply.text))
        except BaseException as error:
            if ends_caller(error):
                raise
            if task is not None and task.cancelling() > cancelled:
                raise asyncio.CancelledError from error
            if isinstance(error, ToolEngineError):
                raise
            raise _make_failure(self._model, error, self._find_secrets()) from error
        reply = hide_unread(reply, self._find_tool)
        for finding in reply.findings:
            self._emit(AgentEventType.FINDING, finding=finding, tool_call_id=finding.call_id)
            await self._pace.step()
        return self._with_message(reply)

    async def _request_reply(self, request: ChatRequest) -> ParsedReply:
        replies = self._model.reply(request)
        try:
            return await self._read_reply(replies, is_streamed=request.is_streamed)
        finally:
            close = getattr(replies, "aclose", None)
            if close is not None:
                await self._close_replies(close)

    async def _close_replies(self, close: Callable[[], Awaitable[object]]) -> None:
        try:
            await close()
        except BaseException as error:  # the reply, or why there is none, counts
            if ends_caller(error):
                raise
            message = make_readable(words_of(error, *self._find_secrets()))
            _log.warning("reply_not_closed", model=_name_of(self._model), error=message)

    async def _read_reply(self, replies: AsyncIterator[Any], *, is_streamed: bool) -> ParsedReply:
        if not is_streamed:
            whole = [reply async for reply in replies]
            self._raw = [each for each in whole if isinstance(each, str)]
            reply: ParsedReply = await read_in_time(self._read_whole, whole)
            await self._emit_whole(reply)
            return reply
        reader, size = _Reader(self._model.protocol.decoder(), self._find_secrets), 0
        async for chunk in replies:
            if isinstance(chunk, str):
                self._raw.append(chunk)
            for event in await read_in_time(reader.feed, chunk):
                self._emit_event(event)
                await self._pace.step()
            await self._pace.step()
            size += estimate_size(chunk)
        self._emit_text("")
        read: ParsedReply = await read_in_time(reader.close, before=size)
        return read

    def _read_whole(self, pieces: list[Any]) -> ParsedReply:
        if len(pieces) < 2:
            return parse_reply(self._model.protocol, pieces[0] if pieces else "")
        # A client may stream although it was not asked to: each piece is a part of the reply.
        reader = _Reader(self._model.protocol.decoder(), self._find_secrets)
        for each in pieces:
            reader.feed(each)
        return reader.close()

    def _emit_event(self, event: StreamEvent) -> None:
        # Findings are reported once, at the end of the reply, when all of them are known.
        kind = _TYPES.get(event.type)
        if kind is None:
            return
        if event.content:
            self._emit_text(event.content)
            return
        self._emit(
            kind,
            tool_call_id=event.tool_call_id,
            tool_call_name=event.tool_call_name,
            tool_call_arguments_chunk=make_readable(event.tool_call_arguments_chunk or "") or None,
            tool_call_arguments_complete=event.tool_call_arguments_complete,
        )

    def _emit_text(self, text: str) -> None:
        """Emit the next text; after an empty one no more follows."""
        whole = self._half + text
        self._half = whole[-1] if text and "\ud800" <= whole[-1] <= "\udbff" else ""
        whole = make_readable(whole[: len(whole) - len(self._half)])
        if whole:
            self._said.append(whole)
            self._emit(AgentEventType.CONTENT_CHUNK, content=whole)

    async def _emit_whole(self, reply: ParsedReply) -> None:
        self._emit_text(reply.text)
        self._emit_text("")
        for call in reply.calls:
            names = {"tool_call_id": call.call_id, "tool_call_name": call.tool_name}
            self._emit(AgentEventType.TOOL_CALL_START, **names)
            if call.is_runnable:
                self._emit(
                    AgentEventType.TOOL_CALL_END,
                    **names,
                    tool_call_arguments_complete=to_text(call.arguments),
                )
            await self._pace.step()

    def _with_message(self, reply: ParsedReply) -> ParsedReply:
        """Return the reply with its message, also where the protocol gives none."""
        if reply.message is not None:
            is_list = isinstance(reply.message, list)
            return reply if is_list else replace(reply, message=[reply.message])
        parts = (reply.text, *(call.raw for call in reply.calls))
        text = make_readable("".join(self._raw) or "\n".join(part for part in parts if part))
        message = [{"role": "assistant", "content": text}] if text.strip() else []
        return replace(reply, message=message)


class _Reader:
    """A guard around a foreign decoder: its errors become findings."""

    def __init__(
        self, decoder: ReplyDecoder, find_secrets: Callable[[], Iterable[OwnSecrets]]
    ) -> None:
        self._decoder = decoder
        self._find_secrets = find_secrets
        self._broken: ParsedReply | None = None

    def feed(self, chunk: Any) -> list[StreamEvent]:
        if self._broken is not None:
            return []
        try:
            return self._decoder.feed(chunk)
        except BaseException as error:  # it must not break the conversation
            if ends_caller(error):
                raise
            self._broken = _make_unread(error, self._find_secrets())
            return []

    def close(self) -> ParsedReply:
        if self._broken is not None:
            return self._broken
        try:
            return self._decoder.close()
        except BaseException as error:  # it must not break the conversation
            if ends_caller(error):
                raise
            return _make_unread(error, self._find_secrets())


def _name_of(model: ChatModel) -> str:
    return getattr(model, "name", None) or type(model).__name__


def _make_failure(
    model: ChatModel, error: BaseException, secrets: Iterable[OwnSecrets]
) -> ChatModelError:
    who = _name_of(model)
    found = failure_of(error, who, type(model).__name__)
    message = redact_text(make_readable(f"{who}: its client failed: {words_of(error, *secrets)}"))
    return ChatModelError(
        message, status=found.status, is_transient=found.is_transient, is_refusal=found.is_refusal
    )


def _make_unread(error: BaseException, secrets: Iterable[OwnSecrets]) -> ParsedReply:
    message = f"the reply could not be read: {words_of(error, *secrets)}"
    _log.warning("reply_not_decoded", error=message)
    finding = ReplyFinding(error_type="malformed_reply", level="error", message=message)
    return ParsedReply(findings=[finding])
