"""How is a compressed answer decoded so that no input can make it large at once?

A decoder yields pieces of bounded size on demand. The consumer can stop at any piece, so that a
size limit holds against a small answer that decodes to gigabytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final, Protocol

PIECE: Final = 64 * 1024
"""About the most bytes that a decoder yields at a time."""
_SLICE: Final = 16 * 1024
# RFC 1952, 2.2 permits several members; many empty ones would keep a reader busy.
_MAX_MEMBERS: Final = 1024
_GZIP: Final = 16 + zlib.MAX_WBITS
_BROTLI: Final = "brotli"


class DecodingError(ValueError):
    """An answer cannot be decoded; the message ends a sentence about it."""


class Decoder(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the pieces of `data`; exhaust them before the next call."""

    def close(self) -> None:
        """Raise `DecodingError` if the answer is not complete."""


def accepted_encodings() -> str:
    return "gzip, deflate" if _load_brotli() is None else "gzip, deflate, br"


def decoder_for(encoding: str) -> Decoder:
    """Return the decoder for this `Content-Encoding` (RFC 9110, 8.4).

    Raises:
        DecodingError: It is unknown, needs a library that is not installed, or is more than one:
            each layer multiplies what a small answer can become.
    """
    names = [name.strip().lower() for name in encoding.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if not names:
        return _Plain()
    if len(names) > 1:
        raise DecodingError(
            f"is encoded {len(names)} times ({', '.join(names)[:80]}); at most one is decoded"
        )
    if names[0] in ("gzip", "x-gzip", "deflate"):
        return _Deflated(is_gzip=names[0] != "deflate")
    if names[0] != "br":
        raise DecodingError(
            f"is encoded as {names[0][:40]!r}, which is not supported; ask for gzip, deflate or br"
        )
    library = _load_brotli()
    if library is None:
        raise DecodingError(
            "is encoded with brotli ('br'), which is not installed; run "
            "pip install 'tool-engine[brotli]', or ask for gzip"
        )
    return _Brotli(library)


class _Plain:
    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data

    def close(self) -> None:
        """A plain answer has no end of its own."""


class _Deflated:
    """gzip (RFC 1952), and deflate (RFC 1950) also without the header that it should have."""

    def __init__(self, *, is_gzip: bool) -> None:
        self._is_gzip = is_gzip
        self._inner: Any = None
        self._members = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        # The rest of a member is copied at its end, so the slices bound that work.
        for start in range(0, len(data), _SLICE):
            yield from self._decode_piece(data[start : start + _SLICE])

    def close(self) -> None:
        if self._inner is not None and not self._inner.eof:
            raise DecodingError("is cut off: its compressed data has no end")

    def _decode_piece(self, data: bytes) -> Iterator[bytes]:
        piece = b""
        # A full piece may have left more inside, even when all input is consumed.
        while data or len(piece) == PIECE:
            if self._inner is None or self._inner.eof:
                data = self._begin_member(data)
                if not data:
                    return
            try:
                piece = self._inner.decompress(data, PIECE)
            except zlib.error as error:
                raise DecodingError(f"cannot be decompressed: {error}") from None
            data = self._inner.unconsumed_tail or self._inner.unused_data
            if piece:
                yield piece

    def _begin_member(self, data: bytes) -> bytes:
        if self._members and self._is_gzip:
            data = data.lstrip(b"\0")  # padding after the last member
        if not data:
            return data
        if self._members and not self._is_gzip:
            raise DecodingError("cannot be decompressed: there is data after its end")
        self._members += 1
        if self._members > _MAX_MEMBERS:
            raise DecodingError(f"is made of more than {_MAX_MEMBERS} compressed parts")
        # Without its header, deflate does not begin with the method 8 of RFC 1950.
        raw = data[0] & 0x0F != 8
        wbits = -zlib.MAX_WBITS if raw else zlib.MAX_WBITS
        self._inner = zlib.decompressobj(_GZIP if self._is_gzip else wbits)
        return data


class _Brotli:
    def __init__(self, library: Any) -> None:
        self._error = library.error
        self._inner = library.Decompressor()
        self._is_begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._is_begun = True
        piece = self._process_piece(data)
        while piece or not self._inner.can_accept_more_data():
            yield piece
            piece = self._process_piece(b"")

    def close(self) -> None:
        if self._is_begun and not self._inner.is_finished():
            raise DecodingError("is cut off: its compressed data has no end")

    def _process_piece(self, data: bytes) -> bytes:
        try:
            return bytes(self._inner.process(data, output_buffer_limit=PIECE))
        except self._error as error:
            raise DecodingError(f"cannot be decompressed: {error}") from None


def _load_brotli() -> Any:
    try:
        library = import_module(_BROTLI)
    except ImportError:
        return None
    return library if hasattr(library.Decompressor, "can_accept_more_data") else None
