"""What does a model, and what does a caller, see of what a framework's tool returned?

What the framework shows its model is the output here: texts and data, images and files as content.
What it keeps for its own program, such as an artifact, stands under `_meta`, which no model reads.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Sequence
from contextlib import suppress
from mimetypes import MimeTypes
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from tool_engine.errors import ConfigurationError, ToolExecutionError
from tool_engine.model.content.pieces import (
    AudioContent,
    Content,
    ImageContent,
    ResourceContent,
    ResourceLink,
    TextContent,
)
from tool_engine.model.json.returned_value import to_text
from tool_engine.output.foreign_values import plain_output

_ANY: Final = "application/octet-stream"
_TYPES: Final = MimeTypes()
"""Made here: the first one reads files, which holds a loop."""


def read_media(
    kind: str,
    *,
    data: bytes | str | None = None,
    url: str | None = None,
    file_id: str | None = None,
    mime_type: str | None = None,
    name: str | None = None,
) -> Content:
    """Return an image, a sound or a file as content; what cannot be content is named in a text.

    Args:
        kind: What it is, for people: `image`, `audio`, `video` or `file`.
        data: Its bytes, or these as base64.
        url: Its address, which is not asked, or a `data:` address with the bytes.
        file_id: Its id at a provider, where no other model finds it.
        mime_type: Its type; None: what `url` or `name` says.
        name: What it is called.
    """
    try:
        for address in (url, data):
            if isinstance(address, str) and address[:5].lower() == "data:":
                data, said = _split_data_url(address)
                return _read_bytes(kind, data, mime_type or said, name)
        if data is not None:
            read = b64decode(data, validate=True) if isinstance(data, str) else data
            return _read_bytes(kind, read, mime_type, name)
        if url is not None:
            return ResourceLink(str(url), name or kind, mime_type=mime_type)
    except (ConfigurationError, binascii.Error) as error:
        return TextContent(f"[{name or kind}, left out: {error}]")
    place = f" {file_id!r} at a provider" if file_id else ""
    return TextContent(f"[{name or kind}{place}, left out: its bytes are not here]")


def _split_data_url(url: str) -> tuple[bytes, str | None]:
    head, _, rest = url[5:].partition(",")
    mime_type, _, encoding = head.rpartition(";")
    if encoding.lower() == "base64":
        return b64decode(unquote_to_bytes(rest), validate=True), mime_type or None
    return unquote_to_bytes(rest), head or None


def _read_bytes(kind: str, data: bytes, mime_type: str | None, name: str | None) -> Content:
    found = mime_type or (_TYPES.guess_type(name)[0] if name else None) or _ANY
    family = found.partition("/")[0].lower()
    if family == "image":
        return ImageContent(data, found)
    if family == "audio":
        return AudioContent(data, found)
    uri = f"attachment://{quote(name or kind)}"
    if family == "text":
        # What is no UTF-8, whatever it says of itself, goes as bytes.
        with suppress(UnicodeDecodeError):
            return ResourceContent(uri, text=data.decode(), mime_type=found)
    return ResourceContent(uri, data=data, mime_type=found)


def read_part(value: Any) -> Content:
    """Return one of several parts for a model as content: a text, or data as JSON."""
    if isinstance(value, Content):
        return value
    return TextContent(value if isinstance(value, str) else to_text(make_plain(value)))


def make_plain(value: Any) -> Any:
    """Return data as JSON values.

    Raises:
        ToolExecutionError: It has no form in JSON.
    """
    return plain_output({"result": value})["result"]


def keep_artifact(shown: Any, artifact: Any) -> Any:
    """Return an output with what only its caller reads.

    Args:
        shown: What a model reads: data, or a list of content.
        artifact: What it does not; None: there is nothing. What has no form in JSON is named.
    """
    if artifact is None:
        return shown
    try:
        kept = {"artifact": make_plain(artifact)}
    except ToolExecutionError:
        kept = {"left_out": f"an artifact, a {type(artifact).__name__}: it has no form in JSON"}
    if has_content(shown):
        return {"content": list(shown), "_meta": kept}
    if isinstance(shown, str):
        return {"content": [TextContent(shown)], "_meta": kept}
    data = make_plain(shown)
    structured = data if isinstance(data, dict) else {"result": data}
    content = [TextContent(to_text(data))]
    return {"content": content, "structuredContent": structured, "_meta": kept}


def has_content(value: Any) -> bool:
    """Return True for a list with content in it."""
    return isinstance(value, Sequence) and any(isinstance(each, Content) for each in value)
