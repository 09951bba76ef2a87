"""What is in the content of a message of Chat Completions?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tool_engine.protocols.chunks import field, plain

NO_OBJECT: Final = (str, bytes, int, float, list, tuple)
"""Types that servers send in place of an object."""


class Part(NamedTuple):
    """One piece of content, of `kind` `text`, `reasoning`, `refusal`, or `other`."""

    kind: str
    text: str


def find_parts(content: Any) -> Iterator[Part]:
    """Yield the pieces of content: a text, a part or a list."""
    if isinstance(content, str):
        yield Part("text", content)
    elif isinstance(content, list | tuple):
        for each in content:
            yield from find_parts(each)
    elif content is not None:
        yield from _read_part(content)


def _read_part(part: Any) -> Iterator[Part]:
    text, thought = field(part, "text"), field(part, "thinking")
    if thought is not None:
        # Mistral's: a list of parts, or a text.
        yield from (Part("reasoning", each.text) for each in find_parts(thought))
    elif field(part, "type") == "refusal":
        yield Part("refusal", str(field(part, "refusal", "")))
    elif isinstance(text, str):
        yield Part("text", text)
    else:
        yield Part("other", f"{plain(part)!r:.80}")
