"""A protocol as another package would write it: each call is a line `CALL id name {arguments}`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.reply import ParsedReply, ReplyFinding, StreamEvent, StreamEventType
from tool_engine.model.tool import Tool
from tool_engine.protocols.arguments.argument_text import read_arguments
from tool_engine.protocols.result_content import request_ids, text_of

__all__ = ["LineProtocol", "TextLineProtocol", "no_protocol"]


class LineProtocol:
    """It knows nothing of this package but the values that it gives."""

    name = "lines"

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.made = 0

    def definitions(self, tools: Iterable[Tool]) -> str:
        """The tools, one a line."""
        self.made += 1
        return "\n".join(f"{tool.name}: {tool.description}" for tool in tools)

    def parse(self, reply: Any) -> ParsedReply:
        """Reads a whole reply."""
        if self.fails:
            raise RuntimeError("no reply of mine, token=sk-live-1234567890abcdef")
        decoder = self.decoder()
        decoder.feed(reply)
        return decoder.close()

    def decoder(self) -> LineDecoder:
        """Begins to read a reply."""
        return LineDecoder()

    def format_results(
        self, results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None = None
    ) -> str:
        """The results, one a line."""
        ids = request_ids(results, calls)
        return "\n".join(
            f"RESULT {key} {result.tool_name} {text_of(result)}"
            for key, result in zip(ids, results, strict=True)
        )


class TextLineProtocol(LineProtocol):
    """The same, and it says that arguments are texts."""

    writes_text = True


class LineDecoder:
    """Reads one reply."""

    def __init__(self) -> None:
        self._text = ""

    def feed(self, chunk: Any) -> list[StreamEvent]:
        """Takes the next part."""
        text = chunk.decode() if isinstance(chunk, bytes) else str(chunk)
        self._text += text
        return [StreamEvent(type=StreamEventType.CONTENT_CHUNK, content=text)]

    def close(self) -> ParsedReply:
        """The whole reply."""
        calls: list[ToolCall] = []
        findings: list[ReplyFinding] = []
        said: list[str] = []
        for line in self._text.splitlines():
            words = line.split(" ", 3)
            if words[0] != "CALL":
                said.append(line)
                continue
            read = read_arguments(words[3] if len(words) > 3 else "")
            calls.append(
                ToolCall(
                    call_id=words[1],
                    tool_name=words[2],
                    arguments=read.value or {},
                    raw=line,
                    complete=not read.is_truncated,
                    repairs=read.repairs,
                    error=read.error,
                )
            )
            if read.error:
                findings.append(
                    ReplyFinding(
                        error_type="malformed_arguments",
                        level="error",
                        message=read.error,
                        call_id=words[1],
                    )
                )
        return ParsedReply(calls=calls, text="\n".join(said), findings=findings)


def no_protocol() -> object:
    """What an entry point may name by mistake."""
    return json
