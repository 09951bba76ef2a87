"""Which characters may the text of a definition hold?

Only those that an author sees: what an editor hides, or shows in another order than it is read, is
refused. It can still be written as an escape in double quotes.
"""

from __future__ import annotations

import re
from typing import Final

from tool_engine.catalog.limits import MAX_BYTES
from tool_engine.errors import DefinitionError, DefinitionProblem

_HIDDEN: Final = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters
    "\u2028\u2029"  # line ends to some readers, text to others
    "\u202a-\u202e\u2066-\u2069"  # turn round the order in which text is shown
    "\ufeff\ufffe\uffff\ud800-\udfff"  # no characters at all
)
_FORBIDDEN: Final = re.compile(f"[{_HIDDEN}]")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_HANDLE: Final = re.compile(r"^%TAG|[\r\n]%TAG")


def decode_text(text: str | bytes, source: str) -> str:
    """Decode `text`; refuse long texts, other encodings and hidden characters."""
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        expected = f"at most {MAX_BYTES} bytes"
        got = f"{size} bytes"
        message = f"{got} are more than a definition may have ({MAX_BYTES})"
        problem = DefinitionProblem(
            f"{message}; split it", source, 1, 1, expected=expected, got=got, cure="split it"
        )
        raise DefinitionError(problem)
    if isinstance(text, bytes):
        text = _decode_bytes(text, source)
    text = text.removeprefix("\ufeff")
    found = _FORBIDDEN.search(text)
    if found is not None:
        got = f"the character U+{ord(found.group()):04X}"
        cure = 'remove it, or write it as an escape in "double quotes"'
        raise _make_error(f"{got} is not allowed", got, cure, source, text[: found.start()])
    # The parser compares each %TAG line with all before it, which takes long for many.
    if "%TAG" in text and (found := _HANDLE.search(text)):
        before = text[: found.end() - len("%TAG")]
        raise _make_error("%TAG is not allowed", "%TAG", "remove the line", source, before)
    return text


def _decode_bytes(data: bytes, source: str) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _make_error("the file is UTF-16", "UTF-16", "save it as UTF-8", source, "")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8").removeprefix("\ufeff")
        got = f"byte 0x{data[error.start]:02X}"
        raise _make_error(
            f"{got} is not UTF-8", got, "save the file as UTF-8", source, before
        ) from None


def _make_error(message: str, got: str, cure: str, source: str, before: str) -> DefinitionError:
    lines = _LINE_END.split(before)
    return DefinitionError(
        DefinitionProblem(
            f"{message}; {cure}", source, len(lines), len(lines[-1]) + 1, got=got, cure=cure
        )
    )
