"""What is kept of a long output."""

from __future__ import annotations

import random

import pytest

from tool_engine.executors.commands.captured import Captured


def captured(limit: int, *pieces: bytes) -> Captured:
    found = Captured(limit)
    for piece in pieces:
        found.feed(piece)
    return found


@pytest.mark.parametrize("limit", [1, 2, 7, 8, 100])
def test_up_to_the_limit_all_is_kept(limit: int) -> None:
    """Not one byte too few, in whatever pieces it comes."""
    data = bytes(ord("a") + i % 26 for i in range(limit))
    for size in (1, 3, limit):
        kept = captured(limit, *(data[i : i + size] for i in range(0, limit, size)))
        assert (kept.text(), kept.is_cut, kept.size) == (data.decode(), False, limit)


def test_whole_lines_from_start_and_end() -> None:
    """Beyond the limit, whole lines of the start and the end, and how much is between."""
    lines = [b"line %03d\n" % number for number in range(100)]
    kept = captured(60, *lines)
    assert kept.is_cut
    assert kept.text() == (
        "line 000\nline 001\nline 002\n[... 846 bytes left out ...]\nline 097\nline 098\nline 099\n"
    )


def test_one_long_line_is_cut_between_characters() -> None:
    """Without lines, no character is cut into pieces."""
    for text in ("é" * 100, "你" * 100, "\U0001f600" * 100, "a" * 100):
        for limit in range(8, 20):
            kept = captured(limit, text.encode()).text()
            head, _, tail = kept.partition("\n[... ")
            assert set(head + tail.partition("]\n")[2]) == {text[0]}


def test_what_is_no_text() -> None:
    """Bytes that are no UTF-8 are shown as such; nothing raises."""
    assert captured(10, b"a\xff\xfe").text() == "a\ufffd\ufffd"
    chance = random.Random(1)  # noqa: S311 - the same bytes each time
    for limit in (1, 2, 3, 16, 64):
        for _ in range(200):
            kept = captured(limit, chance.randbytes(chance.randrange(200)))
            assert len(kept.text()) <= limit + 60
    assert "[... 20 bytes left out ...]" in captured(8, b"\x80" * 28).text()


def test_a_limit_of_one_byte() -> None:
    """The smallest limit keeps the first byte and no end."""
    assert captured(1, b"abc").text() == "a\n[... 2 bytes left out ...]\n"


def test_a_flood_is_not_kept() -> None:
    """What is dropped takes no memory."""
    kept = Captured(1000)
    for _ in range(2000):
        kept.feed(b"x" * 1000)
    assert kept.size == 2_000_000
    assert len(kept.text()) < 1100
    assert len(kept._tail) < 100_000


def test_the_end_is_right_after_many_pieces() -> None:
    """Trimming on the way loses nothing of the end."""
    kept = Captured(40)
    for number in range(20_000):
        kept.feed(b"%07d\n" % number)
    assert kept.text().endswith("0019998\n0019999\n")


@pytest.mark.parametrize("limit", [60, 61, 80, 100, 130])
def test_no_half_of_a_secret_is_kept(limit: int) -> None:
    """A program that writes a secret where its output is cut leaves no half of it."""
    secret = "sk-" + "Ab1x" * 12
    kept = captured(limit, f"{'x' * 24} {secret} {'y' * 500} {secret} {'z' * 24}".encode())
    assert kept.is_cut
    shown = kept.text()
    for part in ("Ab1x", "sk-A"):
        assert part not in shown.replace(secret, "")
    left_out = int(shown.partition("[... ")[2].partition(" bytes")[0])
    assert kept.size == left_out + len(shown) - len(f"\n[... {left_out} bytes left out ...]\n")


def test_a_secret_that_is_written_in_pieces() -> None:
    """It does not matter how the bytes come."""
    secret = "sk-" + "Ab1x" * 12
    data = f"{'x' * 24} {secret} {'y' * 5000} {secret} {'z' * 24}".encode()
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    assert captured(80, *pieces).text() == captured(80, data).text()
