"""Compressed answers, whole ones and others."""

from __future__ import annotations

import gzip
import subprocess
import sys
import zlib
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.executors.http.decompression import (
    PIECE,
    DecodingError,
    accepted_encodings,
    decoder_for,
)

brotli: Any = import_module("brotli")
TEXT = bytes(range(256)) * 3000


def decoded(encoding: str, data: bytes, step: int = 1000) -> bytes:
    decoder = decoder_for(encoding)
    parts: list[bytes] = []
    for start in range(0, len(data), step):
        parts += decoder.feed(data[start : start + step])
    decoder.close()
    assert encoding in ("", "identity") or all(len(part) <= 2 * PIECE for part in parts)
    return b"".join(parts)


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


@pytest.mark.parametrize("step", [7, 1000, 1 << 20])
@pytest.mark.parametrize(
    ("encoding", "data", "expected"),
    [
        ("", TEXT, TEXT),
        ("identity", TEXT, TEXT),
        ("gzip", gzip.compress(TEXT), TEXT),
        ("X-GZIP", gzip.compress(TEXT), TEXT),
        ("identity, gzip", gzip.compress(TEXT), TEXT),
        ("gzip", gzip.compress(TEXT) + gzip.compress(b"more"), TEXT + b"more"),
        ("gzip", gzip.compress(TEXT) + b"\0" * 20, TEXT),
        ("gzip", b"", b""),
        ("deflate", zlib.compress(TEXT), TEXT),
        ("deflate", raw_deflate(TEXT), TEXT),
        ("deflate", zlib.compress(b""), b""),
        ("br", brotli.compress(TEXT), TEXT),
        ("br", b"", b""),
    ],
)
def test_whole_answers(encoding: str, data: bytes, expected: bytes, step: int) -> None:
    """What is encoded as its header says is decoded, however it is cut on its way."""
    assert decoded(encoding, data, step) == expected


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
@settings(max_examples=share_of(40))
@given(data=st.binary(min_size=1, max_size=300), cut=st.integers(min_value=1, max_value=400))
def test_a_cut_off_answer(encoding: str, data: bytes, cut: int) -> None:
    """A part is never taken for the whole, wherever it ends."""
    packed = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}[encoding](
        data
    )
    part = packed[: max(1, len(packed) - cut)]
    with pytest.raises(DecodingError, match="is cut off"):
        decoded(encoding, part)


@pytest.mark.parametrize(
    ("encoding", "data", "reason"),
    [
        ("gzip", b"no gzip at all", "cannot be decompressed"),
        ("deflate", b"\x78\x9cno deflate", "cannot be decompressed"),
        ("br", b"\xff" * 100, "cannot be decompressed"),
        ("gzip", gzip.compress(TEXT) + b"more", "cannot be decompressed"),
        ("deflate", zlib.compress(TEXT) + b"more", "there is data after its end"),
        ("br", brotli.compress(TEXT) + b"more", "cannot be decompressed"),
        ("gzip", gzip.compress(b"") * 2000, "more than 1024 compressed parts"),
        ("gzip", gzip.compress(TEXT)[:-8] + b"\0" * 8, "incorrect data check"),
    ],
)
@pytest.mark.parametrize("step", [7, 1 << 20])
def test_wrong_answers(encoding: str, data: bytes, reason: str, step: int) -> None:
    """What cannot be decoded is an error, and so is data whose checksum is another one."""
    with pytest.raises(DecodingError, match=reason):
        decoded(encoding, data, step)


@pytest.mark.parametrize(
    ("encoding", "reason"),
    [
        ("gzip, gzip", r"encoded 2 times \(gzip, gzip\)"),
        ("br,GZIP", "encoded 2 times"),
        ("zstd", "'zstd', which is not supported; ask for gzip"),
        ("x" * 1000, "is encoded as 'x{40}'"),
    ],
)
def test_encodings_that_are_not_decoded(encoding: str, reason: str) -> None:
    """Nested encodings multiply what a small answer becomes; unknown ones are said by name."""
    with pytest.raises(DecodingError, match=reason):
        decoder_for(encoding)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
def test_a_bomb_comes_in_pieces(encoding: str) -> None:
    """However much a few bytes stand for: each piece is small, and nobody need take the next."""
    zeros = b"\0" * 20_000_000
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}[encoding]
    pieces = decoder_for(encoding).feed(pack(zeros))
    assert all(0 < len(next(pieces)) <= 2 * PIECE for _ in range(20))


def test_what_is_asked_for() -> None:
    """Only what can be decoded is asked for."""
    assert accepted_encodings() == "gzip, deflate, br"


def test_without_the_extra() -> None:
    """Where brotli is not installed it is not asked for, and the error names the cure."""
    code = """
import sys
sys.modules["brotli"] = None
from tool_engine.executors.http.decompression import accepted_encodings, decoder_for
print(accepted_encodings())
try:
    decoder_for("br")
except ValueError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.splitlines() == [
        "gzip, deflate",
        (
            "is encoded with brotli ('br'), which is not installed; run "
            "pip install 'tool-engine[brotli]', or ask for gzip"
        ),
    ]


def test_a_brotli_that_knows_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that would give everything at once counts as none; so does one that is missing."""

    class Old:
        Decompressor = object

    for library in (Old, None):
        monkeypatch.setitem(sys.modules, "brotli", library)
        assert accepted_encodings() == "gzip, deflate"
        with pytest.raises(DecodingError, match=r"pip install 'tool-engine\[brotli\]'"):
            decoder_for("br")
