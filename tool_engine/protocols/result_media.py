"""Which content do the results of a wire carry, and what is said of the rest?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from tool_engine.model.content.blocks import write_part
from tool_engine.model.content.pieces import (
    MOST_BYTES,
    AudioContent,
    Content,
    ImageContent,
    ResourceContent,
    count_bytes,
    write_size,
)

_ANY: Final = "application/octet-stream"
_PLURALS: Final = {"image": "images", "audio": "audio", "file": "files"}


class Media(msgspec.Struct, frozen=True):
    """Bytes that go to a model as they are."""

    kind: str
    """`image`, `audio` or `file`."""
    mime_type: str
    data: str
    """The bytes as base64."""
    name: str
    """What a file is called."""

    @property
    def url(self) -> str:
        """The bytes as an address, as OpenAI takes them."""
        return f"data:{self.mime_type};base64,{self.data}"


class Carried(msgspec.Struct, frozen=True):
    """The bytes that the results of one wire carry, by their types; without any: texts only."""

    image: tuple[str, ...] = ()
    audio: tuple[str, ...] = ()
    file: tuple[str, ...] = ()
    most_image: int = MOST_BYTES
    """The most bytes of an image."""

    def find_reason(self, part: Content) -> str | None:
        """Return why a part is not carried; None: it is carried, or is no more than a text."""
        media = as_media(part)
        if media is None:
            return None
        types: tuple[str, ...] = getattr(self, media.kind)
        plural = _PLURALS[media.kind]
        if media.mime_type not in types:
            rest = f"{plural} as {', '.join(types)} only" if types else f"no {plural}"
            return f"this model's messages carry {rest}"
        most = self.most_image if media.kind == "image" else MOST_BYTES
        if count_bytes(media.data) > most:
            return f"this model's messages carry {plural} of at most {write_size(most)}"
        return None

    def write_parts(self, parts: Iterable[Content]) -> Iterator[str | Media]:
        """Yield the parts as texts and bytes, in order; what is not carried is named."""
        for part in parts:
            media, reason = as_media(part), self.find_reason(part)
            if media is None or reason is not None:
                yield write_part(part, reason or "")
            else:
                if isinstance(part, ResourceContent):
                    # The bytes do not say what they are called.
                    yield part.describe()
                yield media


TEXTS_ONLY: Final = Carried()


def as_media(part: Content) -> Media | None:
    """Return the bytes of a part; None: it has none."""
    if isinstance(part, ImageContent | AudioContent):
        return Media(part.type, _name_type(part.mime_type), part.base64, part.type)
    if not isinstance(part, ResourceContent) or part.base64 is None:
        return None
    mime_type = _name_type(part.mime_type or _ANY)
    family = mime_type.partition("/")[0]
    name = part.uri.rstrip("/").rpartition("/")[2] or "file"
    return Media(family if family in ("image", "audio") else "file", mime_type, part.base64, name)


def _name_type(mime_type: str) -> str:
    """Return a type without its parameters, as wires list them."""
    return mime_type.partition(";")[0].strip().lower()
