"""How is a conversation with a real model recorded for later replay?"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self, cast

import msgspec

from tool_engine.agent.models.carried import make_message, wire_of
from tool_engine.agent.models.script import Script, ScriptCall, ScriptError, ScriptReply
from tool_engine.errors import ChatModelError, ConfigurationError
from tool_engine.interfaces import ChatModel, ToolCallingProtocol
from tool_engine.model.chat import ChatRequest
from tool_engine.model.checks.field_types import convert_value
from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.model.reply import ParsedReply
from tool_engine.named_file import write_named
from tool_engine.protocols.chunks import dump_object
from tool_engine.redaction import HIDDEN, redact, redact_text

_NOT_THE_MODELS = frozenset({"sdkHttpResponse", "sdk_http_response"})
"""Fields that an SDK adds to a chunk: the headers of the answer."""


def record(
    model: ChatModel, path: str | os.PathLike[str], *, overwrite: bool = False
) -> RecordingModel:
    """Return a model that asks `model` and records its replies for `RecordedModel`.

    Args:
        model: The model that is asked.
        path: The file, written as JSON after each reply.
        overwrite: Whether an existing file may be replaced.

    Raises:
        ConfigurationError: The file exists already, or its folder does not.
    """
    return RecordingModel(model, path, overwrite=overwrite)


class RecordingModel:
    """A `ChatModel` that records the replies of another; made by `record`.

    Neither requests nor the client's settings are kept: no key, no prompt, no result of a tool. A
    reply in which a secret shows is kept as its text and calls, with the secret hidden. A reply
    that was left early is not kept.
    """

    def __init__(
        self, model: ChatModel, path: str | os.PathLike[str], *, overwrite: bool = False
    ) -> None:
        self._model = model
        self._path = Path(path)
        check_switch("overwrite", overwrite)
        _check_path(self._path, overwrite=overwrite)
        self._replies: list[ScriptReply | None] = []
        """In the order of the requests; None: not finished."""
        self._writing = threading.Lock()

    def __repr__(self) -> str:
        return f"RecordingModel({self._model!r}, {str(self._path)!r})"

    @property
    def name(self) -> str:
        """The name of the recorded model."""
        return self._model.name

    @property
    def protocol(self) -> ToolCallingProtocol:
        """The protocol of the recorded model."""
        return self._model.protocol

    def user_message(self, text: str) -> Any:
        """Return a user's text as a message of the model's form."""
        return self._model.user_message(text)

    def say(self, role: str, text: str) -> Any:
        """Return a message of the model; the role is `user` or `assistant`."""
        is_user = role == "user"
        return (
            self.user_message(text) if is_user else make_message(wire_of(self.protocol), role, text)
        )

    async def reply(self, request: ChatRequest) -> AsyncGenerator[Any, None]:
        """Yield the model's reply, and record it once it has ended."""
        place = len(self._replies)
        self._replies.append(None)
        chunks: list[Any] = []
        asked = cast("AsyncGenerator[Any, None]", self._model.reply(request))
        try:
            async with aclosing(asked) as replying:
                async for chunk in replying:
                    chunks.append(chunk)
                    yield chunk
        except ChatModelError as error:
            said = ScriptError(
                message=redact_text(str(error)),
                status=error.status,
                is_transient=error.is_transient,
                is_refusal=error.is_refusal,
            )
            await self._keep_reply(place, chunks, request, said)
            raise
        await self._keep_reply(place, chunks, request, None)

    async def close(self) -> None:
        """Close the recorded model, if it can be closed."""
        close = getattr(self._model, "close", None)
        if close is not None:
            await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def _keep_reply(
        self, place: int, chunks: list[Any], request: ChatRequest, error: ScriptError | None
    ) -> None:
        self._replies[place] = self._make_entry(chunks, request, error)
        await asyncio.to_thread(self._write_file)

    def _make_entry(
        self, chunks: list[Any], request: ChatRequest, error: ScriptError | None
    ) -> ScriptReply:
        shown = _as_sent(chunks)
        read = self._read_chunks(shown)
        hidden = redact(_list_shown(read))
        if hidden != _list_shown(read):
            calls = [convert_value(call, ScriptCall) for call in hidden["calls"]]
            if error is not None:
                return ScriptReply(error=error)
            return ScriptReply(text=hidden["text"] or ("" if calls else HIDDEN), calls=calls)
        if request.is_streamed or error is not None:
            return ScriptReply(chunks=shown or None, error=error)
        return ScriptReply(reply=shown[0])

    def _read_chunks(self, chunks: list[Any]) -> ParsedReply:
        decoder = self.protocol.decoder()
        for chunk in chunks:
            decoder.feed(chunk)
        return decoder.close()

    def _write_file(self) -> None:
        protocol, wire = self.protocol, wire_of(self.protocol)
        with self._writing:
            script = Script(
                name=redact_text(self.name),
                protocol=protocol.name,
                wire=None if wire == protocol.name else wire,
                replies=[each for each in self._replies if each is not None],
            )
            data = msgspec.json.format(msgspec.json.encode(script), indent=2)
            write_named(self._path, data + b"\n")


def _check_path(path: Path, *, overwrite: bool) -> None:
    if not path.parent.is_dir():
        raise ConfigurationError(f"{path} cannot be written: there is no folder {path.parent}")
    if path.exists() and not overwrite:
        raise ConfigurationError(
            f"{path} is there already: take another name, or pass overwrite=True"
        )


def _as_sent(chunks: list[Any]) -> list[Any]:
    """Return plain chunks; bytes are joined, as characters may be split."""
    if any(isinstance(chunk, bytes) for chunk in chunks):
        data = b"".join(c if isinstance(c, bytes) else str(c).encode() for c in chunks)
        return [data.decode("utf-8", "replace")]
    shown = [dump_object(chunk) for chunk in chunks]
    return [
        {key: value for key, value in chunk.items() if key not in _NOT_THE_MODELS}
        if isinstance(chunk, dict)
        else chunk
        for chunk in shown
    ]


def _list_shown(read: ParsedReply) -> dict[str, Any]:
    calls = [
        {"name": call.tool_name, "arguments": call.arguments, "id": call.call_id}
        for call in read.calls
    ]
    return {"text": read.text, "reasoning": read.reasoning, "calls": calls}
